"""The two outputs: the answer on standard output, everything else on standard error.

On a terminal, a progress line follows the text while nothing streams, and the sections that the text has not reached
are below it. Both are drawn after the cursor, which then returns to its place: clearing the rest of the screen removes
them, whatever the user typed meanwhile, and no line above is touched.
"""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TextIO

from rich.cells import cell_len, set_cell_size

from stretto.cli.output.plain import in_options, one_line, plain

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from stretto.cli.output.markdown import Flow

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_S = 0.1
REDRAW_S = 0.04  # seconds between two drawings of an answer
PAUSES = 4  # minimum pause in multiples of the last drawing time; long blocks are slow to draw
CALM_S = 0.5  # seconds without text before the progress line returns, to avoid flicker
NARROWEST = 12  # cells; shorter progress lines are useless
TAB = 8
BAR = 24  # cells
MOST_BELOW = 8  # lines
FEWEST_ROWS = 2 * MOST_BELOW  # of a terminal with room for lines below the text


class Screen:
    """Writes text as it arrives, notes, and the progress line on a terminal.

    ``quiet`` drops notes and progress; ``unrendered`` shows the answer's Markdown source, as is the case if the output
    is not a terminal or NO_COLOR is set. Attributes: ``live``: both outputs are a terminal with cursor movement, so
    progress can be shown; ``below``: lines to show below the text.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        unrendered: bool = False,
        out: TextIO | None = None,
        err: TextIO | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.quiet = quiet
        self.below: Sequence[str] = ()
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._last: Literal["", "text", "notes"] = ""
        self._open_line = False
        self._column = 0
        self._drawn = ""  # the sequence that erases it
        self._frame = 0
        self._now_s = now_s
        self._next_s = 0.0
        self.live = not quiet and self._out.isatty() and self._err.isatty() and not self._console.is_dumb_terminal
        self.live = self.live and not self._console.legacy_windows
        self._renders = not unrendered and self._out.isatty() and not os.environ.get("NO_COLOR")
        self._renders = self._renders and not (self._console.is_dumb_terminal or self._console.legacy_windows)
        self._flow: Flow | None = None
        self._due_s = 0.0
        self._undrawn = False

    @cached_property
    def _console(self) -> Console:
        from rich.console import Console  # noqa: PLC0415 - most of rich's import time

        return Console(file=self._err, highlight=False, markup=False, emoji=False)

    @property
    def width(self) -> int:
        """The width to draw in, in columns."""
        return self._console.width

    @property
    def encodes_blocks(self) -> bool:
        """Whether standard error can show more than ASCII."""
        return (self._err.encoding or "").lower().replace("-", "").startswith("utf")

    def begin(self) -> None:
        """Note that the cursor is at the beginning of a line because of something else, such as user input."""
        self._last, self._open_line, self._column, self._next_s = "", False, 0, 0.0

    def write(self, text: str) -> None:
        """Write a piece of the answer."""
        self.erase()
        self._turn_to("text")
        text = plain(text)
        self._out.write(text)
        self._out.flush()
        self._next_s = self._now_s() + CALM_S
        if text:
            _, newline, line = text.rpartition("\n")
            self._column = (0 if newline else self._column) + cell_len(line.expandtabs(TAB))
            self._open_line = not text.endswith("\n")

    def answer(self, text: str) -> None:
        """Write a piece of an answer: on a terminal, its Markdown is rendered."""
        if not self._renders:
            self.write(text)
            return
        if self._flow is None:
            from rich.console import Console  # noqa: PLC0415 - most of rich's import time

            from stretto.cli.output.markdown import Flow, renderer  # noqa: PLC0415 - likewise

            console = Console(file=self._out, highlight=False, markup=False, emoji=False)
            self._flow = Flow(renderer(console), console.height - (MOST_BELOW if self.live else 0))
        self._flow.feed(plain(text))
        self._undrawn = True
        self._next_s = self._now_s() + CALM_S
        self._draw_in_time()

    @property
    def redraws(self) -> bool:
        """Whether `tick` has to be called regularly, even while nothing arrives."""
        return self.live or self._renders

    def _draw_in_time(self) -> None:
        if self._now_s() >= self._due_s:
            self._draw()

    def _draw(self) -> None:
        """Draw the new text of the answer."""
        if self._flow is None or not self._undrawn:
            return
        began = self._now_s()
        text = self._flow.draw()
        self._column, self._open_line = self._flow.column, True
        if self._last != "text" or not self.live:
            self.erase()
        self._turn_to("text")
        before, self._drawn = self._drawn, ""
        self._out.write(before + text + self._drawn_below())  # in one write, to avoid flicker
        self._out.flush()
        ended = self._now_s()
        self._undrawn, self._due_s = False, ended + max(REDRAW_S, PAUSES * (ended - began))

    def _drawn_below(self) -> str:
        """Return what to send to show the lines below the text and restore the cursor."""
        if not self.live or not self.below or self._console.height < FEWEST_ROWS:
            return ""
        self._drawn = "\x1b[J"
        lines = [self._fitting(line, self.width - 1) for line in self.below[:MOST_BELOW]]
        column = self._column % self.width
        back = f"\x1b[{len(lines) + 1}A\r" + (f"\x1b[{column}C" if column else "")
        return "\n\x1b[2m" + "".join(f"\n{plain(line)}" for line in lines) + f"\x1b[22m{back}"

    @staticmethod
    def _fitting(line: str, room: int) -> str:
        return line if cell_len(line) <= room else set_cell_size(line, room - 1).rstrip() + "…"

    def end(self) -> None:
        """End the line if the answer left it open."""
        self.below = ()
        self._draw()
        self._flow = None
        self.erase()
        if self._open_line:
            self._out.write("\n")
            self._out.flush()
            self._open_line, self._column = False, 0

    def note(self, text: str, style: str = "dim") -> None:
        """Print a note on a separate line, unless quiet."""
        if not self.quiet:
            from rich.text import Text  # noqa: PLC0415 - most of rich's import time

            self.show(Text(plain(in_options(text)), style=style))

    def warn(self, text: str) -> None:
        """Print a warning, unless quiet."""
        self.note(f"warning: {one_line(text)}", "yellow")

    def show(self, *drawn: RenderableType) -> None:
        """Draw requested output on standard error."""
        self.erase()
        if self._out.isatty():
            self.end()
        self._turn_to("notes")
        for each in drawn:
            # Piped lines are not cut at 80 columns: the reader knows its own width.
            self._console.print(each, soft_wrap=not self._err.isatty())

    def _turn_to(self, what: Literal["text", "notes"]) -> None:
        """Separate answer and notes by an empty line if both outputs are the same terminal."""
        if self.live and self._last not in ("", what):
            self._err.write("\n")
            self._err.flush()
        self._last = what

    def tick(self, phrase: Callable[[], str]) -> None:
        """Draw the next frame of the progress line, if it is due and fits after the text."""
        self._draw_in_time()
        if not self.live or self._now_s() < self._next_s:
            return
        self._next_s = self._now_s() + FRAME_S
        room = self.width - self._column % self.width - 2
        if room < NARROWEST:
            return
        sign = FRAMES[self._frame % len(FRAMES)] if self.encodes_blocks else "|/-\\"[self._frame % 4]
        self._frame += 1
        line = self._fitting(f"{sign} {phrase()}", room)
        before = self._drawn = self._drawn or "\x1b[K"
        # In one write, to avoid flicker.
        self._err.write(f"{before}\x1b[2m{line}\x1b[22m\x1b[{cell_len(line)}D{self._drawn_below()}")
        self._err.flush()

    def bar(self) -> Callable[[int, int, str], None]:
        """Return a callback that draws a progress bar: steps done, total, current step, and the seconds so far.

        Without a terminal, a note reports every tenth instead.
        """
        began, reported = self._now_s(), 0
        full, empty = ("█", "░") if self.encodes_blocks else ("#", "-")

        def show(done: int, whole: int, doing: str) -> None:
            nonlocal reported
            tenth = done * 10 // whole
            if not self.live and tenth > reported:
                reported = tenth
                self.note(f"{done} of {whole} · {doing} · {self._now_s() - began:.0f} s")
            filled = done * BAR // whole
            bar = full * filled + empty * (BAR - filled)
            self.tick(lambda: f"{bar} {done} of {whole} · {doing} · {self._now_s() - began:.0f} s")

        return show

    def erase(self) -> None:
        """Erase the progress line."""
        if self._drawn:
            self._err.write(self._drawn)
            self._err.flush()
            self._drawn = ""

    def interrupt(self) -> None:
        """Note that the terminal has shown the user's Ctrl-C at the cursor."""
        self._undrawn = False
        self.erase()
        self._open_line = self._open_line or self.live


