"""Finds where a quotation stands in a passage."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cached_property

from stretto.strategies.document.citations.typography import Plain, plain

__all__ = ["Passage"]

_NUMBER = re.compile(r"\d[\d.,'’]*")
_ONE_NUMBER = re.compile(r"\d+(?:[.,'’]\d{3})*(?:[.,]\d+)?")  # and no date or list: 1.250,50
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")


class Passage:
    """A text in which quotations are looked up: letter by letter first, then without what typesetting adds.

    Whole words are preferred to parts of words, and places in ``own`` to those in the neighbouring passages. No place
    begins or ends within a number: "250" does not stand in "1.250".

    Args:
        text: of the passage, with the edges of its neighbours.
        start: offset of the text in its document.
        own: range of the passage itself in its document; without it, all of the text.
    """

    def __init__(self, text: str, start: int = 0, own: tuple[int, int] | None = None) -> None:
        self.text = text
        self.start = start
        self._own = (own[0] - start, own[1] - start) if own else (0, len(text))

    def find(self, quote: str, taken: Collection[tuple[int, int]] = ()) -> tuple[int, int] | None:
        """The place of ``quote`` in the document, apart from those ``taken`` if it can be; ``None`` if nowhere."""
        place = self._find(quote.strip(), {(start - self.start, end - self.start) for start, end in taken})
        return place and (self.start + place[0], self.start + place[1])

    def _find(self, quote: str, taken: set[tuple[int, int]]) -> tuple[int, int] | None:
        if not quote:
            return None
        if found := self._best(_places(re.escape(quote), self.text, len(quote)), taken):
            return found
        wanted = plain(quote)
        if not any(character.isalnum() for character in wanted):
            return None
        return self._best([self._plain.span(*span) for span in self._plain_places(wanted)], taken)

    def _best(self, spans: list[tuple[int, int]], taken: set[tuple[int, int]]) -> tuple[int, int] | None:
        """The first in the passage itself that is apart from what is taken, else the first in it, else the first."""
        first, last = self._own
        own = [span for span in spans if span[0] < last and span[1] > first]
        free = (span for span in own if span not in taken and not _overlaps(span, taken))
        return next(free, own[0] if own else spans[0] if spans else None)

    @cached_property
    def _plain(self) -> Plain:
        return Plain(self.text)

    def _plain_places(self, wanted: str) -> Iterator[tuple[int, int]]:
        """Where a plain quotation stands in the plain text. Its hyphen may be one at a line end there."""
        text, breaks = self._plain.text, self._plain.breaks
        parts = [re.escape(part) for part in _HYPHEN.split(wanted)] if breaks else [re.escape(wanted)]
        for start, end in _places("-?".join(parts), text, len(wanted)):
            if len(parts) == 1 or _hyphens_held(wanted, text, start, breaks):
                yield start, end


def _hyphens_held(wanted: str, text: str, start: int, breaks: frozenset[int]) -> bool:
    """Whether each hyphen of a quotation that its place lacks stands at a line end there."""
    at = start
    for character in wanted:
        if text[at : at + 1] == character:
            at += 1
        elif character != "-" or at not in breaks:
            return False
    return True


def _overlaps(span: tuple[int, int], taken: set[tuple[int, int]]) -> bool:
    return any(span[0] < end and span[1] > start for start, end in taken)


def _places(pattern: str, text: str, length: int) -> list[tuple[int, int]]:
    """Where a pattern stands, as whole words; if nowhere so, also within words, unless it is a single character."""
    whole = _uncut(rf"(?<!\w)(?:{pattern})(?!\w)", text)
    return whole or (_uncut(pattern, text) if length > 1 else [])


def _uncut(pattern: str, text: str) -> list[tuple[int, int]]:
    """The places of a pattern that cut no number."""
    found = [match.span() for match in re.finditer(pattern, text)]
    if not found or not any(
        text[start].isdecimal() or text[end - 1].isdecimal() for start, end in found if end > start
    ):
        return [span for span in found if span[1] > span[0]]
    numbers = [match.span() for match in _NUMBER.finditer(text) if _ONE_NUMBER.fullmatch(match[0].rstrip(".,'’"))]
    cuts = {at for start, end in numbers for at in range(start + 1, start + len(text[start:end].rstrip(".,'’")))}
    return [(start, end) for start, end in found if start not in cuts and end not in cuts]
