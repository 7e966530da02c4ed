"""Compiles parts in another process, so that a crash of the compiler or of compiled code ends only that process.

The process can outlive this one, so a program that asks once leaves compiled code to the next one. If it is killed, the
next one continues with the function that it was compiling. After three failures it is not started again for a day.
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

from stretto.local_engine.kernels.compiling.compiled_parts import Part
from stretto.local_engine.kernels.compiling.jit import VARIABLE, look_again
from stretto.local_engine.kernels.compiling.store import Store, is_private, stores, writable_store

_log = logging.getLogger(__name__)

_NICENESS = 10
_PROGRAM = (
    "import sys, json; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from stretto.local_engine.kernels.compiling.compile_parts import main; main(*sys.argv[1:])"
)
_warned = threading.Event()
_ahead: dict[str, Compilation] = {}  # by the names of parts that `compile_now` will wait for


def are_ready(parts: Sequence[Part]) -> bool:
    """Return whether these parts are compiled and have run on this machine."""
    if not parts or not can_compile():
        return not parts
    found = stores()
    return all(any(store.is_ready(part.name) for store in found) for part in parts)


def compile_now(parts: Sequence[Part]) -> bool:
    """Compile the parts that are not ready, and wait. Returns False on failure; warns once unless switched off."""
    if are_ready(parts):
        return True
    if _is_switched_off():
        return False
    if cause := _obstacle():
        _warn(cause)
        return False
    for part in parts:
        if (begun := _ahead.pop(part.name, None)) is not None:
            begun.wait()
    compilation = Compilation(parts, niceness=0)
    compilation.wait()
    return are_ready(parts)


def compile_ahead(parts: Sequence[Part]) -> None:
    """Begin to compile parts that `compile_now` will need soon, unless they are ready or cannot be compiled."""
    if can_compile() and not are_ready(parts):
        compilation = Compilation(parts, niceness=0)
        _ahead.update((part.name, compilation) for part in parts)


def have_compiled(parts: Sequence[Part], *, wanted: bool | None) -> None:
    """Compile parts: ``True`` waits for it, ``None`` does not wait, and ``False`` compiles nothing."""
    if wanted:
        compile_now(parts)
    elif wanted is None and not are_ready(parts):
        Compilation(parts)


def try_again() -> None:
    """Allow compiling again after failures."""
    for store in stores():
        store.forget_all_tries()


class Compilation:
    """Compiles parts in another process.

    Args:
        parts: to compile, if they are not ready.
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
        """Whether it has ended, successfully or not."""
        return self._done.is_set()

    def wait(self) -> None:
        self._done.wait()

    def _run(self, niceness: int) -> None:
        try:
            if self._parts and can_compile():
                cause = self._compile(niceness)
                if cause:
                    _warn(cause)
            elif self._parts and not _is_switched_off() and not _has_numba():
                _warn(_obstacle())
        except Exception as error:  # noqa: BLE001 - an answer needs no compiler
            _warn(f"{type(error).__name__}: {error}")
        finally:
            look_again()
            self._done.set()
            self._then()

    def _compile(self, niceness: int) -> str:
        """Run the process.

        Returns:
            the cause of a failure; empty on success.
        """
        store = writable_store()
        if store is None:
            return "no folder for compiled code can be written to"
        for part in self._parts:
            if store.gives_up(part.name):
                return (
                    f"it has failed {store.tries(part.name)} times. To see why, run: "
                    "python -m stretto.local_engine.measuring.ahead"
                )
        with tempfile.TemporaryFile() as output:
            process = _start(store, self._parts, niceness, output)
            if is_private(store):  # no other process could use the result
                atexit.register(_end, process)
            status = process.wait()
            output.seek(0)
            lines = output.read().decode(errors="replace").strip().splitlines()
        return _cause(status, lines)


def _start(store: Store, parts: Sequence[Part], niceness: int, output: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the compiler's process, with this one's module paths."""
    listed = json.dumps([[part.name, part.trial, part.arguments] for part in parts])
    executable = os.fsdecode(spawn.get_executable() or sys.executable)
    command = [executable, "-P", "-c", _PROGRAM, json.dumps(sys.path), str(store.folder.parent), listed, str(niceness)]
    return subprocess.Popen(  # noqa: S603 - this interpreter, and our own module
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=output,
        start_new_session=True,  # Ctrl-C in this program does not interrupt it
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()


def _cause(status: int, lines: Sequence[str]) -> str:
    """Return the cause of a process's failure; empty on success."""
    if status == 0:
        return ""
    if status < 0:
        with suppress(ValueError):
            return f"the compiler's process was ended by {signal.Signals(-status).name}"
    return lines[-1] if lines else f"the compiler's process ended with status {status}"


def _warn(cause: str) -> None:
    """Warn once that local models will be slower."""
    if _warned.is_set():
        return
    _warned.set()
    if not _has_numba():
        _log.warning(
            "Local models run in torch's operations, more slowly: numba is not installed. "
            "Run: pip install 'stretto[compiled]'. %s=0 does without it.",
            VARIABLE,
        )
        return
    _log.warning(
        "Local models run in torch's operations, more slowly: compiling for this processor failed (%s). "
        "%s=0 keeps from trying.",
        cause,
        VARIABLE,
    )


def _has_numba() -> bool:
    return find_spec("numba") is not None


def can_compile() -> bool:
    """Return whether a compiler is installed and wanted."""
    return not _is_switched_off() and not _obstacle()


def _is_switched_off() -> bool:
    """Return whether the user has disabled the compiler, so that no warning is needed."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0").strip() not in {"", "0"}


def _obstacle() -> str:
    """Return why nothing can be compiled here; empty if it can."""
    if not _has_numba():
        return "numba is not installed"
    return "this program is one file without an interpreter" if getattr(sys, "frozen", False) else ""
