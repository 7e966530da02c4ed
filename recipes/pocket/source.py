"""The Python standard library's own source, as text to continue.

It stays where the interpreter has it: nothing of it is copied into the project.  Some files are kept out of training
so that later benchmarks can measure on source the model has not seen.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

__all__ = ["HELD_OUT_FILES", "held_out_source", "training_source"]

HELD_OUT_FILES = (
    "bisect.py", "calendar.py", "cmd.py", "colorsys.py", "csv.py", "fnmatch.py", "graphlib.py", "heapq.py",
    "json/decoder.py",
    "json/encoder.py", "logging/handlers.py", "netrc.py", "queue.py", "sched.py", "shelve.py", "shlex.py",
    "stat.py", "statistics.py",
    "textwrap.py", "timeit.py", "wsgiref/headers.py", "zipapp.py",
)  # fmt: skip
"""Files of the standard library that no training example is cut from."""

_LEFT_OUT = frozenset(
    {
        *("test", "tests", "idlelib", "lib2to3", "site-packages", "encodings", "pydoc_data", "turtledemo"),
        *("ensurepip", "tkinter", "distutils", "__pycache__", "msilib"),
    }
)
_LARGEST = 60_000  # characters: the few giant modules would outweigh the rest


def _library() -> Path:
    return Path(sysconfig.get_paths()["stdlib"])


def held_out_source() -> dict[str, str]:
    """The text of the held-out files that this interpreter has, by their path inside the library."""
    root = _library()
    return {name: (root / name).read_text(encoding="utf-8") for name in HELD_OUT_FILES if (root / name).is_file()}


def training_source() -> dict[str, str]:
    """The text of the files to train on, by their path inside the library, in a fixed order."""
    root = _library()
    found: dict[str, str] = {}
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name in HELD_OUT_FILES or _LEFT_OUT.intersection(name.split("/")) or name.startswith("_sysconfigdata"):
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        if len(text) >= 400:
            found[name] = text[:_LARGEST]
    return found