Cell = str | tuple[str, str]
"""A text, or a text and its style."""

GAP = "  "
NARROWEST_COLUMN = 20  # cells; minimum width at which the last column is wrapped


def columns(rows: Iterable[Sequence[Cell]], *, width: int | None = None, right: Sequence[int] = ()) -> list[Text]:
    """Format rows as aligned columns, those in ``right`` right-aligned; ``width=None`` disables wrapping.

    Lines have no frame and no trailing padding; the last column wraps within itself.
    """
    from rich.text import Text  # noqa: PLC0415 - most of rich's import time

    table = [[(cell, "") if isinstance(cell, str) else cell for cell in row] for row in rows]
    wide = [
        max(cell_len(row[at][0]) for row in table if at < len(row)) for at in range(max(map(len, table), default=0))
    ]
    lines = []
    for row in table:
        line = Text()
        for at, (text, style) in enumerate(row[:-1]):
            fitted = " " * (wide[at] - cell_len(text)) + text if at in right else set_cell_size(text, wide[at])
            line.append(fitted, style).append(GAP)
        text, style = row[-1]
        indent = len(line)
        if len(row) - 1 in right:
            text = " " * (wide[len(row) - 1] - cell_len(text)) + text
        elif width is not None and text:
            text = ("\n" + " " * indent).join(textwrap.wrap(text, max(NARROWEST_COLUMN, width - indent)))
        line.append(text, style)
        line.rstrip()
        lines.append(line)
    return lines


def print_lines(drawn: Callable[[int | None], Iterable[Text]]) -> None:
    """Print lines drawn for the width of the terminal, or for ``None`` if the output is not a terminal."""
    from rich.console import Console  # noqa: PLC0415 - most of rich's import time

    console = Console(highlight=False, markup=False, emoji=False)
    for line in drawn(console.width if console.is_terminal else None):
        console.print(line, soft_wrap=True)
