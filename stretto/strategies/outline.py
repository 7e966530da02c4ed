"""Reads an outline while it streams: a point is known the moment its line is complete.

Numbered, bulleted, bold, headed, nested and JSON outlines, in any script. The first marked line
decides which marker and which depth the points have; lines of other markers or deeper ones are
notes to a point, not points. Unmarked, bold or headed lines count only if nothing else was found.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jiter

MOST_POINTS = 10
MOST_CHARACTERS = 20_000  # an outline longer than this is not one
LONGEST_TITLE = 100  # characters
CANCEL_LINE = "\x18\n"  # ends a line that was cut off; it is dropped, since it comes again whole
_FRAME_KEYS = ("opening", "closing")

_ENCLOSED = {chr(0x2460 + i): i + 1 for i in range(20)} | {chr(0x2776 + i): i + 1 for i in range(10)}
_HAN = {c: i for i, c in enumerate("一二三四五六七八九十", start=1)}
_WRAP = r"(?:[*_]{1,3}|#{1,6}\s+)?"
# 1. 1) (1) 1: 1、 1． - up to two digits, then a space or a letter that needs none; so neither 1990. nor 3.5x
_NUMBER = re.compile(
    rf"^(?P<indent>\s*){_WRAP}\(?(?:[^\W\d_]{{2,12}}\s)?(?P<number>\d{{1,2}}|[一二三四五六七八九十]|[{''.join(_ENCLOSED)}])"
    r"(?P<stop>[.)\]:、．。）：\-–]{0,2})(?P<gap>[*_]{0,3}\s*)(?P<title>\S.*)$"
)
_BULLET = re.compile(r"^(?P<indent>\s*)(?P<mark>[-*+•‣◦·–—▪●])\s+(?:\[[ xX]\]\s+)?(?P<title>\S.*)$")
_BOLD = re.compile(r"^\s*(?P<mark>\*\*|__|#{1,6}\s)(?P<title>[^*_#].*?)(?:\*\*|__)?:?\s*$")
_FRAME = re.compile(r"^\W*(?P<place>opening|closing)\W*[:：]\W*\s*(?P<text>\S.*)$", re.IGNORECASE)
_NEEDS = re.compile(r"\(\s*(?:needs|after|depends on)\s+(?P<list>[\d\s,;&and]+)\)", re.IGNORECASE)
_WORDS = re.compile(r"\(\s*(?:about\s+|~\s*)?(?P<words>\d{1,3})\s+words?\s*\)", re.IGNORECASE)
_FENCE = re.compile(r"^\s*```\w*\s*$")
_CHECKBOX = re.compile(r"\[(?:[ xX]\]|\d)")
_JSON_END = re.compile(r'["}\],]')
_DIVIDER = re.compile(r"\s*(?:[:：]\s+|：|\s[-–—]\s)")


@dataclass(frozen=True)
class Point:
    """One point of an outline. ``index`` counts from 1; ``needs`` are indices of earlier points."""

    index: int
    title: str
    needs: tuple[int, ...] = ()
    words: int | None = None


@dataclass
class OutlineParser:
    """Feed text as it comes; each call gives the points that became complete by it.

    The result does not depend on how the text was cut. ``opening`` and ``closing`` are the
    sentences around the points, if the outline has them; ``cut`` says that there were more than ``most`` points.
    """

    most: int = MOST_POINTS
    opening: str = ""
    closing: str = ""
    cut: bool = False
    points: list[Point] = field(default_factory=list)
    _text: str = ""
    _at: int = 0
    _style: tuple[str, int] | None = None
    _last: int = 0
    _entries_read: int = 0
    _weak: list[tuple[str, str]] = field(default_factory=list)

    def feed(self, text: str) -> list[Point]:
        """Take new text; return the points completed by it."""
        self._text = (self._text + text.replace("\r\n", "\n"))[:MOST_CHARACTERS]
        before = len(self.points)
        if self._is_json():
            # Only these characters complete anything; parsing at each makes the result independent of the cutting.
            while found := _JSON_END.search(self._text, self._at):
                self._at = found.end()
                self._read_json(self._text[: self._at], final=False)
            return self.points[before:]
        while (end := self._text.find("\n", self._at)) >= 0:
            line, self._at = self._text[self._at : end], end + 1
            self._line(line)
        return self.points[before:]

    def finish(self) -> list[Point]:
        """The outline has ended: return the points that only its end completes."""
        before = len(self.points)
        if self._is_json():
            self._read_json(self._text, final=True)
            return self.points[before:]
        self._line(self._text[self._at :])
        self._at = len(self._text)
        if not self.points:
            self._settle_for_weak()
        return self.points[before:]

    def _line(self, line: str) -> None:
        line = unicodedata.normalize("NFC", line.rstrip())
        if not line.strip() or _FENCE.match(line) or line.endswith(CANCEL_LINE[0]):
            return
        if found := _FRAME.match(line):
            sentence = found["text"].strip("*_ ")
            if found["place"].lower() == "opening" and not self.points:
                self.opening = self.opening or sentence
            elif found["place"].lower() == "closing" and self.points:
                self.closing = self.closing or sentence
            return
        number = _read_number(line)
        if number is not None:
            indent, value, title = number
            self._marked("number", indent, title, value)
        elif bullet := _BULLET.match(line):
            self._marked("bullet " + bullet["mark"], len(bullet["indent"].expandtabs(4)), bullet["title"], None)
        elif bold := _BOLD.match(line):
            self._weak.append(("bold " + bold["mark"].strip(), bold["title"]))
        else:
            self._weak.append(("plain", line))

    def _marked(self, style: str, indent: int, title: str, value: int | None) -> None:
        if self._style is None:
            self._style = (style, indent)
        elif style != self._style[0] or indent > self._style[1] + 1:
            return
        if value is not None:
            # Markdown lets every line be "1."; otherwise numbers go up, and a line that falls back is a sub-list.
            if value <= self._last and not (value == self._last == 1):
                return
            self._last = value
        self._add(title)

    def _add(self, raw: str, needs: Sequence[int] = (), words: int | None = None) -> None:
        if len(self.points) >= self.most:
            self.cut = True
            return
        if found := _NEEDS.search(raw):
            needs = [int(number) for number in re.findall(r"\d+", found["list"])]
        if length := _WORDS.search(raw):
            words = int(length["words"])
        index = len(self.points) + 1
        title = clean_title(_WORDS.sub("", _NEEDS.sub("", raw)))
        if title:
            earlier = tuple(sorted({n for n in needs if 0 < n < index}))
            self.points.append(Point(index, title, earlier, words))

    def _settle_for_weak(self) -> None:
        """No marked line at all: bold lines, headings, or a bare list of short lines."""
        for style in dict.fromkeys(style for style, _ in self._weak):
            lines = [title for kind, title in self._weak if kind == style]
            short = [line for line in lines if len(line.split()) <= 8 and line.rstrip()[-1] not in ".!?:。！？"]
            if style == "plain" and (len(short) < 3 or len(short) < len(lines) - 1):
                continue
            if len(lines) >= 2:
                for title in short if style == "plain" else lines:
                    self._add(title)
                return

    def _is_json(self) -> bool:
        body = _unfenced(self._text)
        return body.startswith("{") or (body.startswith("[") and not _CHECKBOX.match(body))

    def _read_json(self, text: str, *, final: bool) -> None:
        body = _unfenced(text)
        try:
            value = jiter.from_json(body.encode("utf-8", "replace"), partial_mode=True)
        except ValueError:
            try:  # text behind the JSON
                value, _ = json.JSONDecoder().raw_decode(body)
            except ValueError:
                return
            final = True
        if isinstance(value, dict) and isinstance(value.get("opening"), str) and not self.points:
            self.opening = value["opening"]
        entries = list(_entries(value, final))
        # An object may still get fields, so the last one waits; a string is complete once it is closed.
        if entries and not final and isinstance(entries[-1], dict) and not _balanced(body):
            entries.pop()
        for entry in entries[self._entries_read :]:
            self._add(*_title_of(entry))
        self._entries_read = max(self._entries_read, len(entries))
        if isinstance(value, dict) and final:
            self.closing = str(value.get("closing") or "")


def clean_title(raw: str) -> str:
    """A title on one line, without markup, role tags, control characters or the sentence behind it."""
    text = "".join(c if unicodedata.category(c)[0] != "C" else " " for c in raw)
    text = re.sub(r"<\|?/?[\w ]{1,20}\|?>", " ", text)
    bold = re.match(r"\s*(\*\*|__)(.+?)\1", text)
    text = bold[2] if bold else text.split("**")[0] if text.count("**") % 2 else text
    text = re.sub(r"^\s*#{1,6}\s+|\*\*+|`", "", text)
    text = re.sub(r"(?<!\w)([*_])(?=[^\W_])(.+?)(?<=[^\W_])\1(?!\w)", r"\2", text)
    text = re.sub(r"\s+", " ", text).strip(' -–—:：;,、"“”„«»')
    if len(text.split()) > 8 and (divider := _DIVIDER.search(text, 3)):
        text = text[: divider.start()]
    if len(text) > LONGEST_TITLE:
        text = text[:LONGEST_TITLE].rsplit(" ", 1)[0] + "…"
    return text.rstrip(".。 ") if not text.endswith("...") else text


def _read_number(line: str) -> tuple[int, int, str] | None:
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
    return len(found["indent"].expandtabs(4)), value, title


def _unfenced(text: str) -> str:
    body = text.lstrip()
    if body.startswith("```"):
        fence, _, rest = body.partition("\n")
        body = rest.lstrip() if fence.strip() in ("```", "```json") else body
    return body.rstrip().removesuffix("```")


def _entries(value: Any, final: bool) -> Iterator[Any]:
    """The list of points in whatever a model wraps it."""
    if isinstance(value, list):
        yield from (entry for entry in value if isinstance(entry, (str, dict)))
    elif isinstance(value, dict):
        inner = next((entry for entry in value.values() if isinstance(entry, list)), None)
        if inner is not None:
            yield from _entries(inner, final)
        elif final:  # until then, a list may still come
            yield from (title for key, title in value.items() if isinstance(title, str) and key not in _FRAME_KEYS)


def _title_of(entry: str | dict[str, Any]) -> tuple[str, list[int], int | None]:
    if isinstance(entry, str):
        return entry, [], None
    title = next((entry[key] for key in ("title", "point", "name", "heading") if isinstance(entry.get(key), str)), "")
    title = title or next((value for value in entry.values() if isinstance(value, str)), "")
    needs, words = entry.get("needs", []), entry.get("words")
    return (
        title,
        [n for n in needs if isinstance(n, int)] if isinstance(needs, list) else [],
        words if isinstance(words, int) and words > 0 else None,
    )


def _balanced(body: str) -> bool:
    """Whether the last object of a partial JSON text is closed."""
    return body.rstrip().rstrip(",").endswith(("}", "]"))
