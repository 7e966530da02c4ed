"""Extracts the text of a piece from what was written, without announcements, a code fence, or our own marks."""

from __future__ import annotations

import re

from stretto.language.echoes import echoes
from stretto.language.folding import fold

_HEAD = 160  # characters in which an announcement ends
_WRAPPED = re.compile(r"`{3,}[\w+-]{0,20}[ \t]*\n")
_COLON = re.compile(r"[:：]\s*")


class Result:
    """A filter for the text of one piece; holds back its beginning and its end while they may not belong to it.

    Args:
        source: the piece.
        fence: the mark around it in the prompt.
    """

    def __init__(self, source: str, fence: str) -> None:
        self._source, self._fence = source, fence
        self._buffer = ""
        self._begun = self._announced = self._wrapped = self._ended = False

    def feed(self, text: str) -> str:
        if self._ended:
            return ""
        self._buffer += text
        while not self._begun:
            self._buffer = self._buffer.lstrip()
            if len(self._buffer) < _HEAD and self._may_be_none():
                return ""
            self._begin()
        return self._pass_on()

    def finish(self) -> str:
        while not self._begun:
            self._buffer = self._buffer.lstrip()
            self._begin()
        return self._pass_on(last=True)

    def whole(self, text: str) -> str:
        return self.feed(text) + self.finish()

    def _may_be_none(self) -> bool:
        head = fold(self._buffer)
        if not head or self._buffer.startswith(("`", "=")):
            return "\n" not in self._buffer
        announced = any(head.startswith(each) or each.startswith(head) for each in echoes().announces)
        return announced and "\n\n" not in self._buffer

    def _begin(self) -> None:
        """Drop an announcement or our own mark, after which another can follow; else the text has begun."""
        if self._buffer.startswith(self._fence):
            self._buffer = self._buffer.partition("\n")[2]
            return
        head, own = fold(self._buffer[:_HEAD]), fold(self._source[:_HEAD])
        colon = _COLON.search(self._buffer, 0, _HEAD)
        announced = any(head.startswith(each) and not own.startswith(each) for each in echoes().announces)
        if announced and colon and "\n" in colon[0] and not self._announced:
            self._buffer, self._announced = self._buffer[colon.end() :], True
            return
        self._begun = True
        found = _WRAPPED.match(self._buffer)
        if found and not self._source.startswith(("```", "~~~")):
            self._buffer, self._wrapped = self._buffer[found.end() :], True

    def _pass_on(self, *, last: bool = False) -> str:
        """Pass on what is certainly text: no trailing whitespace, none of our marks, no closing fence."""
        ends = [at for mark in self._marks() if (at := self._buffer.find(f"\n{mark}")) >= 0]
        if ends:
            self._buffer, self._ended, last = self._buffer[: min(ends)], True, True
        if last:
            text, self._buffer = self._buffer.rstrip(), ""
            return text
        # A mark can begin in the last line.
        line = self._buffer.rfind("\n")
        may_be = any(mark.startswith(self._buffer[line + 1 :]) for mark in self._marks())
        text = (self._buffer[: max(0, line)] if may_be else self._buffer).rstrip()
        self._buffer = self._buffer[len(text) :]
        return text

    def _marks(self) -> tuple[str, ...]:
        """Return the line beginnings that end the result."""
        return (self._fence, "```") if self._wrapped else (self._fence,)
