"""Texts within files of other formats: HTML, subtitles (SRT, VTT), gettext (PO) and strings in JSON.

Each format tells where its texts stand and how one is written there. All else is copied: tags between blocks, times,
keys, comments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import accumulate
from typing import Any

from stretto.foundation.surrogates import fix_surrogates
from stretto.router.given import Given
from stretto.strategies.rewrite.text_pieces import LEAST, MOST, Piece

__all__ = ["Entries", "entry_pieces"]

_LETTER = re.compile(r"[^\W\d_]")
_TAG = re.compile(r"<[^<>]*>")
_INLINE = frozenset(
    """
    a abbr b bdi bdo br cite code data del dfn em font i img ins kbd label mark q s samp small span strike strong sub
    sup time tt u var wbr
    """.split()  # noqa: SIM905 - a list of one word a line is no easier to read
)
_HIDDEN = frozenset({"script", "style", "pre", "textarea", "svg", "math", "template", "head"})
_TITLE = "title"  # of the head, it is shown
_CUE = re.compile(r"^[^\r\n]{0,80}-->[^\r\n]{0,200}(?:\r\n|\n|\r)((?:[^\r\n]+(?:\r\n|\n|\r|\Z))+)", re.MULTILINE)
_SRT = re.compile(r"\ufeff?\s{0,9}(?:WEBVTT|\d{1,6}[ \t]*\r?\n\d{1,3}:\d\d:\d\d[,.]\d{3} -->)")
_PO = re.compile(r"^msgid[ \t]+\"", re.MULTILINE)
_QUOTED = r"(?<!\\)\"(?:[^\"\\\n]++|\\.)*+\""
_PART = re.compile(_QUOTED)
_MESSAGE = re.compile(
    r"^(?P<key>msgctxt|msgid_plural|msgid|msgstr(?:\[\d{1,2}\])?)[ \t]{1,9}"
    rf"(?P<value>{_QUOTED}(?:[ \t]*\r?\n[ \t]*{_QUOTED})*)",
    re.MULTILINE,
)
_STRING = re.compile(rf"{_QUOTED}(?P<key>\s{{0,200}}:)?")
_BARE = re.compile(r"(?:https?://|mailto:|[./#])\S*|[{%$<]\S*[}>]")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
SHOWN = 3  # texts on each side that a writer is shown


@dataclass(frozen=True, slots=True)
class Entry:
    """A text within a file: where what is replaced stands, and the text itself, without escapes."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Entries(Piece):
    """A piece of several texts, which are written as one JSON object; ``text`` is that of its source.

    Attributes:
        entries: its texts.
        encode: writes a text as the format has it.
        source: the whole file.
    """

    entries: tuple[Entry, ...]
    encode: Callable[[str, Entry], str]
    source: str

    @property
    def schema(self) -> dict[str, Any]:
        """The schema of what is to be written."""
        names = [str(number) for number in range(1, len(self.entries) + 1)]
        return {
            "type": "object",
            "properties": {name: {"type": "string"} for name in names},
            "required": names,
            "additionalProperties": False,
        }

    def filled(self, texts: Sequence[str | None]) -> str:
        """Its part of the file with these texts; ``None`` leaves one as it was."""
        parts, end = [], self.start
        for entry, text in zip(self.entries, texts, strict=True):
            written = self.source[entry.start : entry.end] if text is None else self.encode(text, entry)
            parts += [self.source[end : entry.start], written]
            end = entry.end
        return "".join([*parts, self.source[end : self.end]])


def entry_pieces(given: Given, parts: int) -> list[Entries]:
    """The pieces of a file of one of these formats; empty for any other text."""
    text, ending = given.text, given.ending
    begins = text[:400].lstrip("\ufeff \t\r\n").lower()
    found: list[Entry] = []
    encode: Callable[[str, Entry], str] = lambda text, _: text  # noqa: E731 - the usual one
    if ending in (".html", ".htm", ".xhtml") or begins.startswith(("<!doctype html", "<html")):
        found = _Html(text).entries()
    elif ending in (".srt", ".vtt") or _SRT.match(text):
        found, encode = [Entry(each.start(1), _end(each), each[1].rstrip()) for each in _CUE.finditer(text)], _cue
    elif ending in (".po", ".pot") or (not ending and begins.startswith(("msgid", "#")) and _PO.search(text)):
        found, encode = list(_messages(text, translates=given.change == "translate")), _message
    elif ending == ".json" or (not ending and begins.startswith(("{", "["))):
        found, encode = list(_strings(text)), _string
    found = [entry for entry in found if _LETTER.search(_TAG.sub("", entry.text))]
    return list(_grouped(text, found, encode, parts))


