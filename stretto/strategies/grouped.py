"""Several short points written by one call, each into a branch of its own.

A call whose text takes less time than its first token is not worth it: such points share one. Each text stands below a
line with its number, ``=== 3 ===``. What a point does not get from the shared call, it is asked for by a call of its
own.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence

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

    async def text(self, number: int) -> AsyncIterator[str]:
        """The text of a point, in pieces as they come. Raises `NotWrittenError` at the end of one that is not whole."""
        async for piece in self._texts[number]:
            yield piece
        if number not in self._whole:
            raise NotWrittenError("The call that was to write this point among others has not written it.")

    def reader(self) -> Reader:
        """What reads the text of one try. Of a second one, only points count that the first one had not begun."""
        for number in self._begun:
            self._texts[number].end()
        return Reader(self)

    def end(self) -> None:
        """The call has ended, in any way."""
        for text in self._texts.values():
            text.end()

    def begin(self, number: int, before: int | None) -> bool:
        """A mark: the text before it is whole. Returns whether the text of a point that was asked for begins."""
        if before is not None:
            self.complete(before)
        if number not in self._texts or number in self._begun:
            return False
        self._begun.add(number)
        return True

    def write(self, number: int, text: str) -> None:
        """More text of a point."""
        self._texts[number].add(text)

    def complete(self, number: int) -> None:
        """The text of a point is whole."""
        if not self._texts[number].ended:
            self._whole.add(number)
            self._texts[number].end()


class Reader:
    """Hands the text of one try to the points. A line is held back only while it may be a mark.

    It is the watch of the shared call: see `TextWatch`.
    """

    fault = ""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._point: int | None = None
        self._line = ""  # that may be a mark
        self._is_inside = False  # of a line that is none
        self._space: str | None = None  # behind the text so far, shown once more text follows; None: there is none yet

    def feed(self, text: str) -> str:
        """Take new text; pass it on, for the record of the call."""
        for piece in re.split(r"(?<=\n)", text):
            self._take(piece)
        return text

    def finish(self) -> str:
        """The stream has ended in good order: its last text is whole."""
        self._close_line()
        if self._point is not None:
            self._group.complete(self._point)
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
        elif self._group.begin(int(found[1]), self._point):
            self._point, self._space = int(found[1]), None
        else:
            self._point = None  # nobody asked for what stands below this mark

    def _write(self, text: str) -> None:
        if self._point is None:
            return
        text = text.lstrip() if self._space is None else self._space + text
        body = text.rstrip()
        if body:
            self._group.write(self._point, body)
        if body or self._space is not None:
            self._space = text[len(body) :]
