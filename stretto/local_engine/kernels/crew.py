"""Threads that compute one thing together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread, local

import torch

from stretto.local_engine.kernels.sharing import Sharing

__all__ = ["allow", "dismiss", "most_parts", "share", "together"]

_WORK = 2**22  # products of two numbers for which one thread more is worth its coming

_Work = Callable[[int], None]
_Failure = BaseException | None
_Task = tuple[_Work, int, SimpleQueue[_Failure]] | None


class _Crew:
    """The threads that help one thread. They end with it."""

    def __init__(self) -> None:
        self._threads: list[Thread] = []
        self._queues: list[SimpleQueue[_Task]] = []

    def queues(self, count: int) -> list[SimpleQueue[_Task]]:
        """Where so many of them look for their work."""
        while len(self._queues) < count:
            self._queues.append(SimpleQueue())
            self._threads.append(Thread(target=_help, args=self._queues[-1:], name="stretto product", daemon=True))
            self._threads[-1].start()
        return self._queues[:count]

    def dismiss(self) -> None:
        """End them, and wait for that."""
        self._end()
        for thread in self._threads:
            thread.join()

    def __del__(self) -> None:
        self._end()

    def _end(self) -> None:
        for queue in self._queues:
            queue.put(None)


class _Own(local):
    """What belongs to one thread: how many may share its work, whether that pays, and who helps."""

    def __init__(self) -> None:
        self.threads, self.sharing, self.crew = 0, Sharing(), _Crew()


_own = _Own()


def allow(threads: int) -> None:
    """Let what is computed in this thread be shared by so many; without, it is as many as torch has here."""
    _own.threads = threads


def most_parts(amount: int) -> int:
    """By how many threads so many products of two numbers are shared at most."""
    return max(1, min(_own.threads or torch.get_num_threads(), amount // _WORK))


def share(amount: int, work: Callable[[int, int], None], stop: Callable[[], None] = lambda: None) -> None:
    """Run ``work`` for each part of so many, by as many threads as turn out to be fastest; ``stop`` as in `together`.

    ``amount``: products of two numbers in it.
    """
    most = most_parts(amount)
    if most == 1:
        work(0, 1)
        return
    parts, began = _own.sharing.parts(amount, most), time.perf_counter()
    together(lambda part: work(part, parts), parts, stop)
    _own.sharing.note(amount, parts, time.perf_counter() - began)


def together(work: _Work, parts: int, stop: Callable[[], None] = lambda: None) -> None:
    """Run ``work`` for the parts 0, 1, ... at the same time, the first of them in this thread, and wait for all.

    Where one raises, ``stop`` is called, so that no other waits for it, and the exception is raised here.
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
    # Nobody else's helpers: parts wait for each other, and those of two callers would do so for ever.
    for part, queue in enumerate(_own.crew.queues(parts - 1), 1):
        queue.put((guarded, part, ends))
    failures = [_failure(guarded, 0), *(ends.get() for _ in range(1, parts))]
    for failure in failures:
        if failure is not None:
            raise failure


def dismiss() -> None:
    """End the threads that help this one, and wait for that."""
    crew, _own.crew = _own.crew, _Crew()
    crew.dismiss()


def _help(queue: SimpleQueue[_Task]) -> None:
    while (task := queue.get()) is not None:
        work, part, ends = task
        ends.put(_failure(work, part))
        del task, work, ends  # what they hold is not kept until the next ones come


def _failure(work: _Work, part: int) -> _Failure:
    try:
        work(part)
    except BaseException as error:  # noqa: BLE001 - it is raised where all ends are known
        return error
    return None


def _forget() -> None:
    """After a fork: they are not there."""
    _own.crew = _Crew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
