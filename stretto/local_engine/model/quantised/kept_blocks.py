"""Caches the laid-out blocks of a GGUF file in a file that later loadings map, instead of laying them out again.

It is a safetensors file with one tensor, valid for one GGUF file, this processor and these versions of the sources and
packages. Processes that map it share its memory. If anything is wrong with it or with the disk, the weights are laid
out as if there were no cache. It is never changed, only replaced or removed, which does not affect processes that have
mapped it. Imports no torch.
"""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
import os
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from stretto.foundation.ending_thread import EndingThread, lower_priority
from stretto.foundation.threads import LateExecutor
from stretto.local_engine.kernels.compiling.store import fingerprint
from stretto.local_engine.model.loading.kept_data import key_of, name_for

START = 4096
"""Offset of the blocks in a file."""

_VARIABLE, _MOST_GB = "STRETTO_KEPT_WEIGHTS_GB", 10.0
_KIND = "blocks"
_LEAST = 2**24  # bytes; fewer are laid out in no time
_PIECE = 2**22  # bytes
_THREADS = 4
_NICENESS, _NAME = 5, "stretto keeps weights"
_UNFINISHED_S, _UNUSED_S = 3_600, 30 * 86_400  # age at which unfinished and unused files are removed

_log = logging.getLogger(__name__)


def begin_reading(file: Path) -> Path | None:
    """Return the cache file for a GGUF file, if there is one: it is mapped and checked while torch is imported."""
    path = _place(key_of(file))
    found = _map(path)
    if found is None:
        return None
    _begun[path] = _Begun(found)
    return path


def mapped_blocks(key: str, size: int) -> mmap.mmap | None:
    """Map the cache of a key, with the blocks from `START` on; ``None`` unless it has exactly ``size`` valid bytes.

    Writes to that memory stay in this process.
    """
    path = _place(key)
    begun = _begun.pop(path, None)
    if begun is None:
        if (found := _map(path)) is None:
            return None
        begun = _Begun(found)
    if (sums := begun.sums()) is None:
        return None
    if len(begun.found) == START + size and begun.found[:START] == _head(key, size, sums):
        with suppress(OSError):
            os.utime(path)  # the most recently used is removed last
            _remove_unfinished(path.parent)
        return begun.found
    _log.info("%s is damaged: the weights are laid out again", path)
    with suppress(OSError):
        path.unlink()
    return None


def stop_reading(kept: Path) -> None:
    """Release what `begin_reading` mapped, if no model has taken it: its loading was given up, or failed."""
    if (begun := _begun.pop(kept, None)) is not None:
        begun.ended.set()


class _Begun:
    """A mapped file whose checksums are computed in threads, which reads it from the disk.

    Attributes:
        ended: set when nobody waits for the checksums any more.
    """

    def __init__(self, found: mmap.mmap) -> None:
        self.found = found
        self._sums: str | None = None
        self.ended = threading.Event()
        self._thread = EndingThread(self._add, self.ended.set, "stretto checks weights")
        self._thread.start()

    def sums(self) -> str | None:
        """Return the digest of the blocks, see `_digest`; ``None`` if they could not be read."""
        self._thread.join()
        return self._sums

    def _add(self) -> None:
        if len(self.found) <= START or len(self.found) % 8:
            self._sums = ""  # it is damaged
            return
        try:
            self._sums = _digest(np.frombuffer(self.found, np.uint8, offset=START), self.ended)
        except (MemoryError, RuntimeError) as error:  # no more threads can be started
            _log.info("kept weights cannot be checked and are not used: %r", error)


_begun: dict[Path, _Begun] = {}


def _map(path: Path) -> mmap.mmap | None:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # a read-only map could not become a tensor
    except (OSError, ValueError):  # nothing is cached, or the file is empty
        return None


def keep(key: str, blocks: NDArray[np.uint8]) -> None:
    """Cache blocks in a low-priority thread; their size is a multiple of 8 bytes. Skips too few or too many."""
    if _LEAST <= len(blocks) <= _most_bytes():
        ended = threading.Event()
        EndingThread(lambda: _keep(key, blocks, ended), ended.set, _NAME).start()


