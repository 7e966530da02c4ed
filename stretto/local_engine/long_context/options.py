"""How long documents are read, apart from reading them: it can be told before anything heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stretto.errors import SettingsError
from stretto.local_engine.model.adapter_files import FOCUS_FILE

__all__ = ["WAYS", "FocusOptions", "StarOptions", "chosen_way"]

WAYS = ("focus", "star")
"""Ways to read a prompt that is longer than the window."""


@dataclass(frozen=True, slots=True)
class FocusOptions:
    """How a document is cut for focus reading.

    Attributes:
        chunk: tokens of a chunk at most; ``None`` for as many as the adapter was trained for.
        overlap: tokens that a chunk repeats from the end of the one before it, so that a sentence across the border is
            whole in one of them.
        local: last tokens of the prompt that are the local context: the question, and what stands before it.
        appended: last tokens of the local context that stand behind each chunk, N in the paper.
        rows: tokens of all chunks together that one forward reads at most; a request can be cancelled between two.
        kept_bytes: keys and values of chunks that are kept between tokens, and for the next question about the same
            document. The others are computed again for each token.
    """

    chunk: int | None = None
    overlap: int = 24
    local: int = 96
    appended: int = 64
    rows: int = 4096
    kept_bytes: int = 2**30

    def __post_init__(self) -> None:
        least = {"chunk": 1, "overlap": 0, "local": 1, "appended": 1, "rows": 1, "kept_bytes": 0}
        for name, smallest in least.items():
            if (value := getattr(self, name)) is not None and value < smallest:
                raise SettingsError(f"{name}={value} cannot be used: give {smallest} or more.")
        if self.chunk is not None and self.overlap >= self.chunk:
            raise SettingsError(
                f"overlap={self.overlap} cannot be used with chunk={self.chunk}: give less than a chunk."
            )


@dataclass(frozen=True, slots=True)
class StarOptions:
    """How a document is cut for Star attention.

    Attributes:
        block: tokens of a block; the first block is the anchor of the others.
        local: last tokens of the prompt that are the query, which sees every block.
        rows: tokens of all blocks together that one forward reads at most.
    """

    block: int = 512
    local: int = 96
    rows: int = 4096

    def __post_init__(self) -> None:
        for name in ("block", "local", "rows"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name}={getattr(self, name)} cannot be used: give 1 or more.")


def chosen_way(given: str | None, folder: Path | None, model: str) -> str | None:
    """How prompts longer than the window are read: ``focus``, ``star``, or ``None`` where they are refused.

    Args:
        given: one of these, or ``auto`` for focus where the model's folder has an adapter.
        folder: of the model; ``None`` for a hub name.
        model: its name.

    Raises `SettingsError` for another value, and for ``focus`` without an adapter.
    """
    adapted = folder is not None and (folder / FOCUS_FILE).is_file()
    if given == "auto":
        return "focus" if adapted else None
    if given is not None and given not in WAYS:
        ways = ", ".join(repr(way) for way in ("auto", *WAYS))
        raise SettingsError(f"long_context={given!r} cannot be used. Use one of: {ways}, or None.")
    if given == "focus" and not adapted:
        raise SettingsError(
            f"long_context='focus' cannot be used: {model} has no {FOCUS_FILE} beside its weights. Train one with: "
            f"python -m recipes.focus.train {model}. Or use 'star', which needs no training."
        )
    return given
