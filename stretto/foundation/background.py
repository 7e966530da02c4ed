"""An event loop in a separate thread, for the synchronous client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, Generic, TypeVar

import anyio

from stretto.foundation.threads import Fork, LateExecutor, check_threads, were_threads_changed
from stretto.values.errors import StrettoError

T = TypeVar("T")

_LEAVING_S = 10.0


class BackgroundLoop:
    """Runs coroutines for threads that wait for them. Its thread starts with the first call and ends with `close`.

    No exception of a caller reaches the loop: Ctrl-C, `SystemExit` and `GeneratorExit` only cancel the call that they
    interrupt. No task can end the loop, neither by raising nor by stopping it.

    Args:
        forked: the error message of a call in a child process that was forked after the first call.
        at_end: runs in the loop before it ends.
    """

    def __init__(self, forked: str, at_end: Callable[[], Awaitable[None]] | None = None) -> None:
        self._at_end = at_end
        self._forked = forked
        self._fork = Fork()
        # Reentrant, because the garbage collector can close an abandoned stream in the middle of any statement.
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._calls: set[_Call[Any]] = set()
        self._stopping = threading.Event()
        self._closed = False
        self._closed_at_exit = False

    @property
    def runs(self) -> bool:
        """Whether the thread was started and not asked to end."""
        return self._loop is not None

    @property
    def is_here(self) -> bool:
        """Whether the current thread is that of the loop."""
        return self._thread is threading.current_thread()

    def call(self, run: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine to its end. Raises `StrettoError` after `close` and after a fork.

        A daemon thread that calls this while the program exits, after `close`, ends with `SystemExit`: it prints
        nothing, as when the interpreter ends the thread itself.
        """
        try:
            return self._call(run)
        except StrettoError:
            if self._closed_at_exit and threading.current_thread().daemon:
                raise SystemExit from None
            raise

    def _call(self, run: Callable[[], Awaitable[T]]) -> T:
        if self.is_here:
            raise StrettoError(
                "A Stretto cannot be asked by code that runs in its own event loop, such as an async function that is "
                "a tool. There, await its asynchronous client: await stretto.asynchronous.ask(...)."
            )
        called = _Call(run, self._calls)
        loop: asyncio.AbstractEventLoop | None = None
        try:
            with self._lock:  # `close` either precedes the call or sees it
                loop = self._running()
                future = asyncio.run_coroutine_threadsafe(called.run(), loop)
            return future.result()
        except CancelledError:
            if self._closed:
                raise StrettoError("This Stretto was closed while it was answering.") from None
            if future.cancelled():
                raise StrettoError(
                    "The answer was cancelled by other code in the client's event loop, such as a tool that cancels "
                    "tasks. Let it cancel its own only."
                ) from None
            raise
        except BaseException:
            if loop is not None and not called.has_ended:  # such as Ctrl-C, in this thread but not in the other
                asyncio.run_coroutine_threadsafe(called.leave(), loop).result()
            raise

    async def acall(self, run: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine for a caller in another event loop, whose cancellation cancels the call."""
        called = _Call(run, self._calls)
        with self._lock:
            loop = self._running()
            future = asyncio.run_coroutine_threadsafe(called.run(), loop)
        try:
            return await asyncio.wrap_future(future)
        except BaseException:
            if not called.has_ended:
                with anyio.CancelScope(shield=True):
                    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(called.leave(), loop))
            raise

    def close(self) -> None:
        """Run ``at_end`` and end the thread. Idempotent; does nothing in a forked child, where there is no thread."""
        if self._fork.happened():
            return
        if self.is_here:  # called by the garbage collector; a thread cannot join itself
            threading.Thread(target=self.close, name="stretto closing").start()
            return
        with self._lock:
            main = threading.main_thread()
            self._closed_at_exit |= threading.current_thread() is main and not main.is_alive()
            self._closed = True
            loop, self._loop = self._loop, None
        if loop is None or self._thread is None or were_threads_changed():
            return
        try:
            asyncio.run_coroutine_threadsafe(self._end(), loop).result()
        finally:
            loop.call_soon_threadsafe(self._stop, loop)
            self._thread.join()

    async def _end(self) -> None:
        try:
            if self._at_end is not None:
                await self._at_end()
        finally:
            async with anyio.create_task_group() as leaving:
                for called in tuple(self._calls):
                    leaving.start_soon(called.leave)

    def _stop(self, loop: asyncio.AbstractEventLoop) -> None:
        self._stopping.set()
        loop.stop()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._fork.happened():
            raise StrettoError(self._forked)
        if self._closed:
            raise StrettoError("This Stretto is closed. Make a new one.")
        check_threads()
        if self._loop is None:
            started: Future[asyncio.AbstractEventLoop] = Future()
            self._thread = threading.Thread(target=self._run, args=(started,), name="stretto", daemon=True)
            self._thread.start()
            self._loop = started.result()
        return self._loop

    def _run(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        try:
            with asyncio.Runner() as runner:
                loop = runner.get_loop()
                loop.set_default_executor(LateExecutor(thread_name_prefix="stretto"))
                started.set_result(loop)
                while not self._stopping.is_set():
                    # A function of the caller may stop the loop. asyncio lets these out of it from whatever task raises
                    # them, and whoever waits for that task sees them too.
                    with suppress(SystemExit, KeyboardInterrupt):
                        loop.run_forever()
        except RuntimeError as error:
            # Python 3.12 starts no thread during exit, and asyncio needs one to shut down its executor. By
            # then, both the client and the loop are closed.
            if "interpreter shutdown" not in str(error):
                raise


class _Call(Generic[T]):
    """One call, which its caller can leave at any moment, even before it has begun."""

    def __init__(self, run: Callable[[], Awaitable[T]], calls: set[_Call[Any]]) -> None:
        self._run = run
        self._calls = calls
        self._scope: anyio.CancelScope | None = None
        self._ended = anyio.Event()

    @property
    def has_ended(self) -> bool:
        """Whether the call has ended, so that it need not be left."""
        return self._ended.is_set()

    async def run(self) -> T:
        """Run the call in the loop."""
        self._calls.add(self)
        with anyio.CancelScope() as self._scope:
            try:
                return await self._run()
            finally:
                self._calls.discard(self)
                self._ended.set()
        raise CancelledError

    async def leave(self) -> None:
        """Cancel the call and wait for its end."""
        if self._scope is not None:
            self._scope.cancel()
            with anyio.move_on_after(_LEAVING_S):  # the coroutine may resist cancellation
                await self._ended.wait()
