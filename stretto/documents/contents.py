"""The bytes of a file or a pipe, read so that the reading can be ended at any time."""

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
_LOOK_S = 0.02  # seconds between two looks at a pipe that nobody has written to
_WRITER_S = 1.0  # until a pipe must have a writer


def contents(file: Path, allowance: ReadingTime) -> bytes:
    """All bytes of a file or a pipe. Raises `DocumentError` for anything else, and what `ReadingTime.check` raises."""
    try:
        mode = file.stat().st_mode
        _check_kind(mode)
        # A pipe without a writer would hold up the opening, and one with a slow writer the reading.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        opened = os.open(file, flags)
        try:
            status = os.fstat(opened)  # of what was opened: another thing may stand there by now
            _check_kind(status.st_mode)
            if status.st_size > MOST_BYTES:
                raise DocumentError(f"it has {status.st_size:,} bytes, and {MOST_BYTES:,} are the most; split it")
            return _all(opened, allowance, pipe=stat.S_ISFIFO(status.st_mode))
        finally:
            os.close(opened)
    except StrettoError:
        raise  # that of a deadline is a TimeoutError, and so an OSError
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
            time.sleep(_LOOK_S)  # there is a writer, which is not ready
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
