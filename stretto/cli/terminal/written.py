"""The text of an answer, its Markdown drawn while it is written."""

from __future__ import annotations

from textual.strip import Strip

from stretto.cli.markdown import blocks, rows
from stretto.cli.terminal.lines import CONSOLE, Lines, strips_of


class Written(Lines):
    """Feed it pieces. Blocks that are complete are drawn once for each width, the open one with each `show`."""

    def __init__(self, text: str = "", *, classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self.text = text
        self._width = -1
        self._open = text
        self._done: list[Strip] = []

    def feed(self, piece: str) -> None:
        """Take the next piece; `changed` shows it."""
        self.text += piece
        self._open += piece

    def settle(self, text: str) -> None:
        """Show this text instead."""
        self.text = text
        self._width = -1
        self.changed()

    def draw_rows(self, width: int) -> list[Strip]:
        """The blocks, with an empty row between them."""
        if width != self._width:
            self._width, self._open, self._done = width, self.text, []
        *done, self._open = blocks(self._open)
        for block in done:
            self._done = self._with(block, width)
        return self._with(self._open, width)

    def _with(self, block: str, width: int) -> list[Strip]:
        drawn = strips_of(rows(block, CONSOLE, width))
        return [*self._done, *([Strip([])] if self._done and drawn else []), *drawn]
