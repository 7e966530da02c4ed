"""Compiled code on disk: one file per function and argument types.

A folder belongs to one processor, one compiler and one version of the sources; its name is a hash of these. A file
begins with the hash of the rest, so a truncated one counts as missing. A *part* is a set of functions that are compiled
together. It is ready when all its files exist and have run in the process that made them.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from platformdirs import user_cache_path

_ENGINE = Path(__file__).parents[2]
_SOURCES = ("kernels/**/*.py", "drafting/**/compiled/*.py", "research/**/compiled/*.py")
_NOT_THE_TARGET = frozenset({"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS"})
_MOST_TRIES = 3
_A_DAY_S = 86_400
_HASH = 32  # bytes of a SHA-256
_OF_THE_PROCESSOR = ("flags", "Features", "model name", "CPU part")


class Store:
    """One folder of compiled code."""

    def __init__(self, root: Path) -> None:
        self.folder = root / fingerprint()

    def read(self, name: str) -> bytes | None:
        """Read the data of a name; ``None`` if there is none. A damaged file is removed."""
        try:
            kept = (self.folder / name).read_bytes()
        except OSError:
            return None
        digest, rest = kept[:_HASH], kept[_HASH:]
        if rest and hashlib.sha256(rest).digest() == digest:
            return rest
        self.forget(name)
        return None

    def write(self, name: str, data: bytes) -> None:
        """Write the data of a name, completely or not at all. Raises OSError."""
        self._replace(name, hashlib.sha256(data).digest() + data)

    def is_ready(self, part: str) -> bool:
        """Return whether a part is compiled and has run here, and its files have their full size."""
        try:
            sizes = json.loads((self.folder / f"{part}.ready").read_text(encoding="utf-8"))
            return all((self.folder / name).stat().st_size == size for name, size in sizes.items())
        except (OSError, ValueError, AttributeError, RecursionError):  # another program wrote the file
            return False

    def set_ready(self, part: str, names: set[str]) -> None:
        """Record that a part is compiled and has run. Raises OSError."""
        sizes = {name: (self.folder / name).stat().st_size for name in sorted(names)}
        self._replace(f"{part}.ready", json.dumps(sizes).encode())
        self.forget_tries(part)

    def forget(self, name: str) -> None:
        """Remove a file that cannot be used, so that it is compiled again."""
        with suppress(OSError):
            (self.folder / name).unlink()

    def tries(self, part: str) -> int:
        """Return how often compiling a part has failed."""
        try:
            return (self.folder / f"{part}.tries").stat().st_size
        except OSError:
            return 0

    def gives_up(self, part: str) -> bool:
        """Return whether compiling a part has failed so often that it is not tried for a day."""
        with suppress(OSError):
            since = time.time() - (self.folder / f"{part}.tries").stat().st_mtime
            return self.tries(part) >= _MOST_TRIES and since < _A_DAY_S
        return False

    def note_try(self, part: str) -> None:
        """Record that compiling a part begins. Raises OSError."""
        with (self.folder / f"{part}.tries").open("ab") as file:
            file.write(b".")

    def forget_tries(self, part: str) -> None:
        """Allow compiling a part again."""
        self.forget(f"{part}.tries")

    def forget_all_tries(self) -> None:
        """Allow compiling all parts again."""
        for path in self.folder.glob("*.tries"):
            self.forget(path.name)

    def _replace(self, name: str, data: bytes) -> None:
        new = self.folder / f"{name}.{os.getpid()}.new"
        try:
            new.write_bytes(data)
            new.replace(self.folder / name)
        except OSError:
            with suppress(OSError):
                new.unlink()
            raise


def stores() -> list[Store]:
    """Return the folders of compiled code: next to the source, and in the user's cache folder.

    The variable ``NUMBA_CACHE_DIR`` names another folder instead. A process that could write to none of them also has a
    temporary one.
    """
    return [Store(root) for root in (*_roots(), *_private)]


def writable_store() -> Store | None:
    """Return the first writable store; ``None`` if not even a temporary folder can be created."""
    for root in (*_roots(), *_private):
        store = Store(root)
        try:
            store.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=store.folder):
                return store
        except OSError:
            continue
    try:
        _private.append(Path(_temporary().name))
    except OSError:
        return None
    store = Store(_private[-1])
    store.folder.mkdir()
    return store


def is_private(store: Store) -> bool:
    """Return whether a store is removed at the end of this process."""
    return store.folder.parent in _private


_private: list[Path] = []


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    """Create a folder that only this user can write to, and that is removed at the end of the process."""
    return tempfile.TemporaryDirectory(prefix="stretto-compiled-")


def _roots() -> list[Path]:
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(named)]
    return [_ENGINE / "kernels" / "__pycache__", user_cache_path("stretto") / "compiled"]


@cache
def fingerprint() -> str:
    """Hash everything that compiled code depends on, without importing numba and LLVM, which takes a second."""
    digest = hashlib.sha256()
    for pattern in _SOURCES:
        for path in sorted(_ENGINE.glob(pattern)):
            digest.update(path.read_bytes())
    variables = sorted(
        item for item in os.environ.items() if item[0].startswith("NUMBA_") and item[0] not in _NOT_THE_TARGET
    )
    about = (
        sys.implementation.cache_tag,
        [_version(name) for name in ("numba", "llvmlite", "numpy")],
        (sys.platform, platform.machine(), _processor()),
        variables,
    )
    digest.update(repr(about).encode())
    return "stretto-" + digest.hexdigest()[:20]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> list[str]:
    """Describe the processor with what the system reports without LLVM."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return [platform.processor()]
    return sorted({line for line in lines if line.startswith(_OF_THE_PROCESSOR)})
