"""What the engine is asked for, and what it hands back: token ids in, pieces of text out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stretto.errors import StrettoError

__all__ = ["Finished", "Generation", "Piece", "Reason"]

Reason = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class Generation:
    """One request to the engine.

    Attributes:
        prompt: token ids, at least one.
        max_new_tokens: after so many tokens it ends with the reason ``length``.
        end_ids: token ids that end it; they are counted, and are no part of the text.
        stop: texts that end it; neither they nor what follows them is part of the text.
        temperature: 0 takes the most probable token each time; then the next four are not used.
        top_p: sample among the most probable tokens whose probabilities add up to this.
        top_k: sample among this many most probable tokens; 0 for all.
        min_p: sample among tokens at least this fraction as probable as the most probable one.
        seed: of this request's own random numbers; ``None`` draws one.
    """

    prompt: tuple[int, ...]
    max_new_tokens: int
    end_ids: frozenset[int] = frozenset()
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that became certain, and the tokens generated since the piece before it."""

    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a generation; nothing follows it.

    Attributes:
        reason: an end token or a stop text, the limit of tokens, ``cancel``, or a failure.
        prompt_tokens: length of the prompt.
        cached_tokens: prompt tokens whose keys and values were computed once for the whole batch,
            and not for this request. The first request of a batch pays for them.
        completion_tokens: tokens generated, an end token included.
        error: what failed, where ``reason`` is ``error``.
    """

    reason: Reason
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    error: StrettoError | None = None
