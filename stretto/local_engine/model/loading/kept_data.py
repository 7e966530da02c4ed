"""Caches data derived from a model's files for later loadings, next to compiled code and without code in it.

Cached data is valid for a key, for these versions of the sources, and for those of the packages that made it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate
from pathlib import Path

from stretto.local_engine.kernels.compiling.store import is_private, stores, writable_store

_MOST, _MOST_BYTES = 32, 2**28  # models, and bytes of them all: 26 MB for a vocabulary of 262,144
_PACKAGES = ("tokenizers", "torch", "transformers")
_SOURCES = ("model/**/*.py", "text/*.py", "serving/step_timing.py", "drafting/step_cost.py")


def key_of(file: Path) -> str:
    """Return a key that changes with the file, even if its size and modification time are set to those of another."""
    found = file.stat()
    return f"{file.resolve()} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def recall(kind: str, key: str) -> Iterator[bytes]:
    """Yield the cached data of this kind for a key, from each place that has it."""
    for store in stores():
        if (data := store.read(name_for(kind, key))) is not None:
            yield data


def remember(kind: str, key: str, data: bytes) -> None:
    """Cache data if there is a writable permanent folder. The oldest entries of this kind are dropped."""
    store = writable_store()
    if store is not None and not is_private(store):
        with suppress(OSError):  # a full disk
            store.write(name_for(kind, key), data)
            found = [(path.name, path.stat()) for path in store.folder.glob(f"{kind}-*")]
            newest = sorted(found, key=lambda each: each[1].st_mtime, reverse=True)
            sizes = accumulate(each.st_size for _, each in newest)
            for number, ((name, _), size) in enumerate(zip(newest, sizes, strict=True)):
                if number >= _MOST or (number and size > _MOST_BYTES):
                    store.forget(name)


def name_for(kind: str, key: str) -> str:
    """Return the file name for cached data of this kind and key, for these versions."""
    return f"{kind}-{hashlib.sha256(f'{key} {_versions()}'.encode()).hexdigest()[:20]}"


@cache
def _versions() -> str:
    digest, engine = hashlib.sha256(), Path(__file__).parents[2]
    for path in sorted({path for pattern in _SOURCES for path in engine.glob(pattern)}):
        digest.update(path.read_bytes())
    return " ".join((digest.hexdigest(), *map(_version, _PACKAGES)))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # loading reports what to install
        return ""
