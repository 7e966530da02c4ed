"""The documents of one request, cut into passages, how a model is shown each, and a cache of the cuts."""

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
_BEGINNING = 300  # characters in the outline, of a document without headings
_SENTENCE = 1_000  # characters that are searched for the sentence at an edge


@dataclass(frozen=True)
class Place:
    """One passage: its document, its range, and its number among all passages, from 1."""

    number: int
    document: int
    chunk: Chunk


@dataclass(frozen=True)
class Library:
    """Documents and their passages. Documents are numbered as in the request.

    Attributes:
        documents: as received.
        titles: one unique line per document.
        fence: a line that occurs in no document. It is the same in all prompts about the same documents, because a
            shared prefix is cached only if it is identical.
        places: the passages, in order.
    """

    documents: tuple[Document, ...]
    titles: tuple[str, ...]
    fence: str
    places: tuple[Place, ...] = ()

    @classmethod
    def of(cls, documents: tuple[Document, ...]) -> Library:
        """Return a library of these documents, not cut yet."""
        return cls(documents, titles_of(documents), fence_for(*(document.text for document in documents)))

    def cut(self, chunks: Iterable[Sequence[Chunk]]) -> Library:
        """Return a library of the same documents with these chunks, given document by document."""
        placed = ((document, chunk) for document, each in enumerate(chunks) for chunk in each)
        places = (Place(number, document, chunk) for number, (document, chunk) in enumerate(placed, start=1))
        return replace(self, places=tuple(places))

    def text(self, place: Place) -> str:
        return place.chunk.text(self.documents[place.document])

    def passage(self, place: Place) -> Passage:
        """Return the passage with the edges of its neighbours, for looking up quotations."""
        start, end = max(0, place.chunk.start - EDGE), place.chunk.end + EDGE
        return Passage(self.documents[place.document].text[start:end], start, (place.chunk.start, place.chunk.end))

    @cached_property
    def tables(self) -> tuple[list[Table], ...]:
        return tuple(tables_of(document.text) for document in self.documents)

    def header(self, document: int, offset: int) -> str:
        """Return the header row of the table whose body contains this offset; empty if there is none."""
        table = table_at(self.tables[document], offset)
        return table.header if table else ""

    def has_table(self, place: Place) -> bool:
        tables = self.tables[place.document]
        return any(table.start < place.chunk.end and table.end > place.chunk.start for table in tables)

    @property
    def longest_header(self) -> str:
        return max((table.header for tables in self.tables for table in tables), key=len, default="")

    def shown(self, place: Place) -> dict[str, str]:
        """Return the template values of a passage: its text, the edges of its neighbours, and the fence.

        ``leading`` is the sentence before it and ``following`` the rest of its last one, fenced, or empty. The first
        row of a table that begins in an earlier passage comes before them.
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
        """Return the citation of the passage with this number; ``None`` if there is none."""
        if not 0 < number <= len(self.places):
            return None
        place = self.places[number - 1]
        return self.citation(number, place.document, place.chunk.start, place.chunk.end)

    def called(self, document: int, start: int, end: int) -> str:
        """Return the name of a passage for people: ``report, p. 12``."""
        return f"{self.titles[document]}, {self.where(document, start, end)}"

    def briefly(self, document: int, start: int, end: int) -> str:
        """Return a short place of a quotation: the document if there are several, and the page if it has pages."""
        title = self.titles[document] if len(self.documents) > 1 else ""
        place = self.where(document, start, end) if self.documents[document].pages else ""
        return ", ".join(each for each in (title, place) if each)

    def where(self, document: int, start: int, end: int) -> str:
        """Return ``p. 12`` or ``chars 100-250``."""
        return self.documents[document].place(start, end)

    def outline(self) -> str:
        """Return an outline of the documents for the readers of passages: titles, headings, and beginnings."""
        parts = []
        room = max(200, OUTLINE // len(self.documents))
        for title, document in zip(self.titles, self.documents, strict=True):
            upper = (heading for heading in document.headings[:_MOST_HEADINGS] if heading.level <= 2)
            headings = "; ".join(one_line(heading.text, 0) for heading in upper)
            head = headings or " ".join(document.text[:_BEGINNING].split())
            parts.append(f'"{title}": {head[:room]}')
        return "\n".join(parts)[: 2 * OUTLINE]

    def citation(self, number: int, document: int, start: int, end: int) -> Citation:
        """Return the citation of a place that prompts show under a number."""
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
    """Return the sentence before a passage, which may name its subject, or the end of a long one."""
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
    """Return the rest of the sentence in which a passage ends; empty if it ends with a sentence."""
    near = max(0, end - _SENTENCE)
    for first, last in sentence_spans(text[near : end + _SENTENCE]):
        if near + first < end < near + last:
            return text[end : min(near + last, end + EDGE)].strip()
    return ""


T = TypeVar("T")


class DocumentCache:
    """An LRU cache of values by document and purpose.

    Args:
        most_characters: total length of the cached documents, each counted once per purpose; no document longer than
            half of it is cached.
    """

    def __init__(self, most_characters: int = 64_000_000) -> None:
        self._most = most_characters
        self._size = 0
        self._kept: OrderedDict[Hashable, tuple[int, object]] = OrderedDict()
        self._lock = Lock()

    def keep(self, document: Document, purpose: Hashable, make: Callable[[], T]) -> T:
        """Return the cached value for this document and purpose, or make and cache a new one."""
        key = (asking(), _digest(document), purpose)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return cast("T", self._kept[key][1])
        value = make()  # two threads can both make it, so neither waits for the other's document
        size = len(document.text)
        with self._lock:
            if size <= self._most // 2 and key not in self._kept:
                self._kept[key] = (size, value)
                self._size += size
                while self._size > self._most:
                    self._size -= self._kept.popitem(last=False)[1][0]
        return value


def _digest(document: Document) -> bytes:
    """Return a hash of everything that decides how a document is cut."""
    digest = blake2b(document.text.encode("utf-8", "surrogatepass"))
    for heading in document.headings:
        digest.update(f"\n{heading.offset} {heading.level} {heading.text}".encode("utf-8", "surrogatepass"))
    return digest.digest()
