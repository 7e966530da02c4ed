"""From files and folders to documents."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stretto.document import Document
from stretto.documents.formats import is_document, reader_of
from stretto.documents.plain import read_text
from stretto.errors import DocumentError, MissingDependencyError

__all__ = ["MOST_BYTES", "MOST_CHARACTERS", "MOST_FILES", "LeftOut", "Reading", "read_document", "read_documents"]

MOST_BYTES = 256 * 2**20
MOST_FILES = 5_000
MOST_CHARACTERS = 500_000_000


@dataclass(frozen=True)
class LeftOut:
    """A file of a folder that was not read, and why."""

    path: Path
    cause: str


@dataclass(frozen=True)
class Reading:
    """What was read of all that was named.

    Attributes:
        documents: in the order they were named; files of a folder by their names.
        left_out: files of folders and patterns that could not be read.
    """

    documents: tuple[Document, ...]
    left_out: tuple[LeftOut, ...]


def read_document(path: Path | str) -> Document:
    """Read one file: text, Markdown, HTML, PDF, DOCX or source code.

    The title is the file's own where the format has one, else its name. Raises `DocumentError`, which names the file
    and what to do, and `MissingDependencyError` where a format needs ``pip install 'stretto[documents]'``.
    """
    file = Path(path).expanduser()
    try:
        document = _read(file)
    except DocumentError as error:
        raise DocumentError(f"{str(file)!r} was not read: {error}.") from error.__cause__
    if not document.text.strip():
        raise DocumentError(f"{str(file)!r} was not read: it is empty.")
    return document


def read_documents(named: Iterable[Path | str], *, most_files: int = MOST_FILES) -> Reading:
    """Read files, folders and patterns such as ``notes/**/*.md``.

    A file that is named must be readable. Of a folder or pattern, what cannot be read is left out and reported.
    Folders are searched to any depth for the endings of documents; pictures, programs and hidden files are passed over,
    links to folders are not followed. Raises `DocumentError`.
    """
    documents: list[Document] = []
    left_out: list[LeftOut] = []
    for name in named:
        path = Path(name).expanduser()
        if path.is_dir() or (not path.exists() and glob.has_magic(str(path))):
            count, before = 0, len(left_out)
            for file in _found(path):
                count += 1
                if count > most_files:
                    raise DocumentError(f"{str(path)!r} holds more than {most_files:,} files. Name a smaller folder.")
                try:
                    documents.append(_read(file))
                except (DocumentError, MissingDependencyError) as error:
                    left_out.append(LeftOut(file, str(error)))
            if count and count == len(left_out) - before:
                raise DocumentError(
                    f"None of the {count:,} files of {str(path)!r} can be read: {left_out[before].cause}."
                )
            if not count:
                raise DocumentError(
                    f"{str(path)!r} holds no file that can be read: text, Markdown, HTML, PDF, DOCX, code."
                )
        else:
            documents.append(read_document(path))
        if (size := sum(len(document.text) for document in documents)) > MOST_CHARACTERS:
            raise DocumentError(
                f"The documents have {size:,} characters together, and {MOST_CHARACTERS:,} are the most. Name fewer."
            )
    return Reading(tuple(documents), tuple(left_out))


def _read_unknown(data: bytes, title: str) -> Document:
    """A file whose ending tells nothing is read if it is UTF-8: other encodings cannot be told from pictures."""
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DocumentError("it is neither UTF-8 text nor of a known format; convert it first") from None
    return read_text(data, title)


def _found(path: Path) -> Iterator[Path]:
    if path.is_dir():
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            for name in sorted(names):
                file = Path(folder, name)
                if not name.startswith(".") and is_document(file) and file.is_file():
                    yield file
        return
    for match in sorted(glob.glob(str(path), recursive=True)):  # noqa: PTH207 - Path.glob takes no absolute pattern
        if (file := Path(match)).is_file():
            yield file


def _read(file: Path) -> Document:
    try:
        size = file.stat().st_size
        if file.is_dir():
            raise DocumentError("it is a folder")
        if size > MOST_BYTES:
            raise DocumentError(f"it has {size:,} bytes, and {MOST_BYTES:,} are the most; split it")
        with file.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)  # pipes and devices tell no size
    except OSError as error:
        raise DocumentError(f"{error.strerror or error}; check the path") from error
    if len(data) > MOST_BYTES:
        raise DocumentError(f"it has more than {MOST_BYTES:,} bytes; split it")
    try:
        document = (reader_of(file) or _read_unknown)(data, file.name)
    except ImportError as error:
        raise MissingDependencyError(
            f"{str(file)!r} was not read: the package {error.name} is not installed. "
            "Run: pip install 'stretto[documents]'"
        ) from error
    if data.strip() and not document.text.strip():
        raise DocumentError("it holds no text, only pictures perhaps")
    return document.model_copy(update={"source": str(file)})
