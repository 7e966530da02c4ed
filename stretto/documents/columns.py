"""Reorder columns of prose that a PDF draws line by line across the page: one column after the other.

PDFium returns the characters in the order in which they are drawn. Most programs draw one column after the other; if
one draws the first lines of all columns, then the second lines, the columns are interleaved in its text. Rows of tables
are drawn that way too, and stay unchanged: the difference is that lines of prose fill their column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Protocol

_BREAKS = "\r\n"
_BROKEN = "\x02\ufffe"  # PDFium's character for a hyphen at the end of a line
_WIDE = 1.0  # least gap between columns, in heights of the type
_FEWEST = 4  # fewest lines side by side
_MOST_LINES = 400  # of a page
_TRIED = 12  # lines of a page whose gaps are measured first: most pages have none
_DEEPEST = 3  # how often a column is divided again
_FULL, _SHARE = 0.75, 0.6  # of its column that a line of prose fills, and share of lines that do
_LETTERS = 0.6  # of its characters
_SHORTEST = 15  # characters of a line
_ALIKE = 0.4  # width of the narrower column, as a share of the wider one's


class Box(Protocol):
    """The position of a character."""

    left: float
    right: float
    bottom: float
    top: float


@dataclass(frozen=True, slots=True)
class _Gap:
    """A gap between two characters, by their indices in the text."""

    before: int
    after: int
    left: float
    right: float


@dataclass(frozen=True, slots=True)
class _Line:
    """A line, or the part of one in a column: ``letters[start:end]``."""

    start: int
    end: int
    left: float
    right: float
    gaps: tuple[_Gap, ...]


def in_columns(letters: Sequence[str], box: Callable[[int], Box | None]) -> str:
    """Return the text of a page, with its columns one after the other.

    Args:
        letters: of the page, in drawing order.
        box: returns the box of one of them, by index.
    """
    spans = list(_spans(letters))
    if not spans or len(spans) > _MOST_LINES:
        return "".join(letters)
    tried = [_lines(letters, box, *span) for span in spans[:: len(spans) // _TRIED or 1]]
    ends = [(left.left, right.right) for first, last in spans if (left := box(first)) and (right := box(last - 1))]
    switches = sum(before[1] < after[0] for before, after in pairwise(ends))
    if switches < _FEWEST and sum(bool(line.gaps) for each in tried for line in each) < 2:
        return "".join(letters)
    parts = [_lines(letters, box, *span) for span in spans]
    lines = [line for part in parts for line in part]
    if not all(parts) or (ordered := _ordered(lines, letters, _DEEPEST)) == lines:
        return "".join(letters)
    return "\n".join(_texts(ordered, letters))


def _spans(letters: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the lines, from their first visible character to the last one."""
    start = end = 0
    for place, letter in enumerate((*letters, "\n")):
        if letter and letter in _BREAKS:
            if end:
                yield start, end
            end = 0
        elif letter.strip(" \t\0\xa0"):
            start, end = start if end else place, place + 1
            if letter in _BROKEN:
                yield start, end
                end = 0


def _lines(letters: Sequence[str], box: Callable[[int], Box | None], start: int, end: int) -> list[_Line]:
    """Return the lines between two characters, with their gaps; none if a character has no box.

    If lines of two columns are not at the same height, PDFium joins one that begins further left to the previous line.
    """
    first, last = box(start), box(end - 1 if letters[end - 1] not in _BROKEN or end - start < 2 else end - 2)
    if first is None or last is None:
        return []
    found, gaps, previous = list[_Line](), list[_Gap](), start
    for place in range(start + 1, end):
        if letters[place].isspace() or not letters[place]:
            continue
        before, after = (box(previous), box(place)) if place > previous + 1 else (None, None)
        if before and after and after.right < before.left:
            found.append(_Line(start, previous + 1, first.left, before.right, tuple(gaps)))
            start, first, gaps = place, after, []
        elif before and after and after.left - before.right > _WIDE * (before.top - before.bottom):
            gaps.append(_Gap(previous, place, before.right, after.left))
        previous = place
    return [*found, _Line(start, end, first.left, last.right, tuple(gaps))]


