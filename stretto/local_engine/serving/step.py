"""What one forward gave one request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.generation import TokenLogprob

__all__ = ["Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """What one forward gave one request: its tokens, and how they were found.

    Attributes:
        tokens: committed by it; at least one, unless it refined a block.
        scores: their log-probabilities, if they were asked for.
        failure: what went wrong while the tokens of this request were chosen; its answer ends with it.
        draft: the nodes that were evaluated; ``None`` for the forward that read the end of the prompt.
        accepted: nodes of the draft that were accepted, in order.
        drafter: name of the drafter, which is the source of nodes that name none.
        changed: accepted nodes that the model would not have chosen; see `Figures.changed`.
        warnings: what went wrong without harm to the answer: a drafter that failed.
        rows: evaluated by it, where it refined a block; ``draft`` tells it elsewhere.
        forwards: that it stands for, where it refined a block.
    """

    tokens: Sequence[int]
    scores: Sequence[TokenLogprob] = ()
    failure: Exception | None = None
    draft: DraftTree | None = None
    accepted: Sequence[int] = ()
    drafter: str = ""
    changed: int = 0
    warnings: tuple[str, ...] = ()
    rows: int = 0
    forwards: int = 1
