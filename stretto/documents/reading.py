"""From files and folders to documents."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Self

from stretto.documents.contents import contents
from stretto.documents.finding import found, located
from stretto.documents.formats import Format, format_of, seen_in
from stretto.documents.limits import ReadingTime
from stretto.documents.parser import Parser
from stretto.documents.plain import read_markdown, read_text
from stretto.foundation.surrogates import fix_surrogates
from stretto.values.document import Document
from stretto.values.errors import DocumentError, MissingDependencyError

MOST_FILES = 5_000
MOST_CHARACTERS = 500_000_000


@dataclass(frozen=True)
class LeftOut:
    """A file of a folder that was not read, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class ReadFiles:
    """The result of reading files.

    Attributes:
        documents: in the order they were named; files of a folder by name.
        left_out: files of folders and patterns that could not be read.
    """

    documents: tuple[Document, ...]
    left_out: tuple[LeftOut, ...]


def read_document(path: Path | str, *, allowance: ReadingTime | None = None) -> Document:
    """Read one file: text, Markdown, HTML, PDF, DOCX or source code.

    The title is the one in the file if the format has titles, or else its name. Raises `DocumentError`, which names the
    file and the remedy, and `MissingDependencyError` if a format needs ``pip install 'stretto[documents]'``.
    """
    with _Reader(allowance or ReadingTime()) as reader:
        return reader.named(located(path))


def read_documents(
    named: Iterable[Path | str], *, most_files: int = MOST_FILES, allowance: ReadingTime | None = None
) -> ReadFiles:
    """Read files, folders and patterns such as ``notes/**/*.md``.

    A file that is named must be readable. In a folder or pattern, files that cannot be read are left out and reported.
    Folders are searched to any depth for document file types; pictures, programs and hidden files are skipped, and
    links that lead out of the folder are not followed unless the limits say so. Raises `DocumentError`, and
    `DeadlineExceededError` when the allowance is used up.
    """
    allowance = allowance or ReadingTime()
    documents: list[Document] = []
    left_out: dict[Path, str] = {}
    with _Reader(allowance) as reader:
        for name in named:
            path = located(name)
            if path.is_dir() or (not path.exists() and glob.has_magic(str(path))):
                documents += _of_folder(path, reader, most_files, left_out)
            else:
                documents.append(reader.named(path))
            if (size := sum(len(document.text) for document in documents)) > MOST_CHARACTERS:
                raise DocumentError(
                    f"The documents have {size:,} characters together, and {MOST_CHARACTERS:,} are the most. "
                    "Name fewer."
                )
    return ReadFiles(tuple(documents), tuple(LeftOut(path, cause) for path, cause in left_out.items()))


def read_bytes(data: bytes, name: str, *, allowance: ReadingTime | None = None) -> Document:
    """Make a document from bytes and a file name, which determines the format and is never opened.

    Raises the same errors as `read_document`.
    """
    with _Reader(allowance or ReadingTime()) as reader:
        return reader.given(data, name)


def _of_folder(path: Path, reader: _Reader, most_files: int, left_out: dict[Path, str]) -> list[Document]:
    """Return the documents of a folder or a pattern; add what cannot be read to ``left_out``."""
    documents: list[Document] = []
    own: dict[Path, str] = {}
    files = found(path, reader.allowance, own.setdefault)
    for count, file in enumerate(files, start=1):
        if count > most_files:
            raise DocumentError(f"{str(path)!r} holds more than {most_files:,} files. Name a smaller folder.")
        try:
            documents.append(reader.read(file))
        except (DocumentError, MissingDependencyError) as error:
            own[file] = str(error)
    left_out.update(own)
    if not documents and own:
        cause = next(iter(own.values()))
        raise DocumentError(f"None of the {len(own):,} files of {str(path)!r} can be read: {cause}.")
    if not documents:
        raise DocumentError(f"{str(path)!r} holds no file that can be read: text, Markdown, HTML, PDF, DOCX, code.")
    return documents


class _Reader:
    """Reads files one after the other within an allowance."""

    def __init__(self, allowance: ReadingTime) -> None:
        self.allowance = allowance
        self._parser = Parser(allowance)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._parser.close()

    def named(self, file: Path) -> Document:
        """Read a file that was named itself. Raises `DocumentError`, which names it."""
        return self._with_name(str(file), lambda: self.read(file))

    def given(self, data: bytes, name: str) -> Document:
        """Read bytes with a name. Raises `DocumentError`, which names it."""
        return self._with_name(name, lambda: self._made(data, name))

    def _with_name(self, name: str, read: Callable[[], Document]) -> Document:
        try:
            document = read()
        except DocumentError as error:
            raise DocumentError(f"{name!r} was not read: {error}.") from error.__cause__
        if not document.text.strip():
            raise DocumentError(f"{name!r} was not read: it is empty.")
        return document

    def read(self, file: Path) -> Document:
        """Read a file. Raises `DocumentError` with only the cause."""
        self.allowance.check()
        with self.allowance.one_file():
            data = contents(file, self.allowance)
        return self._made(data, str(file)).model_copy(update={"source": fix_surrogates(str(file))})

    def _made(self, data: bytes, path: str) -> Document:
        name = PurePath(path).name
        try:
            document = self._document(data, fix_surrogates(name), seen_in(data) or format_of(name))
        except ImportError as error:
            raise MissingDependencyError(
                f"{path!r} was not read: the package {error.name} is not installed. "
                "Run: pip install 'stretto[documents]'"
            ) from error
        if data.strip() and not document.text.strip():
            raise DocumentError("it holds no text, only pictures perhaps")
        return document

    def _document(self, data: bytes, title: str, form: Format | None) -> Document:
        if form in {"pdf", "docx", "html", "notebook"}:
            return self._parsed(data, title, form)
        try:
            data.decode("utf-8-sig")
        except UnicodeDecodeError:
            if form is None:  # other encodings cannot be distinguished from pictures
                raise DocumentError("it is neither UTF-8 text nor of a known format; convert it first") from None
            return self._parsed(data, title, form)  # the encoding has to be guessed, which can take long
        return read_markdown(data, title) if form == "markdown" else read_text(data, title)

    def _parsed(self, data: bytes, title: str, form: Format) -> Document:
        self._parser.start(form)
        with self.allowance.one_file():
            return self._parser.parse(data, title, form)
