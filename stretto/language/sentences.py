"""Find where the sentences of a text begin and end, in any language, even if its lines are wrapped.

sentencex, of the Wikimedia Foundation, finds the ends. It knows the abbreviations of some 300 languages; the false ends
that it still finds are corrected here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import accumulate

import sentencex

from stretto.language import tables_in
from stretto.language.line_ends import pieces
from stretto.language.telling import language_of

_LOOKED_AT = 4_000  # characters of a paragraph at a time: sentencex takes quadratic time if no mark is closed
_BLANK = re.compile(r"\s")
_UNREAD = re.compile("[\ud800-\udfff]")
_NUMBER = re.compile(r"\+?\d|[A-Z]\.|[IVX]+\b")
_NUMBERED = re.compile(
    r"(?:[.§]|[^\W\d_][^\W_]{3})\s{1,9}\d{1,9}\.[\"'”’»)]{0,9}\s{0,9}$"
)  # "Abs. 2.", "Kapitel 3.": not ordinals
_NO_INITIALS = frozenset("IYO")  # words by themselves
_ONLY_MARK = re.compile(r"[^\w。！？]*(?:\(?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,4})[.)]\s*)?")  # "1. ", "a) "
_MISSED = re.compile(r"(?<=\bMay\. )(?=[^\W\d_a-z])|(?<=[！？])(?=[^！？。…”’」』）\s])")  # ends that it misses
_LONGEST_MARK = 10
_URL = re.compile(r"://|www\.|@|/")
_JAPANESE = re.compile(r"[」』）]\s*$")
_GOES_ON_AFTER_SPEECH = re.compile(r"\s*[とっなでがをはもにの、]")
_NEAR = 400  # characters that are read on each side of an end
_ABBREVIATED = 6  # most letters of an abbreviation
_FEWEST_WORDS = 5  # words that a sentence needs for its language to be detected
_SHORT_WORD = 4  # letters of a word that can be an abbreviation if a lower-case letter follows
_ORDINALS = frozenset({"de", "da", "nb", "cs", "fi", "hu", "tr", "pl", "hr", "et"})  # "3." is "the third" there
_OPENING, _CLOSING = "“„«「『（(", "”“»」』）)"
_ANOTHER = "Another one"  # in place of what would follow
_MAY_GO_ON = re.compile(r"\d\.\s*$")
_LONGEST_OPEN = 400  # characters after which an opened mark counts as never closed
_ENDS = frozenset(".!?…。！？।؟۔．")
_AFTER_A_WORD, _AFTER_AN_END = "\"'”’»)]", "\"'”’»)]」』）*_`"


def sentence_spans(text: str, language: str | None = None) -> Iterator[tuple[int, int]]:
    """Yield the span of each sentence of a text in order, without surrounding white space.

    No sentence extends beyond its paragraph, list item, heading, table row or verse. Line ends that only wrap a
    paragraph do not end a sentence.

    Args:
        text: of any length and form.
        language: of the text, as `language_of` names it; by default it is detected.
    """
    spoken = language or language_of(text)
    for begin, piece in pieces(text):
        for first, last in _spans(piece, spoken):
            yield begin + first, begin + last


def sentences(text: str, language: str | None = None) -> list[str]:
    """Return the sentences of a text verbatim, including line wraps."""
    return [text[start:end] for start, end in sentence_spans(text, language)]


def last_sentence(text: str) -> str:
    """Return the last sentence of a text; empty if there is none."""
    spoken = language_of(text)
    for begin, piece in reversed(list(pieces(text))):
        for first, last in reversed(list(_spans(piece, spoken))):
            return text[begin + first : begin + last]
    return ""


def _spans(piece: str, language: str) -> Iterator[tuple[int, int]]:
    """Yield the span of each sentence of a piece."""
    start = 0
    for border in _borders(piece, language):
        part = piece[start:border]
        if stripped := part.strip():
            first = start + len(part) - len(part.lstrip())
            yield first, first + len(stripped)
        start = border


def settled(text: str, language: str) -> int:
    """Return the length of the whole sentences and lines of an unfinished text, whatever follows.

    An end counts once the word after it is complete, since that word decides: "Dr." does not end a sentence, nor does
    anything within an open bracket or quotation. In scripts without spaces, one character decides.
    """
    line_end = text.rfind("\n") + 1
    tail = text[line_end:]
    done = 0
    for border in _borders(tail, language):
        rest = tail[border:]
        decided = rest[:1] > "\u2e80" or (rest.lstrip() and _BLANK.search(rest.lstrip()))
        if not decided or _is_open(tail[:border]):
            break
        done = border
    return line_end + done


def whole_until(text: str, language: str) -> int:
    """Return where the last whole sentence or line of a text that breaks off ends.

    Anything that ends with "1." or "Dr." could have gone on, so it is not whole.
    """
    line_end = text.rfind("\n") + 1
    tail = text[line_end:].rstrip()
    *borders, _ = [0, *_borders(f"{tail} {_ANOTHER}", language)]
    for border in reversed(borders):
        near = tail[max(0, border - _NEAR) : border]
        if _has_ended(near) and not _MAY_GO_ON.search(near):
            return line_end + min(len(tail), border)
    return line_end


def _borders(piece: str, language: str) -> Iterator[int]:
    """Yield the end offset of each sentence of a piece, including the last one."""
    at = begin = 0
    while begin < len(piece):
        window = _plain(piece[begin : begin + _LOOKED_AT])
        last = begin + len(window) >= len(piece)
        found = [
            len(part)
            for sentence in sentencex.segment(language, window)
            for part in (_MISSED.split(sentence) if _MISSED.search(sentence) else (sentence,))
        ]
        if not last:  # the last sentence can go on after the window; one that fills it is cut at a space
            found = found[:-1] or [window.rfind(" ") + 1 or len(window)]
        for length in found:
            begin += length
            if begin == len(piece) or (begin > at and _is_border(piece, at, begin, language)):
                yield begin
                at = begin


def _plain(text: str) -> str:
    """Return a text of the same length without what sentencex fails on."""
    return _UNREAD.sub("\ufffd", _BLANK.sub(" ", text))


def _is_border(text: str, start: int, end: int, language: str) -> bool:
    """Return whether a sentence end found by sentencex is real."""
    start = max(start, end - _NEAR)
    before, after = _plain(text[start:end]), _plain(text[end : end + _NEAR])
    if end - start < _LONGEST_MARK and _ONLY_MARK.fullmatch(before):
        return False
    if _JAPANESE.search(before):
        return not _GOES_ON_AFTER_SPEECH.match(after)
    token = _last_token(before)
    if token and token[-1] in ".!?…" and not before[-1:].isspace() and not after[:1].isspace():
        return after[:1] > "\u2e80"  # "System.IO", "main.py:3"
    return token[-1:] != "." or not _is_abbreviated(token, before, after, language)


def _last_token(text: str) -> str:
    """Return the last word of a text with its full stop, without closing marks after it; empty if there is none."""
    word = (text.rsplit(maxsplit=1) or [""])[-1]
    return word.rstrip(_AFTER_A_WORD) or word[:1]


def _has_ended(text: str) -> bool:
    """Return whether a text ends with a whole sentence or line."""
    stripped = text.rstrip()
    return "\n" in text[len(stripped) :] or stripped.rstrip(_AFTER_AN_END)[-1:] in _ENDS


def _is_abbreviated(token: str, before: str, after: str, language: str) -> bool:
    """Return whether the full stop of the last word of ``before`` most likely does not end a sentence."""
    word = token.strip("\"'“„«([.").replace("’", "'").rpartition("'")[2]
    following = after.lstrip(" \"'“„«([")
    if following[:1].islower():  # a sentence only in text without any capital letters
        ends = before.lstrip()[:1].islower() and len(word) > _SHORT_WORD and "." not in word and not _URL.search(word)
        return not ends
    initial = word.rpartition("-")[2]
    if len(initial) == 1 and initial.isalpha() and not initial.islower():
        return initial not in _NO_INITIALS
    numbers, names = _abbreviations()
    last = word.casefold().rpartition("-")[2]  # of "Dr.-Ing."
    if last in names or (_NUMBER.match(following) and (last in numbers or last.endswith("str"))):
        return True
    doubtful = len(word) <= _ABBREVIATED and before.count(" ") >= _FEWEST_WORDS
    spoken = language_of(before, otherwise=language) if doubtful else language
    if spoken in _ORDINALS and word.isdecimal() and len(word) <= 2 and not _NUMBERED.search(before):
        return True
    # A sentence in a language other than the text around it ends where it does in both.
    return spoken != language and len(before) not in accumulate(map(len, sentencex.segment(spoken, before + after)))


@cache
def _abbreviations() -> tuple[frozenset[str], frozenset[str]]:
    """Return the abbreviations before a number, and those before anything."""
    tables = tables_in("abbreviations.toml")
    return frozenset(tables["numbers"].split()), frozenset(tables["names"].split())


def _is_open(text: str) -> bool:
    """Return whether a recently opened bracket or quotation mark is still open."""
    near = text[-_LONGEST_OPEN:]
    opened = sum(near.count(mark) for mark in _OPENING) - sum(near.count(mark) for mark in _CLOSING if mark != "“")
    return opened > 0 or near.count('"') % 2 == 1
