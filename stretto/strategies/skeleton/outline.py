"""Parse an outline while it streams: a point is known as soon as its line is complete.

Numbered and bulleted lines of any script are points. The first one sets the marker and depth of all; lines with other
markers, and deeper ones, belong to a point.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import NamedTuple

from stretto.router.obstacles import MOST_POINTS
from stretto.strategies.quality.titles import is_placeholder
from stretto.strategies.quality.words import words_of

MOST_CHARACTERS = 20_000  # longer texts are not outlines
LONGEST_LINE = 1_000  # characters of a line that are read, since patterns scan them more than once
LONGEST_TITLE = 100  # characters
MOST_UNMARKED = 300  # characters without a marker before the first point; with more, it is prose
CANCEL_LINE = "\x18\n"  # ends an incomplete line, which is dropped because it arrives again complete

_ENCLOSED = {chr(0x2460 + i): i + 1 for i in range(20)} | {chr(0x2776 + i): i + 1 for i in range(10)}
_HAN = {c: i for i, c in enumerate("一二三四五六七八九十", start=1)}
_WRAP = r"(?:[*_]{1,3}|#{1,6}\s+)?"
# 1. 1) (1) 1: 1、 1． - one or two digits, then a space or a letter that needs none; not 1990. or 3.5x
_NUMBER = re.compile(
    rf"^(?P<indent>\s*){_WRAP}\(?(?:[^\W\d_]{{2,12}}\s)?(?P<number>\d{{1,2}}|[一二三四五六七八九十]|[{''.join(_ENCLOSED)}])"
    r"(?P<stop>[.)\]:、．。）：\-–]{0,2})(?P<gap>[*_]{0,3}\s*)(?P<title>\S.*)$"
)
_BULLET = re.compile(r"^(?P<indent>\s*)(?P<mark>[-*+•‣◦·–—▪●])\s+(?:\[[ xX]\]\s+)?(?P<title>\S.*)$")
_DIVIDER = re.compile(r" ?(?:[:：] |：)| [-–—] ")  # in a text with single spaces


@dataclass(frozen=True)
class Point:
    """One point of an outline; ``index`` counts from 1."""

    index: int
    title: str


@dataclass
class OutlineParser:
    """Parses streamed text; each call returns the points that it completes.

    The result does not depend on how the stream was chunked, and the time is linear in its length. ``cut``: there were
    more than ``most`` points.
    """

    most: int = MOST_POINTS
    cut: bool = False
    points: list[Point] = field(default_factory=list)
    _left: int = MOST_CHARACTERS
    _open_line: list[str] = field(default_factory=list)
    _style: tuple[str, int] | None = None
    _last: int = 0
    _unmarked: int = 0

    def feed(self, text: str) -> list[Point]:
        """Take new text; return the points completed by it."""
        before = len(self.points)
        text = text[: self._left]
        self._left -= len(text)
        first, *others = text.split("\n")
        self._open_line.append(first)
        for line in others:
            self._line("".join(self._open_line))
            self._open_line = [line]
        return self.points[before:]

    def finish(self) -> list[Point]:
        """Return the points that the end of the outline completes."""
        before = len(self.points)
        if self._left:  # otherwise the last line is incomplete
            self._line("".join(self._open_line))
        self._open_line.clear()
        return self.points[before:]

    @property
    def prose(self) -> bool:
        """Whether this is prose rather than an outline."""
        line = "".join(self._open_line[:LONGEST_LINE])[:LONGEST_LINE]
        unmarked = self._unmarked + (len(line) if _read_marker(line) is None else 0)
        return not self.points and unmarked > MOST_UNMARKED

    def _line(self, line: str) -> None:
        if line.endswith(CANCEL_LINE[0]):
            return
        line = unicodedata.normalize("NFC", line[:LONGEST_LINE].rstrip())
        marked = _read_marker(line)
        if marked is None:
            self._unmarked += len(line)
        elif self._is_next(marked):
            self._style = self._style or (marked.style, marked.indent)
            self._last = marked.value or self._last
            if len(self.points) >= self.most:
                self.cut = True
            elif title := clean_title(marked.title):
                self.points.append(Point(len(self.points) + 1, title))

    def _is_next(self, marked: _Marked) -> bool:
        """Return whether a line is a further point rather than a note or part of a sub-list."""
        if self._style is not None:
            style, indent = self._style
            if marked.style != style or marked.indent > indent + 1:
                return False
        # Markdown allows "1." on every line; otherwise numbers increase, and a smaller one belongs to a sub-list.
        return marked.value is None or marked.value > self._last or marked.value == self._last == 1


def clean_title(raw: str) -> str:
    """Return a title on one line, without markup, role tags, control characters or a sentence after it."""
    text = "".join(c if unicodedata.category(c)[0] != "C" else " " for c in raw[:LONGEST_LINE])
    text = re.sub(r"<\|?/?[\w ]{1,20}\|?>", " ", text)
    bold = re.match(r"\s*(\*\*|__)(.+?)\1", text)
    text = bold[2] if bold else text.split("**")[0] if text.count("**") % 2 else text
    text = re.sub(r"^\s*#{1,6}\s+|\*\*+|`", "", text)
    text = re.sub(r"(?<!\w)([*_])(?=[^\W_])(.{1,200}?)(?<=[^\W_])\1(?!\w)", r"\2", text)
    text = re.sub(r"\s+", " ", text).strip(' -–—:：;,、"“”„«»')
    if (divider := _DIVIDER.search(text)) and is_placeholder(words_of(text[: divider.start()])):
        text = text[divider.end() :].strip(' -–—:：;,、"“”„«»') or text  # "Title of the first point: Chain"
    if len(text.split()) > 8 and (divider := _DIVIDER.search(text, 3)):
        text = text[: divider.start()]
    if len(text) > LONGEST_TITLE:
        text = text[:LONGEST_TITLE].rsplit(" ", 1)[0] + "…"
    return text.rstrip(".。 ") if not text.endswith("...") else text


class _Marked(NamedTuple):
    """A line that begins with a number or a bullet. ``style``: which of them; ``value``: the number."""

    style: str
    indent: int
    title: str
    value: int | None = None


def _read_marker(line: str) -> _Marked | None:
    if number := _read_number(line):
        return number
    if bullet := _BULLET.match(line):
        return _Marked("bullet " + bullet["mark"], len(bullet["indent"].expandtabs(4)), bullet["title"])
    return None


def _read_number(line: str) -> _Marked | None:
    found = _NUMBER.match(line)
    if not found:
        return None
    mark, stop, gap, title = found["number"], found["stop"], found["gap"], found["title"]
    wide = mark in _ENCLOSED or stop in {"、", "．", "。", "）", "："}
    if not wide and (not stop or not gap.strip("*_")):
        return None
    if mark in _HAN and not stop:
        return None
    value = _ENCLOSED.get(mark) or _HAN.get(mark) or int(unicodedata.normalize("NFKC", mark))
    return _Marked("number", len(found["indent"].expandtabs(4)), title, value)
