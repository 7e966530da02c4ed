"""Finds the position of a quotation in a passage, ignoring what typesetting adds and models do not copy.

Ignored are variants of one character (Unicode compatibility forms, combining accents, ligatures, full-width digits),
soft hyphens and zero-width characters, kinds of dashes and quotation marks, Markdown markup, table bars, and line ends
within a sentence or a word. Letters, digits and marks between digits are never ignored.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Collection, Iterator
from functools import cached_property, lru_cache

from stretto.language.line_ends import WITHOUT_BLANKS

_NUMBER = re.compile(r"\d[\d.,'’]*")
_ONE_NUMBER = re.compile(r"\d+(?:[.,'’]\d{3})*(?:[.,]\d+)?")  # but no date or list: 1.250,50
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")


class Passage:
    """A text in which quotations are looked up: verbatim first, then without what typesetting adds.

    Whole words are preferred to parts of words, and places in ``own`` to those in the neighbouring passages. No match
    begins or ends within a number: "250" is not found in "1.250".

    Args:
        text: the passage, with the edges of its neighbours.
        start: offset of the text in its document.
        own: range of the passage itself in its document; by default, the whole text.
    """

    def __init__(self, text: str, start: int = 0, own: tuple[int, int] | None = None) -> None:
        self.text = text
        self.start = start
        self._own = (own[0] - start, own[1] - start) if own else (0, len(text))

    def find(self, quote: str, taken: Collection[tuple[int, int]] = ()) -> tuple[int, int] | None:
        """Return the range of ``quote`` in the document, outside those ``taken`` if possible; ``None`` if absent."""
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
        """Return the first free span in the passage itself, else the first in it, else the first of all."""
        first, last = self._own
        own = [span for span in spans if span[0] < last and span[1] > first]
        free = (span for span in own if span not in taken and not _overlaps(span, taken))
        return next(free, own[0] if own else spans[0] if spans else None)

    @cached_property
    def _plain(self) -> _Plain:
        return _Plain(self.text)

    def _plain_places(self, wanted: str) -> Iterator[tuple[int, int]]:
        """Yield the ranges of a plain quotation in the plain text, where its hyphen may be one at a line end."""
        text, breaks = self._plain.text, self._plain.breaks
        parts = [re.escape(part) for part in _HYPHEN.split(wanted)] if breaks else [re.escape(wanted)]
        for start, end in _places("-?".join(parts), text, len(wanted)):
            if len(parts) == 1 or _hyphens_kept(wanted, text, start, breaks):
                yield start, end


def _hyphens_kept(wanted: str, text: str, start: int, breaks: frozenset[int]) -> bool:
    """Return whether each hyphen of a quotation that its place lacks is at a line end there."""
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
    """Return the matches of a pattern as whole words; if none, also within words, unless it is one character."""
    whole = _uncut(rf"(?<!\w)(?:{pattern})(?!\w)", text)
    return whole or (_uncut(pattern, text) if length > 1 else [])


def _uncut(pattern: str, text: str) -> list[tuple[int, int]]:
    """Return the matches of a pattern that do not cut a number."""
    found = [match.span() for match in re.finditer(pattern, text)]
    if not found or not any(
        text[start].isdecimal() or text[end - 1].isdecimal() for start, end in found if end > start
    ):
        return [span for span in found if span[1] > span[0]]
    numbers = [match.span() for match in _NUMBER.finditer(text) if _ONE_NUMBER.fullmatch(match[0].rstrip(".,'’"))]
    cuts = {at for start, end in numbers for at in range(start + 1, start + len(text[start:end].rstrip(".,'’")))}
    return [(start, end) for start, end in found if start not in cuts and end not in cuts]


_ACCENTS = (
    "\u0300-\u036f\u0653-\u0655\u093c\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe20-\ufe2f\uff9e\uff9f"
)
_AS_IT_IS = (
    "\x00-\x7f\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u0131\u0134-\u013e\u0141-\u0148\u014a-\u017e\u0386-\u03ce\u0400-\u0482\u048a"
    "-\u04ff\u05d0-\u05ea\u0621-\u063f\u0641-\u064a\u064b-\u0652\u0660-\u0669\u0904-\u0939\u0e01-\u0e30\u3001-\u3007\u3041-\u3096"
    "\u30a1-\u30fc\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
)
_MARK = r"\*{1,3}|_{1,3}|~~|`{1,3}"
_ADDED = re.compile(
    # Markdown emphasis and code marks, but not between letters and digits (2*3, a_name) or alone (a * b)
    rf"(?P<mark>(?<=[^\s*_`~])(?:{_MARK})(?=\s|\Z)"
    rf"|(?<=[A-Za-z0-9)])(?:{_MARK})(?![A-Za-z0-9(*_`~])|(?<![A-Za-z0-9)*_`~\s])(?:{_MARK})(?=\S)"
    rf"|(?<=\s)(?:{_MARK})(?=[^\s*_`~])|\A(?:{_MARK})(?=[^\s*_`~])"
    r"|\[(?=[^\[\]\n]{1,200}\]\([^()\s]{1,500}\))|(?<=[^\[\]\n])\]\([^()\s]{1,500}\))"
    r"|(?P<escaped>\\[*_`~#\[\]|<>$.!(){}+-])"
    # a hyphen at a line end, or where the line end became a space, continues the word
    r"|(?P<hyphen>(?<=[^\W_])[-\u2010\u2011\u00ad](?:[^\S\n]*\n[\s>]*|[ \t]+)(?=[^\W_]))"
    r"|(?P<rule>\|?(?:[ \t]*:?-{2,}:?[ \t]*\|)+(?:[ \t]*:?-{2,}:?)?)"
    r"|(?P<blank>[\s|]*\n[^\S\n]*(?:>[> \t]*|#{1,6}[ \t]+|[-*+\u2022][ \t]+)?[\s|]*|[\s|]+)"
    rf"|(?P<accented>[^\s{_ACCENTS}][{_ACCENTS}]+)|(?P<jamo>[\u1100-\u115f][\u1160-\u11a7]?[\u11a8-\u11ff]?)"
    rf"|(?P<dots>\.{{3,}})|(?P<dashes>-{{2,}})|(?P<quotes>``|'')|(?P<backtick>`)|(?P<other>[^{_AS_IT_IS}])"
)
_BECOMES = {"mark": "", "rule": " ", "blank": " ", "dots": "...", "dashes": "-", "quotes": '"', "backtick": "'"}
_DASHES = frozenset("\u00ad\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\ufe58\ufe63\uff0d\u2e3a\u2e3b")
_DOUBLE = frozenset("“”„‟«»″‴〝〞〟＂「」『』❝❞")
_SINGLE = frozenset("‘’‚‛‹›′´ʹʼˊ＇❛❜")
_NO_WIDTH = frozenset({"Cf", "Cc"})
_TATWEEL = "\u0640"  # stretches a line of Arabic
_NUMERIC_FORMS = ("<super>", "<sub>", "<fraction>", "<circle>", "<square>", "<compat>")
_IN_VAIN = re.compile(
    # spaces that typesetters add: before a mark, within quotation marks, next to a sign, between initials
    r" (?=[?!:;%°€\"])|(?<=[\"§№]) |(?<=[€£$]) (?=\d)|(?<=\b[^\W\d_]\.) (?=[^\W\d_]\.)"
    rf"|(?<= ) |\A | \Z|(?<=[{WITHOUT_BLANKS}\uac00-\ud7a3，。！？；：、]) | (?=[{WITHOUT_BLANKS}，。！？；：、])"
)


class _Plain:
    """A text without what typesetting adds, and the original position of each of its characters.

    Attributes:
        text: with single spaces, and without those that are only typographic, as in scripts without spaces.
        breaks: offsets in it where a word continues after a hyphen at a line end, which may belong to the word.
    """

    def __init__(self, text: str) -> None:
        made: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        breaks: list[int] = []

        def put(characters: str, start: int, end: int, *, each: bool = False) -> None:
            made.extend(characters)
            starts.extend(range(start, end) if each else [start] * len(characters))
            ends.extend(range(start + 1, end + 1) if each else [end] * len(characters))

        at = 0
        for found in _ADDED.finditer(text):
            put(text[at : found.start()], at, found.start(), each=True)
            at = found.end()
            if found["hyphen"]:
                if "\n" in found[0] and text[found.start() - 1].isalpha() and text[at].isalpha():
                    breaks.append(len(made))
                elif found[0][0] != "\u00ad":
                    put("-", found.start(), found.start() + 1)
            else:
                put(_replacement(found), found.start(), at)
        put(text[at:], at, len(text), each=True)
        joined = "".join(made)
        gaps = {match.start() for match in _IN_VAIN.finditer(joined)}
        kept = [place for place in range(len(made)) if place not in gaps] if gaps else range(len(made))
        self.text = "".join(made[place] for place in kept) if gaps else joined
        self._starts = [starts[place] for place in kept] if gaps else starts
        self._ends = [ends[place] for place in kept] if gaps else ends
        moved = sorted(gaps)
        self.breaks = frozenset(each - bisect_left(moved, each) for each in breaks)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the range in the original text for a range of the plain text."""
        return self._starts[start], self._ends[end - 1]


