"""The compiler's process: compiles parts and runs them once. Started by ``compiler.py``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from stretto.local_engine.kernels.compiling.compiled_parts import Part
from stretto.local_engine.kernels.compiling.jit import run_compiled
from stretto.local_engine.kernels.compiling.store import Store


def main(root: str, parts: str, niceness: str) -> None:
    """Compile the parts that are not ready yet.

    Args:
        root: the folder of the store.
        parts: in JSON.
        niceness: added to that of the process, because another process may be writing an answer.
    """
    with suppress(AttributeError, OSError):  # Windows
        os.nice(int(niceness))
    store = Store(Path(root))
    store.folder.mkdir(parents=True, exist_ok=True)
    run_compiled(True)
    with _alone(store):
        for name, trial, arguments in json.loads(parts):
            if not store.is_ready(name):
                _make(store, Part(name, trial, tuple(arguments)))


def _make(store: Store, part: Part) -> None:
    from stretto.local_engine.kernels.compiling.code_cache import build_in  # noqa: PLC0415 - it imports numba, which may fail here

    store.note_try(part.name)
    names = build_in(store, part.name)
    module, function = part.trial.split(":")
    getattr(import_module(module), function)(*part.arguments)
    store.set_ready(part.name, names)


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """Run one compiler at a time; the next one finds the parts ready, and ends."""
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError:
        yield
        return
    with (store.folder / "compiling.lock").open("ab") as file:
        with suppress(OSError):  # some network drives have no locks; files are replaced as a whole anyway
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    main(*sys.argv[1:])
