"""DiffusionGemma in transformers: each call of its `generate` refines one request's canvas from random tokens."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stretto.local_engine.generation import Generation
from stretto.local_engine.model.cache.kv_cache import KeyValueCache, Source
from stretto.local_engine.model.cache.prefixes import PrefixCache
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.research.block_diffusion.unmasking import EntropyBound
from stretto.local_engine.serving.batch_members import BatchMembers, Step
from stretto.local_engine.serving.prefill import Prefill


class _StoppedError(Exception):
    """The request was cancelled while its canvas was refined."""


@dataclass(frozen=True, slots=True)
class Canvas:
    """One canvas of a text.

    Attributes:
        tokens: tokens of all its positions.
        forwards: number of forwards that it took.
        cache: transformers' keys and values of the text before it.
    """

    tokens: list[int]
    forwards: int
    cache: Any


class BlockForward:
    """A model that writes a text canvas by canvas. It has the properties of a `Forward`.

    Args:
        model: model of transformers, with the `generate` of DiffusionGemma.
    """

    packs = is_exact = alone = False
    switch: int | None = None
    longest: int | None = None

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        """Raises `NotImplementedError`: unlike a `Forward`, this cannot run over rows."""
        raise NotImplementedError("a canvas is refined by write")

    def write(
        self, tokens: Sequence[int], cache: Any, *, bound: float, seed: int, stopped: Callable[[], bool]
    ) -> Canvas | None:
        """Refine the next canvas of a text; ``None`` if it was stopped between two forwards.

        Args:
            tokens: tokens of the text that are not in the cache yet.
            cache: cache of the previous canvas; ``None`` for the first one.
            bound: bound of the entropy, in nats; see `EntropyBound`.
            seed: seed of the random tokens.
            stopped: called after each forward; true stops the refinement.
        """
        from transformers.models.diffusion_gemma.generation_diffusion_gemma import (  # noqa: PLC0415 - newer than most
            EntropyBoundSamplerConfig,
        )

        model, watch = self._model, _Watch(stopped)
        with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
            torch.manual_seed(seed)
            try:
                made = model.generate(
                    torch.tensor([tokens], device=model.device),
                    past_key_values=cache,
                    max_new_tokens=model.config.canvas_length,
                    sampler_config=EntropyBoundSamplerConfig(entropy_bound=bound),
                    streamer=watch,
                )
            except _StoppedError:
                return None
        written: list[int] = made.sequences[0, len(tokens) :].tolist()
        return Canvas(written, watch.forwards + 1, made.past_key_values)  # one more read the text before it


class _Watch:
    """Streamer for transformers that counts forwards and stops a cancelled request."""

    def __init__(self, stopped: Callable[[], bool]) -> None:
        self.forwards, self._stopped = 0, stopped

    def put(self, value: Tensor) -> None:
        """Ignore a whole canvas, which `generate` returns anyway."""

    def put_draft(self, value: Tensor) -> None:  # noqa: ARG002 - the protocol's argument
        """Count a forward. Raises `_StoppedError` if the request was cancelled."""
        self.forwards += 1
        if self._stopped():
            raise _StoppedError

    def end(self) -> None:
        """Do nothing."""


@dataclass(slots=True)
class _Member:
    """One request: the text before its next canvas, and the number of its canvases."""

    request: Generation
    rule: EntropyBound
    unread: Sequence[int]
    seed: int
    cache: Any = None
    canvases: int = 0


class BlockBatch(BatchMembers[_Member]):
    """Requests that take turns, one canvas each. It is used instead of `DiffusionBatch`.

    Args:
        forward: writes a canvas.
        cancelled: returns whether the request of a row was cancelled; called after each forward.
    """

    def __init__(self, forward: BlockForward, cancelled: Callable[[int], bool]) -> None:
        super().__init__()
        self._forward, self._cancelled = forward, cancelled

    def join(self, prefill: Prefill, rules: Sequence[EntropyBound]) -> list[Step]:
        """Take over requests. Their prompts are read with their first canvas."""
        for state, rule in zip(prefill.sequences, rules, strict=True):
            request = state.request
            if request.temperature:
                state.warn("temperature is not used: each canvas is refined by the schedule of the model.")
            seed = secrets.randbits(62) if request.seed is None else request.seed % 2**62
            self._members.append(_Member(request, rule, request.prompt, seed))
        return [Step(()) for _ in rules]

    def known(self, prompt: NDArray[np.int64], known_by: Hashable = None) -> Source | None:  # noqa: ARG002 - protocol
        """Return ``None``: nothing is shared between requests."""
        return None

    def remember(self, row: int, prefixes: PrefixCache) -> None:
        """Do nothing: nothing is kept."""

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
