"""DiffusionGemma by transformers: its own `generate` refines canvases that begin as random tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.rows import Rows

__all__ = ["BlockForward", "Canvas"]


class _StoppedError(Exception):
    """The request was cancelled while its canvas was refined."""


@dataclass(frozen=True, slots=True)
class Canvas:
    """One canvas of a text.

    Attributes:
        tokens: of all its positions.
        forwards: that it took.
        cache: transformers' keys and values of the text before it.
    """

    tokens: list[int]
    forwards: int
    cache: Any


class BlockForward:
    """A model that writes a text canvas by canvas; its properties are those of `Forward`.

    Args:
        model: of transformers, with the `generate` of DiffusionGemma.
    """

    packs = is_exact = alone = False
    switch: int | None = None
    longest: int | None = None

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        """See `Forward`; there is none over rows of this library's."""
        raise NotImplementedError("a canvas is refined by write")

    def write(
        self, tokens: Sequence[int], cache: Any, *, bound: float, seed: int, stopped: Callable[[], bool]
    ) -> Canvas | None:
        """Refine the next canvas of a text; ``None`` if it was stopped between two forwards.

        Args:
            tokens: of the text that are not in the cache yet.
            cache: of the canvas before; ``None`` for the first one.
            bound: of the entropy, in nats; see `EntropyBound`.
            seed: of the random tokens.
            stopped: asked after each forward.
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
        return Canvas(written, watch.forwards + 1, made.past_key_values)  # one more has read the text before it


class _Watch:
    """Counts forwards, and ends what is not wanted any more; a streamer of transformers."""

    def __init__(self, stopped: Callable[[], bool]) -> None:
        self.forwards, self._stopped = 0, stopped

    def put(self, value: Tensor) -> None:
        """Take whole canvases: those are what `generate` returns."""

    def put_draft(self, value: Tensor) -> None:  # noqa: ARG002 - the protocol's argument
        """Take what a forward has said."""
        self.forwards += 1
        if self._stopped():
            raise _StoppedError

    def end(self) -> None:
        """Nothing is left to do."""
