"""Prefill of a prompt with paths that were written in parallel, which reuses their known keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from stretto.local_engine.generation import JoinedPaths
from stretto.local_engine.model.cache.kv_cache import KeyValueCache, Source
from stretto.local_engine.model.forward.forward import Forward
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.serving.prefill import Prefill
from stretto.local_engine.serving.sequence import Sequence as RequestState


class JoinedPrefill(Prefill):
    """Reads the unknown rest of each path, joins the paths, then reads what follows them.

    Args:
        forward: runs the model.
        state: state of the request; the last fork of its prompt is joined.
        device: device of the model.
        tokens: maximum number of tokens to read in one forward.
        known: for each path, the source of the keys and values of its first tokens.
        layers: layers whose hidden states the request's drafter reads.
    """

    def __init__(
        self,
        forward: Forward,
        state: RequestState,
        device: torch.device,
        *,
        tokens: int,
        known: Sequence[Source | None],
        layers: tuple[int, ...],
    ) -> None:
        request = state.request
        fork = request.joined[-1]
        paths = [
            RequestState(replace(request, prompt=prompt, joined=request.joined[:-1], stop=()), lambda _: "")
            for prompt in fork.each(request.prompt)
        ]
        self._fork = fork
        self._paths: Prefill | None = Prefill(forward, paths, device, tokens=tokens, known=known)
        super().__init__(forward, [state], device, tokens=tokens, layers=[layers])

    def advance(self) -> None:
        if self._paths is None:
            super().advance()
            return
        self._paths.advance()
        if self._paths.done:
            length = len(self.sequences[0].request.prompt)
            self.cache = joined(self._forward, self._paths.cache, self._fork, length)
            self._read, self._paths = [self._fork.end], None


def can_join(forward: Any) -> bool:
    """Return whether a model's keys can be rotated to other positions, and its rows see everything before them."""
    plain = getattr(forward, "plain", forward)  # on a GPU, recorded steps wrap it
    return (
        isinstance(plain, LlamaForward)
        and plain.family.is_llama
        and all(layer.window is None for layer in plain.weights.layers)
    )


def joined(forward: Any, cache: KeyValueCache, paths: JoinedPaths, capacity: int) -> KeyValueCache:
    """Place the paths of a fork one after the other, and return the cache of that sequence.

    Keys are rotated to the positions of their slots (Su et al., arXiv:2104.09864). Paths with ``beside`` keep their
    distances to the shared tokens, and what follows is as far from the longest one as from the last slot: so all keys
    are rotated forward by the slots of the other paths.

    Args:
        forward: forward of a model for which `can_join` is true.
        cache: one sequence for each path, which begins with the shared tokens.
        paths: paths of the fork.
        capacity: number of slots that will be in use.
    """
    plain: LlamaForward = getattr(forward, "plain", forward)
    counts = [paths.shared, *paths.lengths]
    if paths.beside:
        turns = [sum(paths.lengths) - max(paths.lengths)] * len(counts)
    else:
        turns = [0, *accumulate(paths.lengths[:-1], initial=0)]
    places = torch.repeat_interleave(torch.tensor(turns), torch.tensor(counts)).to(plain.family.frequencies.device)
    angles = places[:, None, None] * plain.family.frequencies.double()  # [slots, 1, head_dim / 2]
    keys, values = [], []
    for number in range(len(plain.weights.layers)):
        found_keys, found_values = cache.layer(number, cache.kv_len)
        keys.append(_turned(_in_a_row(found_keys, paths), angles))
        values.append(_in_a_row(found_values, paths))
    return KeyValueCache.of(keys, values, capacity)


def _in_a_row(layer: Tensor, paths: JoinedPaths) -> Tensor:
    """Concatenate the shared slots and those of each path # [paths, slots, ...] -> [1, end, ...]."""
    own = [layer[number, paths.shared : paths.shared + length] for number, length in enumerate(paths.lengths)]
    return torch.cat((layer[0, : paths.shared], *own))[None]


def _turned(keys: Tensor, angles: Tensor) -> Tensor:
    """Rotate keys by an angle for each pair of dimensions # [..., head_dim], [slots, 1, head_dim / 2]."""
    one, two = keys.float().chunk(2, -1)
    cosine, sine = angles.cos().float(), angles.sin().float()
    return torch.cat((one * cosine - two * sine, two * cosine + one * sine), -1).to(keys.dtype)
