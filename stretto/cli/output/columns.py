"""Rows in aligned columns: no frame, no padding at the end of a line, the last column wrapped below itself."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

Cell = str | tuple[str, str]
"""A text, or a text and its style."""

GAP = "  "
NARROWEST = 20  # cells; a last column is not wrapped more narrowly than this


def columns(rows: Iterable[Sequence[Cell]], *, width: int | None = None, right: Sequence[int] = ()) -> list[Text]:
    """Draw rows as lines; columns in ``right`` are set flush right; ``width=None`` wraps nothing."""
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
            text = ("\n" + " " * indent).join(textwrap.wrap(text, max(NARROWEST, width - indent)))
        line.append(text, style)
        line.rstrip()
        lines.append(line)
    return lines
