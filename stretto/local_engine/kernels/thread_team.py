"""A team of threads that compute one forward together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread, local

import torch

from stretto.local_engine.kernels.sharing import Sharing

_WORK = 2**22  # multiply-adds that justify waking one more thread

_Work = Callable[[int], None]
_Failure = BaseException | None
_Task = tuple[_Work, int, SimpleQueue[_Failure]] | None


class _Team:
    """The threads that help one thread. They end with it."""

    def __init__(self) -> None:
        self._threads: list[Thread] = []
        self._queues: list[SimpleQueue[_Task]] = []

    def queues(self, count: int) -> list[SimpleQueue[_Task]]:
        """Return the work queues of this many threads; missing threads are started."""
        while len(self._queues) < count:
            self._queues.append(SimpleQueue())
            self._threads.append(Thread(target=_help, args=self._queues[-1:], name="stretto product", daemon=True))
            self._threads[-1].start()
        return self._queues[:count]

    def stop(self) -> None:
        """Stop the threads and wait for them."""
        self._end()
        for thread in self._threads:
            thread.join()

    def __del__(self) -> None:
        self._end()

    def _end(self) -> None:
        for queue in self._queues:
            queue.put(None)


class _Own(local):
    """Per-thread state: how many threads can share its work, whether that pays off, and its team."""

    def __init__(self) -> None:
        self.threads, self.sharing, self.team = 0, Sharing(), _Team()


_own = _Own()


def limit_threads(threads: int) -> None:
    """Let at most this many threads share the work of this one; 0 for as many as torch uses here."""
    _own.threads = threads


def most_parts(amount: int) -> int:
    """Return the maximum number of threads for this many multiply-adds."""
    return max(1, min(_own.threads or torch.get_num_threads(), amount // _WORK))


def share(amount: int, work: Callable[[int, int], None], stop: Callable[[], None] = lambda: None) -> None:
    """Run ``work(part, parts)`` for each part, on as many threads as turn out to be fastest.

    Args:
        amount: multiply-adds of the whole work.
        work: runs one part.
        stop: see `together`.
    """
    most = most_parts(amount)
    if most == 1:
        work(0, 1)
        return
    parts, began = _own.sharing.parts(amount, most), time.perf_counter()
    together(lambda part: work(part, parts), parts, stop)
    _own.sharing.note(amount, parts, time.perf_counter() - began)


def together(work: _Work, parts: int, stop: Callable[[], None] = lambda: None) -> None:
    """Run ``work`` for the parts 0, 1, ... at the same time, part 0 in this thread, and wait for all.

    If one raises, ``stop`` is called, so that no other part waits for it, and the exception is raised here.
    """
    if parts == 1:
        work(0)
        return

    def guarded(part: int) -> None:
        try:
            work(part)
        except BaseException:
            stop()
            raise

    ends: SimpleQueue[_Failure] = SimpleQueue()
    # The team is never shared: parts wait for each other, and those of two callers would wait forever.
    for part, queue in enumerate(_own.team.queues(parts - 1), 1):
        queue.put((guarded, part, ends))
    failures = [_failure(guarded, 0), *(ends.get() for _ in range(1, parts))]
    for failure in failures:
        if failure is not None:
            raise failure


def end_threads() -> None:
    """Stop the threads that help this one, and wait for them."""
    team, _own.team = _own.team, _Team()
    team.stop()


def _help(queue: SimpleQueue[_Task]) -> None:
    while (task := queue.get()) is not None:
        work, part, ends = task
        ends.put(_failure(work, part))
        del task, work, ends  # frees what they reference before the next task


def _failure(work: _Work, part: int) -> _Failure:
    try:
        work(part)
    except BaseException as error:  # noqa: BLE001 - raised once all have ended
        return error
    return None


def _forget() -> None:
    """Start a new team after a fork, which threads do not survive."""
    _own.team = _Team()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
