"""Parses the text of one or several entries; results do not depend on how the stream was chunked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from stretto.strategies.runtime.parts import Flow

_LEAD = re.compile(r"[\s*_\"“„«']*")
_BEHIND = re.compile(r"[*_\"”“»']{0,3}\s*(?:[:：=]|→|->|=>|\s[-–—]\s|\n)[*_]{0,3}\s*")
_NUMBER = re.compile(r"^\s*(?:[*_]{1,2})?\(?(?P<number>\d{1,4})(?:[.):\]]|\s[-–—])(?:[*_]{1,2})?(?:\s+|$)(?P<text>.*)$")
_BULLET = re.compile(r"^\s*[-*•–]\s+")
_FENCE = re.compile(r"^\s*```\w*\s*$")

LINE, LINES, PARAGRAPHS = 1, 2, 3
"""The form of an entry."""


class Held:
    """Shows nothing while streaming: the entry is assembled when its branch has ended."""

    def feed(self, text: str) -> str:  # noqa: ARG002 - a filter is given its text
        """Nothing to show yet."""
        return ""

    def finish(self) -> str:
        """Nothing to show: the ending gives the whole entry."""
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
        """Take new text; return what can be shown already."""
        if self._head is None:
            return self._flow.feed(text)
        self._head = (self._head + text).lstrip()
        if len(self._head) <= self._room or not self._head:
            return ""
        head, self._head = self._head, None
        return self._flow.feed(self._without_name(head[: self._room]) + head[self._room :])

    def finish(self) -> str:
        """Return what was held back."""
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
            behind = _BEHIND.match(head, start + len(name))
            if behind and head[behind.end() :].strip():
                return head[behind.end() :]
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
        """The last entry without text behind it, which the form of the entries before it tells apart."""
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
            # If the next number continues this count, the entry itself is a list.
            return [text[lead.end() :] if lead and later != str(int(lead["number"]) + 1) else text]
        lines = [_BULLET.sub("", line).strip() for line in self._plain if line.strip()]
        return lines[1:] if len(lines) > self.most and lines[0].endswith((":", "：")) else lines
