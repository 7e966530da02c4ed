"""Widgets that draw rows of styled text, the base of all widgets that show untrusted text.

Text from a model, a file or a server reaches the screen only through these rows, as styled characters. It is never
parsed as markup of Rich or Textual, and cannot be clicked.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from stretto.cli.output.markdown import Part, blocks, rows
from stretto.cli.output.plain import plain
from stretto.display.palette import TERMINAL

CONSOLE = Console(
    file=io.StringIO(), width=80, force_terminal=True, legacy_windows=False, markup=False, emoji=False, highlight=False
)
_BREAKS = str.maketrans({"\u2028": "\n", "\u2029": "\n"})  # which others treat as line ends


def words(text: str, style: str = "") -> Text:
    """Return untrusted text as plain characters."""
    return Text(plain(text).translate(_BREAKS), style, end="")


def strips_of(rows: Iterable[Sequence[Part]]) -> list[Strip]:
    """Convert rows to Textual's strips."""
    return [
        Strip([Segment(text.translate(_BREAKS).replace("\n", " "), style) for text, style in row if text])
        for row in rows
    ]


def _parts(line: Text) -> list[Part]:
    """Return the pieces of a line; the styles of its parts override that of the whole text."""
    below = CONSOLE.get_style(line.style)
    return [(segment.text, below + (segment.style or Style.null())) for segment in line.render(CONSOLE)]


class Lines(Widget):
    """A widget whose rows depend only on the width. Text can be selected with the mouse."""

    DEFAULT_CSS = "Lines { width: 1fr; height: auto; }"
    ALLOW_SELECT = True

    def __init__(self, *, classes: str | None = None, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(classes=classes, id=id, markup=False)
        self._kept: tuple[int, list[Strip]] = (-1, [])

    def draw_rows(self, width: int) -> list[Strip]:
        """Render all rows for this width in cells."""
        raise NotImplementedError

    def changed(self) -> None:
        """Redraw the rows."""
        self._kept = (-1, [])
        self.refresh(layout=True)

    def _strips(self, width: int) -> list[Strip]:
        if self._kept[0] != width:
            self._kept = (width, self.draw_rows(width))
        return self._kept[1]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002 - Textual's
        return len(self._strips(width)) if width > 0 else 0

    def render_line(self, y: int) -> Strip:
        """Render one row with its selection."""
        strips = self._strips(self.size.width)
        if y >= len(strips):
            return Strip.blank(self.size.width, self.rich_style)
        strip = strips[y]
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(y)) is not None:
            text = Text.assemble(*((segment.text, segment.style or "") for segment in strip), end="")
            end = len(text) if span[1] == -1 else span[1]
            text.stylize(self.screen.get_component_rich_style("screen--selection"), span[0], end)
            strip = Strip(text.render(CONSOLE))
        return strip.apply_style(self.rich_style).apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return selection.extract("\n".join(strip.text for strip in self._strips(self.size.width))), "\n"


class Words(Lines):
    """Texts below each other, wrapped."""

    def __init__(self, *texts: Text, classes: str | None = None, id: str | None = None) -> None:  # noqa: A002 - as above
        super().__init__(classes=classes, id=id)
        self.texts: Sequence[Text] = texts

    def say(self, *texts: Text) -> None:
        """Show these instead."""
        self.texts = texts
        self.changed()

    def draw_rows(self, width: int) -> list[Strip]:
        """Render each text on as many rows as needed."""
        return strips_of(_parts(line) for text in self.texts for line in text.wrap(CONSOLE, width))

    @property
    def plain_text(self) -> str:
        """The text shown, without styles."""
        return "\n".join(text.plain for text in self.texts)


class Foot(Words):
    """A status row, which changes often without moving anything else."""

    DEFAULT_CSS = "Foot { height: 1; padding: 0 1; }"

    def changed(self) -> None:
        """Redraw it in place."""
        self._kept = (-1, [])
        self.refresh()


class Written(Lines):
    """Streamed Markdown. Complete blocks are drawn once per width, the open one with each `changed`.

    JSON records are drawn verbatim: Markdown would drop some of their characters.
    """

    def __init__(self, text: str = "", *, classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self.text = text
        self._width = -1
        self._open = text
        self._record = ""
        self._done: list[Strip] = []

    def feed(self, piece: str) -> None:
        """Add the next piece; `changed` shows it."""
        self.text += piece
        self._open += piece

    def settle(self, text: str, record: str = "") -> None:
        """Show this text instead; a ``record`` is shown as indented JSON."""
        self.text, self._record = text, record
        self._width = -1
        self.changed()

    def draw_rows(self, width: int) -> list[Strip]:
        """Render the blocks, with an empty row between them."""
        if self._record:
            return strips_of(_parts(line) for line in words(self._record, TERMINAL.code).wrap(CONSOLE, width))
        if width != self._width:
            self._width, self._open, self._done = width, self.text, []
        *done, self._open = blocks(self._open)
        for block in done:
            self._done = self._with(block, width)
        return self._with(self._open, width)

    def _with(self, block: str, width: int) -> list[Strip]:
        drawn = strips_of(rows(block, CONSOLE, width))
        return [*self._done, *([Strip([])] if self._done and drawn else []), *drawn]
