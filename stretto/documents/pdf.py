"""PDF files, by pypdf: the text of each page, and the outline as headings."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

from pypdf import PdfReader

from stretto.document import Document, Heading
from stretto.errors import DocumentError

__all__ = ["MOST_PAGES", "read_pdf"]

MOST_PAGES = 20_000
_MOST_CHARACTERS = 200_000_000
_DEEPEST = 8  # levels of an outline

logging.getLogger("pypdf").setLevel(logging.ERROR)  # it tells of every oddity that it mends


def read_pdf(data: bytes, title: str) -> Document:
    """The text of a PDF, page by page; a page that cannot be read is left out, and its number is told.

    Raises `DocumentError` for a file that is locked, broken or without text.
    """
    try:
        reader = _opened(data)
        named = str(reader.metadata.title or "").strip() if reader.metadata else ""
        text, pages, unread = _pages(reader)
        headings = tuple(_headings(reader, pages, len(text)))
    except DocumentError:
        raise
    except Exception as error:  # a parser of other people's files may raise anything
        raise DocumentError(f"it cannot be read as a PDF: {str(error)[:200] or type(error).__name__}") from error
    if not text.strip() and unread:
        raise DocumentError(f"none of its {len(unread)} pages with text can be read; repair or convert it")
    if not text.strip():
        raise DocumentError("it holds no text, only pictures perhaps; run text recognition on it first")
    return Document(text=text, title=named or title, pages=pages, headings=headings, unread_pages=unread)


def _opened(data: bytes) -> PdfReader:
    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise DocumentError("it is locked with a password; save it without one")
    if len(reader.pages) > MOST_PAGES:
        raise DocumentError(f"it has {len(reader.pages):,} pages, and {MOST_PAGES:,} are the most; split it")
    return reader


def _pages(reader: PdfReader) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """The text, where each page begins, and the numbers of those that could not be read."""
    parts: list[str] = []
    starts: list[int] = []
    unread: list[int] = []
    length = 0
    for number in range(len(reader.pages)):
        starts.append(length)
        try:
            part = reader.pages[number].extract_text().replace("\0", "").rstrip() + "\n\n"
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - a parser of other people's files may raise anything
            unread.append(number + 1)
            continue
        length += len(part)
        if length > _MOST_CHARACTERS:
            raise DocumentError(f"its text is longer than {_MOST_CHARACTERS:,} characters; split it")
        parts.append(part)
    return "".join(parts), tuple(starts), tuple(unread)


def _headings(reader: PdfReader, pages: tuple[int, ...], length: int) -> Iterator[Heading]:
    """The outline; an entry stands at the beginning of its page."""

    def walk(entries: list[Any], level: int) -> Iterator[tuple[int, int, str]]:
        for entry in entries:
            if isinstance(entry, list):
                if level < _DEEPEST:
                    yield from walk(entry, level + 1)
                continue
            number = reader.get_destination_page_number(entry)
            if number is not None and 0 <= number < len(pages):
                yield pages[number], level, " ".join(str(entry.title).split())

    found = sorted(walk(reader.outline, 1), key=lambda each: each[0])
    for offset, level, text in found:
        if text and offset < length:
            yield Heading(offset=offset, level=level, text=text)
