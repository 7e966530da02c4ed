"""An event loop's threads, for a program whose threads work on after its main thread has ended."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.thread import ThreadPoolExecutor  # now: it cannot be imported after the main thread's end
from threading import Thread
from typing import Any, TypeVar

__all__ = ["LateExecutor"]

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
