"""A text assembled block by block, with exact offsets of its headings, and the rows of its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stretto.values.document import Heading
from stretto.values.errors import DocumentError

MOST_CHARACTERS = 200_000_000
_MOST_COLUMNS = 200
_REPEATED = 100  # characters of a cell that is repeated in all rows and columns it spans


_ORDINALS = frozenset({"st", "nd", "rd", "th", "er", "re", "e", "ère", "ème", "o", "a", "os", "as"})
_LAST_LETTER, _LAST_ROMAN = 780, 4_000
_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl")),
    *((10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table, and how many columns and rows it spans."""

    text: str
    columns: int = 1
    rows: int = 1


class TextLayout:
    """Blocks of text, one below the other."""

    def __init__(self) -> None:
        self.headings: list[Heading] = []
        self.length = 0
        self._parts: list[str] = []
        self._gap = True  # the text ends with an empty line, or is empty

    def add(self, text: str, *, end: str = "\n\n", level: int = 0, heading: str = "") -> None:
        """Add a block; with a level it is a heading, named ``heading`` or by its text.

        Raises `DocumentError` if the whole gets too long.
        """
        if not text.strip():
            return
        if level:
            self.headings.append(Heading(offset=self.length, level=level, text=" ".join((heading or text).split())))
        self._put(text + end)
        self._gap = end.endswith("\n\n")

    def gap(self) -> None:
        """Add an empty line, unless there is one."""
        if not self._gap:
            self._put("\n")
            self._gap = True

    def table(self, rows: Sequence[Sequence[Cell]]) -> None:
        """Add a line for each row, with ``|`` between its cells."""
        self.gap()
        for row in rows_of(rows):
            self.add(row, end="\n")
        self.gap()

    def text(self) -> str:
        return "".join(self._parts)

    def _put(self, text: str) -> None:
        self._parts.append(text)
        self.length += len(text)
        if self.length > MOST_CHARACTERS:
            raise DocumentError(f"its text is longer than {MOST_CHARACTERS:,} characters; split it")


def rows_of(rows: Sequence[Sequence[Cell]], between: str = " | ") -> Iterator[str]:
    """Yield the rows of a table, each cell in its column.

    A short cell is repeated in the rows and columns it spans, a long one leaves them empty. The only cell of a row is
    written once.
    """
    below: dict[int, tuple[int, str]] = {}  # by column: how many more rows a cell from above spans, and its text
    for row in rows:
        texts: list[str] = []

        def from_above(texts: list[str] = texts) -> None:
            while len(texts) in below:
                left, text = below.pop(len(texts))
                if left > 1:
                    below[len(texts)] = left - 1, text
                texts.append(text)

        for cell in row:
            from_above()
            repeated = cell.text if len(cell.text) <= _REPEATED else ""
            for place in range(min(cell.columns, _MOST_COLUMNS) if len(row) > 1 else 1):
                text = cell.text if place == 0 else repeated
                if cell.rows > 1 and (place == 0 or len(texts) not in below):
                    below[len(texts)] = cell.rows - 1, repeated
                texts.append(text)
        from_above()
        if any(texts):
            yield between.join(texts).rstrip(" |")


def numeral(number: int, form: str) -> str:
    """Format a list number: ``lowerLetter``, ``upperLetter``, ``lowerRoman``, ``upperRoman`` or in figures."""
    if form in {"lowerLetter", "upperLetter"} and 1 <= number <= _LAST_LETTER:
        letters = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
    elif form in {"lowerRoman", "upperRoman"} and 1 <= number < _LAST_ROMAN:
        letters = ""
        for value, sign in _ROMAN:
            letters += sign * (number // value)
            number %= value
    else:
        return str(number)
    return letters.upper() if form.startswith("upper") else letters


def before_script(before: str, text: str, *, raised: bool) -> str:
    """Return the mark before a superscript or subscript that would otherwise merge with the preceding text.

    >>> before_script("0", "6", raised=True), before_script("H", "2", raised=False)
    ('^', '')
    """
    text = text.strip()
    if not text or not before.strip():
        return ""
    if raised:
        return "^" if (text[0].isalnum() or text[0] in "+-−–") and text.lower() not in _ORDINALS else ""
    return "_" if before.isdigit() and text[0].isalnum() else ""
