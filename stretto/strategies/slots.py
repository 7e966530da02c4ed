"""The places in which the calls of one answer run, on each backend that it asks."""

from __future__ import annotations

import anyio

from stretto.backends.base import Backend, Capabilities
from stretto.backends.load import Load, Share, load_of, with_calls_bounded
from stretto.request import Request

__all__ = ["Slots"]


class Slots:
    """Bounds the calls of each backend by itself: a slow one takes no slots of another.

    Args:
        request: what is answered.
        backend: of the answer.
        share: what the answer takes of it, counted already.
    """

    def __init__(self, request: Request, backend: Backend, share: Share) -> None:
        self._request = request
        self._loads: dict[int, Load] = {id(backend): share.load}
        self._limiters: dict[int, anyio.CapacityLimiter] = {}

    def load(self, backend: Backend) -> Load:
        """The load of a backend when this answer began there: its own calls take no place from themselves."""
        if id(backend) not in self._loads:
            self._loads[id(backend)] = load_of(backend)
        return self._loads[id(backend)]

    def capabilities(self, backend: Backend) -> Capabilities:
        """What a backend can do, with as many calls side by side as this answer makes there."""
        return with_calls_bounded(backend.capabilities, self._request, self.load(backend))

    def of(self, backend: Backend) -> anyio.CapacityLimiter:
        """What a call of a backend waits for."""
        if id(backend) not in self._limiters:
            self._limiters[id(backend)] = anyio.CapacityLimiter(self.capabilities(backend).concurrent_calls)
        return self._limiters[id(backend)]
