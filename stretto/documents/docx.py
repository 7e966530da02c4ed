"""Word files (.docx), by python-docx: paragraphs and tables in their order, with headings."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import docx
from docx.table import Table, _Cell

from stretto.document import Document, Heading
from stretto.errors import DocumentError

__all__ = ["read_docx"]

_MOST_UNPACKED = 256 * 2**20  # bytes of all parts together
_MOST_CHARACTERS = 200_000_000
_HIGHEST_RATIO = 200  # of unpacked to packed bytes; text packs by less than 20
_STYLE = re.compile(r"(?:heading|überschrift|titre|título|intestazione|kop)\s*(\d)", re.IGNORECASE)


def read_docx(data: bytes, title: str) -> Document:
    """The text of a Word file; table cells are parted by ``|``. Raises `DocumentError` for what is none."""
    try:
        _check_size(data)
        opened = docx.Document(io.BytesIO(data))
        named = (opened.core_properties.title or "").strip()
        parts: list[str] = []
        headings: list[Heading] = []
        length = 0
        for block in opened.iter_inner_content():
            if isinstance(block, Table):
                said = "\n".join(_rows(block, _MOST_CHARACTERS - length))
            else:
                said = block.text
                if said.strip() and (level := _level(block)):
                    headings.append(Heading(offset=length, level=level, text=" ".join(said.split())))
            if said.strip():
                parts.append(said + "\n\n")
                length += len(said) + 2
    except DocumentError:
        raise
    except Exception as error:  # a parser of other people's files may raise anything
        raise DocumentError(f"it cannot be read as a Word file: {str(error)[:200] or type(error).__name__}") from error
    return Document(text="".join(parts), title=named or title, headings=tuple(headings))


def _check_size(data: bytes) -> None:
    """Refuse archives that unpack to more than memory should hold, by the sizes that unpacking is bound to."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        unpacked = sum(part.file_size for part in archive.infolist())
    if unpacked > _MOST_UNPACKED or unpacked > _HIGHEST_RATIO * max(len(data), 2**16):
        raise DocumentError(
            f"it unpacks from {len(data):,} to {unpacked:,} bytes, far more than a text does; it is not opened"
        )


def _level(paragraph: Any) -> int:
    style = getattr(paragraph.style, "name", None) or ""
    if style.lower() == "title":
        return 1
    return int(found[1]) if (found := _STYLE.match(style)) else 0


def _rows(table: Table, room: int) -> Iterator[str]:
    """The rows of a table, each cell once in each of its rows.

    Not by ``row.cells``, which makes an object for each column that a cell claims to span, and looks up through all
    rows of a cell that spans them.
    """
    above: dict[int, str] = {}  # the text of the cell that began there, by column
    for row in table._tbl.tr_lst:
        column, said = row.grid_before, list[str]()
        for cell in row.tc_lst:
            if cell.vMerge != "continue":
                above[column] = " ".join(_Cell(cell, table).text.split())
            said.append(above.get(column, ""))
            column += cell.grid_span
            room -= len(said[-1]) + 3
            if room < 0:
                raise DocumentError(f"its text is longer than {_MOST_CHARACTERS:,} characters; split it")
        yield " | ".join(said)
