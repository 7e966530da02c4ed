"""Reads a prompt that holds paths written side by side, without reading again what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from stretto.local_engine.model.cache import Source
from stretto.local_engine.model.forward import Forward
from stretto.local_engine.model.joining import joined
from stretto.local_engine.serving.prefill import Prefill
from stretto.local_engine.serving.sequence import Sequence as RequestState

__all__ = ["JoinedPrefill", "each_path"]


def each_path(prompt: tuple[int, ...], shared: int, lengths: Sequence[int]) -> list[tuple[int, ...]]:
    """What each path of a fork sees: the tokens that all share, and its own."""
    found, begin = [], shared
    for length in lengths:
        found.append(prompt[:shared] + prompt[begin : begin + length])
        begin += length
    return found


class JoinedPrefill(Prefill):
    """Reads what is not known of each path, then joins the paths, and reads what follows them.

    Args:
        forward: runs the model.
        state: of the request; the last fork of its prompt is joined.
        device: where the model is.
        tokens: to read in one forward at most.
        known: for each path, where the keys and values of its first tokens are.
        layers: whose hidden states the request's drafter reads.
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
            for prompt in each_path(request.prompt, fork.shared, fork.lengths)
        ]
        self._fork = fork
        self._paths: Prefill | None = Prefill(forward, paths, device, tokens=tokens, known=known)
        super().__init__(forward, [state], device, tokens=tokens, layers=[layers])

    def advance(self) -> None:
        """Run one forward."""
        if self._paths is None:
            super().advance()
            return
        self._paths.advance()
        if self._paths.done:
            length = len(self.sequences[0].request.prompt)
            self.cache = joined(self._forward, self._paths.cache, self._fork, length)
            self._read, self._paths = [self._fork.end], None
