"""An event loop in a separate thread, for the synchronous client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from typing import Generic, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from stretto.errors import StrettoError
from stretto.foundation.fork import Fork
from stretto.foundation.late_executor import LateExecutor

T = TypeVar("T")

_LEAVING_S = 10.0


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
        self._portal: BlockingPortal | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._closed_at_exit = False

    @property
    def runs(self) -> bool:
        """Whether the thread was started and has not been told to end."""
        return self._portal is not None

    @property
    def is_here(self) -> bool:
        """Whether the current thread is the loop's own."""
        return self._thread is threading.current_thread()

    def call(self, run: Callable[[], Awaitable[T]]) -> T:
        """Run it to its end. Raises `StrettoError` after `close` and after a fork.

        A daemon thread that still asks when the program ends, which has then closed this, ends with `SystemExit`: that
        prints nothing, as when the interpreter ends the thread itself.
        """
        try:
            return self._call(run)
        except StrettoError:
            if self._closed_at_exit and threading.current_thread().daemon:
                raise SystemExit from None
            raise

    def _call(self, run: Callable[[], Awaitable[T]]) -> T:
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

    async def acall(self, run: Callable[[], Awaitable[T]]) -> T:
        """The same for a caller that waits in another event loop; its cancellation cancels the call."""
        if self._fork.happened():
            raise StrettoError(self._forked)
        called = _Call(run)
        with self._lock:
            portal = self._running()
            future = portal.start_task_soon(called.run)
        try:
            return await asyncio.wrap_future(future)
        except BaseException:
            if not called.has_ended:
                with anyio.CancelScope(shield=True):
                    await asyncio.wrap_future(portal.start_task_soon(called.leave))
            raise

    def close(self) -> None:
        """Run ``at_end`` and end the thread. Idempotent; in a forked child, where there is no thread, nothing."""
        if self._fork.happened():
            return
        if self.is_here:  # called by the garbage collector; a thread cannot wait for its own end
            threading.Thread(target=self.close, name="stretto closing").start()
            return
        with self._lock:
            main = threading.main_thread()
            self._closed_at_exit |= threading.current_thread() is main and not main.is_alive()
            self._closed = True
            portal, self._portal = self._portal, None
        if portal is None or self._thread is None:
            return
        try:
            portal.call(self._at_end)
        finally:
            portal.call(portal.stop, True)  # a call that still runs is not waited for
            self._thread.join()

    def _running(self) -> BlockingPortal:
        if self._closed:
            raise StrettoError("This Stretto is closed. Make a new one.")
        if self._portal is None:
            started: Future[BlockingPortal] = Future()
            self._thread = threading.Thread(target=_run, args=(started,), name="stretto", daemon=True)
            self._thread.start()
            self._portal = started.result()
        return self._portal


def _run(started: Future[BlockingPortal]) -> None:
    try:
        anyio.run(_serve, started)
    except RuntimeError as error:
        # Python 3.12 starts no thread while a program ends, and asyncio wants one to end those of its executor. By then
        # the client is closed, and the loop as well.
        if "interpreter shutdown" not in str(error):
            raise


async def _serve(started: Future[BlockingPortal]) -> None:
    # As anyio's start_blocking_portal, but no generator: one that is left open would be closed in a forked child too.
    asyncio.get_running_loop().set_default_executor(LateExecutor(thread_name_prefix="stretto"))
    async with BlockingPortal() as portal:
        started.set_result(portal)
        await portal.sleep_until_stopped()


class _Call(Generic[T]):
    """One call, which its caller may leave at any moment, even before it has begun."""

    def __init__(self, run: Callable[[], Awaitable[T]]) -> None:
        self._run = run
        self._scope: anyio.CancelScope | None = None
        self._ended = anyio.Event()

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, and need not be left."""
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
            with anyio.move_on_after(_LEAVING_S):  # what it runs may not let itself be cancelled
                await self._ended.wait()