def finish() -> None:
    """Wait until all caches under way are written."""
    for thread in threading.enumerate():
        if thread.name == _NAME:
            thread.join()


def _keep(key: str, blocks: NDArray[np.uint8], ended: threading.Event) -> None:
    lower_priority(_NICENESS)
    began, path = time.monotonic(), _place(key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _make_room(path.parent, _most_bytes() - len(blocks))
        if shutil.disk_usage(path.parent).free > 2 * len(blocks):  # leave room on the disk for others
            _write(path, key, blocks, ended)
            _log.debug("%s was written in %.1f s", path, time.monotonic() - began)
    except OSError as error:
        _log.info("weights are not kept for the next start: %s", error)


def _write(path: Path, key: str, blocks: NDArray[np.uint8], ended: threading.Event) -> None:
    """Write a file, completely or not at all. Gives up if the program ends before half is written. Raises OSError."""
    handle, new = tempfile.mkstemp(dir=path.parent, prefix=f"{_KIND}-", suffix=".new")
    try:
        with os.fdopen(handle, "wb") as file:
            with suppress(OSError):
                Path(new).chmod(0o644)  # other users of the folder may map it, too
            if (sums := _digest(blocks, ended)) is None:
                return
            file.write(_head(key, len(blocks), sums))
            for begin in range(0, len(blocks), _PIECE):
                if ended.is_set() and 2 * begin < len(blocks):
                    return
                file.write(blocks[begin : begin + _PIECE].data)
        Path(new).replace(path)
    finally:
        with suppress(OSError):  # it has been renamed
            Path(new).unlink()


def _remove_unfinished(folder: Path) -> None:
    """Remove partial files of processes that were killed. Raises OSError."""
    for path in folder.glob(f"{_KIND}-*.new"):
        if time.time() - path.stat().st_mtime > _UNFINISHED_S:
            path.unlink()


def _make_room(folder: Path, left: int) -> None:
    """Remove the least recently used files until the rest take at most ``left`` bytes."""
    with suppress(OSError):  # another process has removed it
        _remove_unfinished(folder)
    found: list[tuple[float, int, Path]] = []
    for path in folder.glob(f"{_KIND}-*.safetensors"):  # no files of others
        with suppress(OSError):
            state = path.stat()
            found.append((time.time() - state.st_mtime, state.st_size, path))
    for unused_s, size, path in sorted(found):
        left -= size
        if unused_s > _UNUSED_S or left < 0:
            with suppress(OSError):
                path.unlink()


def _head(key: str, size: int, sums: str) -> bytes:
    """Return the header of some blocks, which is the same only for the same key and blocks."""
    about = {"key": hashlib.sha256(key.encode()).hexdigest(), "sums": sums}
    tensor = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
    text = json.dumps({"__metadata__": about, "blocks": tensor}).encode()
    return (START - 8).to_bytes(8, "little") + text.ljust(START - 8)


def _digest(blocks: NDArray[Any], ended: threading.Event) -> str | None:
    """Hash blocks, to detect damage; ``None`` once ``ended`` is set.

    Only the sums of their pieces are hashed: hashing all bytes takes ten times as long.
    """
    pieces = [blocks[begin : begin + _PIECE] for begin in range(0, len(blocks), _PIECE)]
    with LateExecutor(_THREADS) as pool:
        sums = [*pool.map(lambda piece: 0 if ended.is_set() else int(piece.view(np.uint64).sum()), pieces)]
    return None if ended.is_set() else hashlib.sha256(repr(sums).encode()).hexdigest()


def _most_bytes() -> int:
    """Return the limit for all files together, as set by the variable; 0 if that is not a number."""
    try:
        return int(1e9 * float(os.environ.get(_VARIABLE, "") or _MOST_GB))
    except (ValueError, OverflowError):
        return 0


def _place(key: str) -> Path:
    """Return the file of a key, for these versions and this processor."""
    return _folder() / f"{name_for(_KIND, f'{key} {fingerprint()}')}.safetensors"


def _folder() -> Path:
    """Return the folder. Unlike that of compiled code, it is not next to the installed package: it is for gigabytes."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    return (Path(named) if named else user_cache_path("stretto")) / "weights"
