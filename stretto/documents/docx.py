"""Word files: everything a reader sees in Word once all tracked changes are accepted.

The content of unknown elements is read; what is left out is listed here.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lxml import etree

from stretto.documents.encoding import decoded
from stretto.documents.equations import latex
from stretto.documents.html import read_html
from stretto.documents.layout import MOST_CHARACTERS, Cell, TextLayout, before_script, numeral, rows_of
from stretto.documents.list_numbers import ListNumbers
from stretto.documents.word_package import WordPackage, attribute_of, integer, name_of, opened, value_of
from stretto.values.document import Document
from stretto.values.errors import DocumentError

_STYLE = re.compile(r"(?:heading|überschrift|titre|título|intestazione|kop)\s*(\d)", re.IGNORECASE)
_GONE = frozenset({"del", "moveFrom", "delText", "instrText", "delInstrText", "cellDel"})
_NO_TEXT = frozenset({"rPr", "pPr", "sectPr", "tblPr", "tblGrid", "trPr", "tcPr", "sdtPr", "sdtEndPr", "binData", "rt"})
_OFF = frozenset({"0", "false", "off", "none"})
_SIGNS = {  # of the fonts Symbol and Wingdings, as encoded in Word files
    **dict(zip(range(0xF061, 0xF07B), "αβχδεφγηιϕκλμνοπθρστυϖωξψζ", strict=True)),
    0xF0B1: "±",
    0xF0B3: "≥",
    0xF0A3: "≤",
    0xF0B0: "°",
    0xF0B4: "×",
    0xF0B9: "≠",
    0xF0BB: "≈",
    0xF0A5: "∞",
    0xF0AE: "→",
    0xF0D6: "√",
    0xF0E5: "∑",
    0xF0B7: "•",
    0xF044: "Δ",
    0xF057: "Ω",
    0xF053: "Σ",
}
_TICKS = {0xF0FE: "[x]", 0xF0FD: "[x]", 0xF052: "[x]", 0xF0A8: "[ ]", 0xF06F: "[ ]", 0xF0A3: "[ ]", 0xF0FC: "✓"}
_DEEPEST = 3  # files inside files


def read_docx(data: bytes, title: str) -> Document:
    """Return the text of a Word file: cells of a row are separated by ``|``, notes and comments follow their paragraph.

    Headers precede the text and footers follow it, each once. Raises `DocumentError` if it is not a Word file.
    """
    layout = TextLayout()
    package = opened(data)
    _Reader(package, layout, depth=0).read()
    return Document(
        text=layout.text(),
        title=package.title() or title,
        headings=tuple(layout.headings),
        warnings=tuple(f"{each} was left out." for each in sorted(package.unread)),
    )


@dataclass(slots=True)
class _Style:
    name: str
    based_on: str
    level: int  # of a heading; 0 for none, -1 if the style does not say
    number: str
    list_level: str | None


@dataclass(slots=True)
class _Paragraph:
    """What is collected while a paragraph is read."""

    pieces: list[str] = field(default_factory=list)
    boxes: list[Any] = field(default_factory=list)
    """Texts next to it: elements with blocks, or sentences."""
    targets: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        if text:
            self.pieces.append(text)

    def text(self) -> str:
        return " ".join(" ".join(("".join(self.pieces), *self.targets)).split())


class _Reader:
    """Reads the main part of a package into a layout."""

    def __init__(self, package: WordPackage, layout: TextLayout, depth: int) -> None:
        self._package, self._depth = package, depth
        self._cells: list[list[str]] = []  # of the cells that are being read, nested
        self._layout = layout
        self._related = package.related(package.main)
        parts = dict(self._related.values())
        self._styles = dict(_styles(package.part(parts.get("styles", ""))))
        self._numbers = ListNumbers(package.part(parts.get("numbering", "")), lambda style: self._list_of(style)[0])
        self._notes = {
            kind: {attribute_of(each, "id"): each for each in root.iterchildren("*")}
            for kind in ("footnotes", "endnotes", "comments")
            if (root := package.part(parts.get(kind, ""))) is not None
        }
        self._counted = {"footnotes": 0, "endnotes": 0}
        self._at_end: list[tuple[str, Any]] = []
        self._fields: list[bool] = []  # of the open fields, whether their result has begun
        self._instructions = 0  # open fields whose result has not begun
        self._shown_targets: set[str] = set()
        self._joined: list[str] = []  # texts of paragraphs whose end was deleted

    def read(self) -> None:
        """Read all blocks of the file."""
        root = self._package.part(self._package.main)
        sections = list(root.iter("{*}sectPr"))
        self._margins(sections, "header")
        self._blocks(root)
        for label, note in self._at_end:
            self._note(label, note)
        self._margins(sections, "footer")

    def _margins(self, sections: Sequence[Any], kind: str) -> None:
        """Add the headers or footers of all sections, each text once."""
        seen: set[str] = set()
        for section in sections:
            for reference in section.iterchildren(f"{{*}}{kind}Reference"):
                name = self._related.get(attribute_of(reference, "id"), ("", ""))[1]
                if name in seen or (root := self._package.part(name)) is None:
                    continue
                related, self._related = self._related, self._package.related(name)
                text = self._inside(root)
                self._related = related
                if text not in seen and re.search(r"[^\W\d_]", text):
                    self._put(text)
                seen |= {name, text}

    def _inside(self, element: Any) -> str:
        """Return all blocks of an element on one line."""
        self._cells.append([])
        self._blocks(element)
        return " ".join(self._cells.pop())

    def _put(self, text: str, level: int = 0, heading: str = "") -> None:
        if self._cells:
            self._cells[-1] += [text] if text.strip() else []
        else:
            self._layout.add(text, level=level, heading=heading)

    def _blocks(self, element: Any) -> None:
        for child in element.iterchildren("*"):
            match name_of(child):
                case "p":
                    self._paragraph(child)
                case "tbl":
                    self._table(child)
                case "AlternateContent":
                    self._blocks(_alternative(child))
                case "altChunk":
                    self._chunk(child)
                case name if name not in _GONE and name not in _NO_TEXT:
                    self._blocks(child)

    def _paragraph(self, element: Any) -> None:
        properties = next(element.iterchildren("{*}pPr"), None)
        found = _Paragraph()
        self._inline(element, found)
        if self._instructions:  # an unclosed one would hide the rest of the file
            self._fields = [result for result in self._fields if result]
            self._instructions = 0
        text = found.text()
        mark = None if properties is None else next(properties.iterchildren("{*}rPr"), None)
        if mark is not None and any(name_of(each) in {"del", "moveFrom"} for each in mark):
            self._joined += [text] if text else []
        else:
            label, level, depth = self._label(properties)
            text = " ".join((*self._joined, text)).strip()
            self._joined = []
            if text:
                numbered = f"{label} {text}".strip()
                self._put(numbered if level or self._cells else "  " * depth + numbered, level, numbered)
        for box in found.boxes:
            if isinstance(box, str):
                self._put(box)
            elif isinstance(box, tuple):
                self._note(*box)
            else:
                self._blocks(box)

    def _label(self, properties: Any) -> tuple[str, int, int]:
        """Return the number of a paragraph, its heading level and its depth in a list."""
        style = (None if properties is None else value_of(properties, "pStyle")) or ""
        number, depth = self._list_of(style)
        level = next((each.level for each in self._chain(style) if each.level >= 0), 0)
        if properties is not None:
            own = next(properties.iterchildren("{*}numPr"), None)
            if own is not None:
                number = value_of(own, "numId") or number
                depth = integer(value_of(own, "ilvl"), depth)
            if (outline := value_of(properties, "outlineLvl")) is not None:
                level = 0 if integer(outline, 9) >= 9 else integer(outline, 9) + 1
        label = self._numbers.label(number, depth) if number not in {"", "0"} else ""
        return label, level, min(depth, 8) if label else 0

    def _list_of(self, style: str) -> tuple[str, int]:
        for each in self._chain(style):
            if each.number:
                return each.number, integer(each.list_level, self._numbers.level_of_style(each.number, style))
        return "", 0

    def _chain(self, style: str) -> Iterator[_Style]:
        """Yield a style and those it is based on."""
        seen: set[str] = set()
        while style in self._styles and style not in seen:
            seen.add(style)
            yield self._styles[style]
            style = self._styles[style].based_on

    def _inline(self, element: Any, found: _Paragraph) -> None:  # noqa: PLR0912 - a case for each element
        for child in element.iterchildren("*"):
            name = name_of(child)
            if name in _GONE or name in _NO_TEXT:
                continue
            match name:
                case "t":
                    found.add("" if self._instructions else child.text or "")
                case "r":
                    self._run(child, found)
                case "tab" | "br" | "cr" | "ptab":
                    found.add(" ")
                case "noBreakHyphen":
                    found.add("-")
                case "sym":
                    found.add(_sign(child))
                case "fldChar":
                    self._field(child, found)
                case "hyperlink":
                    self._link(child, found)
                case "sdt":
                    self._control(child, found)
                case "oMath" | "oMathPara":
                    found.add(f" ${' '.join(latex(child).split())}$ ")
                case "AlternateContent":
                    self._inline(_alternative(child), found)
                case "footnoteReference" | "endnoteReference" | "commentReference":
                    self._refer(name.removesuffix("Reference") + "s", child, found)
                case "txbxContent":
                    found.boxes.append(child)
                case "textpath":
                    found.boxes.append(child.get("string") or "")
                case "chart" | "relIds":
                    found.boxes += self._drawn(child)
                case "rubyBase":
                    self._inline(child, found)
                    reading = "".join(each.text or "" for each in child.getparent().iterfind("{*}rt//{*}t"))
                    found.add(f"({reading})" if reading else "")
                case "p":  # of a drawing
                    found.add(" ")
                    self._inline(child, found)
                case _:
                    self._inline(child, found)

    def _run(self, run: Any, found: _Paragraph) -> None:
        properties = next(run.iterchildren("{*}rPr"), None)
        given = () if properties is None else properties
        on = {name_of(each) for each in given if attribute_of(each, "val") not in _OFF}
        if "vanish" in on:
            return
        begin = len(found.pieces)
        self._inline(run, found)
        text = "".join(found.pieces[begin:])
        if not text.strip():
            return
        raised = "" if properties is None else value_of(properties, "vertAlign") or ""
        before = found.pieces[begin - 1][-1:] if begin else ""
        if raised in {"superscript", "subscript"}:
            found.pieces[begin:] = [before_script(before, text, raised=raised == "superscript"), text]
        elif on & {"strike", "dstrike"}:
            found.pieces[begin:] = [f"~~{text.strip()}~~ " if text != text.rstrip() else f"~~{text}~~"]

    def _field(self, mark: Any, found: _Paragraph) -> None:
        match attribute_of(mark, "fldCharType"):
            case "begin":
                self._fields.append(False)
                self._instructions += 1
                for entry in mark.iter("{*}checkBox"):
                    state = value_of(entry, "checked") or (
                        "1" if next(entry.iterchildren("{*}checked"), None) is not None else None
                    )
                    found.add("[ ]" if (state or value_of(entry, "default") or "0") in _OFF else "[x]")
                for entry in mark.iter("{*}ddList"):
                    listed = [attribute_of(each, "val") for each in entry.iterchildren("{*}listEntry")]
                    found.add("".join(listed[integer(value_of(entry, "result"), 0) :][:1]))
            case "separate" if self._fields:
                self._instructions -= not self._fields[-1]
                self._fields[-1] = True
            case "end" if self._fields:
                self._instructions -= not self._fields.pop()

    def _link(self, link: Any, found: _Paragraph) -> None:
        begin = len(found.pieces)
        self._inline(link, found)
        target = self._related.get(attribute_of(link, "id"), ("", ""))[1]
        text = "".join(found.pieces[begin:])
        if target not in self._shown_targets and re.match(r"(?:https?|mailto|tel):", target):
            self._shown_targets.add(target)
            if re.sub(r"^(?:mailto|tel|https?):/*|/$", "", target) not in text:
                found.targets.append(f"<{target}>")

    def _control(self, control: Any, found: _Paragraph) -> None:
        """Read a content control; a ticked box is ``[x]``."""
        for checkbox in control.iterfind("{*}sdtPr/{*}checkbox"):
            found.add("[ ]" if (value_of(checkbox, "checked") or "0") in _OFF else "[x]")
            return
        self._inline(control, found)

    def _refer(self, kind: str, reference: Any, found: _Paragraph) -> None:
        note = self._notes.get(kind, {}).get(attribute_of(reference, "id"))
        if note is None:
            return
        if kind == "comments":
            author = attribute_of(note, "author")
            found.boxes.append((f"[Comment{f' by {author}' if author else ''}:", note))
            return
        label = ""
        if attribute_of(reference, "customMarkFollows") in {"", *_OFF}:
            self._counted[kind] += 1
            label = f"^{numeral(self._counted[kind], 'lowerRoman' if kind == 'endnotes' else '')}"
            found.add(label)
        if kind == "endnotes":
            self._at_end.append((label, note))
        else:
            found.boxes.append((label, note))

    def _note(self, label: str, note: Any) -> None:
        text = self._inside(note)
        if text:
            self._put(f"{label} {text}{']' if label.startswith('[') else ''}".strip())

    def _drawn(self, reference: Any) -> Iterator[str]:
        """Yield the texts of a chart or of SmartArt."""
        number = attribute_of(reference, "dm") or attribute_of(reference, "id")
        root = self._package.part(self._related.get(number, ("", ""))[1])
        if root is None:
            return
        for paragraph in root.iter(
            "{http://schemas.openxmlformats.org/drawingml/2006/main}p", "{http://purl.oclc.org/ooxml/drawingml/main}p"
        ):
            yield "".join(each.text or "" for each in paragraph.iter("{*}t"))
        for series in root.iter("{*}ser"):
            named, places, values = (
                [v.text or "" for v in series.iterfind(f"{{*}}{part}//{{*}}v")] for part in ("tx", "cat", "val")
            )
            points = [f"{place} {value}" for place, value in zip(places, values, strict=False)] or values
            yield f"{' '.join(named)}: {', '.join(points)}" if named else ", ".join(points)

    def _chunk(self, reference: Any) -> None:
        """Read a whole file in another format that is embedded in this one."""
        name = self._related.get(attribute_of(reference, "id"), ("", ""))[1]
        data = self._package.bytes_of(name)
        ending = name.rpartition(".")[2].lower()
        if data is None:
            return
        if ending in {"htm", "html", "xhtml"}:
            self._put(read_html(data, "").text.strip())
        elif ending == "txt":
            self._put(decoded(data)[0].strip())
        elif ending in {"docx", "docm", "dotx"} and self._depth < _DEEPEST:
            inner = _Reader(opened(data), self._layout, self._depth + 1)
            inner._cells = self._cells
            inner.read()
            self._package.unread |= inner._package.unread
        else:
            self._package.unread.add(f"a file inside it ({posixpath.basename(name)!r})")

    def _table(self, table: Any) -> None:
        grid = list(self._rows(table))
        if max((len(row) for row in grid), default=0) <= 1:  # it only frames a text
            for row in grid:
                for cell, _ in row:
                    self._blocks(cell)
            return
        above: dict[int, str] = {}  # the text of the cell that began there, by column
        rows: list[list[Cell]] = []
        room = MOST_CHARACTERS - self._layout.length
        for row in grid:
            rows.append([])
            column = 0
            for cell, before in row:
                rows[-1] += [Cell("")] * before
                column += before
                properties = next(cell.iterchildren("{*}tcPr"), None)
                width, merged = 1, False
                if properties is not None:
                    width = max(1, integer(value_of(properties, "gridSpan"), 1))
                    merge = next(properties.iterchildren("{*}vMerge"), None)
                    merged = merge is not None and attribute_of(merge, "val") in {"", "continue"}
                if not merged:
                    above[column] = self._inside(cell)
                rows[-1].append(Cell(above.get(column, ""), width))
                room -= len(rows[-1][-1].text) + 3
                column += width
                if room < 0:
                    raise DocumentError(f"its text is longer than {MOST_CHARACTERS:,} characters; split it")
        if self._cells:
            inner = [[Cell(cell.text) for cell in row if cell.text] for row in rows]
            self._put("; ".join(rows_of(inner, ", ")))
        else:
            self._layout.table(rows)

    def _rows(self, table: Any) -> Iterator[list[tuple[Any, int]]]:
        """Yield the cells of each row, each with the number of empty columns before it."""
        for row in _within(table, "tr"):
            properties = next(row.iterchildren("{*}trPr"), None)
            if properties is not None and next(properties.iterchildren("{*}del"), None) is not None:
                continue
            before = 0 if properties is None else integer(value_of(properties, "gridBefore"), 0)
            cells = [cell for cell in _within(row, "tc") if next(cell.iterfind("{*}tcPr/{*}cellDel"), None) is None]
            yield [(cell, min(before, 63) if index == 0 else 0) for index, cell in enumerate(cells)]


def _within(element: Any, name: str) -> Iterator[Any]:
    """Yield the elements of a name, including those inside content controls and the like."""
    for child in element.iterchildren("*"):
        inner = name_of(child)
        if inner == name:
            yield child
        elif inner not in _GONE and inner not in _NO_TEXT and inner not in {"p", "tbl"}:
            yield from _within(child, name)


def _styles(root: Any) -> Iterator[tuple[str, _Style]]:
    for style in () if root is None else root.iterchildren("{*}style"):
        name = value_of(style, "name") or ""
        paragraph = next(style.iterchildren("{*}pPr"), None)
        listed = None if paragraph is None else next(paragraph.iterchildren("{*}numPr"), None)
        outline = None if paragraph is None else value_of(paragraph, "outlineLvl")
        level = -1
        if name.lower() == "title":
            level = 1
        elif found := _STYLE.match(name):
            level = int(found[1])
        elif outline is not None:
            level = 0 if integer(outline, 9) >= 9 else integer(outline, 9) + 1
        number = (None if listed is None else value_of(listed, "numId")) or ""
        list_level = None if listed is None else value_of(listed, "ilvl")
        yield attribute_of(style, "styleId"), _Style(name, value_of(style, "basedOn") or "", level, number, list_level)


def _alternative(choices: Any) -> Any:
    """Return the first alternative with a text: the others say the same for older programs."""
    for each in choices.iterchildren("*"):
        if next(each.iter("{*}t", "{*}chart", "{*}relIds", "{*}textpath"), None) is not None:
            return each
    return etree.Element("nothing")


def _sign(element: Any) -> str:
    code = attribute_of(element, "char")
    number = int(code, 16) if re.fullmatch(r"[0-9A-Fa-f]{1,5}", code) else 0
    if "wingdings" in attribute_of(element, "font").lower():
        return _TICKS.get(number | 0xF000, "•")
    return _SIGNS.get(number | 0xF000, "") or (chr(number & 0xFF) if number & 0xFF >= 0x20 else "")
