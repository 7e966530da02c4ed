"""Decides whether a wait is worthwhile, and lets calls wait for one that tests an endpoint for all of them."""

from __future__ import annotations

import anyio

from stretto.backends.allowance import calling

_LONG_S = 5.0  # a wait that is too long if another model is available


def why_not_wait(seconds: float, longest_s: float) -> str | None:
    """Return why a wait is not worth starting, or ``None``.

    It is not if it would end after the deadline of the calling task, or exceed ``longest_s``.
    """
    if anyio.current_time() + seconds > anyio.current_effective_deadline():
        return f"the wait of {seconds:.1f} s passes the deadline"
    if seconds > longest_s:
        return f"the wait of {seconds:.1f} s is longer than the {longest_s:g} s allowed"
    return None


def why_not_wait_for_limits(seconds: float) -> str | None:
    """Return why a wait that a server asks for is not worth starting: another model takes over now. Else ``None``."""
    caller = calling()
    if caller is None or not caller.replaceable or seconds <= _LONG_S:
        return None
    return f"another model takes over sooner than in {seconds:.0f} s"


class Trial:
    """A call that tests whether a server answers again; the others wait for its outcome."""

    def __init__(self) -> None:
        self._ended = anyio.Event()

    def end(self) -> None:
        """Let the others proceed: the outcome is known, or there will be none."""
        self._ended.set()

    async def wait(self, longest_s: float) -> None:
        """Wait for the end, but at most this many seconds."""
        with anyio.move_on_after(longest_s):
            await self._ended.wait()
