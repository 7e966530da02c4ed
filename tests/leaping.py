"""An event loop whose clock stands still while anything is done, and leaps over what would be waited for.

With it a test of deadlines and of silent servers takes no time, and no machine is too slow for its limits. Tests that
are marked as `leaping` run on it. All that they wait for must be in their process: tasks, sockets between them, and
threads of the event loop's pools or that import a library, during which no time passes.
"""

import asyncio
import selectors
import threading
from contextlib import suppress

import anyio.to_thread

IMPORTS = "stretto imports"  # the name of such threads in the package
ARRIVES_S = 0.01  # what one socket of a process sends to another, by the real clock
MOST_TURNS = 1_000_000  # of the loop without a wait


class LeapingLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self._now_s = 1_000.0
        self._in_threads = set()  # of asyncio's pool
        self._limiter = None  # of anyio's
        super().__init__(LeapingSelector(self))

    def time(self):
        return self._now_s

    def leap(self, seconds):
        """Leap, unless a thread is waited for; whether it was done."""
        if self._in_threads or (self._limiter is not None and self._limiter.borrowed_tokens):
            return False
        self._now_s += seconds
        return True

    def create_task(self, *given, **named):
        if self._limiter is None:
            with suppress(RuntimeError):  # only within a task it can be asked for
                self._limiter = anyio.to_thread.current_default_thread_limiter()
        return super().create_task(*given, **named)

    def run_in_executor(self, *given):
        future = super().run_in_executor(*given)
        self._in_threads.add(future)
        future.add_done_callback(self._in_threads.discard)
        return future


def _imports():
    """Whether a thread imports a library for its loop: the first test of a process that needs it waits for that."""
    return any(thread.name == IMPORTS for thread in threading.enumerate())


class LeapingSelector(selectors.DefaultSelector):
    def __init__(self, loop):
        super().__init__()
        self._loop = loop
        self._turns = 0

    def select(self, timeout=None):
        self._turns = self._turns + 1 if timeout is not None and timeout <= 0 else 0
        if self._turns > MOST_TURNS:  # a task that ignores its cancellation is cancelled in each turn
            raise RuntimeError("The loop never waits, so its clock stands still: run this test without the mark.")
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        arrives_s = ARRIVES_S if len(self.get_map()) > 1 else 0  # the one that is always there wakes the loop
        while True:
            importing = (
                _imports()
            )  # before: a thread that ends meanwhile has woken the loop, which shows in the next turn
            ready = super().select(arrives_s)
            if ready or (not importing and self._loop.leap(timeout)):
                return ready
            arrives_s = ARRIVES_S
