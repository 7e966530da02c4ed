"""Threads: for functions that may never return, during exit, after a fork, and replaced by greenlets."""

from __future__ import annotations

import _thread
import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.thread import ThreadPoolExecutor  # now: it cannot be imported after the main thread has ended
from contextvars import copy_context
from threading import Thread
from types import BuiltinFunctionType
from typing import Any, TypeVar

from stretto.values.errors import StrettoError

T = TypeVar("T")


class LateExecutor(ThreadPoolExecutor):
    """A `ThreadPoolExecutor` that accepts work as long as the interpreter runs.

    `ThreadPoolExecutor` rejects work once the main thread has ended, though Python still waits for other threads.
    asyncio resolves host names in one, and the SDKs query the platform in one.
    """

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run the function in the pool, or in a separate thread once the pool is closed."""
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError as error:
            if "cannot schedule" not in str(error):  # such as a thread limit: the pool has queued the work
                raise
            future: Future[T] = Future()
            Thread(target=work_into, args=(future, lambda: fn(*args, **kwargs)), daemon=True).start()
            return future


def work_into(future: Future[T], work: Callable[[], T]) -> None:
    """Give a future, unless it was cancelled, what the work returns or raises."""
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised in whoever awaits the future
            future.set_exception(error)


class ThreadLeftError(RuntimeError):
    """A function raised ``error``, which is not an `Exception` and would end this thread too."""

    def __init__(self, error: BaseException) -> None:
        super().__init__("a function left its thread")
        self.error = error


async def in_own_thread(function: Callable[[], T], name: str) -> T:
    """Call a function in a new thread, with the context variables of this task.

    Raises what it raises if that is an `Exception`, else `ThreadLeftError`. Cancellation takes effect at once. The
    thread cannot be stopped: it runs until the function returns, its result is ignored, and the program's exit does not
    wait for it.
    """
    ended: Future[tuple[T | None, BaseException | None]] = Future()
    ended.set_running_or_notify_cancel()
    context = copy_context()

    def work() -> None:
        try:
            ended.set_result((function(), None))
        except BaseException as error:  # noqa: BLE001 - passed as a value, because a future rejects StopIteration
            ended.set_result((None, error))

    Thread(target=context.run, args=(work,), name=name, daemon=True).start()
    value, error = await asyncio.wrap_future(ended)
    if error is None:
        return value  # type: ignore[return-value]  # `None` only if the function returns it
    if isinstance(error, Exception):
        raise error
    raise ThreadLeftError(error) from error


class Fork:
    """Detects forks by remembering the process of first use.

    A client that is created before a fork and first used after it is fine.
    """

    def __init__(self) -> None:
        self._process: int | None = None

    def happened(self) -> bool:
        """Return whether this process differs from that of the first call."""
        here = os.getpid()
        if self._process is None:
            self._process = here
        return self._process != here


_start, _allocate_lock = _thread.start_new_thread, _thread.allocate_lock


def are_threads_green() -> bool:
    """Return whether new threads would be greenlets, as after ``gevent.monkey.patch_all()``."""
    return not isinstance(_thread.start_new_thread, BuiltinFunctionType)


def were_threads_changed() -> bool:
    """Return whether threads became greenlets after this was imported. A greenlet cannot wait for an earlier thread."""
    return _thread.start_new_thread is not _start


def stay_if_changed() -> None:
    """Keep this thread alive if threads became greenlets: Python no longer lists it, and would print an error."""
    if were_threads_changed():
        for never in [_allocate_lock()] * 2:
            never.acquire()


def check_threads() -> None:
    """Raise `StrettoError` if threads became greenlets, instead of waiting forever."""
    if were_threads_changed():
        raise StrettoError(
            "gevent.monkey.patch_all() was called after Stretto was imported. Call it before any other import, or "
            "start the program with python -m gevent.monkey."
        )
