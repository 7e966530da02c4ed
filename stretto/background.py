"""An event loop in a thread of its own, for the synchronous client."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from contextlib import ExitStack
from typing import Generic, TypeVar

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from stretto.errors import StrettoError
from stretto.fork import Fork

T = TypeVar("T")


class BackgroundLoop:
    """Runs coroutines for threads that wait for them. The thread starts with the first call and ends with `close`.

    No exception of a caller gets into the loop: Ctrl-C, `SystemExit` and `GeneratorExit` only cancel the call that
    they leave.

    Args:
        at_end: runs in the loop before it ends.
        forked: what a call says in a child process that was forked after the first one.
    """

    def __init__(self, at_end: Callable[[], Awaitable[None]], forked: str) -> None:
        self._at_end = at_end
        self._forked = forked
        self._fork = Fork()
        # Reentrant, because the garbage collector may close an abandoned stream in the middle of any statement.
        self._lock = threading.RLock()
        self._opened = ExitStack()
        self._portal: BlockingPortal | None = None
        self._thread: int | None = None
        self._closed = False

    @property
    def is_here(self) -> bool:
        """Whether the current thread is the loop's own."""
        return self._thread == threading.get_ident()

    def call(self, run: Callable[[], Awaitable[T]]) -> T:
        """Run it to its end. Raises `StrettoError` after `close` and after a fork."""
        if self._fork.happened():
            raise StrettoError(self._forked)
        called = _Call(run)
        portal: BlockingPortal | None = None
        try:
            with self._lock:  # `close` comes before the call or sees it
                portal = self._running()
                future = portal.start_task_soon(called.run)
            return future.result()
        except CancelledError:
            if not self._closed:
                raise
            raise StrettoError("This Stretto was closed while it was answering.") from None
        except BaseException:
            if portal is not None and not called.has_ended:  # Ctrl-C, say: in this thread, not in the other
                portal.call(called.leave)
            raise

    def close(self) -> None:
        """Run ``at_end`` and end the thread. Idempotent; in a forked child, where there is no thread, nothing."""
        if self._fork.happened():
            return
        if self.is_here:  # called by the garbage collector; a thread cannot wait for its own end
            threading.Thread(target=self.close, name="stretto closing").start()
            return
        with self._lock:
            self._closed = True
        self._opened.close()

    def _running(self) -> BlockingPortal:
        if self._closed:
            raise StrettoError("This Stretto is closed. Make a new one.")
        if self._portal is None:
            portal = self._opened.enter_context(start_blocking_portal(name="stretto"))
            self._opened.callback(portal.call, portal.stop, True)  # a call that still runs is not waited for
            self._opened.callback(portal.call, self._at_end)
            self._thread = portal.call(threading.get_ident)
            self._portal = portal
        return self._portal


class _Call(Generic[T]):
    """One call, which its caller may leave at any moment, even before it has begun."""

    def __init__(self, run: Callable[[], Awaitable[T]]) -> None:
        self._run = run
        self._scope: anyio.CancelScope | None = None
        self._ended = anyio.Event()

    @property
    def has_ended(self) -> bool:
        """Whether there is nothing to leave any more."""
        return self._ended.is_set()

    async def run(self) -> T:
        """Run it in the loop."""
        with anyio.CancelScope() as self._scope:
            try:
                return await self._run()
            finally:
                self._ended.set()
        raise CancelledError

    async def leave(self) -> None:
        """Cancel it and wait for its end."""
        if self._scope is not None:
            self._scope.cancel()
            await self._ended.wait()
