"""A clock that leaps to the next moment at which something happens, for simulations of the whole library.

Import this before stretto: it puts its clock in place of `time.perf_counter` and `time.monotonic`. Until `run` is
called, and after it, that clock shows the real time. Within it, computing takes no time and waiting takes none of
yours: hours on a server take seconds. Threads and sockets are not waited for where a timer is set: keep them out.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Awaitable, Callable
from typing import Any

_real = time.perf_counter
_leapt: float | None = None


def clock() -> float:
    """Seconds: simulated ones within `run`, else real ones."""
    return _real() if _leapt is None else _leapt


for _name in ("perf_counter", "monotonic"):
    setattr(time, _name, clock)


class _Leaping(selectors.DefaultSelector):
    """Leaps over a wait instead of waiting, unless something is there already."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        global _leapt  # noqa: PLW0603 - there is one time
        if timeout is None or _leapt is None:
            return super().select(timeout)
        ready = super().select(0)
        if not ready and timeout > 0:
            _leapt += timeout
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__(_Leaping())

    def time(self) -> float:
        return clock()


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    """Run a coroutine function in simulated time."""
    global _leapt  # noqa: PLW0603 - there is one time

    async def within() -> Any:
        return await work()

    _leapt = _real()
    try:
        with asyncio.Runner(loop_factory=_Loop) as runner:
            return runner.run(within())
    finally:
        _leapt = None
