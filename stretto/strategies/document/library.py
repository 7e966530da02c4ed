"""The documents of one request, cut into passages: how each is shown to a model, and a cache of how they were cut."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from threading import Lock
from typing import TypeVar, cast

from stretto.backends.tenants import asking
from stretto.documents import Chunk
from stretto.documents.tables import Table, table_at, tables_of
from stretto.language.sentences import sentence_spans
from stretto.strategies.document.quoting import Passage
from stretto.strategies.document.sizes import EDGE, OUTLINE
from stretto.strategies.runtime.fencing import fence_for, one_line, titles_of
from stretto.values.citation import Citation
from stretto.values.document import Document

_MOST_HEADINGS = 40  # of a document in the outline
_BEGINNING = 300  # characters of a document without headings in the outline
_SENTENCE = 1_000  # characters in which the sentence at an edge is looked for


@dataclass(frozen=True)
class Place:
    """One passage: its document, its range, and its number among all passages, from 1."""

    number: int
    document: int
    chunk: Chunk


@dataclass(frozen=True)
class Library:
    """Documents and their passages. Numbers of documents are those of the request.

    Attributes:
        documents: as they came.
        titles: one for each document, on one line; no two are alike.
        fence: a line that stands in no document. It is the same for all prompts about the same documents: what they
            share is cached only if it is the same to the letter.
        places: the passages, in order.
    """

    documents: tuple[Document, ...]
    titles: tuple[str, ...]
    fence: str
    places: tuple[Place, ...] = ()

    @classmethod
    def of(cls, documents: tuple[Document, ...]) -> Library:
        """The documents, not cut yet."""
        return cls(documents, titles_of(documents), fence_for(*(document.text for document in documents)))

    def cut(self, chunks: Iterable[Sequence[Chunk]]) -> Library:
        """The same documents with these chunks, given document by document."""
        placed = ((document, chunk) for document, each in enumerate(chunks) for chunk in each)
        places = (Place(number, document, chunk) for number, (document, chunk) in enumerate(placed, start=1))
        return replace(self, places=tuple(places))

    def text(self, place: Place) -> str:
        return place.chunk.text(self.documents[place.document])

    def passage(self, place: Place) -> Passage:
        """The passage with the edges of its neighbours, to look quotations up in."""
        start, end = max(0, place.chunk.start - EDGE), place.chunk.end + EDGE
        return Passage(self.documents[place.document].text[start:end], start, (place.chunk.start, place.chunk.end))

    @cached_property
    def tables(self) -> tuple[list[Table], ...]:
        return tuple(tables_of(document.text) for document in self.documents)

    def header(self, document: int, offset: int) -> str:
        """The row that names the columns of the table in whose body this offset stands; empty where there is none."""
        table = table_at(self.tables[document], offset)
        return table.header if table else ""

    def has_table(self, place: Place) -> bool:
        tables = self.tables[place.document]
        return any(table.start < place.chunk.end and table.end > place.chunk.start for table in tables)

    @property
    def longest_header(self) -> str:
        return max((table.header for tables in self.tables for table in tables), key=len, default="")

    def shown(self, place: Place) -> dict[str, str]:
        """The values that templates show of a passage: its text, the edges of its neighbours, and the fence.

        ``leading`` is the sentence before it and ``following`` the rest of its last one, fenced, or nothing. Before
        them stands the first row of a table that begins in an earlier passage.
        """
        document, chunk = self.documents[place.document], place.chunk
        return {
            "fence": self.fence,
            "passage": self.text(place),
            "leading": self._columns(place) + self._fenced("before", _sentence_before(document.text, chunk.start)),
            "following": self._fenced("after", _rest_of_sentence(document.text, chunk.end)),
            "before": document.text[max(0, chunk.start - EDGE) : chunk.start].lstrip(),
            "after": document.text[chunk.end : chunk.end + EDGE].rstrip(),
            "number": str(place.number),
            "total": str(len(self.places)),
            "title": f'"{self.titles[place.document]}", {self.where(place.document, chunk.start, chunk.end)}',
        }

    def _columns(self, place: Place) -> str:
        header = self.header(place.document, place.chunk.start)
        return f"{self.fence} first row of the table in which the passage begins\n{header}\n" if header else ""

    def _fenced(self, side: str, edge: str) -> str:
        return f"{self.fence} {side} the passage\n{edge}\n" if edge else ""

    def citation_of(self, number: int) -> Citation | None:
        """The citation of the passage with this number; ``None`` where there is none."""
        if not 0 < number <= len(self.places):
            return None
        place = self.places[number - 1]
        return self.citation(number, place.document, place.chunk.start, place.chunk.end)

    def called(self, document: int, start: int, end: int) -> str:
        """The name of a passage for people: ``report, p. 12``."""
        return f"{self.titles[document]}, {self.where(document, start, end)}"

    def briefly(self, document: int, start: int, end: int) -> str:
        """The place of a quotation in few words: the document, if there are several, and the page, if it has pages."""
        title = self.titles[document] if len(self.documents) > 1 else ""
        place = self.where(document, start, end) if self.documents[document].pages else ""
        return ", ".join(each for each in (title, place) if each)

    def where(self, document: int, start: int, end: int) -> str:
        """``p. 12`` or ``chars 100-250``."""
        return self.documents[document].place(start, end)

    def outline(self) -> str:
        """An outline of the documents for each reader of a passage: titles, headings, and how they begin."""
        parts = []
        room = max(200, OUTLINE // len(self.documents))
        for title, document in zip(self.titles, self.documents, strict=True):
            upper = (heading for heading in document.headings[:_MOST_HEADINGS] if heading.level <= 2)
            headings = "; ".join(one_line(heading.text, 0) for heading in upper)
            head = headings or " ".join(document.text[:_BEGINNING].split())
            parts.append(f'"{title}": {head[:room]}')
        return "\n".join(parts)[: 2 * OUTLINE]

    def citation(self, number: int, document: int, start: int, end: int) -> Citation:
        """The citation of a place that prompts show under a number."""
        title, whole = self.titles[document], self.documents[document]
        heading = whole.heading(start)
        return Citation(
            number=number,
            label=f"[{self.called(document, start, end)}]",
            title=title,
            source=whole.source,
            document=document,
            start=start,
            end=end,
            quote=whole.text[start:end],
            page=whole.page(start),
            heading=one_line(heading.text, 0) if heading else "",
        )


def _sentence_before(text: str, start: int) -> str:
    """The sentence before a passage, which may name what its first one speaks of, or the end of a longer one."""
    near = max(0, start - _SENTENCE)
    spans = list(sentence_spans(text[near:start]))
    if not spans:
        return ""
    first, last = near + spans[-1][0], near + spans[-1][1]
    if last - first <= EDGE and (first > near or not near):
        return text[first:last]
    cut = text[max(first, last - EDGE) : last]
    return cut[re.search(r"^\S*\s+|$", cut).end() :] or cut  # type: ignore[union-attr]  # it matches the end


def _rest_of_sentence(text: str, end: int) -> str:
    """What follows a passage that ends within a sentence, up to its end; empty for one that ends with a sentence."""
    near = max(0, end - _SENTENCE)
    for first, last in sentence_spans(text[near : end + _SENTENCE]):
        if near + first < end < near + last:
            return text[end : min(near + last, end + EDGE)].strip()
    return ""


T = TypeVar("T")


class DocumentCache:
    """Values by document and purpose, the least recently used out first.

    Args:
        most_characters: of all documents that are kept, each counted once for each purpose; no document longer than
            half of it is kept.
    """

    def __init__(self, most_characters: int = 64_000_000) -> None:
        self._most = most_characters
        self._size = 0
        self._kept: OrderedDict[Hashable, tuple[int, object]] = OrderedDict()
        self._lock = Lock()

    def keep(self, document: Document, purpose: Hashable, make: Callable[[], T]) -> T:
        """The value that was kept for this document and purpose, else a new one."""
        key = (asking(), _digest(document), purpose)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return cast("T", self._kept[key][1])
        value = make()  # two threads may both make it: neither waits for the other's document
        size = len(document.text)
        with self._lock:
            if size <= self._most // 2 and key not in self._kept:
                self._kept[key] = (size, value)
                self._size += size
                while self._size > self._most:
                    self._size -= self._kept.popitem(last=False)[1][0]
        return value


def _digest(document: Document) -> bytes:
    """A hash of everything that decides how a document is cut."""
    digest = blake2b(document.text.encode("utf-8", "surrogatepass"))
    for heading in document.headings:
        digest.update(f"\n{heading.offset} {heading.level} {heading.text}".encode("utf-8", "surrogatepass"))
    return digest.digest()
