"""Texts within files of other formats: HTML, subtitles (SRT, VTT), gettext (PO) and strings in JSON.

Each format defines where its texts are and how they are written. Everything else is copied: tags between blocks, times,
keys, comments. Parsers for these formats rewrite a file with different line ends, counters and wrapping, so the texts
are located here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from html.parser import HTMLParser
from itertools import accumulate, compress
from typing import Any

from stretto.foundation.surrogates import fix_surrogates
from stretto.router.given import Given
from stretto.strategies.rewrite.edits import Applied, Edit, apply
from stretto.strategies.rewrite.text_pieces import LEAST, MOST, Piece

_LETTER = re.compile(r"[^\W\d_]")
_MARKUP = re.compile(r"<[^<>]*>|&#?\w{1,40};")
_INLINE = frozenset(
    """
    a abbr b bdi bdo br cite code data del dfn em font i img ins kbd label mark q s samp small span strike strong sub
    sup time tt u var wbr
    """.split()  # noqa: SIM905 - a list with one word per line is no easier to read
)
_HIDDEN = frozenset({"script", "style", "pre", "textarea", "svg", "math", "template", "head"})
_VOID = ("br", "img", "wbr")
_TITLE = "title"  # the part of the head that is shown
_LINE = re.compile(r"[^\r\n]+")
_TIME = re.compile(r"[ \t\ufeff]{0,9}\d[\d:.,]{0,20}[ \t]{0,9}-->")
_COUNTER = re.compile(r"\s*\d{1,9}\s*")
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
_ESCAPED = {sign: f"\\{letter}" for letter, sign in _ESCAPES.items()}
SHOWN = 3  # neighbouring texts on each side that a writer is shown


@dataclass(frozen=True, slots=True)
class Entry:
    """A text within a file: the range that is replaced, and the unescaped text.

    ``is_there``: the range contains this text; else it is the source of a missing translation.
    """

    start: int
    end: int
    text: str
    is_there: bool = True


@dataclass(frozen=True, slots=True)
class Format:
    """How texts are written in a file.

    Attributes:
        whole: formats a text in place of an entry.
        part: formats a part of a text.
        quoted: whether texts are in quotes, which belong to the entry.
    """

    whole: Callable[[str, Entry], str]
    part: Callable[[str], str]
    quoted: bool = False


@dataclass(frozen=True)
class Entries(Piece):
    """A piece of several texts, which are written as one JSON object; ``text`` is the object of the sources.

    Attributes:
        entries: its texts.
        form: how they are written in the file.
        source: the whole file.
    """

    entries: tuple[Entry, ...]
    form: Format
    source: str

    @property
    def visible_text(self) -> str:
        """Its texts as a reader sees them."""
        return "\n\n".join(entry.text for entry in self.entries)

    @property
    def schema(self) -> dict[str, Any]:
        names = [str(number) for number in range(1, len(self.entries) + 1)]
        return {
            "type": "object",
            "properties": {name: {"type": "string"} for name in names},
            "required": names,
            "additionalProperties": False,
        }

    def filled(self, texts: Sequence[str | None]) -> str:
        """Return its part of the file with these texts; ``None`` or an equal text leaves an entry unchanged."""
        parts, end = [], self.start
        for entry, text in zip(self.entries, texts, strict=True):
            written = self.source[entry.start : entry.end]
            if text is not None and not (entry.is_there and text.strip() == entry.text.strip()):
                written = self.form.whole(text, entry)
            parts += [self.source[end : entry.start], written]
            end = entry.end
        return "".join([*parts, self.source[end : self.end]])

    def edited(self, edits: Sequence[Edit], *, everywhere: bool) -> Applied:
        """Return its part of the file with edits applied within its texts, never within a tag or an entity."""
        own = [Edit(self.form.part(edit.old), self.form.part(edit.new)) for edit in edits]
        found = apply(self.source[self.start : self.end], own, everywhere=everywhere, allowed=self._may_change)
        wrong = [edit.old for edit in found.made if _MARKUP.findall(edit.old) != _MARKUP.findall(edit.new)]
        return Applied(found.text, found.made, (*found.failed, *(f'"{old}" would change a tag' for old in wrong)))

    @cached_property
    def _texts(self) -> list[tuple[int, int]]:
        """The ranges of texts in its part of the file, without quotes."""
        spans = [(entry.start, entry.end) for entry in self.entries]
        if self.form.quoted:
            found = (each for span in spans for each in _PART.finditer(self.source, *span))
            spans = [(each.start() + 1, each.end() - 1) for each in found]
        return [(start - self.start, end - self.start) for start, end in spans]

    @cached_property
    def _marks(self) -> list[tuple[int, int]]:
        return [found.span() for found in _MARKUP.finditer(self.source[self.start : self.end])]

    def _may_change(self, start: int, end: int) -> bool:
        """Return whether a range lies within a text, and neither begins nor ends within a tag."""
        return any(begin <= start and end <= until for begin, until in self._texts) and not any(
            begin < start < until or begin < end < until for begin, until in self._marks
        )


def entry_pieces(given: Given, parts: int, least: int = LEAST) -> list[Entries]:
    """Return the pieces of a file in one of these formats, of ``least`` characters or more; empty for other texts."""
    text, ending = given.text, given.ending
    begins = text[:400].lstrip("\ufeff \t\r\n").lower()
    found: list[Entry] = []
    form = Format(lambda text, _: text, lambda text: text)
    newline = "\r\n" if "\r\n" in text else "\n"
    if ending in (".html", ".htm", ".xhtml") or begins.startswith(("<!doctype html", "<html")):
        found = _Html(text).entries()
    elif ending in (".srt", ".vtt") or _SRT.match(text):
        found = list(_cues(text, is_vtt=ending == ".vtt" or begins.startswith("webvtt")))
        form = Format(partial(_cue, newline=newline), _of_cue)
    elif ending in (".po", ".pot") or (not ending and begins.startswith(("msgid", "#")) and _PO.search(text)):
        found = list(_messages(text, translates=given.change == "translate"))
        form = Format(partial(_message, newline=newline), _escaped, quoted=True)
    elif ending == ".json" or (not ending and begins.startswith(("{", "["))):
        string = partial(_string, ascii_only=text.removeprefix("\ufeff").isascii() and "\\u" in text)
        found, form = list(_strings(text)), Format(lambda text, _: string(text), lambda text: string(text)[1:-1], True)
    found = [entry for entry in found if _LETTER.search(_MARKUP.sub("", entry.text))]
    return list(_grouped(text, found, form, parts, least))


def _grouped(text: str, found: list[Entry], form: Format, parts: int, least: int) -> Iterator[Entries]:
    size = max(least, min(MOST, sum(len(entry.text) for entry in found) // max(1, parts)))
    begin = 0
    for number in range(1, len(found) + 1):
        length = sum(len(entry.text) for entry in found[begin:number])
        if length < (least if begin == 0 else size) and number < len(found):
            continue
        own = tuple(found[begin:number])
        shown = json.dumps({str(place): entry.text for place, entry in enumerate(own, start=1)}, ensure_ascii=False)
        before = "\n".join(entry.text for entry in found[max(0, begin - SHOWN) : begin])
        after = "\n".join(entry.text for entry in found[number : number + SHOWN])
        yield Entries(begin + 1, own[0].start, own[-1].end, shown, before, after, own, form, text)
        begin = number


class _Html(HTMLParser):
    """Collects runs of text and inline tags between block tags."""

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
        if hides and tag not in _VOID:
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

    def handle_entityref(self, name: str) -> None:
        self.handle_data(name)

    handle_charref = handle_entityref

    def handle_comment(self, data: str) -> None:  # noqa: ARG002 - as called
        self._break(self._at)

    @property
    def _at(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def _go_on(self) -> None:
        if self._run is None:
            self._run = self._at

    def _break(self, at: int) -> None:
        if self._run is not None:
            run = self._text[self._run : at]
            start = self._run + len(run) - len(run.lstrip())
            self._found.append(Entry(start, start + len(run.strip()), run.strip()))
        self._run = None


def _cues(text: str, *, is_vtt: bool) -> Iterator[Entry]:
    """Yield the lines below each time, up to a blank line; in SRT, later lines belong to the cue, too."""
    lines: list[re.Match[str]] = []
    last, in_cue = 0, False
    for line in _LINE.finditer(text):
        is_time = _TIME.match(line[0]) is not None
        ends = not line[0].strip() or len(text[last : line.start()].replace("\r\n", "\n")) > 1  # an empty line
        if is_time and lines and _COUNTER.fullmatch(lines[-1][0]):
            lines.pop()
        if lines and (is_time or ends):
            yield _of_lines(text, lines)
            lines = []
        in_cue = is_time or (in_cue and not (is_vtt and ends))
        if in_cue and not is_time and line[0].strip():
            lines.append(line)
        last = line.end()
    if lines:
        yield _of_lines(text, lines)


def _of_lines(text: str, lines: Sequence[re.Match[str]]) -> Entry:
    start, end = lines[0].start(), lines[-1].start() + len(lines[-1][0].rstrip())
    return Entry(start, end, text[start:end])


def _of_cue(text: str) -> str:
    """Return a text without blank lines, which would end a cue, and without the arrow of a time."""
    return re.sub(r"\n(?:[ \t\r]*+\n)++", "\n", text.replace("-->", "->"))


def _cue(text: str, _: Entry, *, newline: str) -> str:
    return newline.join(line.strip() for line in _of_cue(text).splitlines() if line.strip())


def _messages(text: str, *, translates: bool) -> Iterator[Entry]:
    """Yield what to write in a gettext file: when translating, the missing translations, else all translations."""
    found: list[Entry] = []
    empty: list[bool] = []
    source = plural = ""
    for message in _MESSAGE.finditer(text):
        key, value = message["key"], _unescaped(message["value"])
        if key == "msgid":
            source = plural = value
        elif key == "msgid_plural":
            plural = value
        elif key.startswith("msgstr") and source:
            of = (source if key in ("msgstr", "msgstr[0]") else plural) if translates else value
            found.append(Entry(*message.span("value"), of, is_there=of == value))
            empty.append(not value)
    yield from compress(found, empty) if translates and any(empty) else found


def _unescaped(value: str) -> str:
    inner = "".join(each[1:-1] for each in _PART.findall(value))
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), inner)


def _message(text: str, entry: Entry, *, newline: str) -> str:
    # gettext requires leading and trailing line ends to match those of the source
    inner = text.strip("\r\n")
    before, after = ("\n" if at_edge else "" for at_edge in (entry.text.startswith("\n"), entry.text.endswith("\n")))
    lines = [_escaped(line) for line in f"{before}{inner}{after}".splitlines(keepends=True)]
    return f'"{lines[0]}"' if len(lines) == 1 else newline.join(['""', *(f'"{line}"' for line in lines)])


def _escaped(text: str) -> str:
    return "".join(_ESCAPED.get(sign, sign) for sign in text)


def _strings(text: str) -> Iterator[Entry]:
    """Yield the strings of a JSON file except keys, addresses and placeholders; nothing if it is not JSON."""
    try:
        json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return
    for found in _STRING.finditer(text):
        if found["key"] is None and not _BARE.fullmatch(value := json.loads(found[0], strict=False)):
            yield Entry(found.start(), found.end(), value)


def _string(text: str, *, ascii_only: bool) -> str:
    return json.dumps(fix_surrogates(text), ensure_ascii=ascii_only)
