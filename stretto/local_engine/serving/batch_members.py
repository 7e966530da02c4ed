"""Base of all batches: requests and their keys and values, whatever loop decodes them."""

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


@dataclass(frozen=True, slots=True)
class Step:
    """Result of one forward for one request: its tokens, and how they were found.

    Attributes:
        tokens: committed tokens; at least one, unless the forward refined a block.
        scores: their log-probabilities, if requested.
        failure: error while this request's tokens were chosen; its answer ends with it.
        draft: the nodes that were evaluated; ``None`` for the forward that read the end of the prompt.
        accepted: accepted nodes of the draft, in order.
        drafter: name of the drafter, which is the source of nodes that name none.
        changed: number of accepted nodes that the model would not have chosen; see `Figures.changed`.
        warnings: problems that did not affect the answer, such as a drafter that failed.
        rows: number of rows evaluated, if the forward refined a block; otherwise it follows from ``draft``.
        forwards: number of forwards that the step counts as, if it refined a block.
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
"""A request and its state in a loop."""


class BatchMembers(ABC, Generic[Member]):
    """Requests in the order of their rows in one cache; see `stretto.local_engine.serving.batch.Batch`."""

    def __init__(self) -> None:
        self._members: list[Member] = []
        self._cache = KeyValueCache(0)

    def __len__(self) -> int:
        return len(self._members)

    @property
    def slots(self) -> int:
        """Number of allocated slots of keys and values, over all requests."""
        return self._cache.slots

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these requests, in this order; the others leave the batch and free their cache."""
        if len(rows) == len(self._members):
            return
        self._members = [self._members[row] for row in rows]
        self._cache.keep(rows)

    @abstractmethod
    def join(self, prefill: Prefill, drafters: Sequence[Any], /) -> list[Step]:
        """Take over requests whose prompts have been read, with the drafter or the rule of each."""

    @abstractmethod
    def known(self, prompt: NDArray[np.int64], known_by: Hashable = None) -> Source | None:
        """Find the request with the longest common prefix with a prompt, among those with this ``known_by``."""

    @abstractmethod
    def remember(self, row: int, prefixes: PrefixCache) -> None:
        """Keep what later prompts can copy from a request."""

    @abstractmethod
    def advance(self) -> list[Step]:
        """Run one step of every request."""
