"""A thread that does one job after the other."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from stretto.foundation.ending_thread import EndingThread

T = TypeVar("T")
Job = Callable[[], None]


class Worker:
    """One thread. It ends with `close`, without references to this object, or when the interpreter exits.

    Unlike the executors of `concurrent.futures`, it still takes work while the interpreter exits, when a client that
    nobody closed is closed.
    """

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        end = partial(self._jobs.put, None)
        self._thread = EndingThread(partial(_work, self._jobs), end, name)
        self._thread.start()
        weakref.finalize(self, end).atexit = False

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Do work after what was submitted before; at once in the calling thread if this one has ended."""
        future: Future[T] = Future()

        def job() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001 - raised to the caller that waits for the future
                    future.set_exception(error)

        if self._thread.is_alive():
            self._jobs.put(job)
        else:
            job()
        return future

    def end(self) -> None:
        """Let the thread end after the submitted work."""
        self._thread.end()

    def close(self) -> None:
        """Do what `end` does, and wait for the thread."""
        self.end()
        self._thread.join()


def _work(jobs: SimpleQueue[Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # frees what it refers to before the next one comes


async def outcome(future: Future[T]) -> T:
    """Wait for a future. Cancelling the caller does not cancel the future, for which others may wait."""
    await first_of(future)
    return future.result()


async def first_of(*futures: Future[Any]) -> None:
    """Wait until one of them is done; as for `outcome`."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: Future[Any]) -> None:
        with suppress(RuntimeError):  # that event loop has ended, and nobody waits in it
            loop.call_soon_threadsafe(done.set)

    for future in futures:
        future.add_done_callback(tell)
    await done.wait()
