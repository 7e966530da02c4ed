"""Read the bytes of a file or a pipe so that reading can be stopped at any time."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from stretto.documents.finding import kind_of
from stretto.documents.limits import ReadingTime
from stretto.values.errors import DocumentError, StrettoError

MOST_BYTES = 256 * 2**20
_PIECE = 2**20
_LOOK_S = 0.02  # seconds between polls of an empty pipe
_WRITER_S = 1.0  # seconds until a pipe must have a writer


def contents(file: Path, allowance: ReadingTime) -> bytes:
    """Read a file or a pipe. Raises `DocumentError` for anything else, and what `ReadingTime.check` raises."""
    try:
        mode = file.stat().st_mode
        _check_kind(mode)
        # A pipe without a writer would block opening, and one with a slow writer would block reading.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        opened = os.open(file, flags)
        try:
            status = os.fstat(opened)  # of what was opened: the path may refer to something else by now
            _check_kind(status.st_mode)
            if status.st_size > MOST_BYTES:
                raise DocumentError(f"it has {status.st_size:,} bytes, and {MOST_BYTES:,} are the most; split it")
            return _all(opened, allowance, pipe=stat.S_ISFIFO(status.st_mode))
        finally:
            os.close(opened)
    except StrettoError:
        raise  # the error of a deadline is a TimeoutError, and so an OSError
    except OSError as error:
        raise DocumentError(f"{error.strerror or error}; check the path") from error


def _check_kind(mode: int) -> None:
    kind = kind_of(mode)
    if kind not in {"", "a pipe"}:
        raise DocumentError(f"it is {kind}" + ("" if kind == "a folder" else ", not a file"))


def _all(opened: int, allowance: ReadingTime, *, pipe: bool) -> bytes:
    pieces: list[bytes] = []
    size = 0
    writer_by = time.monotonic() + _WRITER_S
    while True:
        allowance.check()
        try:
            piece = os.read(opened, _PIECE)
        except BlockingIOError:
            time.sleep(_LOOK_S)  # there is a writer, but it is not ready
            continue
        if not piece:
            if pipe and not pieces:
                if time.monotonic() >= writer_by:
                    raise DocumentError("it is a pipe, and nothing writes to it; start what does, or name a file")
                time.sleep(_LOOK_S)
                continue
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BYTES:
            raise DocumentError(f"it has more than {MOST_BYTES:,} bytes; split it")
