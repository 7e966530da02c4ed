"""Find tables in a text and their header rows: Markdown, the readers' own tables, console output, CSV."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise, zip_longest

from stretto.documents.plain import fences

_LINE = re.compile(r"[^\n]+")
_BARS, _FLAT, _DOUBLE = "│┃║╎╏┆┇┊┋", "─━╌╍┄┅┈┉", "═"
_DRAWN = str.maketrans(
    {chr(sign): "+" for sign in range(0x2500, 0x2580)}
    | dict.fromkeys(_BARS, "|")
    | dict.fromkeys(_FLAT, "-")
    | dict.fromkeys(_DOUBLE, "=")
)
_OF_RULES = frozenset("|+-=: \t\r")
_ALIGNED = re.compile(r"^[ \t]*+(?:={2,}(?:[ \t]++={2,})++|-{2,}(?:[ \t]++-{2,})++)[ \t\r]*+$", re.MULTILINE)
_EXPANDED = re.compile(r"-\[ RECORD \d+ \][-+]*\s*")  # of psql: a line for each column of a row
_QUOTED = re.compile(r'"[^"]*"')
_DELIMITERS = "\t;,"
_FEWEST_ROWS = 3  # of a table with commas, semicolons or tabs between cells; in prose, few lines have the same number
_MOST_RULES = 20  # below the first one of a table, two of which are like it
_LONGEST_HEADER = 800  # characters
_MOST_LINES, _LONGEST_RECORD = 50, 20_000  # of a record with line breaks between quotation marks

_Form = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: ``text[start:end]``.

    Attributes:
        start: offset of its header row.
        end: offset after its last row.
        header: the first row, which names the columns, on one line.
        body: offset of the first row below the header.
    """

    start: int
    end: int
    header: str
    body: int


@dataclass(frozen=True, slots=True)
class _Row:
    """A row, or a rule between rows: ``text[start:end]``. ``form``: see `_form`; ``None`` if it is not a row."""

    start: int
    end: int
    content: str
    form: _Form | None

    @property
    def is_rule(self) -> bool:
        return self.form is not None and self.form[0] == "|" and _is_rule(self.content)


def tables_of(text: str) -> list[Table]:
    """Return the tables of a text in order. An empty line, or one of another form, ends a table.

    A row is a line; in CSV it can have line breaks between quotation marks.
    """
    code = fences(text)
    drawn, aligned = list(chain.from_iterable(map(_made, _runs(text, code)))), list(_aligned(text, code))
    apart = [table for table in drawn if not any(each.start <= table.start < each.end for each in aligned)]
    return sorted((*apart, *aligned), key=lambda table: table.start) if aligned else drawn


def table_at(tables: Sequence[Table], offset: int) -> Table | None:
    """Return the table with this offset in its body."""
    place = bisect_right(tables, offset, key=lambda table: table.start) - 1
    return tables[place] if place >= 0 and tables[place].body <= offset < tables[place].end else None


def cells_of(row: str) -> list[str]:
    """Split a row into cells at its bars or delimiters."""
    form = _form(row)
    if form is None:
        return [row.strip()]
    bare = _plain(row).strip().strip("|") if form[0] == "|" else row.strip()
    pieces = bare.split("|") if form[0] == "|" else _split(bare, form[0])
    return [piece.strip().strip('"') for piece in pieces]


def _runs(text: str, code: Sequence[tuple[int, int]]) -> Iterator[list[_Row]]:
    """Yield runs of consecutive rows of the same form."""
    rows: list[_Row] = []
    for row in _rows(text, code):
        if rows and (row.form != rows[-1].form or row.start != rows[-1].end + 1):
            yield rows
            rows = []
        if row.form is not None:
            rows.append(row)
    yield rows


def _rows(text: str, code: Sequence[tuple[int, int]]) -> Iterator[_Row]:
    """Yield the lines of a text outside code blocks; records of multiple lines as one row."""
    at = previous_end = 0
    form: _Form | None = None  # of the previous row
    expanded = False
    for line in _LINE.finditer(text):
        start, end, content = line.start(), line.end(), line[0]
        if start < previous_end:
            continue
        while at < len(code) and code[at][1] <= start:
            at += 1
        expanded = (expanded and start == previous_end + 1) or _EXPANDED.fullmatch(content) is not None
        if expanded or (at < len(code) and code[at][0] <= start) or not content.strip():
            row = _Row(start, end, content, None)
        elif (whole := _record(text, start, end)) and whole.form in (form, _next_form(text, whole.end)):
            row = whole
        else:
            row = _Row(start, end, content, _form(content))
        previous_end, form = row.end, row.form
        yield row


def _record(text: str, start: int, end: int) -> _Row | None:
    """Return the record that begins in a line and continues between quotation marks; ``None`` if it ends there."""
    if text.count('"', start, end) % 2 == 0:
        return None
    opened, last = True, end
    for _ in range(_MOST_LINES):
        if last >= len(text):
            return None
        following = text.find("\n", last + 1, start + _LONGEST_RECORD)
        if following < 0 and start + _LONGEST_RECORD < len(text):
            return None
        last, before = (len(text) if following < 0 else following), last
        opened ^= text.count('"', before, last) % 2 == 1
        if not opened:
            content = text[start:last]
            form = _form(content)
            return None if form is None or form[0] == "|" else _Row(start, last, content, form)
    return None


def _next_form(text: str, end: int) -> _Form | None:
    """Return the form of the row after this offset."""
    following = text.find("\n", end + 1, end + _LONGEST_RECORD)
    last = min(len(text), end + _LONGEST_RECORD) if following < 0 else following
    record = _record(text, end + 1, last)
    return record.form if record is not None else _form(text[end + 1 : last])


