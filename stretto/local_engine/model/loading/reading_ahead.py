"""Reads a model's files before its turn to be loaded, so that a slow disk blocks no other model."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from stretto.values.errors import ModelNotFoundError

_READ = frozenset({".json", ".jinja", ".txt", ".model", ".py", ".gguf", ".safetensors", ".tiktoken", ".toml"})
_PIECE = 2**24  # bytes


@contextmanager
def read_ahead(name: str, places: list[Path | None], given_up: Callable[[], bool]) -> Iterator[None]:
    """Read the files that loading needs, while the body runs, until all are read or it is given up.

    The system then has them in its cache.

    Args:
        name: of the model.
        places: files, and folders with files; missing ones are skipped.
        given_up: whether nobody wants the model any longer.

    Raises `ModelNotFoundError` for a pipe, a device or a socket among them, before anything is read: reading it might
    never end. Raises OSError.
    """
    found = {path: path.stat() for path in _files(places)}
    for path, state in found.items():
        if not stat.S_ISREG(state.st_mode):
            raise ModelNotFoundError(
                f"{str(path)!r} is no regular file, but a pipe, a device or a socket: {name} cannot be loaded from it. "
                "Replace it with a file.",
                backend=name,
            )
    failed: list[OSError] = []

    def read() -> None:
        try:
            _read(found, given_up)
        except OSError as error:
            failed.append(error)

    reading = threading.Thread(target=read, name="stretto reads ahead", daemon=True)
    if sum(state.st_size for state in found.values()) <= _memory():  # otherwise they would evict each other
        reading.start()
    yield
    if reading.ident is not None:
        reading.join()
    if failed:
        raise failed[0]


def _read(paths: Collection[Path], given_up: Callable[[], bool]) -> None:
    piece = memoryview(bytearray(_PIECE))
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.readinto(piece) and not given_up():
                pass


def _memory() -> int:
    """Return the memory of this machine in bytes, as reported by the system."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows
        return 2**33


def _files(places: list[Path | None]) -> Iterator[Path]:
    for place in places:
        if place is None or not place.exists():  # loading reports it
            continue
        inside = sorted(place.iterdir()) if place.is_dir() else [place]
        for path in inside:
            if path == place or (path.suffix in _READ and path.exists() and not path.is_dir()):
                yield path
