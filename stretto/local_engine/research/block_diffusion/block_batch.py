"""The loop of models whose blocks transformers refines: one canvas of one request per call, in turn."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.generation import Generation
from stretto.local_engine.model.cache.kv_cache import Source
from stretto.local_engine.model.cache.prefixes import PrefixCache
from stretto.local_engine.research.block_diffusion.block_forward import BlockForward
from stretto.local_engine.research.block_diffusion.unmasking import EntropyBound
from stretto.local_engine.serving.batch_members import BatchMembers
from stretto.local_engine.serving.prefill import Prefill
from stretto.local_engine.serving.step import Step

__all__ = ["BlockBatch"]


@dataclass(slots=True)
class _Member:
    """One request: what its next canvas is written behind, and how many it has."""

    request: Generation
    rule: EntropyBound
    unread: Sequence[int]
    seed: int
    cache: Any = None
    canvases: int = 0


class BlockBatch(BatchMembers[_Member]):
    """Some requests that take turns, a canvas each. It is used in the place of `DiffusionBatch`.

    Args:
        forward: writes a canvas.
        cancelled: whether the request of a row is wanted no more; asked after each forward.
    """

    def __init__(self, forward: BlockForward, cancelled: Callable[[int], bool]) -> None:
        super().__init__()
        self._forward, self._cancelled = forward, cancelled

    def join(self, prefill: Prefill, rules: Sequence[EntropyBound]) -> list[Step]:
        """Take over requests, whose prompts are read with their first canvas."""
        for state, rule in zip(prefill.sequences, rules, strict=True):
            request = state.request
            if request.temperature:
                state.warn("temperature is not used: each canvas is refined by the schedule of the model.")
            seed = secrets.randbits(62) if request.seed is None else request.seed % 2**62
            self._members.append(_Member(request, rule, request.prompt, seed))
        return [Step(()) for _ in rules]

    def known(self, prompt: NDArray[np.int64], known_by: Hashable = None) -> Source | None:  # noqa: ARG002 - protocol
        """Nothing is shared between requests."""
        return None

    def remember(self, row: int, prefixes: PrefixCache) -> None:
        """Nothing is kept."""

    def advance(self) -> list[Step]:
        """Write one canvas of the request whose turn it is."""
        row = min(range(len(self._members)), key=lambda number: self._members[number].canvases)
        member = self._members[row]
        made = self._forward.write(
            member.unread,
            member.cache,
            bound=member.rule.bound,
            seed=member.seed + member.canvases,
            stopped=lambda: self._cancelled(row),
        )
        steps = [Step(()) for _ in self._members]
        if made is not None:
            member.unread, member.cache, member.canvases = made.tokens, made.cache, member.canvases + 1
            end = next((at for at, token in enumerate(made.tokens, 1) if token in member.request.end_ids), None)
            steps[row] = Step(made.tokens[:end], rows=len(made.tokens) * made.forwards, forwards=made.forwards)
        return steps
