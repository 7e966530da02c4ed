"""Several short points written by one call, each into a branch of its own.

A call whose text takes less time than its first token is not worth it: such points share one. Each text stands below a
line with its number, ``=== 3 ===``. What a point does not get from the shared call, it is asked for by a call of its
own.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence

from stretto.errors import StrettoError
from stretto.foundation.queue import Queue

__all__ = ["Group", "NotWrittenError"]

_MARK = re.compile(r"[ \t*#>]{0,8}={2,8}[ \t]*(?:[Pp]oint[ \t]*)?(\d{1,2})[ \t.:]{0,4}={0,8}[ \t*]{0,8}$")
_LONGEST = 40  # characters of a line that may be a mark
_MAY_BE = re.compile(r"[ \t*#>]{0,8}(?:=|$)")


class NotWrittenError(StrettoError):
    """The shared call has not written this point, or not to its end."""


class Group:
    """The texts of one shared call, for the branches of its points.

    Args:
        numbers: of the points.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._texts = {number: Queue[str]() for number in numbers}
        self._begun: set[int] = set()
        self._whole: set[int] = set()
        self._last: int | None = None  # whose text is being written

    async def text(self, number: int) -> AsyncGenerator[str]:
        """The text of a point, in pieces as they come. Raises `NotWrittenError` at the end of one that is not whole."""
        async for piece in self._texts[number]:
            yield piece
        if number not in self._whole:
            raise NotWrittenError("The call that was to write this point among others has not written it.")

    def reader(self) -> Reader:
        """What reads the text of one try. Of a second one, only points count that the first one had not begun."""
        self._last = None
        for number in self._begun:
            self._texts[number].end()
        return Reader(self)

    def end(self, *, whole: bool) -> None:
        """The call has ended; ``whole``: its last text is complete."""
        if whole:
            self._complete()
        for text in self._texts.values():
            text.end()

    def begin(self, number: int) -> None:
        """A mark: the text before it is whole, and that of this point begins, if it was asked for."""
        self._complete()
        if number in self._texts and number not in self._begun:
            self._begun.add(number)
            self._last = number

    def write(self, text: str) -> None:
        """More text of the point that is being written."""
        if self._last is not None:
            self._texts[self._last].add(text)

    def _complete(self) -> None:
        if self._last is not None:
            self._whole.add(self._last)
            self._texts[self._last].end()
            self._last = None


class Reader:
    """Hands the text of one try to the points. A line is held back only while it may be a mark.

    It is the watch of the shared call: see `TextWatch`.
    """

    fault = ""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._line = ""  # that may be a mark
        self._is_inside = False  # of a line that is none
        self._space: str | None = None  # behind the text so far, shown once more text follows; None: there is none yet

    def feed(self, text: str) -> str:
        """Take new text; pass it on, for the record of the call."""
        for piece in re.split(r"(?<=\n)", text):
            self._take(piece)
        return text

    def finish(self) -> str:
        """The stream has ended; `Group.end` says whether its last text is whole."""
        self._close_line()
        return ""

    def _take(self, piece: str) -> None:
        if self._is_inside:
            self._write(piece)
        else:
            self._line += piece
            if piece.endswith("\n"):
                self._close_line()
            elif len(self._line) > _LONGEST or not _MAY_BE.match(self._line):
                self._write(self._line)
                self._line, self._is_inside = "", True
        if piece.endswith("\n"):
            self._is_inside = False

    def _close_line(self) -> None:
        line, self._line = self._line, ""
        found = _MARK.match(line.rstrip()) if len(line) <= _LONGEST else None
        if found is None:
            self._write(line)
        else:
            self._group.begin(int(found[1]))
            self._space = None

    def _write(self, text: str) -> None:
        text = text.lstrip() if self._space is None else self._space + text
        body = text.rstrip()
        if body:
            self._group.write(body)
        if body or self._space is not None:
            self._space = text[len(body) :]
