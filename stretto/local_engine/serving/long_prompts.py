"""Prompts that are longer than the window: options for reading them, and what reads them. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stretto.foundation.arguments import safe_repr
from stretto.local_engine.model.adapters.adapter_files import FOCUS_FILE
from stretto.local_engine.research_registry import long_prompts
from stretto.values.errors import SettingsError

if TYPE_CHECKING:
    from stretto.local_engine.choosing.constraint import Constraint
    from stretto.local_engine.generation import Generation
    from stretto.local_engine.serving.handle import Handle, Listener, StageListener


@dataclass(frozen=True, slots=True)
class FocusOptions:
    """Options that cut a document into chunks for focus reading.

    Attributes:
        chunk: maximum number of tokens of a chunk; ``None`` for as many as the adapter was trained for.
        overlap: tokens that a chunk repeats from the end of the previous one, so that a sentence across the boundary is
            whole in one of them.
        local: number of last prompt tokens that are the local context: the question, and the text before it.
        appended: number of last tokens of the local context that follow each chunk, N in the paper.
        rows: maximum number of tokens, over all chunks, read in one forward; a request can be cancelled between two.
        kept_bytes: memory for keys and values of chunks, kept between tokens, and for the next question about the same
            document. Other chunks are computed again for each token.
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


class LongPromptReader(Protocol):
    """Answers prompts that are longer than the window, one at a time, between the forwards of the engine."""

    def room(self, tokens: int) -> int:
        """Return the maximum length of the answer to a prompt of this many tokens. Raises `ContextOverflowError`."""
        ...

    def submit(
        self,
        request: Generation,
        listener: Listener | None = None,
        *,
        constraint: Constraint | None = None,
        on_stage: StageListener | None = None,
        watched: bool = False,
    ) -> Handle:
        """Queue a request; see `Engine.submit`."""
        ...


CHOICES = ("auto", "focus", "refuse")
"""Names of the ways to answer prompts longer than the window."""


def chosen_method(
    given: str | FocusOptions | None, folder: Path | None, model: str, window: int | None = None
) -> FocusOptions | None:
    """Return the options for reading prompts longer than the window; ``None`` refuses such prompts.

    Args:
        given: one of `CHOICES`, options, or ``None``, which refuses. ``auto`` is focus reading if the model's folder
            has an adapter.
        folder: folder of the model; ``None`` for a hub name.
        model: name of the model.
        window: its context window, if known.

    Raises `SettingsError` for another value, for sizes that do not fit into the window, and for focus reading without
    an adapter.
    """
    adapted = folder is not None and (folder / FOCUS_FILE).is_file()
    if given is None or given == "refuse" or (given == "auto" and long_prompts() is None):
        return None
    if given == "auto":
        return FocusOptions() if adapted else None
    options = FocusOptions() if given == "focus" else given
    if not isinstance(options, FocusOptions):
        names = ", ".join(repr(name) for name in CHOICES)
        raise SettingsError(
            f"long_context={safe_repr(given)} cannot be used. Use one of: {names}. In Python, FocusOptions has more to "
            "choose."
        )
    if long_prompts() is None:
        raise SettingsError(
            f"long_context={safe_repr(given)} cannot be used: this installation cannot read such prompts."
        )
    if not adapted:
        argument = "long_context='focus'" if given == "focus" else "long_context=FocusOptions(...)"
        raise SettingsError(
            f"{argument} cannot be used: {model} has no {FOCUS_FILE} next to its weights. Train one with: "
            f"python -m recipes.focus.train {model}."
        )
    if window is not None:
        _check_room(options, model, window)
    return options


def _check_room(options: FocusOptions, model: str, window: int) -> None:
    """Check that one chunk, with the tokens after it, fits into the window."""
    needed = (options.chunk or 0) + options.appended + 1
    if options.chunk and needed > window:
        raise SettingsError(
            f"chunk={options.chunk} cannot be used with {model}: with the tokens after it, it takes {needed} of the "
            f"{window} tokens of the context window. Give less."
        )
