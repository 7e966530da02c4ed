"""How long documents are read, apart from reading them: it can be told before anything heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass

from stretto.errors import SettingsError

__all__ = ["FOCUS_FILE", "WAYS", "FocusOptions", "StarOptions"]

FOCUS_FILE = "focus.safetensors"
"""The projections that were trained for a model stand beside its weights under this name."""

WAYS = ("focus", "star")
"""Ways to read a prompt that is longer than the window."""


@dataclass(frozen=True, slots=True)
class FocusOptions:
    """How a document is cut for focus reading.

    Attributes:
        chunk: tokens of a chunk at most.
        local: last tokens of the prompt that are the local context: the question, and what stands before it.
        appended: last tokens of the local context that stand behind each chunk, N in the paper.
        rows: tokens of all chunks together that one forward reads at most; a request can be cancelled between two.
        kept_bytes: keys and values of chunks that are kept between tokens, and for the next question about the same
            document. The others are computed again for each token.
    """

    chunk: int = 256
    local: int = 256
    appended: int = 64
    rows: int = 4096
    kept_bytes: int = 2**30

    def __post_init__(self) -> None:
        for name, least in (("chunk", 1), ("local", 1), ("appended", 1), ("rows", 1), ("kept_bytes", 0)):
            if getattr(self, name) < least:
                raise SettingsError(f"{name}={getattr(self, name)} cannot be used: give {least} or more.")


@dataclass(frozen=True, slots=True)
class StarOptions:
    """How a document is cut for Star attention.

    Attributes:
        block: tokens of a block; the first block is the anchor of the others.
        local: last tokens of the prompt that are the query, which sees every block.
        rows: tokens of all blocks together that one forward reads at most.
    """

    block: int = 512
    local: int = 256
    rows: int = 4096

    def __post_init__(self) -> None:
        for name in ("block", "local", "rows"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name}={getattr(self, name)} cannot be used: give 1 or more.")
