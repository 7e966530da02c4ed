"""HTML pages, parsed by lexbor as browsers do: the visible text with headings, lists and tables."""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from stretto.documents.encoding import decoded, with_replacements
from stretto.documents.layout import Cell, TextLayout, before_script, numeral, rows_of
from stretto.values.document import Document

_UNSEEN = frozenset(
    """
    area audio canvas datalist dialog frameset head iframe link meta noscript object param rp script source style
    template title track video
    """.split()  # noqa: SIM905 - a list with one word per line is no easier to read
)
_BLOCKS = frozenset(
    """
    address article aside blockquote body center dd details dir div dl dt fieldset figcaption figure footer form h1 h2
    h3 h4 h5 h6 header hr legend li main menu nav ol optgroup p pre search section summary table tbody td textarea tfoot
    th thead tr ul caption html
    """.split()  # noqa: SIM905 - as above
)
_LINES = frozenset({"li", "tr", "dt", "dd"})
_LISTS = frozenset({"ul", "ol", "menu", "dir"})
_STRUCK = frozenset({"del", "s", "strike"})
_HEADING = re.compile("h[1-6]")
_TWICE_STRUCK = re.compile(r"~~(\s*)~~")
_NOT_DISPLAYED = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_DECLARED = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*+=\s*+(?:["']\s*+)?([\w:.-]{1,40})"""
    rb"""|^\s*+<\?xml[^>]{0,200}?encoding\s*+=\s*+["']([\w:.-]{1,40})""",
    re.IGNORECASE,
)
_XHTML = re.compile(
    r"\s*+(?:<\?xml\s|(?:(?>(?:<!--.{0,2000}?-->)|<!doctype[^>]{0,300}>)\s*+){0,3}<html\b[^>]{0,2000}?\bxmlns=)",
    re.IGNORECASE | re.DOTALL,
)
_CLOSED_AT_ONCE = re.compile(
    r"<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)\b)([a-zA-Z][\w:.-]{0,50}+)"
    r"((?:\s++[^\s<>=/\"']{1,50}+\s*+(?:=\s*+(?:\"[^\"]{0,2000}+\"|'[^']{0,2000}+'))?+){0,30}+)\s*+/>"
)
_BROADER = {  # what browsers use for the name of a smaller encoding: encoding.spec.whatwg.org
    **dict.fromkeys(("iso8859-1", "ascii", "latin-1"), "cp1252"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
    "big5": "big5hkscs",
}
_LEADS_AWAY = re.compile(r"(?!#|(?!https?:|mailto:|tel:)[a-z][a-z0-9+.-]*:)", re.IGNORECASE)
_LONGEST_TARGET = 300  # characters
_LONG_CELL = 1_000  # characters, in a table around others: such a table is for layout
_DEEPEST_FORMULA = 50
_DEEPEST_SCRIPT = 8  # nested superscripts and subscripts
_FEW_FAULTS = 0.01  # tolerated share of characters that are invalid in the declared encoding


def read_html(data: bytes, title: str) -> Document:
    """Return the visible text of a page. Cells of a row are separated by ``|``, list items keep their numbers.

    Strikethrough is put between ``~~``, a superscript number after ``^``. Pictures are replaced by their ``alt`` text.
    Link targets follow their paragraph, so that its sentences can be quoted.
    """
    text, warnings = _decoded(data)
    try:
        page = LexborHTMLParser(_with_end_tags(_with_cdata(text)))
    except SelectolaxError as error:  # any text is valid HTML: only its nodes may not fit
        raise MemoryError from error
    named = page.css_first("head > title")
    layout = TextLayout()
    if page.root is not None:
        _Flow(layout, _laying_out(page.root)).write(page.root)
    name = " ".join(named.text().split()) if named is not None else ""
    headings = tuple(layout.headings)
    return Document(text=layout.text(), title=name or title, headings=headings, markup=text, warnings=warnings)


def _decoded(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Decode a page: UTF-8 if valid, or else the declared encoding, or else a likely one."""
    if b"\0" not in data:
        try:
            text = data.decode("utf-8-sig")
            return text, with_replacements(text)
        except UnicodeDecodeError:
            pass
        if declared := _DECLARED.search(data[:4096]):
            try:
                name = codecs.lookup((declared[1] or declared[2]).decode()).name
                text = data.decode(_BROADER.get(name, name), errors="strict" if name == "utf-8" else "replace")
                if text.count("\ufffd") < _FEW_FAULTS * len(text):
                    return text, with_replacements(text)
            except (LookupError, UnicodeDecodeError):
                pass  # a page can declare a wrong encoding
    return decoded(data)


def _with_cdata(text: str) -> str:
    """Rewrite CDATA sections, which only XML has, as HTML."""
    parts: list[str] = []
    position = 0
    while (start := text.find("<![CDATA[", position)) >= 0 and (end := text.find("]]>", start)) >= 0:
        parts += (text[position:start], html.escape(text[start + 9 : end], quote=False))
        position = end + 3
    return "".join((*parts, text[position:]))


def _with_end_tags(text: str) -> str:
    """Add an end tag after each ``<title/>`` of XHTML, since HTML would treat everything after it as a title.

    HTML handles elements that are always empty, such as ``<br/>``.
    """
    return _CLOSED_AT_ONCE.sub(r"<\1\2></\1>", text) if _XHTML.match(text) else text


def _walk(root: LexborNode, enters: Callable[[LexborNode], bool]) -> Iterator[LexborNode]:
    """Yield each node on leaving it, in reading order; ``enters`` sees it first, and returns whether to descend.

    Without recursion: pages can be nested to any depth.
    """
    stack = [(root, False)]
    while stack:
        node, leaving = stack.pop()
        if leaving:
            yield node
        elif enters(node):
            stack.append((node, True))
            child = node.last_child
            while child is not None:
                stack.append((child, False))
                child = child.prev


@dataclass(slots=True)
class _Measured:
    """What shows whether a table is for layout."""

    lays_out: bool
    holds_table: bool = False
    cells: int = 0
    most_cells: int = 0
    cell_begins: list[int] = field(default_factory=list)
    longest_cell: int = 0


def _laying_out(root: LexborNode) -> set[int]:
    """Return the tables that are only for layout.

    They are marked as such, or have headings, one column, or long texts around further tables.
    """
    found: set[int] = set()
    tables: list[_Measured] = []
    length = 0

    def enters(node: LexborNode) -> bool:
        nonlocal length
        name = node.tag
        if name == "-text":
            length += len(node.text_content or "")
        elif name == "table":
            if tables:
                tables[-1].holds_table = True
            tables.append(_Measured((node.attributes.get("role") or "") in {"presentation", "none"}))
        elif tables and name == "tr":
            tables[-1].cells = 0
        elif tables and name in {"td", "th"}:
            tables[-1].cells += 1
            tables[-1].most_cells = max(tables[-1].most_cells, tables[-1].cells)
            tables[-1].cell_begins.append(length)
        elif tables and _HEADING.fullmatch(name or ""):
            for table in reversed(tables):
                if table.lays_out:
                    break
                table.lays_out = True
        return name not in _UNSEEN

    for node in _walk(root, enters):
        if node.tag in {"td", "th"} and tables and tables[-1].cell_begins:
            tables[-1].longest_cell = max(tables[-1].longest_cell, length - tables[-1].cell_begins.pop())
        elif node.tag == "table":
            table = tables.pop()
            around = table.holds_table and table.longest_cell > _LONG_CELL
            if table.lays_out or table.most_cells <= 1 or around:
                found.add(node.mem_id)
                if table.lays_out and tables:
                    tables[-1].lays_out = True
    return found


@dataclass(slots=True)
class _List:
    """A list, and the number of its next item; ``None`` if it has none."""

    number: int | None
    form: str = "1"
    step: int = 1


@dataclass(slots=True)
class _Place:
    """The target of text: the page, or a cell, which is one line."""

    layout: TextLayout | None
    blocks: list[str] = field(default_factory=list)
    lists: list[_List] = field(default_factory=list)
    line: list[str] = field(default_factory=list)
    label: str = ""
    level: int = 0
    scripts: list[int | None] = field(default_factory=list)
    """Where each superscript or subscript begins in the line; ``None`` if it is nested too deeply."""
    links: list[tuple[int, str]] = field(default_factory=list)
    """Where each open link begins in the line, and its target."""
    targets: list[str] = field(default_factory=list)
    """The targets of the links in the line."""
    joins: str = ""
    """The last character of a superscript, subscript or struck text, before one that would merge with it."""

    def add(self, text: str, end: str, level: int, heading: str) -> None:
        if self.layout is None:
            self.blocks.append(" ".join(text.split()))
        else:
            self.layout.add(text, end=end, level=level, heading=heading)


class _Flow:
    """Writes the nodes of a page in reading order."""

    def __init__(self, layout: TextLayout, laying_out: set[int]) -> None:
        self._laying_out = laying_out
        self._places = [_Place(layout)]
        self._tables: list[list[list[Cell]] | None] = []  # the rows of each open table; none for a layout table
        self._shown_targets: set[str] = set()  # targets of links
        self._preformatted = 0
        self._struck = 0

    def write(self, root: LexborNode) -> None:
        for node in _walk(root, self._enters):
            self._leave(node)
        self._end_line()

    @property
    def _place(self) -> _Place:
        return self._places[-1]

    def _enters(self, node: LexborNode) -> bool:
        name = node.tag or ""
        if name == "-text":
            self._text(node.text_content or "")
        if name.startswith("-"):
            return name == "-document"
        if not _is_visible(node):
            return False
        is_cell = name in {"td", "th"} and self._tables and self._tables[-1] is not None
        if name in _BLOCKS and not is_cell:
            self._end_line("\n" if self._place.lists else "\n\n")
        if (shown := _shown_instead(node)) is not None:
            self._place.line.append(shown)
            return False
        self._begin(name, node)
        return True

    def _begin(self, name: str, node: LexborNode) -> None:
        place = self._place
        match name:
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                place.level = int(name[1])
            case "pre" | "textarea":
                self._preformatted += 1
            case "br":
                place.line.append("\n" if self._preformatted else " ")
            case "sup" | "sub":
                place.scripts.append(len(place.line) if len(place.scripts) < _DEEPEST_SCRIPT else None)
                place.line.append("")
            case "a":
                place.links.append((len(place.line), node.attributes.get("href") or ""))
            case "rt":
                place.line.append("(")
            case "li":
                place.label = self._label(node.attributes.get("value"))
            case "table":
                self._tables.append(None if node.mem_id in self._laying_out else [])
            case "tr" if self._tables and self._tables[-1] is not None:
                self._tables[-1].append([])
            case "td" | "th" if self._tables and self._tables[-1]:
                self._places.append(_Place(None))
            case _:
                self._struck += name in _STRUCK
                if name in _LISTS:
                    place.lists.append(_list_of(node))

    def _leave(self, node: LexborNode) -> None:
        name, place = node.tag or "", self._place
        rows = self._tables[-1] if self._tables else None
        if name in {"td", "th"} and rows and len(self._places) > 1 and place.layout is None:
            self._end_line()
            self._places.pop()
            given = node.attributes
            columns, spanned = (_number(given[each], 1) if each in given else 1 for each in ("colspan", "rowspan"))
            rows[-1].append(Cell(" ".join(place.blocks), max(1, columns), max(1, spanned)))
        elif name in _BLOCKS:
            self._end_line("\n" if name in _LINES or place.lists else "\n\n")
        if name in {"pre", "textarea"}:
            self._preformatted -= 1
        elif name in {"sup", "sub"}:
            self._end_script(raised=name == "sup")
        elif name in _STRUCK:
            self._struck -= 1
            place.joins = "1a"
        elif name == "a":
            self._end_link()
        elif name == "rt":
            place.line.append(")")
        elif name in _LISTS and place.lists:
            place.lists.pop()
            if not place.lists and place.layout is not None:
                place.layout.gap()
        elif name == "table":
            self._end_table()

    def _text(self, text: str) -> None:
        place = self._place
        if place.joins and text:
            first = text[0]
            if (first.isdigit() and any(map(str.isdigit, place.joins))) or (
                first.isalpha() and any(map(str.isalpha, place.joins))
            ):
                text = " " + text
            place.joins = ""
        if self._struck and (core := text.strip()):
            text = text.replace(core, f"~~{core}~~", 1)
        place.line.append(text)

    def _end_line(self, end: str = "\n\n") -> None:
        place = self._place
        line = _TWICE_STRUCK.sub(r"\1", "".join(place.line))
        text = line.strip("\n") if self._preformatted else " ".join(line.split())
        level, place.level = place.level, 0
        place.line.clear()
        place.scripts.clear()
        place.joins = ""
        for link in place.links:  # that continue in the next line
            self._leads_to(link[1], text)
        place.links = [(0, "") for _ in place.links]
        if text.strip():
            heading = text
            text = " ".join((text, *place.targets))
            place.targets.clear()
            if not self._preformatted and not level and place.lists and place.layout is not None:
                text = "  " * (len(place.lists) - bool(place.label)) + place.label + text
            else:
                text = place.label + text
            place.label = ""
            place.add(text, end, level, heading)

    def _end_script(self, *, raised: bool) -> None:
        """Mark a superscript or subscript that would otherwise merge with the preceding text."""
        place = self._place
        if not place.scripts:  # a block ended the line
            return
        begin = place.scripts.pop()
        if begin is None:
            return
        text = "".join(place.line[begin:]).strip()
        before = begin - 1
        while before >= 0 and not place.line[before]:
            before -= 1
        last = place.line[before][-1:] if before >= 0 else ""
        place.line[begin] = before_script(last, text, raised=raised)
        place.joins = text[-1:] if last.strip() else ""

    def _end_link(self) -> None:
        place = self._place
        if place.links:
            begin, target = place.links.pop()
            self._leads_to(target, "".join(place.line[begin:]))

    def _leads_to(self, target: str, text: str) -> None:
        """Put a link's target after its line, unless it was already shown or is the text of the link."""
        target = "".join(target.split())
        shown = re.sub(r"^(?:mailto|tel|https?):/*|/$", "", target)
        if (
            not text.strip()
            or not shown
            or shown in text
            or target in self._shown_targets
            or len(target) > _LONGEST_TARGET
        ):
            return
        if _LEADS_AWAY.match(target):
            self._shown_targets.add(target)
            self._place.targets.append(f"<{target}>")

    def _label(self, value: str | None) -> str:
        if not self._place.lists or self._place.lists[-1].number is None:
            return "- "
        of = self._place.lists[-1]
        number = _number(value, of.number or 0)
        of.number = number + of.step
        form = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}.get(of.form, "")
        return f"{numeral(number, form)}. "

    def _end_table(self) -> None:
        if (rows := self._tables.pop() if self._tables else None) is None:
            return
        if (layout := self._place.layout) is not None:
            layout.table(rows)
        else:
            inner = [[Cell(cell.text) for cell in row if cell.text] for row in rows]
            self._place.blocks += ["; ".join(rows_of(inner, ", "))] if any(inner) else []


def _is_visible(node: LexborNode) -> bool:
    name, attributes = node.tag, node.attributes
    if name in _UNSEEN:
        return name == "dialog" and "open" in attributes
    if "hidden" in attributes or _NOT_DISPLAYED.search(attributes.get("style") or ""):
        return False
    return "katex-html" not in (attributes.get("class") or "").split()  # it repeats the formula before it


def _shown_instead(node: LexborNode) -> str | None:
    """Return what is shown instead of an element; ``None`` if that is its content."""
    match node.tag:
        case "img":
            alt = " ".join((node.attributes.get("alt") or "").split())
            return f" [image: {alt}] " if alt else ""
        case "input":
            return _entered(node.attributes)
        case "select":
            return f" {_chosen(node)} "
        case "math":
            return f" {_formula(node)} "
        case _:
            return None


def _list_of(node: LexborNode) -> _List:
    if node.tag != "ol":
        return _List(None)
    attributes = node.attributes
    backwards = "reversed" in attributes
    items, child = 0, node.first_child
    while backwards and child is not None:
        items += child.tag == "li"
        child = child.next
    first = _number(attributes.get("start"), items if backwards else 1)
    return _List(first, attributes.get("type") or "1", -1 if backwards else 1)


def _number(value: str | None, otherwise: int) -> int:
    found = re.match(r"\s*([+-]?\d{1,9})", value or "")
    return int(found[1]) if found else otherwise


def _entered(attributes: dict[str, str | None]) -> str:
    """Return what a reader sees of a form field."""
    match (attributes.get("type") or "text").lower():
        case "hidden" | "password" | "image" | "file":
            return ""
        case "checkbox" | "radio":
            return " [x] " if "checked" in attributes else " [ ] "
        case _:
            return f" {attributes.get('value') or ''} "


def _chosen(select: LexborNode) -> str:
    """Return the selected options; the first one if none is and one is shown."""
    options = [node for node in select.css("option") if "hidden" not in node.attributes]
    chosen = [node for node in options if "selected" in node.attributes]
    if not chosen and "multiple" not in select.attributes and "size" not in select.attributes:
        chosen = options[:1]
    return ", ".join(" ".join(node.text().split()) for node in chosen)


def _formula(math: LexborNode) -> str:
    """Return MathML as TeX if it contains that, or else its characters with ``^``, ``_`` and ``/``."""
    source = math.css_first("annotation[encoding='application/x-tex']")
    return f"${' '.join(source.text().split())}$" if source is not None else _signs(math, 0)


def _signs(node: LexborNode, depth: int) -> str:
    if node.tag == "-text":
        return (node.text_content or "").strip()
    if depth > _DEEPEST_FORMULA or node.tag in {"annotation", "annotation-xml"}:
        return ""
    parts = []
    child = node.first_child
    while child is not None:
        if part := _signs(child, depth + 1):
            parts.append(part)
        child = child.next
    if node.tag in _BETWEEN and len(parts) > 1:
        return _BETWEEN[node.tag].join(part if len(part) == 1 else f"({part})" for part in parts)
    return f"sqrt({''.join(parts)})" if node.tag == "msqrt" else "".join(parts)


_BETWEEN = {"msup": "^", "msub": "_", "mfrac": "/", "mroot": " root ", "mtd": " ", "mtr": "; "}
