"""A thread that is ended before the interpreter exits: one that is still inside torch would abort the process."""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import signal
import sys
import threading
import time
from _thread import allocate_lock  # the original: a greenlet's lock could not wait for a thread
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from stretto.foundation.threads import stay_if_changed, were_threads_changed

_PATIENCE_S = 3.0  # seconds that the exit waits for a thread that was asked to end
_LAST_S = 1.0  # the same for an interrupted thread that is idle: it hangs in a system call
_MOST_S = 30.0  # the same for an interrupted thread that still uses the CPU, however rarely it is scheduled
_LOOK_S = 0.1  # seconds between the exit's checks for an interrupt
_exiting = threading.Event()
_running: set[EndingThread] = set()


class EndingThread(threading.Thread):
    """A thread that ends on request or when the interpreter exits, which waits a few seconds, or 30 while it is busy.

    Args:
        target: the function to run.
        request_end: asks it to end; called from other threads, at any time, possibly more than once.
        name: of the thread.
    """

    def __init__(self, target: Callable[[], None], request_end: Callable[[], None], name: str) -> None:
        # A daemon, because the interpreter would wait for a non-daemon thread before `_end_all` could end it.
        super().__init__(target=target, name=name, daemon=True)
        self._request_end = request_end
        self._over = allocate_lock()  # locked while it runs
        self._until = math.inf  # when the exit has waited long enough
        self._interrupted = False
        self._used, self._idle_until = 0.0, math.inf  # CPU seconds used, and until when it may stay idle

    def end(self) -> None:
        self._until = min(self._until, time.monotonic() + _PATIENCE_S)
        self._request_end()

    def wait_at_exit(self) -> bool:
        """Ask it to end, and wait briefly. Return False once it has ended, or the exit has waited long enough."""
        if not self._interrupted:
            self.end()
        if self._over.acquire(timeout=_LOOK_S):  # a signal that arrives as a wait begins does not end the wait
            self._over.release()
            return False
        now = time.monotonic()
        if self._interrupted:
            if (used := _processor_s(self)) > self._used:
                self._used, self._idle_until = used, now + _LAST_S
            return now < min(self._until, self._idle_until)
        if now < self._until:
            return True
        if self.ident is None:
            return False
        # It ends when it next runs Python code. Loading a model is many short calls to torch.
        self._interrupted, self._until, self._idle_until = True, now + _MOST_S, now + _LAST_S
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(SystemExit))
        return True

    def is_alive(self) -> bool:
        """Return whether it runs; one that stays where threads were changed does not."""
        return self._over.locked() if were_threads_changed() else super().is_alive()

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, for at most ``timeout`` seconds."""
        if not were_threads_changed():
            super().join(timeout)
        elif self._over.acquire(timeout=-1 if timeout is None else timeout):
            self._over.release()

    def start(self) -> None:
        self._over.acquire()
        _running.add(self)
        try:
            super().start()
        except BaseException:  # no more threads
            self._leave()
            raise

    def run(self) -> None:
        try:
            super().run()
        except SystemExit:
            pass
        except BaseException:  # noqa: BLE001 - as threads do; objects in its frames are freed before the exit continues
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), self)))
        finally:
            self._request_end = _ended  # its references are freed now, not by the cycle collector
            self._leave()
            stay_if_changed()

    def _leave(self) -> None:
        _running.discard(self)
        self._over.release()


def is_exiting() -> bool:
    """Return whether the interpreter is waiting for these threads: long work that begins now would delay the exit."""
    return _exiting.is_set()


def lower_priority(niceness: int) -> None:
    """Lower the scheduling priority of this thread: ``niceness`` as in `os.nice`. Linux only."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


def _processor_s(thread: threading.Thread) -> float:
    """Return the CPU seconds used by a thread; 0 where they are unknown."""
    try:
        about = Path(f"/proc/self/task/{thread.native_id}/stat").read_bytes()
    except OSError:
        return 0.0
    user, system = about.rpartition(b")")[2].split()[11:13]  # the name before it can contain spaces
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _ended() -> None:
    """Do nothing: the thread has ended."""


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)


@atexit.register
def _end_all() -> None:
    """End all threads, including those they still start: a thread that loads a model starts that of the engine."""
    try:
        _exiting.set()
        given_up: set[EndingThread] = set()
        while running := _running - given_up:
            given_up |= {thread for thread in running if not thread.wait_at_exit()}
    except BaseException as error:  # noqa: BLE001 - a second Ctrl-C, or an exception from another signal handler
        _leave(error)


def _leave(error: BaseException) -> None:
    """End the process at once, because its exit was interrupted; continuing with threads in torch would abort it."""
    match error:
        case KeyboardInterrupt():
            status = 128 + signal.SIGINT
        case SystemExit(code=int() | None as code):
            status = code or 0
        case SystemExit(code=message):
            status = 1
            print(message, file=sys.stderr)
        case _:
            status = 1
            sys.excepthook(type(error), error, error.__traceback__)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed or missing
            stream.flush()
    os._exit(status)
