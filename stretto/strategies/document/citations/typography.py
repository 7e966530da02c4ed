"""Texts without what typesetting adds: a model that copies a sentence letter by letter copies none of it.

Left out are the ways to write one character (Unicode's compatibility forms, accents apart from their letters,
ligatures, full-width digits), soft hyphens and characters of no width, kinds of dashes and quotation marks, Markdown's
marks, bars of tables, and line ends within a sentence or a word. No letter, no digit and no mark between digits is.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from functools import lru_cache

from stretto.language.line_ends import WITHOUT_BLANKS

__all__ = ["Plain", "plain"]

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
    # Markdown's marks of emphasis and code, but not those between letters and digits (2*3, a_name) or alone (a * b)
    rf"(?P<mark>(?<=[^\s*_`~])(?:{_MARK})(?=\s|\Z)"
    rf"|(?<=[A-Za-z0-9)])(?:{_MARK})(?![A-Za-z0-9(*_`~])|(?<![A-Za-z0-9)*_`~\s])(?:{_MARK})(?=\S)"
    rf"|(?<=\s)(?:{_MARK})(?=[^\s*_`~])|\A(?:{_MARK})(?=[^\s*_`~])"
    r"|\[(?=[^\[\]\n]{1,200}\]\([^()\s]{1,500}\))|(?<=[^\[\]\n])\]\([^()\s]{1,500}\))"
    r"|(?P<escaped>\\[*_`~#\[\]|<>$.!(){}+-])"
    # a hyphen at a line end, or where the line end was made a blank, goes on with the word
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
_TATWEEL = "\u0640"  # makes a line of Arabic longer
_NUMERIC_FORMS = ("<super>", "<sub>", "<fraction>", "<circle>", "<square>", "<compat>")
_IN_VAIN = re.compile(
    # blanks that typesetters add: before a mark, within quotation marks, beside a sign, between initials
    r" (?=[?!:;%°€\"])|(?<=[\"§№]) |(?<=[€£$]) (?=\d)|(?<=\b[^\W\d_]\.) (?=[^\W\d_]\.)"
    rf"|(?<= ) |\A | \Z|(?<=[{WITHOUT_BLANKS}\uac00-\ud7a3，。！？；：、]) | (?=[{WITHOUT_BLANKS}，。！？；：、])"
)


class Plain:
    """A text without what typesetting adds, and where each of its characters stands.

    Attributes:
        text: with single blanks, and none that are only set, as beside letters of scripts that are written without.
        breaks: offsets in it where a word goes on behind a hyphen at a line end, which may be the word's own.
    """

    def __init__(self, text: str) -> None:
        made: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        breaks: list[int] = []

        def put(said: str, start: int, end: int, *, each: bool = False) -> None:
            made.extend(said)
            starts.extend(range(start, end) if each else [start] * len(said))
            ends.extend(range(start + 1, end + 1) if each else [end] * len(said))

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
                put(_said(found), found.start(), at)
        put(text[at:], at, len(text), each=True)
        said = "".join(made)
        gaps = {match.start() for match in _IN_VAIN.finditer(said)}
        kept = [place for place in range(len(made)) if place not in gaps] if gaps else range(len(made))
        self.text = "".join(made[place] for place in kept) if gaps else said
        self._starts = [starts[place] for place in kept] if gaps else starts
        self._ends = [ends[place] for place in kept] if gaps else ends
        moved = sorted(gaps)
        self.breaks = frozenset(each - bisect_left(moved, each) for each in breaks)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where in the text itself a range of the plain one stands."""
        return self._starts[start], self._ends[end - 1]


def plain(text: str) -> str:
    """A text without what typesetting adds."""
    return Plain(text).text


def _said(found: re.Match[str]) -> str:
    """What a character or a mark becomes."""
    group = str(found.lastgroup)
    if group in _BECOMES:
        return _BECOMES[group]
    if group == "escaped":
        return found[0][1]
    if group in ("accented", "jamo"):
        return unicodedata.normalize("NFKC", found[0])
    said = _character(found[0])
    if said != found[0] and any(each.isdecimal() for each in said) and _is_numeric_form(found[0]):
        before, behind = found.string[: found.start()][-1:], found.string[found.end() :][:1]
        if before.isdecimal() or behind.isdecimal():  # a power is no further digit
            return f" {said}" if "/" in said and not behind.isdecimal() else found[0]
    return said


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
    said = unicodedata.normalize("NFKC", character).replace("\u2044", "/")
    return said.replace("\u2032", "'").replace("\u2212", "-")


def _is_numeric_form(character: str) -> bool:
    return unicodedata.decomposition(character).startswith(_NUMERIC_FORMS)
