"""Find the files of a folder or a pattern, and report what cannot be read as a file."""

from __future__ import annotations

import fnmatch
import glob
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from stretto.documents.formats import is_document
from stretto.documents.limits import ReadingTime
from stretto.values.errors import DocumentError

Leave = Callable[[Path, str], object]

_LINKED_FOLDER = "it is a link to a folder, and links are not followed; name the folder, or set follow_links"
_LINK_OUT = "it is a link out of the folder, which is not followed; name the file, or set follow_links"


def located(name: Path | str) -> Path:
    """Return the path of a name, with ``~`` expanded. Raises `DocumentError` for an impossible file name."""
    try:
        path = Path(name).expanduser()
        os.fsencode(path)
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            path.lstat()  # raises for a name that the system rejects, such as one that is too long
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        shown = str(name) if len(str(name)) <= 200 else str(name)[:200] + "…"
        raise DocumentError(f"{shown!r} was not read: {reason}; check the path.") from error
    return path


def kind_of(mode: int) -> str:
    """Return what this is if not a file, such as ``a pipe``."""
    kinds = (
        (stat.S_ISREG, ""),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISLNK, "a link"),
    )
    return next((kind for has, kind in kinds if has(mode)), "a device")


def found(path: Path, allowance: ReadingTime, leave: Leave) -> Iterator[Path]:
    """Yield the documents of a folder, or the files that match a pattern such as ``notes/**/*.md``, in order.

    ``leave`` receives each path that is left out, and why.
    """
    if path.is_dir():
        yield from _Finding(path, allowance, leave).below()
        return
    magic = next(at for at, part in enumerate(path.parts) if glob.has_magic(part))
    base = Path(*path.parts[:magic])
    yield from sorted(set(_Finding(base, allowance, leave).matching(base, path.parts[magic:])))


class _Finding:
    """Looks for files below one folder.

    Args:
        base: the given folder, or the one before the first ``*`` of a pattern.
        allowance: how long it may take, and whether to follow links, each folder once. Otherwise only links to files
            below ``base`` are followed.
        leave: receives what is left out.
    """

    def __init__(self, base: Path, allowance: ReadingTime, leave: Leave) -> None:
        self._base = base
        self._real = os.path.realpath(base)
        self._follow = allowance.limits.follow_links
        self._check = allowance.check
        self._leave = leave
        self._seen: set[str] = {self._real}

    def below(self) -> Iterator[Path]:
        """Yield the documents of the folder at any depth, folder by folder; hidden ones are skipped."""
        for folder in self._folders(self._base):
            for name in self._names(folder):
                file = folder / name
                wanted = not name.startswith(".") and (is_document(name) or _leads_nowhere(file))
                if wanted and self._is_file(file):
                    yield file

    def _folders(self, folder: Path) -> Iterator[Path]:
        """Yield a folder and those below it, in order."""
        waiting = [folder]
        while waiting:
            self._check()
            here = waiting.pop()
            yield here
            names = (name for name in self._names(here, noted=False) if not name.startswith("."))
            waiting += reversed([inner for name in names if self._is_folder(inner := here / name)])

    def matching(self, folder: Path, parts: tuple[str, ...]) -> Iterator[Path]:
        """Yield the files below a folder that match the rest of a pattern."""
        self._check()
        first, rest = parts[0], parts[1:]
        if first == "**":
            for inner in self._folders(folder):
                yield from self.matching(inner, rest or ("*",))
            return
        hidden = first.startswith(".")
        named = self._names(folder) if glob.has_magic(first) else [first]
        for name in named:
            if glob.has_magic(first) and (not fnmatch.fnmatch(name, first) or name.startswith(".") != hidden):
                continue
            path = folder / name
            if rest and self._is_folder(path):
                yield from self.matching(path, rest)
            elif not rest and os.path.lexists(path) and self._is_file(path):
                yield path

    def _names(self, folder: Path, *, noted: bool = True) -> list[str]:
        try:
            return sorted(each.name for each in folder.iterdir())
        except OSError as error:
            if noted:
                self._leave(folder, f"{error.strerror or error}; check its rights")
            return []

    def _is_folder(self, path: Path) -> bool:
        """Return whether to descend into this; report a link if links are not followed."""
        try:
            if not path.is_dir():
                return False
            if not self._follow:
                if path.is_symlink():
                    self._leave(path, _LINKED_FOLDER)
                    return False
                return True
            place = os.path.realpath(path)
        except OSError:
            return False
        if place in self._seen:
            return False
        self._seen.add(place)
        return True

    def _is_file(self, path: Path) -> bool:
        """Return whether this can be read as a file; report it if not."""
        try:
            mode = path.stat().st_mode
            if stat.S_ISDIR(mode):
                return False
            kind = kind_of(mode)
            inside = self._follow or not path.is_symlink() or Path(os.path.realpath(path)).is_relative_to(self._real)
        except OSError as error:
            link = path.is_symlink() and isinstance(error, FileNotFoundError)
            self._leave(path, "it is a link to nothing" if link else f"{error.strerror or error}; check the path")
            return False
        if kind:
            self._leave(path, f"it is {kind}, not a file")
        elif not inside:
            self._leave(path, _LINK_OUT)
        return not kind and inside


def _leads_nowhere(path: Path) -> bool:
    try:
        return path.is_symlink() and not path.exists()
    except OSError:
        return True
