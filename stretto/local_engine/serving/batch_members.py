"""The requests of a batch and their keys and values: what a batch is, whatever its loop does with them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.generation import TokenLogprob
from stretto.local_engine.model.cache.kv_cache import KeyValueCache, Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stretto.local_engine.model.cache.prefixes import PrefixCache
    from stretto.local_engine.serving.prefill import Prefill

__all__ = ["BatchMembers", "Step"]


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


Member = TypeVar("Member")
"""A request with what a loop knows of it."""


class BatchMembers(ABC, Generic[Member]):
    """Requests in the order of their rows in one cache; see `stretto.local_engine.serving.batch.Batch`."""

    def __init__(self) -> None:
        self._members: list[Member] = []
        self._cache = KeyValueCache(0)

    def __len__(self) -> int:
        return len(self._members)

    @property
    def slots(self) -> int:
        """Slots of keys and values that are allocated, over all requests."""
        return self._cache.slots

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these requests, in this order; the others leave the batch and free their cache."""
        if len(rows) == len(self._members):
            return
        self._members = [self._members[row] for row in rows]
        self._cache.keep(rows)

    @abstractmethod
    def join(self, prefill: Prefill, drafters: Sequence[Any], /) -> list[Step]:
        """Take over requests whose prompts are read, with the drafter or the rule of each."""

    @abstractmethod
    def known(self, prompt: NDArray[np.int64], known_by: Hashable = None) -> Source | None:
        """Find the request that is known by this and holds most of the beginning of a prompt."""

    @abstractmethod
    def remember(self, row: int, prefixes: PrefixCache) -> None:
        """Keep what later prompts can use of a request."""

    @abstractmethod
    def advance(self) -> list[Step]:
        """Run one step of every request."""
