"""The two outputs: the answer on standard output, everything else on standard error.

On a terminal a progress line stands behind the text while nothing streams. It is drawn to the right
of the cursor, which goes back to where it was: clearing the rest of the line takes it back, whatever
the user typed meanwhile, and no line above is touched.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TextIO

from rich.cells import cell_len, set_cell_size

from stretto.cli.plain import one_line, plain
from stretto.cli.terms import in_options

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from stretto.cli.markdown import Flow

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_S = 0.1
REDRAW_S = 0.04  # seconds between two drawings of an answer
CALM_S = 0.5  # seconds without text before the progress line comes back: tokens are to flow without flicker
NARROWEST = 12  # cells; a progress line shorter than this says nothing
TAB = 8
BAR = 24  # cells


class Screen:
    """Writes text as it comes, notes beside it, and the progress line on a terminal.

    ``quiet`` drops notes and progress; ``unrendered`` shows an answer as it is written, and not its Markdown drawn,
    which is also so where the output is no terminal or NO_COLOR is set. Attributes: ``live``: both outputs are a
    terminal that can move its cursor, so that progress can be shown.
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
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._last: Literal["", "text", "notes"] = ""
        self._open_line = False
        self._column = 0
        self._drawn = False
        self._frame = 0
        self._now_s = now_s
        self._next_s = 0.0
        self.live = not quiet and self._out.isatty() and self._err.isatty() and not self._console.is_dumb_terminal
        self.live = self.live and not self._console.legacy_windows
        self._renders = not unrendered and self._out.isatty() and not os.environ.get("NO_COLOR")
        self._renders = self._renders and not (self._console.is_dumb_terminal or self._console.legacy_windows)
        self._flow: Flow | None = None
        self._drawn_s = 0.0
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

            from stretto.cli.markdown import Flow, renderer  # noqa: PLC0415 - likewise

            console = Console(file=self._out, highlight=False, markup=False, emoji=False)
            self._flow = Flow(renderer(console), console.height)
        self._flow.feed(plain(text))
        self._undrawn = True
        self._next_s = self._now_s() + CALM_S
        if not self.live or self._now_s() >= self._drawn_s + REDRAW_S:
            self._draw()

    def _draw(self) -> None:
        """Draw what came of the answer."""
        if self._flow is None or not self._undrawn:
            return
        self.erase()
        self._turn_to("text")
        self._out.write(self._flow.draw())
        self._out.flush()
        self._undrawn, self._drawn_s = False, self._now_s()
        self._column, self._open_line = self._flow.column, True

    def end(self) -> None:
        """End the line that the answer left open, if it did."""
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
        self._draw()
        if not self.live or self._now_s() < self._next_s:
            return
        self._next_s = self._now_s() + FRAME_S
        room = self.width - self._column % self.width - 2
        if room < NARROWEST:
            return
        sign = FRAMES[self._frame % len(FRAMES)] if self.encodes_blocks else "|/-\\"[self._frame % 4]
        self._frame += 1
        line = f"{sign} {phrase()}"
        if cell_len(line) > room:
            line = set_cell_size(line, room - 1).rstrip() + "…"
        self._drawn = True
        # In one piece, so that nothing flickers.
        self._err.write(f"\x1b[K\x1b[2m{line}\x1b[22m\x1b[{cell_len(line)}D")
        self._err.flush()

    def bar(self) -> Callable[[int, int, str], None]:
        """Draw a bar as the progress line: what is done, of how much, what is being done, and the seconds so far."""
        began = self._now_s()
        full, empty = ("█", "░") if self.encodes_blocks else ("#", "-")

        def show(done: int, whole: int, doing: str) -> None:
            filled = done * BAR // whole
            bar = full * filled + empty * (BAR - filled)
            self.tick(lambda: f"{bar} {done} of {whole} · {doing} · {self._now_s() - began:.0f} s")

        return show

    def erase(self) -> None:
        """Take the progress line back."""
        if self._drawn:
            self._err.write("\x1b[K")
            self._err.flush()
            self._drawn = False

    def interrupt(self) -> None:
        """The user pressed Ctrl-C, which the terminal has shown at the cursor."""
        self._undrawn = False
        self.erase()
        self._open_line = self._open_line or self.live
