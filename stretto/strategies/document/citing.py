"""Turns the numbers in square brackets of an answer into citations, while it streams."""

from __future__ import annotations

import re
from collections.abc import Callable

from stretto.citation import Citation

__all__ = ["CitationFilter"]

_NUMBERS = re.compile(r"\[\s*(\d{1,6}(?:\s*[,;]\s*\d{1,6})*)\s*\]")
_OPEN = re.compile(r"\[[\d\s,;]{0,80}$")


class CitationFilter:
    """A filter of the merge: ``[3]`` becomes ``[report, p. 12]``; a number that no finding has is dropped and counted.

    Attributes:
        citations: in the order in which they appear, each once.
        unknown: numbers that were dropped.
    """

    def __init__(self, resolve: Callable[[int], Citation | None]) -> None:
        self._resolve = resolve
        self._held = ""
        self.citations: list[Citation] = []
        self.unknown = 0
        self._cited_places: set[tuple[int, int, int]] = set()

    def feed(self, text: str) -> str:
        """Take new text; return what can be shown already."""
        text = self._held + text
        held = _OPEN.search(text)
        self._held = text[held.start() :] if held else ""
        return _NUMBERS.sub(self._cited, text[: held.start()] if held else text)

    def finish(self) -> str:
        """Return what was held back."""
        text, self._held = self._held, ""
        return text

    def _cited(self, found: re.Match[str]) -> str:
        labels: list[str] = []
        for digits in re.findall(r"\d+", found[1]):
            citation = self._resolve(int(digits))
            if citation is None:
                self.unknown += 1
                continue
            place = (citation.document, citation.start, citation.end)
            if place not in self._cited_places:
                self._cited_places.add(place)
                self.citations.append(citation)
            if citation.label not in labels:
                labels.append(citation.label)
        return "".join(labels)
