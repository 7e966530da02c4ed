"""Entries of an answer: parsed from the text of a call, and put into the requested form.

The forms are JSON, a table, numbers, bullets, "item: result", sections, and plain lines. Parsing does not depend on how
the stream was chunked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from stretto.foundation.surrogates import fix_surrogates
from stretto.language.lists import listed
from stretto.strategies.items.splitting import Split
from stretto.strategies.quality.words import letters_of
from stretto.strategies.runtime.merge import TextFilter
from stretto.strategies.runtime.parts import Flow, Notes
from stretto.strategies.structured.bare_json import json_in, read_json
from stretto.values.answer import Branch

LayoutName = Literal["json_array", "json_object", "table", "numbered", "bulleted", "commas", "lines", "sections"]

LONGEST_NAME = 60  # characters; a longer item is not repeated before its result
_FLAGS = re.IGNORECASE
_JSON = re.compile(r"\bjson\b", _FLAGS)
_OBJECT = listed("object")
_ARRAY = listed("array")
_ASKED: dict[LayoutName, re.Pattern[str]] = {name: listed(name) for name in ("table", "commas", "numbered", "bulleted")}
_SECTIONS = listed("sections")
_COLUMNS = re.compile(
    r"\bcolumns?\b(?: (?:for|are|named|called|with|headed))?:?\s+([^.\n:;]{3,120})"
    r"|\bwith ([^.\n:;]{3,120}?) as (?:the )?columns",
    _FLAGS,
)


@dataclass(frozen=True)
class EntryLayout:
    """How entries are assembled. ``titles``: the name of each entry, if entries have names."""

    name: LayoutName
    titles: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    notes: Notes = field(default_factory=Notes)

    @property
    def instruction(self) -> str:
        """The sentence about the form in an entry's prompt."""
        if self.name in ("json_array", "json_object"):
            return "Several fields are one JSON object; a single value stands bare, without brackets."
        if self.name == "table" and self.columns:
            return f"Write one line with the cells {', '.join(self.columns)}, in this order, separated by |."
        return "Write it on one line." if self.name in ("table", "commas") else ""

    @property
    def live(self) -> bool:
        """Whether an entry can be shown while it is being written."""
        return self.name in ("numbered", "bulleted", "lines", "sections")

    @property
    def indent(self) -> str:
        """The indent of an entry's further lines, which keeps them inside its list item."""
        return {"numbered": "   ", "bulleted": "  ", "lines": "  "}.get(self.name, "")

    @property
    def closing(self) -> str:
        """Text after the last entry."""
        return {"json_array": "\n]", "json_object": "\n}"}.get(self.name, "")

    def before(self, number: int, index: int | None = None) -> str:
        """Return the text before entry ``number`` (from 1); ``index`` is the index of its item."""
        title = self._title(index)
        named = f"{title}: " if title else ""
        match self.name:
            case "json_array":
                return "[\n  " if number == 1 else ",\n  "
            case "json_object":
                return ("{\n  " if number == 1 else ",\n  ") + json.dumps(self._item(index), ensure_ascii=False) + ": "
            case "table":
                return self._header() if number == 1 else "\n"
            case "commas":
                return "" if number == 1 else ", "
            case "sections":
                return ("" if number == 1 else "\n\n") + f"**{title}**\n\n"
        gap = "" if number == 1 else "\n"
        marks = {"numbered": f"{number}. ", "bulleted": "- "}
        return gap + marks.get(self.name, "") + named

    def filter_(self, index: int | None = None) -> TextFilter:
        """Return the filter for the text of an entry; forms that are not live hold it back until `ending`."""
        if not self.live:
            return _ShownAtEnd()
        return EntryText((self._item(index), self._title(index)), self.indent)

    def ending(self, branch: Branch, index: int | None = None) -> str:
        """Return the text after an entry that has ended; the whole entry if it was held back."""
        failed = branch.status == "failed"
        if failed and not self.live:
            branch = branch.model_copy(update={"text": ""})  # these forms need whole entries
        if self.name in ("json_array", "json_object"):
            missing = "null" if self.notes.missing else ""
            return missing if failed else self._value(branch.text, index)
        if failed:
            note = self.notes.ending(branch, "" if self.live and self._title(index) else branch.title)
            return self._cell(note, index) if note and not self.live else note
        return "" if self.live else self._cell(branch.text, index)

    def entry(self, text: str, index: int | None = None) -> str:
        """Return an entry whose whole text is known, without the text before it."""
        if self.live:
            filter_ = self.filter_(index)
            return filter_.feed(text) + filter_.finish()
        return self.ending(Branch(id="", kind="item", text=text), index)

    def _title(self, index: int | None) -> str:
        return self.titles[index] if index is not None and self.titles else ""

    def _item(self, index: int | None) -> str:
        return self.items[index] if index is not None and self.items else ""

    def _bare(self, text: str, index: int | None) -> str:
        """Return the text without a repeated name."""
        filter_ = EntryText((self._item(index), self._title(index)), "")
        return filter_.feed(text) + filter_.finish()

    def _cell(self, text: str, index: int | None) -> str:
        """Return the text on one line; in a table, its row."""
        if self.name not in ("commas", "table"):
            return text
        line = " ".join(self._bare(text.strip().strip("|"), index).split())
        if self.name == "commas":
            return line.rstrip(".,;")
        name = self._title(index) or self._item(index)
        if not self.columns:
            return _row([name, line] if name else [line])
        rows = [row for row in text.strip().split("\n") if row.strip() and not re.fullmatch(r"[\s|:-]+", row)]
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", rows[-1].strip().strip("|"))] if rows else []
        if len(cells) == len(self.columns) - 1 and name:
            cells.insert(0, name)
        if len(cells) != len(self.columns):
            cells = [name, line] if name and len(self.columns) > 1 else [line]
            cells += [""] * (len(self.columns) - len(cells))
        return _row(cells)

    def _header(self) -> str:
        cells = self.columns or (("", "") if self.items else ("",))
        return f"{_row(cells)}\n|{' --- |' * len(cells)}\n"

    def _value(self, text: str, index: int | None) -> str:
        """Return the text as valid JSON."""
        body = text.strip().removesuffix("```").rstrip()
        if fence := re.match(r"```\w*\s*", body):
            body = body[fence.end() :]
        try:
            value: Any = read_json(_without_remark(body))
        except (ValueError, RecursionError):
            value = self._bare(body, index)
        else:
            if isinstance(value, list) and len(value) == 1:
                value = value[0]
            if isinstance(value, dict) and [letters_of(key) for key in value] == [letters_of(self._item(index))]:
                value = next(iter(value.values()))
        return fix_surrogates(json.dumps(value, ensure_ascii=False))


