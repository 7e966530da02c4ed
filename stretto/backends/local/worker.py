"""A thread that does one job after the other."""

from __future__ import annotations

import asyncio
import atexit
import os
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

T = TypeVar("T")
Job = Callable[[], None]

_threads: weakref.WeakKeyDictionary[Thread, SimpleQueue[Job | None]] = weakref.WeakKeyDictionary()


class Worker:
    """One thread. It ends with `close`, without references to this object, or when the interpreter exits.

    Unlike the executors of `concurrent.futures`, it still takes work while the interpreter exits, when a client that
    nobody closed is closed.
    """

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        # A daemon, because the interpreter would wait for any other thread before `_end_all` could end it.
        self._thread = Thread(target=_work, args=(self._jobs,), name=name, daemon=True)
        self._thread.start()
        _threads[self._thread] = self._jobs
        weakref.finalize(self, self._jobs.put, None).atexit = False

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
        self._jobs.put(None)

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
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: Future[T]) -> None:
        with suppress(RuntimeError):  # that event loop has ended, and nobody waits in it
            loop.call_soon_threadsafe(done.set)

    future.add_done_callback(tell)
    await done.wait()
    return future.result()


@atexit.register
def _end_all() -> None:
    """A thread still inside torch when the interpreter goes would abort the process."""
    for thread, jobs in list(_threads.items()):
        jobs.put(None)
        thread.join()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.clear)