def plain(text: str) -> str:
    """Return a text without what typesetting adds."""
    return _Plain(text).text


def _replacement(found: re.Match[str]) -> str:
    """Return the replacement of a character or mark."""
    group = str(found.lastgroup)
    if group in _BECOMES:
        return _BECOMES[group]
    if group == "escaped":
        return found[0][1]
    if group in ("accented", "jamo"):
        return unicodedata.normalize("NFKC", found[0])
    character = _character(found[0])
    if character != found[0] and any(each.isdecimal() for each in character) and _is_numeric_form(found[0]):
        before, after = found.string[: found.start()][-1:], found.string[found.end() :][:1]
        if before.isdecimal() or after.isdecimal():  # an exponent is not another digit
            return f" {character}" if "/" in character and not after.isdecimal() else found[0]
    return character


@lru_cache(maxsize=4096)
def _character(character: str) -> str:
    if character in _DASHES:
        return "-" if character != "\u00ad" else ""
    if character in _DOUBLE:
        return '"'
    if character in _SINGLE:
        return "'"
    kind = unicodedata.category(character)
    if kind in _NO_WIDTH or character == _TATWEEL or "\ufe00" <= character <= "\ufe0f":
        return ""
    normalized = unicodedata.normalize("NFKC", character).replace("\u2044", "/")
    return normalized.replace("\u2032", "'").replace("\u2212", "-")


def _is_numeric_form(character: str) -> bool:
    return unicodedata.decomposition(character).startswith(_NUMERIC_FORMS)
