"""Turns the marks in an answer into citations while it streams.

A model is asked for marks such as ``[cite:3]``, which do not occur in texts. If it writes ``[3]`` instead, that counts
where nothing else can be meant: after a statement, outside of code, and only if neither the prompt nor an earlier
mark rules it out. All other text in square brackets stays as it is: ``[2019] UKSC 41``, ``arr[10]``, ``[0, 1]``,
links and footnotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, cached_property

from stretto.language.telling import languages
from stretto.values.citation import Citation

_MARKS = ("cite", "quoted", "proof")
_LONGEST = 400  # characters of a mark
_MOST = 50  # numbers in one mark
_BEFORE = 80  # characters of the line that are looked at
_PARTS = re.compile(r"[,;]")
_NUMBER = re.compile(r"\s*(\d{1,6})\s*")
_RANGE = re.compile(r"\s*(\d{1,6})\s*[-–]\s*(\d{1,6})\s*")
_PLAIN = frozenset(" \t,;-–0123456789")
_MARKED = re.compile(
    r" ?\[(?:cite|quoted|proof)[a-z]{0,2}[:# ]?[\d\s,;–-]{0,400}\]| ?\[[a-z]{0,9}[:# ]?[\d ,;–-]{0,400}\Z",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r"\[(?P<body>[^\[\]\n]{1,400})\]")
_NAMED = re.compile(
    r"\b(?:findings?|quotations?|passages?|sources?)[ :#]{1,3}(?P<numbers>\d[\d ,;–-]{0,200})", re.IGNORECASE
)
_BETWEEN = re.compile(r"[ \t:#]+")
_LEAD = re.compile(r"^[\s>*+#-]*(?:\d{1,3}[.)])?\s*")  # of a list item, or of a heading
_LAST_WORD = re.compile(r"(?<![^\W\d_])[^\W\d_]+$")
_CLOSING = frozenset(".,;!?)\"'”’»%€£°…*。，；！？」』）》")
_FOLLOWING = frozenset(" \t\r\n|.,;:!?)\"'”’»*[。，；：！？」』）》")
_CITED = "\0"  # replaces a citation in the remembered part of the line
# After these words, brackets contain other numbers. Stop words of all languages are added: "lies in [1, 2]".
_OWN = frozenset(
    {"array", "between", "equals", "index", "interval", "list", "matrix", "range", "set", "slice", "tuple", "vector"}
    | {"entre", "intervall", "intervalle", "intervallo", "intervalo", "lista", "liste", "menge", "tableau", "zwischen"}
)


def mark_for(texts: Iterable[str]) -> str:
    """Return a word for marks that does not occur in square brackets in any of these texts."""
    texts = tuple(texts)
    names = [
        *_MARKS,
        *(f"{_MARKS[0]}{chr(97 + first)}{chr(97 + second)}" for first in range(26) for second in range(26)),
    ]
    free = (name for name in names if not any(f"[{each}" in text for text in texts for each in _forms(name)))
    return next(free, names[-1])


def labelled(mark: str, number: int) -> str:
    """Return the label of a source in a prompt: ``[cite:3]``, or ``[3]`` for a model that was trained on it."""
    return f"[{mark}:{number}]" if mark else f"[{number}]"


def numbers_named(text: str, mark: str) -> set[int]:
    """Return all source numbers that a note names: in marks, bare in brackets, or as in "findings 3, 7-9"."""
    found: set[int] = set()
    for each in _BRACKETS.finditer(text):
        found.update(_numbers(_BETWEEN.sub("", _unmarked(each["body"], mark))) or ())
    for each in _NAMED.finditer(text):
        found.update(_numbers(each["numbers"].replace(" ", "").rstrip(",;-–")) or ())
    return found


def without_marks(text: str) -> str:
    """Return a part without its marks, for display before it joins the answer; the last mark may be incomplete."""
    return _MARKED.sub("", text)


def _forms(mark: str) -> tuple[str, str]:
    return mark, mark.capitalize()


def _unmarked(body: str, mark: str) -> str:
    for form in _forms(mark):
        body = body.replace(form, "")
    return body


class CitationFilter:
    """A filter for the merge: ``[cite:3]`` becomes ``[report, p. 12]``.

    It reads character by character, so the result does not depend on how the stream was chunked.

    Args:
        resolve: returns the citation for a number; ``None`` if there is none.
        mark: the word of a mark; empty for a model that was trained to write bare numbers.
        prompt: what the model was shown. A number in brackets there is not a citation.

    Attributes:
        citations: in order of first appearance, each once.
        unknown: how many numbers in marks have no citation; they were left out.
    """

    def __init__(self, resolve: Callable[[int], Citation | None], *, mark: str = "", prompt: str = "") -> None:
        self._resolve = resolve
        self._mark = mark
        self._prompt = prompt
        self._buffer = ""  # an open bracket and the text after it
        self._closed = False  # the bracket is closed, and the next character decides
        self._line = ""  # the end of the line so far
        self._begin = ""  # the beginning of the line, without white space
        self._fenced = self._inline = self._marked = False
        self.citations: list[Citation] = []
        self.unknown = 0
        self._cited_places: set[tuple[int, int, int]] = set()

    def feed(self, text: str) -> str:
        return "".join(self._take(character) for character in text)

    def finish(self) -> str:
        return self._settled("") if self._closed else self._released()

    def _take(self, character: str) -> str:
        shown = self._settled(character) if self._closed else ""
        if not self._buffer:
            return shown + self._pass(character)
        if character == "]":
            self._buffer += character
            found = self._marked_numbers(self._buffer[1:-1])
            if found is not None:
                self._buffer, self._marked = "", True
                return shown + self._cited(found)
            self._closed = True
            return shown
        candidate = self._buffer + character
        if len(candidate) <= _LONGEST and self._may_become(candidate[1:]):
            self._buffer = candidate
            return shown
        return shown + self._released() + self._pass(character)

    def _pass(self, character: str) -> str:
        """Pass on a character outside of marks, or hold back one that may open a mark."""
        if character == "[":
            self._buffer = character
            return ""
        self._remember(character)
        return character

    def _released(self) -> str:
        text, self._buffer = self._buffer, ""
        for character in text:
            self._remember(character)
        return text

    def _remember(self, character: str) -> None:
        """Track what decides whether the next number is a citation: the line so far, and whether it is code."""
        if character == "\n":
            self._line, self._begin, self._inline = "", "", False
            return
        if character == "`" and self._line[-1:] != "`":
            self._inline = not self._inline
        self._line = (self._line + character)[-_BEFORE:]
        if len(self._begin) < 3 and not character.isspace():
            self._begin += character
            if self._begin in ("```", "~~~"):
                self._fenced, self._inline = not self._fenced, False

    def _may_become(self, body: str) -> bool:
        """Return whether an open bracket with this content can still become a mark."""
        if not body.strip(" \t") or _PLAIN.issuperset(body):
            return True
        if not self._mark:
            return False
        for form in _forms(self._mark):
            rest = body.replace(form, "")
            begun = rest.rstrip(form) if rest[-1:].isalpha() else rest
            if form.startswith(rest[len(begun) :]) and _PLAIN.issuperset(begun.replace(":", "").replace("#", "")):
                return True
        return False

    def _marked_numbers(self, body: str) -> list[int] | None:
        """Return the numbers of a mark in the requested form; ``None`` if it is not one."""
        if not self._mark:
            return None
        plain = _unmarked(body, self._mark)
        return None if plain == body else _numbers(_BETWEEN.sub("", plain))

    def _settled(self, following: str) -> str:
        """Return the text for a closed bracket that is not in the requested form: a citation, or the bracket itself."""
        self._closed = False
        found = _numbers(self._buffer[1:-1])
        if found and self._is_citation(following) and all(self._resolve(number) for number in found):
            self._buffer = ""
            return self._cited(found)
        return self._released()

    def _is_citation(self, following: str) -> bool:
        """Return whether a bare number in brackets can only be a citation."""
        if self._marked or self._fenced or self._inline:
            return False
        if following and following not in _FOLLOWING and following.isascii():
            return False
        before = self._line.rstrip(" \t")
        if not _LEAD.sub("", before, count=1) or (
            before[-1] not in _CLOSING and before[-1] != _CITED and not before[-1].isalnum()
        ):
            return False
        attached = len(before) == len(self._line)
        if attached and before[-1].isascii() and before[-1] not in f'.!?"{_CITED}':
            return False  # arr[10], f(x)[1]
        word = _LAST_WORD.search(before)
        if word and word[0].casefold() in _own_words():
            return False
        return not self._mark or "".join(self._buffer.split()) not in self._compact

    @cached_property
    def _compact(self) -> str:
        return "".join(self._prompt.split())

    def _cited(self, numbers: Iterable[int]) -> str:
        labels: list[str] = []
        for number in numbers:
            citation = self._resolve(number)
            if citation is None:
                self.unknown += 1
                continue
            place = (citation.document, citation.start, citation.end)
            if place not in self._cited_places:
                self._cited_places.add(place)
                self.citations.append(citation)
            if citation.label not in labels:
                labels.append(citation.label)
        if labels:
            self._remember(_CITED)
        return "".join(labels)


@cache
def _own_words() -> frozenset[str]:
    return _OWN.union(*languages().small.values())


def _numbers(body: str) -> list[int] | None:
    """Return the numbers of a list or a range, in order; ``None`` if it is neither."""
    found: list[int] = []
    for part in _PARTS.split(body):
        if single := _NUMBER.fullmatch(part):
            found.append(int(single[1]))
        elif span := _RANGE.fullmatch(part):
            first, last = int(span[1]), int(span[2])
            if not first < last < first + _MOST:
                return None
            found += range(first, last + 1)
        else:
            return None
    return found if len(found) <= _MOST else None
