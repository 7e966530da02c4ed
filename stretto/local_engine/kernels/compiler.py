"""Has parts compiled in a process of its own: a compiler that dies, and code that this processor cannot run, end that.

The process may outlive this one, so a program that asks once leaves compiled code to the next. One that is killed is
begun again by the next, from the function that it was at; one that ended badly three times is left alone.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing import spawn
from typing import IO

from stretto.local_engine.kernels.jit import look_again
from stretto.local_engine.kernels.parts import Part
from stretto.local_engine.kernels.store import Store, is_private, stores, writable_store
from stretto.local_engine.kernels.switch import VARIABLE

__all__ = ["Compilation", "are_ready", "compile_now", "have_compiled", "try_again"]

_log = logging.getLogger(__name__)

_NICENESS = 10
_PROGRAM = (
    "import sys, json; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from stretto.local_engine.kernels.compile_parts import main; main(*sys.argv[1:])"
)
_warned = threading.Event()


def are_ready(parts: Sequence[Part]) -> bool:
    """Whether these parts are compiled and have run on this machine."""
    if not parts or not _can_compile():
        return not parts
    found = stores()
    return all(any(store.is_ready(part.name) for store in found) for part in parts)


def compile_now(parts: Sequence[Part]) -> bool:
    """Have compiled what is not ready, and wait for it. False, and one warning, where that fails."""
    if are_ready(parts):
        return True
    compilation = Compilation(parts, niceness=0)
    compilation.wait()
    return are_ready(parts)


def have_compiled(parts: Sequence[Part], *, wanted: bool | None) -> None:
    """Have parts compiled: wait for it if that is wanted, do it beside other work with ``None``, and not if not."""
    if wanted:
        compile_now(parts)
    elif wanted is None and not are_ready(parts):
        Compilation(parts)


def try_again() -> None:
    """Let parts be compiled that were given up."""
    for store in stores():
        store.forget_all_tries()


class Compilation:
    """Parts that are being compiled in another process.

    Args:
        parts: which; those that are ready are left out.
        niceness: of the process.
        then: called at the end, from another thread.
    """

    def __init__(
        self, parts: Sequence[Part], *, niceness: int = _NICENESS, then: Callable[[], None] = lambda: None
    ) -> None:
        self._done, self._then = threading.Event(), then
        self._parts = [part for part in parts if not are_ready([part])]
        self._thread = threading.Thread(target=self._run, args=(niceness,), name="stretto compiler", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._done.is_set()

    def wait(self) -> None:
        """Wait for its end."""
        self._done.wait()

    def _run(self, niceness: int) -> None:
        try:
            if self._parts and _can_compile():
                cause = self._compile(niceness)
                if cause:
                    _warn(cause)
        except Exception as error:  # noqa: BLE001 - an answer needs no compiler
            _warn(f"{type(error).__name__}: {error}")
        finally:
            look_again()
            self._done.set()
            self._then()

    def _compile(self, niceness: int) -> str:
        """Run the process; what went wrong, if anything did."""
        store = writable_store()
        if store is None:
            return "there is no folder to keep it in"
        for part in self._parts:
            if store.gives_up(part.name):
                return (
                    f"that has ended badly {store.tries(part.name)} times. To see why, run: "
                    "python -m stretto.local_engine.measuring.ahead"
                )
        with tempfile.TemporaryFile() as said:
            process = _start(store, self._parts, niceness, said)
            if is_private(store):  # what nobody could use is not finished
                atexit.register(_end, process)
            status = process.wait()
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
        return _cause(status, lines)


def _start(store: Store, parts: Sequence[Part], niceness: int, said: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the compiler's process, which finds modules where this one does."""
    told = json.dumps([[part.name, part.trial, part.arguments] for part in parts])
    executable = os.fsdecode(spawn.get_executable() or sys.executable)
    command = [executable, "-P", "-c", _PROGRAM, json.dumps(sys.path), str(store.folder.parent), told, str(niceness)]
    return subprocess.Popen(  # noqa: S603 - this interpreter, and our own module
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=said,
        start_new_session=True,  # what interrupts this program does not interrupt it
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()


def _cause(status: int, lines: Sequence[str]) -> str:
    """Say how a process ended; nothing where it ended well."""
    if status == 0:
        return ""
    if status < 0:
        with suppress(ValueError):
            return f"the compiler's process was ended by {signal.Signals(-status).name}"
    return lines[-1] if lines else f"the compiler's process ended with status {status}"


def _warn(cause: str) -> None:
    """Say once what will be slower."""
    if _warned.is_set():
        return
    _warned.set()
    _log.warning(
        "Local models run in torch's operations, more slowly: compiling for this processor failed (%s). "
        "%s=0 keeps from trying.",
        cause,
        VARIABLE,
    )


def _can_compile() -> bool:
    """Whether there is a compiler, and nobody has switched it off."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0").strip() not in {"", "0"}:
        return False
    return find_spec("numba") is not None and not getattr(sys, "frozen", False)
