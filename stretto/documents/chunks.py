"""From a document to chunks that fit a context window, with exact offsets."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stretto.documents.plain import fences
from stretto.language.sentences import sentence_spans
from stretto.values.document import Document

_BEGUN = re.compile(r"\S")
_REST = re.compile(r"[^\n]*(?:\n[^\S\n]*+\S[^\n]*)*")  # of a paragraph, from its first visible character
_CLAUSE_END = re.compile(r"[,;:](?=\s)|[，；：、،؛]")
_WORD_END = re.compile(r"\S(?=\s)")
_LONGEST_COUNTED = 100_000  # characters of a paragraph that are counted at once
_MOST_ACCENTS = 8  # combining marks that are kept with their letter
_CHARACTERS = 8  # of a token, as a first estimate
_HALF = 0.5  # a chunk at least this full ends before a heading


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a document: ``document.text[start:end]``.

    Attributes:
        index: of the chunk in its document, from 0.
        start: offset of its first character.
        end: offset after its last character.
        tokens: as counted.
    """

    index: int
    start: int
    end: int
    tokens: int

    def text(self, document: Document) -> str:
        return document.text[self.start : self.end]


def cut(
    document: Document,
    size: int,
    count: Callable[[str], int],
    *,
    share: Callable[[str], float] | None = None,
) -> tuple[Chunk, ...]:
    """Cut a document into chunks of at most ``size`` tokens, in order, with only white space between them.

    Chunks end between paragraphs if possible: not within a code block, a table row or a sentence, and not after a
    heading. A paragraph that is longer than a chunk is cut between its sentences or lines. Only a sentence that is
    longer than a chunk is cut, after a comma or between words if it has any.

    Args:
        document: its text and headings.
        size: the most tokens of a chunk, at least 1.
        count: tokens of a text.
        share: returns the share of ``size`` that a chunk with this paragraph may fill, above 0 and at most 1; smaller
            for dense text. By default always 1.
    """
    text = document.text
    packer = _Packer(text, size, count)
    headings = {heading.offset for heading in document.headings}
    for start, end in _paragraphs(document):
        limit = size if share is None else max(1, int(size * min(1.0, share(text[start:end]))))
        packer.add(start, end, limit, heading=start in headings)
    packer.flush()
    return tuple(Chunk(index, start, end, tokens) for index, (start, end, tokens) in enumerate(packer.chunks))


