"""The map of a long document: a row of marks that light up as its passages are read."""

from __future__ import annotations

from textual.strip import Strip

from stretto.cli.output.markdown import Part
from stretto.cli.output.progress import counted
from stretto.cli.terminal.lines import CONSOLE, Lines, strips_of
from stretto.display.palette import TERMINAL
from stretto.values.citation import PassageRecord

UNREAD, READ, FOUND, LEFT_OUT = "░", "▒", "█", "×"


class Passages(Lines):
    """One mark a passage in the order of the text; one for several where the terminal is narrower."""

    def __init__(self) -> None:
        super().__init__()
        self._records: list[PassageRecord] = []
        self._total = 0

    def read(self, record: PassageRecord, total: int) -> None:
        """Take one passage into account; `changed` shows it."""
        self._records.append(record)
        self._total = total

    def draw_rows(self, width: int) -> list[Strip]:
        """The marks, and how many passages hold something for the question."""
        if not self._total:
            return []
        ordered = sorted(self._records, key=lambda each: (each.document, each.start))
        marks = [*map(_mark, ordered), *([UNREAD] * (self._total - len(ordered)))]
        cells = min(width, len(marks))
        strip = "".join(
            _strongest(marks[at * len(marks) // cells : (at + 1) * len(marks) // cells]) for at in range(cells)
        )
        found = sum(record.informative for record in ordered)
        said = f"{len(ordered):,} of {counted(self._total, 'passage')} read, {found:,} with something for the question"
        rows: list[list[Part]] = [
            [(strip, CONSOLE.get_style(TERMINAL.accent))],
            [(said[:width], CONSOLE.get_style("dim"))],
        ]
        return strips_of(rows)


def _mark(record: PassageRecord) -> str:
    return LEFT_OUT if record.status != "read" else FOUND if record.informative else READ


def _strongest(marks: list[str]) -> str:
    return next(mark for mark in (FOUND, LEFT_OUT, READ, UNREAD) if mark in marks)