def layout_for(split: Split) -> EntryLayout:
    """Return the form that a request asks for, else the form in which its items were given."""
    text = f"{split.context}\n{split.instruction}"
    items = split.items
    short = bool(items) and all(len(item) <= LONGEST_NAME and "\n" not in item for item in items)
    titles = split.labels or (items if short else ())
    if _JSON.search(text):
        keyed = short and (bool(_OBJECT.search(text)) or not _ARRAY.search(text))
        return EntryLayout("json_object" if keyed else "json_array", titles, items)
    wanted = next((name for name, words in _ASKED.items() if words.search(text)), None)
    if wanted == "table":
        return EntryLayout("table", titles, items, _columns(text))
    if wanted is not None:
        return EntryLayout(wanted, titles if split.marks != "numbered" else (), items)
    if not items or split.marks == "numbered" or not titles:
        return EntryLayout("numbered", (), items)
    if _SECTIONS.search(text) and not split.labels:
        return EntryLayout("sections", titles, items)
    return EntryLayout("lines", titles, items)


def _columns(text: str) -> tuple[str, ...]:
    found = _COLUMNS.search(text)
    if not found:
        return ()
    cells = [
        cell.strip(" \"'“”")
        for cell in re.split(r",\s*(?:and\s+)?|(?<!\s)\s+and\s+|(?<!\s)\s*\|\s*", found[1] or found[2])
    ]
    return tuple(cell for cell in cells if cell) if 2 <= len(cells) <= 8 else ()


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(re.sub(r"(?<!\\)\|", r"\|", " ".join(cell.split())) for cell in cells) + " |"


def _without_remark(text: str) -> str:
    """Return the only object or list in a text, without remarks around it."""
    found = json_in(text)
    if len(found) != 1 or not found[0].startswith(("{", "[")):
        return text
    alone = "```" in text or text.removeprefix(found[0]).startswith("\n")
    return found[0] if alone else text


_LEAD = re.compile(r"[\s*_\"“„«']*")
_AFTER_NAME = re.compile(r"[*_\"”“»']{0,3}\s*(?:[:：=]|→|->|=>|\s[-–—]\s|\n)[*_]{0,3}\s*")
_NUMBER = re.compile(r"^\s*(?:[*_]{1,2})?\(?(?P<number>\d{1,4})(?:[.):\]]|\s[-–—])(?:[*_]{1,2})?(?:\s+|$)(?P<text>.*)$")
_BULLET = re.compile(r"^\s*[-*•–]\s+")
_FENCE = re.compile(r"^\s*```\w*\s*$")

LINE, LINES, PARAGRAPHS = 1, 2, 3
"""The forms of an entry, by increasing length."""


class _ShownAtEnd:
    """Shows nothing while streaming: the entry is assembled when its branch has ended."""

    def feed(self, text: str) -> str:  # noqa: ARG002 - a filter is given its text
        return ""

    def finish(self) -> str:
        return ""


