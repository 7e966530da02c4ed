"""The documents of one request, cut into passages, and how each passage is shown to a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stretto.citation import Citation
from stretto.document import Document
from stretto.documents import Chunk, cut
from stretto.strategies.document.quoting import Passage, fence_for, one_line
from stretto.strategies.document.sizes import EDGE, OUTLINE

__all__ = ["Library", "Place"]


@dataclass(frozen=True)
class Place:
    """One passage: its document, its range, and its number among all passages, from 1."""

    number: int
    document: int
    chunk: Chunk


class Library:
    """Documents and passages. Numbers of documents are those of the request."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents
        self.titles = [one_line(document.title, number) for number, document in enumerate(documents)]
        # One for all prompts: what they share is cached only if it is the same to the letter.
        self.fence = fence_for(*(document.text for document in documents))
        self.places: list[Place] = []

    def cut(self, size: int, count: Callable[[str], int], share: Callable[[str], float] | None = None) -> None:
        """Cut all documents into passages of at most ``size`` tokens."""
        self.places = [
            Place(0, index, chunk)
            for index, document in enumerate(self.documents)
            for chunk in cut(document, size, count, share=share)
        ]
        self.places = [Place(number, each.document, each.chunk) for number, each in enumerate(self.places, start=1)]

    def text(self, place: Place) -> str:
        """The passage."""
        return place.chunk.text(self.documents[place.document])

    def passage(self, place: Place) -> Passage:
        """The passage with the edges of its neighbours, to look quotations up in."""
        start, end = max(0, place.chunk.start - EDGE), place.chunk.end + EDGE
        return Passage(self.documents[place.document].text[start:end], start)

    def shown(self, place: Place) -> dict[str, str]:
        """The values that templates show of a passage: its text, the edges of its neighbours, and the fence."""
        document, chunk = self.documents[place.document], place.chunk
        text = self.text(place)
        before = document.text[max(0, chunk.start - EDGE) : chunk.start].lstrip()
        after = document.text[chunk.end : chunk.end + EDGE].rstrip()
        return {
            "fence": self.fence,
            "passage": text,
            "before": before,
            "after": after,
            "number": str(place.number),
            "total": str(len(self.places)),
            "title": f'"{self.titles[place.document]}", {self.where(place.document, chunk.start, chunk.end)}',
        }

    def where(self, document: int, start: int, end: int) -> str:
        """``p. 12`` or ``chars 100-250``."""
        return self.documents[document].place(start, end)

    def outline(self) -> str:
        """What every reader of a passage is told of the whole: titles, headings, and how the documents begin."""
        parts = []
        room = max(200, OUTLINE // len(self.documents))
        for title, document in zip(self.titles, self.documents, strict=True):
            headings = "; ".join(one_line(heading.text, 0) for heading in document.headings[:40] if heading.level <= 2)
            head = headings or " ".join(document.text[:room].split())
            parts.append(f'"{title}": {head[:room]}')
        return "\n".join(parts)[: 2 * OUTLINE]

    def citation(self, document: int, start: int, end: int) -> Citation:
        """The citation of a place."""
        title = self.titles[document]
        return Citation(
            label=f"[{title}, {self.where(document, start, end)}]",
            title=title,
            source=self.documents[document].source,
            document=document,
            start=start,
            end=end,
            quote=self.documents[document].text[start:end],
        )