def _grouped(text: str, found: list[Entry], encode: Callable[[str, Entry], str], parts: int) -> Iterator[Entries]:
    size = min(MOST, max(LEAST, sum(len(entry.text) for entry in found) // max(1, parts)))
    begin = 0
    for number in range(1, len(found) + 1):
        length = sum(len(entry.text) for entry in found[begin:number])
        if length < (LEAST if begin == 0 else size) and number < len(found):
            continue
        own = tuple(found[begin:number])
        said = json.dumps({str(place): entry.text for place, entry in enumerate(own, start=1)}, ensure_ascii=False)
        before = "\n".join(entry.text for entry in found[max(0, begin - SHOWN) : begin])
        after = "\n".join(entry.text for entry in found[number : number + SHOWN])
        yield Entries(begin + 1, own[0].start, own[-1].end, said, before, after, own, encode, text)
        begin = number


class _Html(HTMLParser):
    """Runs of text and inline tags between the tags of blocks."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self._text = text
        self._lines = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self._found: list[Entry] = []
        self._run: int | None = None
        self._hidden: list[str] = []

    def entries(self) -> list[Entry]:
        self.feed(self._text)
        self.close()
        self._break(len(self._text))
        return self._found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        hides = tag in _HIDDEN or ("translate", "no") in attrs
        if tag not in _INLINE or hides:
            self._break(self._at)
        if hides and not self._is_void(tag):
            self._hidden.append(tag)
        elif tag in _INLINE and not self._hidden:
            self._go_on()

    def handle_endtag(self, tag: str) -> None:
        if tag not in _INLINE or (self._hidden and self._hidden[-1] == tag):
            self._break(self._at)
        if self._hidden and self._hidden[-1] == tag:
            self._hidden.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - as called
        if tag not in _INLINE:
            self._break(self._at)

    def handle_data(self, data: str) -> None:
        if data.strip() and (not self._hidden or self.lasttag == _TITLE):
            self._go_on()

    def handle_comment(self, data: str) -> None:  # noqa: ARG002 - as called
        self._break(self._at)

    @property
    def _at(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    @staticmethod
    def _is_void(tag: str) -> bool:
        return tag in ("br", "img", "wbr")

    def _go_on(self) -> None:
        if self._run is None:
            self._run = self._at

    def _break(self, at: int) -> None:
        if self._run is not None:
            said = self._text[self._run : at]
            start = self._run + len(said) - len(said.lstrip())
            self._found.append(Entry(start, start + len(said.strip()), said.strip()))
        self._run = None


def _end(cue: re.Match[str]) -> int:
    return cue.start(1) + len(cue[1].rstrip())


def _cue(text: str, entry: Entry) -> str:
    """A cue ends at a blank line, and its time has an arrow."""
    lines = [line.strip() for line in text.replace("-->", "->").splitlines() if line.strip()]
    return ("\r\n" if "\r\n" in entry.text else "\n").join(lines)


def _messages(text: str, *, translates: bool) -> Iterator[Entry]:
    """What is to be written of a gettext file: for a translation what has none yet, else the translations."""
    found: list[tuple[Entry, bool]] = []
    source = plural = ""
    for message in _MESSAGE.finditer(text):
        key, said = message["key"], _unescaped(message["value"])
        if key == "msgid":
            source = plural = said
        elif key == "msgid_plural":
            plural = said
        elif key.startswith("msgstr") and source:
            of = (source if key in ("msgstr", "msgstr[0]") else plural) if translates else said
            found.append((Entry(message.start("value"), message.end("value"), of), not said))
    missing = [entry for entry, empty in found if empty]
    yield from missing if translates and missing else [entry for entry, _ in found]


def _unescaped(value: str) -> str:
    inner = "".join(each[1:-1] for each in _PART.findall(value))
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), inner)


def _message(text: str, entry: Entry) -> str:
    if entry.text.endswith("\n") != text.endswith("\n"):  # gettext refuses the one without the other
        text = text.rstrip("\n") + ("\n" if entry.text.endswith("\n") else "")
    lines = [
        line.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("\r", "\\r").replace("\n", "\\n")
        for line in text.splitlines(keepends=True)
    ]
    return f'"{lines[0] if lines else ""}"' if len(lines) < 2 else "\n".join(['""', *(f'"{line}"' for line in lines)])


def _strings(text: str) -> Iterator[Entry]:
    """The strings of a JSON file that are no keys, addresses or placeholders; none where it is no JSON."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return
    for found in _STRING.finditer(text):
        if found["key"] is None and not _BARE.fullmatch(said := json.loads(found[0], strict=False)):
            yield Entry(found.start(), found.end(), said)


def _string(text: str, _: Entry) -> str:
    return json.dumps(fix_surrogates(text), ensure_ascii=False)