class EntryText:
    """Removes a repeated name ("cat: cats") from the beginning of an entry and indents its further lines.

    ``number``: also removed from the beginning. Text is held back until it is longer than a repeated name can be;
    trailing white space is dropped.
    """

    def __init__(self, names: Sequence[str], indent: str, number: int | None = None) -> None:
        self._names = [name for name in dict.fromkeys(names) if name]
        self._number = number
        self._room = max((2 * len(name) + 24 for name in self._names), default=0 if number is None else 12)
        self._flow = Flow(indent)
        self._head: str | None = ""

    def feed(self, text: str) -> str:
        if self._head is None:
            return self._flow.feed(text)
        self._head = (self._head + text).lstrip()
        if len(self._head) <= self._room or not self._head:
            return ""
        head, self._head = self._head, None
        return self._flow.feed(self._without_name(head[: self._room]) + head[self._room :])

    def finish(self) -> str:
        if self._head is None:
            return ""
        head, self._head = self._head, None
        return self._flow.feed(self._without_name(head))

    def _without_name(self, head: str) -> str:
        if self._number is not None:
            head = re.sub(rf"^[\s*_]*{self._number}[.)][*_]*\s+(?=\S)", "", head)
        for name in self._names:
            at = _LEAD.match(head)
            start = at.end() if at else 0
            if head[start : start + len(name)].casefold() != name.casefold():
                continue
            separator = _AFTER_NAME.match(head, start + len(name))
            if separator and head[separator.end() :].strip():
                return head[separator.end() :]
        return head


@dataclass
class Entries:
    """Splits a numbered list while it streams; an entry is complete once the next one begins.

    ``most``: how many were requested; ``first``: the number the list may begin with, besides 1; ``confused``: numbers
    were out of order or too many, so entries may be wrong. Text before the first number is dropped. Without numbers,
    each line is an entry; a single entry is always the whole text.
    """

    most: int
    first: int = 1
    confused: bool = False
    _line: list[str] = field(default_factory=list)
    _entry: list[str] | None = None
    _next: int | None = None
    _begun: int = 0
    _plain: list[str] = field(default_factory=list)
    _longest: int = 0  # form of the entries that are complete

    def feed(self, text: str) -> list[str]:
        """Take new text; return the entries completed by it."""
        first, *others = text.split("\n")
        self._line.append(first)
        found = []
        for line in others:
            found.append(self._take("".join(self._line)))
            self._line = [line]
        return [entry for entry in found if entry]

    def finish(self) -> list[str]:
        """Return the entries that the end of the text completes."""
        found = [self._take("".join(self._line))]
        self._line.clear()
        if self._entry is not None:
            found.append(self._without_tail("\n".join(self._entry).strip()))
            self._entry = None
        elif not self._begun:
            found = self._unnumbered()
        return [entry for entry in found if entry]

    def _without_tail(self, last: str) -> str:
        """Return the last entry without trailing text, which is recognised by the form of the earlier entries."""
        if self._begun < 2 or self._longest == PARAGRAPHS:
            return last
        return last.split("\n", 1)[0] if self._longest == LINE else last.split("\n\n", 1)[0]

    def _take(self, line: str) -> str:
        """Take a line; return the previous entry if the line begins the next one."""
        if _FENCE.match(line) or self._begun > self.most:
            return ""
        found = _NUMBER.match(line) if self.most > 1 else None
        number = int(found["number"]) if found else None
        if found and number is not None and (number == self._next or (not self._begun and number in (1, self.first))):
            before, self._entry = self._entry, [found["text"]] if self._begun < self.most else None
            self.confused = self.confused or self._entry is None
            self._begun += 1
            self._next = number + 1
            whole = "\n".join(before or ()).strip()
            self._longest = max(
                self._longest, LINE if "\n" not in whole else LINES if "\n\n" not in whole else PARAGRAPHS
            )
            return whole
        self.confused = self.confused or found is not None
        (self._plain if self._entry is None else self._entry).append(line if self._entry is None else line.strip())
        return ""

    def _unnumbered(self) -> list[str]:
        if self.most == 1:
            text = "\n".join(self._plain).strip()
            lead = re.match(rf"[*_]*(?P<number>1|{self.first})[.)][*_]*\s+(?=\S)", text)
            later = next((mark["number"] for line in text.split("\n")[1:] if (mark := _NUMBER.match(line))), None)
            # If the next number continues the count, the entry itself is a list.
            return [text[lead.end() :] if lead and later != str(int(lead["number"]) + 1) else text]
        lines = [_BULLET.sub("", line).strip() for line in self._plain if line.strip()]
        return lines[1:] if len(lines) > self.most and lines[0].endswith((":", "：")) else lines
