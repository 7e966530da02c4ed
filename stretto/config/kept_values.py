"""Measurements on this machine, stored as JSON files next to the settings. Files are written atomically."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from stretto.config.settings import settings_file

Kept = TypeVar("Kept", bound=BaseModel)
_LONGEST_NAME = 60
_log = logging.getLogger(__name__)


def file_for(folder: str, key: str) -> Path:
    """Return the file for a key in a folder next to the settings; its name is readable."""
    return in_settings_folder(f"{folder}/{_name(key)}.json")


def files_in(folder: str) -> list[Path]:
    """Return all files of a folder next to the settings."""
    return sorted(in_settings_folder(folder).glob("*.json"))


def in_settings_folder(name: str) -> Path:
    """Return the path of a file in the folder of the settings."""
    return _in_folder_of(settings_file(), name)


@lru_cache(maxsize=256)
def _in_folder_of(settings: Path, name: str) -> Path:
    return settings.parent / name


@lru_cache(maxsize=256)
def _name(key: str) -> str:
    name = re.sub(r"[^A-Za-z0-9.]+", "-", key)[:_LONGEST_NAME].strip("-.")
    return f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def write_kept(path: Path, value: BaseModel) -> None:
    """Write a value atomically. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(value.model_dump_json(indent=2) + "\n")
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_kept(path: Path, kind: type[Kept], again: str) -> Kept | None:
    """Return the value in a file; ``None`` if it is missing or damaged, which is logged.

    Reads at most one file. ``again``: the command that recreates it.
    """
    try:
        changed = os.stat(path).st_mtime_ns  # noqa: PTH116 - a route reads two files, and `Path.stat` doubles the time
    except OSError:
        return None
    found: Kept | None = _read(path, changed, kind, again)
    return found


def read_all(folder: str, kind: type[Kept], again: str) -> list[tuple[Path, Kept]]:
    """Return the values in the files of a folder, each with its file; see `read_kept`."""
    read = ((file, read_kept(file, kind, again)) for file in files_in(folder))
    return [(file, found) for file, found in read if found is not None]


@lru_cache(maxsize=64)
def _read(path: Path, changed: int, kind: type[Any], again: str) -> Any:  # noqa: ARG001 - the modification time is part of the cache key
    try:
        if not path.is_file():  # reading a pipe may block forever
            raise IsADirectoryError(path)
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        _log.warning("%s is damaged and ignored. Run %s again.", path, again)
        return None
