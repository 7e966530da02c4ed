"""Threads: for functions that may never return, to the end of a program, after a fork, and greenlets in their place."""

from __future__ import annotations

import _thread
import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.thread import ThreadPoolExecutor  # now: it cannot be imported after the main thread's end
from contextvars import copy_context
from threading import Thread
from types import BuiltinFunctionType
from typing import Any, TypeVar

from stretto.values.errors import StrettoError

T = TypeVar("T")


class LateExecutor(ThreadPoolExecutor):
    """Takes work as long as the interpreter runs.

    `ThreadPoolExecutor` refuses it as soon as the main thread has ended, though Python still waits for other threads.
    asyncio looks up the names of hosts in one, and the SDKs ask in one what machine this is.
    """

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Do the work in a thread of the pool, or, once there are no more of those, in one for this work alone."""
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError as error:
            if "cannot schedule" not in str(error):  # such as no more threads: the pool has kept the work
                raise
            future: Future[T] = Future()
            Thread(target=_work, args=(future, lambda: fn(*args, **kwargs)), daemon=True).start()
            return future


def _work(future: Future[T], work: Callable[[], T]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised to who waits for the future
            future.set_exception(error)


class ThreadLeftError(RuntimeError):
    """A function left its thread with ``error``, which is no `Exception`, and would end this one as well."""

    def __init__(self, error: BaseException) -> None:
        super().__init__("a function left its thread")
        self.error = error


async def in_own_thread(function: Callable[[], T], name: str) -> T:
    """Call a function in a new thread, with the context variables of this task.

    Raises what it raises, if that is an `Exception`, and else `ThreadLeftError`. A cancellation comes back at once. The
    thread cannot be ended: it goes on until the function returns, which nobody hears of, and a program that ends does
    not wait for it.
    """
    ended: Future[tuple[T | None, BaseException | None]] = Future()
    ended.set_running_or_notify_cancel()
    context = copy_context()

    def work() -> None:
        try:
            ended.set_result((function(), None))
        except BaseException as error:  # noqa: BLE001 - as a value: a future refuses a StopIteration
            ended.set_result((None, error))

    Thread(target=context.run, args=(work,), name=name, daemon=True).start()
    value, error = await asyncio.wrap_future(ended)
    if error is None:
        return value  # type: ignore[return-value]  # `None` only where the function returns that
    if isinstance(error, Exception):
        raise error
    raise ThreadLeftError(error) from error


class Fork:
    """Remembers the process of the first use.

    A client that was made before a fork and first used after it is fine.
    """

    def __init__(self) -> None:
        self._process: int | None = None

    def happened(self) -> bool:
        """Whether this process is another one than at the first call."""
        here = os.getpid()
        if self._process is None:
            self._process = here
        return self._process != here


_start, _allocate_lock = _thread.start_new_thread, _thread.allocate_lock


def are_threads_green() -> bool:
    """Whether a new thread would be a greenlet, as after ``gevent.monkey.patch_all()``."""
    return not isinstance(_thread.start_new_thread, BuiltinFunctionType)


def were_threads_changed() -> bool:
    """Whether they became greenlets after this was imported. A greenlet cannot wait for a thread of before."""
    return _thread.start_new_thread is not _start


def stay_if_changed() -> None:
    """Keep this thread from ending where threads were changed: Python no longer lists it, and would print an error."""
    if were_threads_changed():
        for never in [_allocate_lock()] * 2:
            never.acquire()


def check_threads() -> None:
    """Raise `StrettoError` where they were changed, instead of waiting for ever."""
    if were_threads_changed():
        raise StrettoError(
            "gevent.monkey.patch_all() was called after Stretto was imported. Call it before any other import, or "
            "start the program with python -m gevent.monkey."
        )
