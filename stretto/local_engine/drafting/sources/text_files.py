"""Reading of the files that are searched for drafts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from stretto.values.errors import SettingsError

MOST_BYTES = 16 * 2**20
"""Limit over all files."""

_PROBED = 8192  # bytes at the beginning that are checked for a binary file


def check_paths(paths: Sequence[str | Path]) -> tuple[Path, ...]:
    """Return the paths of files and folders to draft from. Raises `SettingsError` if one does not exist."""
    if isinstance(paths, (str, Path)) or not isinstance(paths, Sequence):
        raise SettingsError(
            f"draft_corpus={str(paths)!r} cannot be used: give a list of files and folders, [path, ...]."
        )
    found = []
    for each in paths:
        if not isinstance(each, (str, Path)) or not str(each):
            raise SettingsError(f"draft_corpus has {each!r}, which is no path. Give files and folders.")
        path = Path(each).expanduser()
        if not path.exists():
            raise SettingsError(
                f"draft_corpus names {str(path)!r}, which is not there. Name files and folders that are."
            )
        found.append(path)
    return tuple(found)


def _in_folder(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if not name.startswith(".") and not path.is_symlink() and path.is_file():
                yield path


def read_texts(paths: Sequence[Path]) -> list[str]:
    """Read files and folders; in folders, skip links, hidden files and what is not text.

    Raises `SettingsError` for a named file that is not text or cannot be read, and if there is no text at all or too
    much.
    """
    texts: dict[Path, str] = {}
    left = MOST_BYTES
    for path in paths:
        named = not path.is_dir()
        for each in [path] if named else _in_folder(path):
            data = None if each in texts else _text_in(each, left, must=named)
            if data is not None:
                left -= len(data)
                texts[each] = data.decode("utf-8-sig")
    if not any(texts.values()):
        raise SettingsError(f"draft_corpus={[str(path) for path in paths]} holds no text. Name files of text or code.")
    return list(texts.values())


def _text_in(path: Path, most: int, *, must: bool) -> bytes | None:
    """Return the contents of a text file; ``None`` if it is not one. If it ``must`` be, raises `SettingsError`."""
    try:
        with path.open("rb") as file:
            data = file.read(_PROBED)
            is_text = b"\0" not in data
            if is_text:
                data += file.read(most + 1)
    except OSError as error:
        if not must:
            return None
        raise SettingsError(f"draft_corpus names {str(path)!r}, which cannot be read: {error.strerror}.") from None
    if is_text and len(data) > most:
        raise SettingsError(
            f"draft_corpus holds more than {MOST_BYTES // 2**20} MiB with {str(path)!r}, the most that drafts are "
            "looked for in. Name fewer files."
        )
    if is_text and _is_utf8(data):
        return data
    if not must:
        return None
    raise SettingsError(f"draft_corpus names {str(path)!r}, which is no text in UTF-8. Name files of text or code.")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data
