"""A text to read for an answer, and the location of passages in it."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

from stretto.foundation.surrogates import fix_surrogates
from stretto.foundation.validation import CheckedModel


class Heading(CheckedModel):
    """A heading of a document.

    Attributes:
        offset: offset of its first character in the text.
        level: 1 for a chapter, 2 for a section of it, and so on.
        text: the heading's text, without markup.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    offset: int
    level: int
    text: str


class Document(CheckedModel):
    """A text to read for the answer.

    `Document.read` creates one from a file. A document without a title is named by its number.

    >>> Document(text="The saddle is called Bob.", title="names.txt").title
    'names.txt'

    Attributes:
        text: the whole text. All offsets are in characters of it.
        title: what citations call it.
        source: the file or URL it comes from.
        pages: offset of the first character of each page; empty if the format has no pages.
        headings: the headings in text order.
        unread_pages: numbers of the pages without any readable text.
        markup: the file as read, where the text is only part of it, as with HTML.
        warnings: what was skipped or guessed when reading it; repeated in the answer's warnings.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: Annotated[str, AfterValidator(fix_surrogates)]
    title: Annotated[str, AfterValidator(fix_surrogates)] = ""
    source: Annotated[str, AfterValidator(fix_surrogates)] = ""
    pages: tuple[int, ...] = ()
    headings: tuple[Heading, ...] = ()
    unread_pages: tuple[int, ...] = ()
    markup: Annotated[str, AfterValidator(fix_surrogates)] = Field(default="", repr=False)
    warnings: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path | str) -> Document:
        """Read a file: text, Markdown, HTML, PDF, DOCX or source code. Raises `DocumentError`."""
        from stretto.documents import read_document  # noqa: PLC0415 - it creates documents, so it imports this module

        return read_document(path)

    def page(self, offset: int) -> int | None:
        """Return the number of the page at ``offset``, from 1; ``None`` without pages."""
        return bisect_right(self.pages, offset) or None

    def heading(self, offset: int) -> Heading | None:
        """Return the nearest heading at or above ``offset``."""
        index = bisect_right(self.headings, offset, key=lambda heading: heading.offset)
        return self.headings[index - 1] if index else None

    def place(self, start: int, end: int) -> str:
        """Return the location of a passage, for a citation: ``p. 12``, ``pp. 12-13`` or ``chars 100-250``."""
        first, last = self.page(start), self.page(max(start, end - 1))
        if first is None:
            return f"chars {start}-{end}"
        return f"p. {first}" if first == last else f"pp. {first}-{last}"
