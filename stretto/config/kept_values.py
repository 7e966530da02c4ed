"""What was measured on this machine, as JSON files beside the settings: each is written whole or not at all."""

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
    """The file of a key in a folder beside the settings; a person can tell from its name what it is of."""
    return beside_settings(f"{folder}/{_name(key)}.json")


def files_in(folder: str) -> list[Path]:
    """All files of a folder beside the settings."""
    return sorted(beside_settings(folder).glob("*.json"))


def beside_settings(name: str) -> Path:
    """A file in the folder of the settings."""
    return _in_folder_of(settings_file(), name)


@lru_cache(maxsize=256)
def _in_folder_of(settings: Path, name: str) -> Path:
    return settings.parent / name


@lru_cache(maxsize=256)
def _name(key: str) -> str:
    name = re.sub(r"[^A-Za-z0-9.]+", "-", key)[:_LONGEST_NAME].strip("-.")
    return f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def write_kept(path: Path, value: BaseModel) -> None:
    """Write a value, whole or not at all. Raises `OSError`."""
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
    """What a file holds; ``None`` where there is none, or a damaged one, of which the log tells. Reads a file at most.

    ``again``: the command that writes it anew.
    """
    try:
        changed = os.stat(path).st_mtime_ns  # noqa: PTH116 - a route reads two, and half of `Path.stat` is its own
    except OSError:
        return None
    found: Kept | None = _read(path, changed, kind, again)
    return found


def read_all(folder: str, kind: type[Kept], again: str) -> list[tuple[Path, Kept]]:
    """What the files of a folder hold, with each file; see `read_kept`."""
    read = ((file, read_kept(file, kind, again)) for file in files_in(folder))
    return [(file, found) for file, found in read if found is not None]


@lru_cache(maxsize=64)
def _read(path: Path, changed: int, kind: type[Any], again: str) -> Any:  # noqa: ARG001 - the time of the last change belongs to the key
    try:
        if not path.is_file():  # who reads a pipe may wait for ever
            raise IsADirectoryError(path)
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        _log.warning("%s is damaged and ignored. Run %s again.", path, again)
        return None