def _form(row: str) -> _Form | None:
    """Return what separates the cells of a row, and how often for delimiters; ``None`` if it is not a row."""
    plain = _plain(row)
    if "|" in plain.strip().strip("|") or plain.count("|") >= 2 or _is_rule(plain):
        return "|", 0
    bare = _QUOTED.sub("", row)
    return next(((mark, bare.count(mark)) for mark in _DELIMITERS if mark in bare), None)


def _plain(row: str) -> str:
    """Replace box-drawing characters in a row by ASCII."""
    return row if row.isascii() else row.translate(_DRAWN)


def _is_rule(row: str) -> bool:
    """Return whether a line is a rule between rows: ``|---|---|``, ``----+----``, ``+====+====+``, ``├────┼────┤``."""
    if "--" not in row and "==" not in row and row.isascii():
        return False
    plain = _plain(row)
    return ("|" in plain or "+" in plain) and ("--" in plain or "==" in plain) and _OF_RULES.issuperset(plain)


def _made(rows: list[_Row]) -> Iterator[Table]:
    """Yield the tables of a run of rows of the same form."""
    if len(rows) < 2 or (form := rows[0].form) is None:
        return
    if form[0] != "|":
        sure = form[1] > 1 or form[0] == "\t" or len(rows) > 2 * _FEWEST_ROWS
        if len(rows) >= _FEWEST_ROWS and sure and not all(row.content.rstrip().endswith((".", ",")) for row in rows):
            yield _table(rows[:1], rows[1:])
    elif rows[0].is_rule:
        yield from _framed(rows)
    else:
        # In Markdown, a rule follows each header, even if one table follows another without an empty line.
        rules = [place for place, row in enumerate(rows) if row.is_rule]
        firsts = [place - 1 for place in rules] if rules and rules[0] == 1 else [0, *(place - 1 for place in rules)]
        for first, end in pairwise((*firsts, len(rows))):
            body = first + (2 if rows[first + 1].is_rule else 1)
            if body < end and not rows[first].is_rule:
                yield _table(rows[first : first + 1], rows[body:end])


def _framed(rows: list[_Row]) -> Iterator[Table]:
    """Yield tables with a rule above: the header extends to the next rule, or to one of ``=`` within the table."""
    parts = [(is_rule, list(group)) for is_rule, group in groupby(rows, key=lambda row: row.is_rule)]
    begun = 1
    for place, (is_rule, group) in enumerate(parts):
        if place + 1 < len(parts) and not (is_rule and place > begun and len(group) > 1):
            continue
        own = parts[begun : place + 1]  # lines and rules alternating, from the first lines on
        begun = place + 1
        lines = [group for is_rule, group in own if not is_rule]
        inner = [group[0] for is_rule, group in own[:-1] if is_rule]
        doubled = next((number for number, rule in enumerate(inner) if "=" in _plain(rule.content)), 0)
        if len(lines) > 1:
            above = list(chain.from_iterable(lines[: doubled + 1]))
            yield _table(above, list(chain.from_iterable(lines[doubled + 1 :])))
        elif lines and len(lines[0]) > 1:
            yield _table(lines[0][:1], lines[0][1:])


def _table(above: Sequence[_Row], below: Sequence[_Row]) -> Table:
    """Make a table; the lines of a multi-line header are joined column by column."""
    header = " ".join(above[0].content.splitlines())
    if len(above) > 1:
        columns = zip_longest(*(cells_of(row.content) for row in above if not row.is_rule), fillvalue="")
        header = " | ".join(" ".join(filter(None, column)) for column in columns)
    return Table(above[0].start, below[-1].end, header[:_LONGEST_HEADER], below[0].start)


def _aligned(text: str, code: Sequence[tuple[int, int]]) -> Iterator[Table]:
    """Yield tables with columns separated by spaces, below a header and a rule for each column, as ``=====  =====``.

    One with ``=`` begins and ends with a rule, and one with ``-`` ends at an empty line.
    """
    if _ALIGNED.search(text) is None:
        return
    lines = [line for line in _LINE.finditer(text) if line[0].strip()]
    ruled = [place for place, line in enumerate(lines) if _ALIGNED.fullmatch(line[0]) and not _is_in(code, line)]
    taken = -1
    for number, place in enumerate(ruled):
        if place <= taken:
            continue
        rule = lines[place][0].strip()
        if rule[0] == "=":
            same = [each for each in ruled[number + 1 : number + _MOST_RULES] if lines[each][0].strip() == rule][:2]
            if len(same) == 2 and place + 1 < same[0] < same[1] - 1:
                above, below, taken = lines[place + 1 : same[0]], lines[same[0] + 1 : same[1]], same[1]
                yield _of_lines(above, below)
        elif place and lines[place - 1].end() + 1 == lines[place].start():
            last = place
            while last + 1 < len(lines) and lines[last + 1].start() == lines[last].end() + 1:
                last += 1
            if last > place:
                yield _of_lines(lines[place - 1 : place], lines[place + 1 : last + 1])
            taken = last


def _is_in(code: Sequence[tuple[int, int]], line: re.Match[str]) -> bool:
    place = bisect_right(code, line.start(), key=lambda span: span[0]) - 1
    return place >= 0 and line.start() < code[place][1]


def _of_lines(above: Sequence[re.Match[str]], below: Sequence[re.Match[str]]) -> Table:
    header = " ".join(line[0].strip() if number else line[0].rstrip() for number, line in enumerate(above))
    return Table(above[0].start(), below[-1].end(), header[:_LONGEST_HEADER], below[0].start())


def _split(row: str, mark: str) -> list[str]:
    quoted = _QUOTED.sub(lambda found: found[0].replace(mark, "\0"), row)
    return [piece.replace("\0", mark) for piece in quoted.split(mark)]
