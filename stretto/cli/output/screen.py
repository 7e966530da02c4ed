"""The two outputs: the answer on standard output, everything else on standard error.

On a terminal a progress line stands behind the text while nothing streams, and below it what the text
has not come to. Both are drawn to the right of the cursor and below it, which goes back to where it was:
clearing the rest of the screen takes them back, whatever the user typed meanwhile, and no line above is
touched.
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
PAUSES = 4  # times as long as a drawing took; a long block takes long to draw
CALM_S = 0.5  # seconds without text before the progress line comes back: tokens are to flow without flicker
NARROWEST = 12  # cells; a progress line shorter than this says nothing
TAB = 8
BAR = 24  # cells
MOST_BELOW = 8  # lines
FEWEST_ROWS = 2 * MOST_BELOW  # of a terminal that has room for lines below the text


class Screen:
    """Writes text as it comes, notes beside it, and the progress line on a terminal.

    ``quiet`` drops notes and progress; ``unrendered`` shows an answer as it is written, and not its Markdown drawn,
    which is also so where the output is no terminal or NO_COLOR is set. Attributes: ``live``: both outputs are a
    terminal that can move its cursor, so that progress can be shown; ``below``: lines to show below the text.
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
        self._drawn = ""  # what takes it back
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
        from rich.console import Console  # noqa: PLC0415 - most of what rich costs

        return Console(file=self._err, highlight=False, markup=False, emoji=False)

    @property
    def width(self) -> int:
        """Columns to draw in."""
        return self._console.width

    @property
    def encodes_blocks(self) -> bool:
        """Whether standard error can show more than ASCII."""
        return (self._err.encoding or "").lower().replace("-", "").startswith("utf")

    def begin(self) -> None:
        """The cursor is at the beginning of a line that something else has come to, such as the user's typing."""
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
        """Write a piece of an answer: on a terminal, its Markdown is drawn."""
        if not self._renders:
            self.write(text)
            return
        if self._flow is None:
            from rich.console import Console  # noqa: PLC0415 - most of what rich costs

            from stretto.cli.output.markdown import Flow, renderer  # noqa: PLC0415 - likewise

            console = Console(file=self._out, highlight=False, markup=False, emoji=False)
            self._flow = Flow(renderer(console), console.height - (MOST_BELOW if self.live else 0))
        self._flow.feed(plain(text))
        self._undrawn = True
        self._next_s = self._now_s() + CALM_S
        self._draw_in_time()

    @property
    def redraws(self) -> bool:
        """Whether `tick` is to be called now and then, while nothing comes as well."""
        return self.live or self._renders

    def _draw_in_time(self) -> None:
        if self._now_s() >= self._due_s:
            self._draw()

    def _draw(self) -> None:
        """Draw what came of the answer."""
        if self._flow is None or not self._undrawn:
            return
        began = self._now_s()
        text = self._flow.draw()
        self._column, self._open_line = self._flow.column, True
        if self._last != "text" or not self.live:
            self.erase()
        self._turn_to("text")
        before, self._drawn = self._drawn, ""
        self._out.write(before + text + self._drawn_below())  # in one piece, so that nothing flickers
        self._out.flush()
        ended = self._now_s()
        self._undrawn, self._due_s = False, ended + max(REDRAW_S, PAUSES * (ended - began))

    def _drawn_below(self) -> str:
        """What to send so that the lines below the text are shown, and the cursor is where it was."""
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
        """End the line that the answer left open, if it did."""
        self.below = ()
        self._draw()
        self._flow = None
        self.erase()
        if self._open_line:
            self._out.write("\n")
            self._out.flush()
            self._open_line, self._column = False, 0

    def note(self, text: str, style: str = "dim") -> None:
        """Say something beside the answer, on a separate line; not when quiet."""
        if not self.quiet:
            from rich.text import Text  # noqa: PLC0415 - most of what rich costs

            self.show(Text(plain(in_options(text)), style=style))

    def warn(self, text: str) -> None:
        """Say what the reader must not miss; not when quiet."""
        self.note(f"warning: {one_line(text)}", "yellow")

    def show(self, *drawn: RenderableType) -> None:
        """Draw something that was asked for, on standard error."""
        self.erase()
        if self._out.isatty():
            self.end()
        self._turn_to("notes")
        for each in drawn:
            # Piped lines are not cut at 80 columns: whoever reads them knows its own width.
            self._console.print(each, soft_wrap=not self._err.isatty())

    def _turn_to(self, what: Literal["text", "notes"]) -> None:
        """Where both outputs are the same terminal, an empty line between answer and notes."""
        if self.live and self._last not in ("", what):
            self._err.write("\n")
            self._err.flush()
        self._last = what

    def tick(self, phrase: Callable[[], str]) -> None:
        """Draw the next frame of the progress line, if it is time and there is room for it behind the text."""
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
        # In one piece, so that nothing flickers.
        self._err.write(f"{before}\x1b[2m{line}\x1b[22m\x1b[{cell_len(line)}D{self._drawn_below()}")
        self._err.flush()

    def bar(self) -> Callable[[int, int, str], None]:
        """Draw a bar as the progress line: what is done, of how much, what is being done, and the seconds so far.

        Where no terminal shows it, a note says the same at every tenth.
        """
        began, told = self._now_s(), 0
        full, empty = ("█", "░") if self.encodes_blocks else ("#", "-")

        def show(done: int, whole: int, doing: str) -> None:
            nonlocal told
            tenth = done * 10 // whole
            if not self.live and tenth > told:
                told = tenth
                self.note(f"{done} of {whole} · {doing} · {self._now_s() - began:.0f} s")
            filled = done * BAR // whole
            bar = full * filled + empty * (BAR - filled)
            self.tick(lambda: f"{bar} {done} of {whole} · {doing} · {self._now_s() - began:.0f} s")

        return show

    def erase(self) -> None:
        """Take the progress line back."""
        if self._drawn:
            self._err.write(self._drawn)
            self._err.flush()
            self._drawn = ""

    def interrupt(self) -> None:
        """The user pressed Ctrl-C, which the terminal has shown at the cursor."""
        self._undrawn = False
        self.erase()
        self._open_line = self._open_line or self.live


Cell = str | tuple[str, str]
"""A text, or a text and its style."""

GAP = "  "
NARROWEST_COLUMN = 20  # cells; a last column is not wrapped more narrowly than this


def columns(rows: Iterable[Sequence[Cell]], *, width: int | None = None, right: Sequence[int] = ()) -> list[Text]:
    """Draw rows as lines in aligned columns; those in ``right`` are set flush right; ``width=None`` wraps nothing.

    There is no frame and no padding at the end of a line; the last column is wrapped below itself.
    """
    from rich.text import Text  # noqa: PLC0415 - most of what rich costs

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
    """Print lines that are drawn for the width of the terminal; for ``None`` where the output is no terminal."""
    from rich.console import Console  # noqa: PLC0415 - most of what rich costs

    console = Console(highlight=False, markup=False, emoji=False)
    for line in drawn(console.width if console.is_terminal else None):
        console.print(line, soft_wrap=True)