def _ordered(lines: list[_Line], letters: Sequence[str], deepest: int) -> list[_Line]:
    """Return the lines with the columns one after the other, between lines that cross all of them."""
    gutter = _gutter(lines) if deepest else None
    if gutter is None:
        return lines
    found, band = list[_Line](), list[_Line]()
    for line in lines:
        if line.left < gutter < line.right and not any(gap.left <= gutter <= gap.right for gap in line.gaps):
            found += _columns(band, gutter, letters, deepest)
            found.append(line)
            band = []
        else:
            band.append(line)
    return found + _columns(band, gutter, letters, deepest)


def _gutter(lines: list[_Line]) -> float | None:
    """Return where most lines have a gap, or end before the next one begins next to them; ``None`` if few do."""
    gaps = [(gap.left, gap.right) for line in lines for gap in line.gaps]
    gaps += [(line.right, other.left) for line, other in pairwise(lines) if line.right < other.left]
    edges = sorted([(left, -1) for left, _ in gaps] + [(right, 1) for _, right in gaps])
    open_, most, best = 0, _FEWEST - 1, None
    for number, (place, closes) in enumerate(edges):
        open_ -= closes
        if open_ > most and number + 1 < len(edges):
            most, best = open_, (place + edges[number + 1][0]) / 2
    return best


def _columns(band: list[_Line], gutter: float, letters: Sequence[str], deepest: int) -> list[_Line]:
    """Return the lines left of a gutter, then those right of it; unchanged if they are not prose."""
    left, right, adjacent = list[_Line](), list[_Line](), 0
    for line in band:
        gap = next((gap for gap in line.gaps if gap.left <= gutter <= gap.right), None)
        if gap is not None:
            before = tuple(each for each in line.gaps if each.after <= gap.before)
            after = tuple(each for each in line.gaps if each.before >= gap.after)
            left.append(_Line(line.start, gap.before + 1, line.left, gap.left, before))
            right.append(_Line(gap.after, line.end, gap.right, line.right, after))
            adjacent += 1
        elif line.right <= gutter:
            left.append(line)
        else:
            adjacent += bool(left and (not right or left[-1].start > right[-1].start))
            right.append(line)
    if adjacent < _FEWEST or not (_is_text(left, letters) and _is_text(right, letters)):
        return band
    widths = sorted(max(line.right for line in side) - min(line.left for line in side) for side in (left, right))
    if widths[0] < _ALIKE * widths[1] and not any(line.gaps for line in (*left, *right)):
        return band
    return _ordered(left, letters, deepest - 1) + _ordered(right, letters, deepest - 1)


def _is_text(lines: list[_Line], letters: Sequence[str]) -> bool:
    """Return whether lines of a column are prose."""
    width = max(line.right - line.left for line in lines)
    full = sum(line.right - line.left >= _FULL * width for line in lines)
    texts = ["".join("".join(letters[line.start : line.end]).split()) for line in lines]
    alphabetic = sum(sign.isalpha() for each in texts for sign in each)
    return (
        full >= _SHARE * len(lines)
        and median(map(len, texts)) >= _SHORTEST
        and alphabetic >= _LETTERS * sum(map(len, texts))
    )


def _texts(lines: list[_Line], letters: Sequence[str]) -> Iterator[str]:
    """Yield the texts of lines. A hyphen at the end of one that continues becomes PDFium's hyphen character."""
    texts = ["".join(letters[line.start : line.end]) for line in lines]
    for text, following in zip(texts, (*texts[1:], ""), strict=True):
        broken = text[-1:] == "-" and text[-2:-1].isalpha() and following[:1].islower()
        yield f"{text[:-1]}{_BROKEN[0]}" if broken else text
