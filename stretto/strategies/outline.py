"""Parses an outline while it streams: a point is known as soon as its line is complete.

It reads numbered, bulleted, bold, nested and JSON outlines and headings, in any script. The first line with a marker
decides the marker and the depth of points; lines with other markers, or deeper ones, are notes to a point. Lines
without a marker, bold lines and headings count only if there is nothing else.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stretto.language.echoes import echoes
from stretto.router.obstacles import MOST_POINTS
from stretto.strategies.harm.titles import SENTENCE, is_placeholder
from stretto.strategies.harm.words import words_of
from stretto.strategies.outline_json import Entry, JsonOutline

MOST_CHARACTERS = 20_000  # longer texts are not outlines
LONGEST_LINE = 1_000  # characters of a line that are read, since patterns read them more than once
LONGEST_TITLE = 100  # characters
MOST_WORDS = 999  # of a point
PROSE = 30  # words of a line without a marker that no outline has
MOST_UNMARKED = 90  # words of all lines without a marker before the first point
MOST_REREADS = 3  # of a JSON outline, whose stream is continued once
LONGEST_HEADING = 8  # words
_STEM = 5  # letters by which a word of a heading is found in the question
CANCEL_LINE = "\x18\n"  # ends an incomplete line, which is dropped because it arrives again complete

_ENCLOSED = {chr(0x2460 + i): i + 1 for i in range(20)} | {chr(0x2776 + i): i + 1 for i in range(10)}
_HAN = {c: i for i, c in enumerate("一二三四五六七八九十", start=1)}
_WRAP = r"(?:[*_]{1,3}|#{1,6}\s+)?"
# 1. 1) (1) 1: 1、 1． - one or two digits, then a space or a letter that needs none; not 1990. or 3.5x
_NUMBER = re.compile(
    rf"^(?P<indent>\s*){_WRAP}\(?(?:[^\W\d_]{{2,12}}\s)?(?P<number>\d{{1,2}}|[一二三四五六七八九十]|[{''.join(_ENCLOSED)}])"
    r"(?P<stop>[.)\]:、．。）：\-–]{0,2})(?P<gap>[*_]{0,3}\s*)(?P<title>\S.*)$"
)
_BEFORE_TITLE = (" ", "\t", *".)]:、．。）：")
_BULLET = re.compile(r"^(?P<indent>\s*)(?P<mark>[-*+•‣◦·–—▪●])\s+(?:\[[ xX]\]\s+)?(?P<title>\S.*)$")
_BOLD = re.compile(r"^\s*(?P<mark>\*\*|__|#{1,6}\s)(?P<title>[^*_#].*)$")
_FRAME = re.compile(r"^\W*(?P<place>opening|closing)[^\w:：]*+[:：](?:\W*+(?=\w)|\s*+)(?P<text>\S.*)$", re.IGNORECASE)
_NEEDS = re.compile(r"\(\s*(?:needs|after|depends on)\s(?P<list>[\d\s,;&and]+)\)", re.IGNORECASE)
_WORDS = re.compile(r"\(\s*(?:about\s+|~\s*)?(?P<words>-?\d{1,3})\s+words?\s*\)", re.IGNORECASE)
_FENCE = re.compile(r"^\s*```\w*\s*$")
_JSON_FENCE = re.compile(r"```(?:json)?[ \t\r]*\n\s*")
_BEGUN = re.compile(
    r"\s*(?:`{0,2}|```[^\n]{0,12}|(?:```(?:json)?[ \t\r]*\n\s*)?(?:\[[ xX]?)?)"
)  # a beginning that may be JSON or not
_CHECKBOX = re.compile(r"\[(?:[ xX]\]|\d)")
_DIVIDER = re.compile(r" ?(?:[:：] |：)| [-–—] ")  # in a text with single blanks


@dataclass(frozen=True)
class Point:
    """One point of an outline.

    Attributes:
        index: counts from 1 through the whole outline.
        needs: indices of earlier points.
        words: how long it should be.
        section: the heading that it stands under, if the outline has sections.
    """

    index: int
    title: str
    needs: tuple[int, ...] = ()
    words: int | None = None
    section: str = ""

    @property
    def full_title(self) -> str:
        """The title with its section, which says what the title alone may not."""
        return f"{self.section}: {self.title}" if self.section else self.title


@dataclass
class OutlineParser:
    """Takes streamed text; each call returns the points that it completes.

    The result does not depend on how the stream was chunked, and the time is linear in its length. ``opening`` and
    ``closing`` are the sentences around the points, if the outline has them; ``cut`` says that there were more than
    ``most`` points, in a section if there are sections. ``question`` tells headings of sections from an introduction.
    """

    most: int = MOST_POINTS
    opening: str = ""
    closing: str = ""
    cut: bool = False
    question: str = ""
    points: list[Point] = field(default_factory=list)
    _left: int = MOST_CHARACTERS
    _begin: str | None = ""  # text so far, until it is known whether it is JSON
    _json: JsonOutline | None = None
    _seen: list[str] = field(default_factory=list)  # text of a JSON outline, to parse it again if a line is cancelled
    _entries: int = 0
    _known_twice: int = 0
    _rereads: int = 0
    _open_line: list[str] = field(default_factory=list)
    _style: tuple[str, int] | None = None
    _last: int = 0
    _weak: list[tuple[str, str]] = field(default_factory=list)
    _heading: str | None = None  # before the next point
    _section: str = ""
    _in_section: int = 0  # points
    _unmarked: int = 0  # words of lines without a marker

    def feed(self, text: str) -> list[Point]:
        """Take new text; return the points completed by it."""
        before = len(self.points)
        text = text[: self._left]
        self._left -= len(text)
        if self._begin is not None:
            self._begin += text
            if (is_json := _is_json(self._begin)) is None:
                return []
            text = self._choose(is_json)
        self._read(text)
        return self.points[before:]

    @property
    def another_begun(self) -> bool:
        """Whether there is a second point, or the incomplete line begins like one."""
        if len(self.points) > 1:
            return True
        if not self.points or self._begin is not None or self._json is not None:
            return False
        line = "".join(self._open_line[:LONGEST_TITLE])[:LONGEST_TITLE]
        title = "x" if line.endswith(_BEFORE_TITLE) else ""  # stands for a title that has not arrived yet
        marked = _read_marker(unicodedata.normalize("NFC", f"{line} {title}".rstrip()))
        return marked is not None and self._is_next(marked)

    @property
    def begins_with_sentence(self) -> bool:
        """Whether the first line has more words than a title, before its end or before any point."""
        if self.points or self._json is not None or self._begin is not None:
            return False
        line = clean_title("".join(self._open_line[: LONGEST_LINE // 2])[: LONGEST_LINE // 2])
        return _length(line) > SENTENCE + 1  # its number is none of them

    @property
    def prose(self) -> bool:
        """Whether this is running text and will be no outline: a long line without a marker, or many of them."""
        if self.points or self._json is not None or self._begin is not None:
            return False
        line = "".join(self._open_line[: LONGEST_LINE // 2])[: LONGEST_LINE // 2]
        if self._unmarked <= MOST_UNMARKED and (len(line) < PROSE or _read_marker(line)):
            return False
        return self._unmarked + _length(line) > MOST_UNMARKED or _length(line) > PROSE

    def finish(self) -> list[Point]:
        """Return the points that the end of the outline completes."""
        before = len(self.points)
        if self._begin is not None:
            self._read(self._choose(bool(_is_json(self._begin, final=True))))
        if self._json is not None:
            self._know(self._json.finish())
            self.closing = self._json.members.get("closing", "")
            return self.points[before:]
        if self._left:  # otherwise the last line is incomplete
            self._line("".join(self._open_line))
        self._open_line.clear()
        if not self.points:
            self._settle_for_weak()
        return self.points[before:]

    def _choose(self, is_json: bool) -> str:
        """Choose the parser; returns the text that is still to be parsed."""
        text, self._begin = self._begin or "", None
        if is_json:
            self._json = JsonOutline()
            return _unfenced(text)
        return text

    def _read(self, text: str) -> None:
        if self._json is not None:
            self._read_json(text)
            return
        first, *others = text.split("\n")
        self._open_line.append(first)
        for line in others:
            self._line("".join(self._open_line))
            self._open_line = [line]

    def _read_json(self, text: str) -> None:
        """Parse more JSON. If a line is cancelled, the valid text before it is parsed again, a few times at most."""
        valid, void, rest = text.partition(CANCEL_LINE[0])
        self._know(self._json.feed(valid) if self._json else [])
        self._seen.append(valid)
        if void:
            seen = "".join(self._seen)
            self._seen = [seen[: seen.rfind("\n") + 1]]
            self._json = JsonOutline()
            self._known_twice = self._entries - len(self._json.feed(self._seen[0]))
            self._rereads += 1
            if self._rereads <= MOST_REREADS:
                self._read_json(rest)
            else:
                self._left = 0

    def _know(self, entries: Sequence[Entry]) -> None:
        """Take entries as points, except those that arrive again after their line was cancelled."""
        if self._json is not None and not self._entries:
            self.opening = self._json.opening
        again = min(self._known_twice, len(entries))
        self._known_twice -= again
        for entry in entries[again:]:
            self._entries += 1
            self._add(*_title_of(entry))

    def _line(self, line: str) -> None:
        if line.endswith(CANCEL_LINE[0]):
            return
        line = unicodedata.normalize("NFC", line[:LONGEST_LINE].rstrip())
        if not line or _FENCE.match(line):
            return
        if found := _FRAME.match(line):
            sentence = found["text"].strip("*_ ")
            if found["place"].lower() == "opening" and not self.points:
                self.opening = self.opening or sentence
            elif found["place"].lower() == "closing" and self.points:
                self.closing = self.closing or sentence
            return
        if (marked := _read_marker(line)) is not None:
            if self._is_next(marked):
                self._style = self._style or (marked.style, marked.indent)
                self._last = marked.value or self._last
                if self._heading is not None:
                    self._section, self._heading, self._in_section = self._heading, None, 0
                if not _FRAME.match(clean_markup(marked.title)):  # "1. Opening: ..." is the frame, numbered by mistake
                    self._add(marked.title)
        elif bold := _BOLD.match(line):
            title = bold["title"].removesuffix(":")
            title = title.removesuffix("**").removesuffix("__") or title
            self._weak.append(("bold " + bold["mark"].strip(), title))
            self._head(title)
        else:
            self._weak.append(("plain", line))
            if line.endswith((":", "：")) and len(line) <= LONGEST_TITLE:
                self._head(line)
        self._unmarked += _length(line) if marked is None else 0

    def _head(self, line: str) -> None:
        """Take a line that may be the heading of a section: one that says of what the points below it are part."""
        words, asked = words_of(line), words_of(self.question)
        content = [word for word in words if len(word) > 3 or not word.isascii()]
        known = {word[:_STEM] for word in asked}
        of_question = sum(word[:_STEM] in known for word in content)
        intro = any(word in echoes().intros for word in words)
        fits = 0 < len(words) <= LONGEST_HEADING and "?" not in line
        if fits and ((of_question and 2 * of_question >= len(content)) or (len(words) <= 3 and not intro)):
            self._heading = clean_title(line)
        elif self.points and not intro:
            self._heading = self._heading or ""

    def _is_next(self, marked: _Marked) -> bool:
        """Whether a line is a further point rather than a note or part of a sub-list."""
        if self._style is not None:
            style, indent = self._style
            if marked.style != style or marked.indent > indent + 1:
                return False
            if self._heading is not None and marked.value == 1 and marked.indent <= indent:
                return True  # numbers begin again in each section
        # Markdown allows "1." on every line; otherwise numbers increase, and a smaller one belongs to a sub-list.
        return marked.value is None or marked.value > self._last or marked.value == self._last == 1

    def _add(self, raw: str, needs: Sequence[int] = (), words: int | None = None) -> None:
        if self._in_section >= self.most or len(self.points) >= max(self.most, MOST_POINTS):
            self.cut = True
            return
        raw = raw[:LONGEST_LINE]
        if found := _NEEDS.search(raw):
            needs = [int(number) for number in re.findall(r"\d+", found["list"])]
        if length := _WORDS.search(raw):
            words = int(length["words"]) if int(length["words"]) > 0 else None
        index = len(self.points) + 1
        title = clean_title(_WORDS.sub("", _NEEDS.sub("", raw)))
        if title:
            earlier = tuple(sorted({n for n in needs if 0 < n < index}))
            self.points.append(Point(index, title, earlier, words, self._section))
            self._in_section += 1

    def _settle_for_weak(self) -> None:
        """Without any marker, take bold lines, headings, or a list of short lines."""
        for style in dict.fromkeys(style for style, _ in self._weak):
            lines = [title for kind, title in self._weak if kind == style]
            short = [line for line in lines if len(line.split()) <= 8 and line.rstrip()[-1:] not in ".!?:。！？"]
            if style == "plain" and (len(short) < 3 or len(short) < len(lines) - 1):
                continue
            if len(lines) >= 2:
                for title in short if style == "plain" else lines:
                    self._add(title)
                return


def clean_markup(text: str) -> str:
    """A line without the marks of bold text and headings."""
    return re.sub(r"[*_#`]+", "", text)


def _length(line: str) -> int:
    """The words of a line; in scripts without blanks, two characters count as one."""
    words = words_of(line)
    return sum(len(word) > 1 for word in words) + sum(len(word) == 1 for word in words) // 2


def clean_title(raw: str) -> str:
    """A title on one line, without markup, role tags, control characters or a sentence after it."""
    text = "".join(c if unicodedata.category(c)[0] != "C" else " " for c in raw)
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
    """A line that begins with a number or a bullet. ``style``: which; ``value``: the number."""

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


def _is_json(text: str, *, final: bool = False) -> bool | None:
    """Whether an outline that begins like this is JSON; ``None`` while that is undecided."""
    if not final and len(text) <= LONGEST_LINE and _BEGUN.fullmatch(text):
        return None
    body = text.lstrip()
    if fence := _JSON_FENCE.match(body):
        body = body[fence.end() :]
    return body.startswith("{") or (body.startswith("[") and not _CHECKBOX.match(body))


def _unfenced(text: str) -> str:
    """The JSON after the line of its code fence, if there is one."""
    body = text.lstrip()
    return body.partition("\n")[2] if body.startswith("```") else body


def _title_of(entry: str | dict[str, Any]) -> tuple[str, list[int], int | None]:
    if isinstance(entry, str):
        return entry, [], None
    title = next((entry[key] for key in ("title", "point", "name", "heading") if isinstance(entry.get(key), str)), "")
    title = title or next((value for value in entry.values() if isinstance(value, str)), "")
    needs, words = entry.get("needs", []), entry.get("words")
    return (
        title,
        [n for n in needs if isinstance(n, int)] if isinstance(needs, list) else [],
        min(words, MOST_WORDS) if isinstance(words, int) and not isinstance(words, bool) and words > 0 else None,
    )