class _Packer:
    """Packs whole paragraphs into a chunk while they fit."""

    def __init__(self, text: str, size: int, count: Callable[[str], int]) -> None:
        self.chunks: list[tuple[int, int, int]] = []
        self._text, self._size, self._count = text, size, count
        self._parts: list[tuple[int, int, int, int, bool]] = []  # start, end, tokens, limit, heading
        self._tokens = 0
        self._limit = size

    def add(self, start: int, end: int, limit: int, *, heading: bool) -> None:
        if end - start > _LONGEST_COUNTED:
            self._add_long(start, end, limit)
            return
        tokens = self._count(self._text[start:end]) + (1 if self._parts else 0)  # one for the gap before it
        if tokens > limit:
            self._add_long(start, end, limit)
            return
        full = self._tokens + tokens > min(self._limit, limit)
        if full or (heading and self._tokens > self._limit * _HALF):
            self.flush(keep_heading=not heading)
        self._parts.append((start, end, tokens, limit, heading))
        self._tokens += tokens
        self._limit = min(self._limit, limit)

    def flush(self, *, keep_heading: bool = False) -> None:
        """End the chunk; a heading at its end moves to the next chunk, if there is one."""
        kept: list[tuple[int, int, int, int, bool]] = []
        while keep_heading and len(self._parts) > 1 and self._parts[-1][4]:
            kept.insert(0, self._parts.pop())
        while self._parts:
            start, end = self._parts[0][0], self._parts[-1][1]
            tokens = self._count(self._text[start:end])
            if tokens <= self._size or len(self._parts) == 1:
                self.chunks.append((start, end, tokens))
                break
            kept.insert(0, self._parts.pop())  # parts together can have more tokens than separately
        self._parts = kept
        self._tokens = sum(part[2] for part in kept)
        self._limit = min((part[3] for part in kept), default=self._size)
        if kept and not keep_heading:
            self.flush()

    def _add_long(self, start: int, end: int, limit: int) -> None:
        """Add a paragraph that does not fit into one chunk, with as many of its sentences per chunk as fit."""
        while self._parts and self._parts[-1][4]:  # a heading stays with the text below it
            start = self._parts.pop()[0]
        self.flush()
        text, begin, packed, filled = self._text, start, start, 0
        lasts = [start + last for _, last in sentence_spans(text[start:end])]
        for last in [*lasts[:-1], end]:
            tokens = self._count(text[begin:last]) + 1  # for the gap before it
            if filled and filled + tokens > limit:
                self._pack(packed, begin)
                packed, filled = begin, 0
            if tokens - 1 > limit:
                for piece in self._cut(begin, last, limit):
                    self._pack(*piece)
                packed = last
            else:
                filled += tokens - (not filled)
            begin = last
        self._pack(packed, end)

    def _pack(self, start: int, end: int) -> None:
        piece = self._text[start:end]
        if stripped := piece.strip():
            start += len(piece) - len(piece.lstrip())
            self.chunks.append((start, start + len(stripped), self._count(stripped)))

    def _cut(self, start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
        """Yield the spans of pieces of a sentence that fit."""
        while start < end:
            border = start + self._fitting(start, end, limit)
            if border < end:
                border = _border(self._text, start, border)
            yield start, border
            start = border

    def _fitting(self, start: int, end: int, limit: int) -> int:
        """Return the characters from here on that fit into a chunk, at least one."""
        text, most = self._text, min(end - start, _CHARACTERS * limit)
        while most < end - start and self._count(text[start : start + most]) <= limit:
            most = min(end - start, 2 * most)
        if self._count(text[start : start + most]) <= limit:
            return most
        least = 1
        while most - least > 1:
            middle = (least + most) // 2
            if self._count(text[start : start + middle]) <= limit:
                least = middle
            else:
                most = middle
        return least


def _border(text: str, start: int, end: int) -> int:
    """Return the best end of a piece up to ``end``: after a comma in its second half, or a word, or a letter."""
    for pattern in (_CLAUSE_END, _WORD_END):
        found = [match.end() for match in pattern.finditer(text, start + (end - start) // 2, end + 1)]
        if fitting := [border for border in found if start < border <= end]:
            return fitting[-1]
    word = [match.end() for match in _WORD_END.finditer(text, start, end + 1) if start < match.end() <= end]
    border = word[-1] if word else end
    least = max(start + 1, border - _MOST_ACCENTS)
    while least < border < len(text) and unicodedata.combining(text[border]):
        border -= 1
    return border


def _paragraphs(document: Document) -> Iterator[tuple[int, int]]:
    """Yield runs of lines without an empty line, whole code blocks, and table rows and headings one by one."""
    text = document.text
    blocks = iter([*fences(text), (len(text), len(text))])
    block = next(blocks)
    borders = iter([*(heading.offset for heading in document.headings), len(text)])
    border = next(borders)
    position = 0
    while begun := _BEGUN.search(text, position):
        start = max(position, text.rfind("\n", position, begun.start()) + 1)
        end = _REST.match(text, begun.start()).end()  # type: ignore[union-attr]  # it matches anything
        while block[1] <= start and block[0] < len(text):
            block = next(blocks)
        if block[0] < end:  # a code block begins in this paragraph
            if block[0] > start:
                end = block[0]
            else:
                start, end = block
        while border <= start and border < len(text):
            border = next(borders)
        if start < border < end and end != block[1]:
            end = border
        position = end
        end = start + len(text[start:end].rstrip())
        if end > start:
            yield start, end
