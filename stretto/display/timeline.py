"""A timeline image: one row per branch (waiting, silent, writing) over the seconds since the request arrived."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from stretto.display.palette import Scheme, palette
from stretto.display.rows import drawn, end_of, label_of, mark_step, mark_text, tokens_of
from stretto.values.answer import Branch

if TYPE_CHECKING:
    from stretto.values.answer import Timeline

WIDTH = 920  # pixels
_LABEL = 230
_FIGURES = 150
_ROW = 24
_TOP = 30
_BAR = WIDTH - _LABEL - _FIGURES
_LONGEST_LABEL = 34  # characters
_MARKS_APART = 70  # pixels


def _colours(scheme: Scheme) -> str:
    colours = palette(scheme)
    return (
        f".st-timeline{{color:{colours.text};background:{colours.back}}}"
        f".st-timeline text{{fill:{colours.text}}}.st-timeline .dim{{fill:{colours.dim}}}"
        f".st-timeline .axis{{stroke:{colours.line}}}.st-timeline .waiting{{stroke:{colours.field}}}"
        f".st-timeline .silent{{fill:{colours.wait}}}.st-timeline .writing{{fill:{colours.accent}}}"
        f".st-timeline .failed{{stroke:{colours.bad}}}"
    )


_STYLE = f"""
.st-timeline{{font:12px system-ui,sans-serif;max-width:100%;height:auto}}
.st-timeline .waiting{{stroke-dasharray:2 4;stroke-width:2}}.st-timeline .failed{{stroke-width:2.5}}
{_colours("light")}
@media (prefers-color-scheme:dark){{{_colours("dark")}}}
"""


def draw(timeline: Timeline, branches: Sequence[Branch]) -> str:
    """Draw the timeline as SVG. Titles are escaped."""
    shown, notes = drawn(branches)
    end_s = end_of(branches, timeline.total_s) or 1.0
    rows = [_row(branch, number, end_s) for number, branch in enumerate(shown)]
    height = _TOP + _ROW * len(shown)
    notes.append(totals(timeline))
    foot = [_text(4, height + 20 + 18 * line, note, "dim") for line, note in enumerate(notes)]
    legend = _legend(height + 20 + 18 * len(notes))
    full = height + 18 * len(notes) + 36
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="st-timeline" width="{WIDTH}" height="{full}" '
        f'viewBox="0 0 {WIDTH} {full}" role="img" aria-label="What ran when: {escape(totals(timeline))}">'
        f"<style>{_STYLE}</style>{_axis(end_s, height)}{''.join(rows)}{''.join(foot)}{legend}</svg>"
    )


def totals(timeline: Timeline, between: str = "·") -> str:
    """Return one line: seconds to the first text, to the end, and along the critical path."""
    first = timeline.first_text_s
    parts = [] if first is None else [f"first text {first:.2f} s"]
    parts += [f"total {timeline.total_s:.2f} s", f"critical path {timeline.critical_path_s:.2f} s"]
    return f" {between} ".join(parts)


def _row(branch: Branch, number: int, end_s: float) -> str:
    span, top = branch.span, _TOP + number * _ROW
    ended_s = end_s if span.ended_s is None else span.ended_s
    started_s = ended_s if span.started_s is None else span.started_s
    first_s = ended_s if span.first_s is None else span.first_s
    middle = top + _ROW / 2
    label = " ".join(label_of(branch).split())
    label = label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1].rstrip() + "…"
    parts = [_text(4, middle + 4, label)]
    if started_s > span.needed_s:
        line = f'y1="{middle:.1f}" y2="{middle:.1f}" x1="{_at(span.needed_s, end_s):.1f}"'
        parts.append(f'<line class="waiting" {line} x2="{_at(started_s, end_s):.1f}"/>')
    parts.append(_bar("silent", started_s, first_s, end_s, top))
    if span.first_s is not None:
        parts.append(_bar("writing", first_s, ended_s, end_s, top))
    if branch.status == "failed":
        x = _at(ended_s, end_s)
        cross = f"M{x - 5:.1f} {middle - 5:.1f}l10 10m0 -10l-10 10"
        parts.append(f'<path class="failed" fill="none" d="{cross}"/>')
    elif branch.was_cut:
        parts.append(_text(_at(ended_s, end_s) + 2, middle + 4, "…"))
    took_s = ended_s - span.needed_s
    tokens = tokens_of(branch)
    figures = f"{took_s:.2f} s" + (f" · {tokens} tokens" if tokens else "")
    parts.append(_text(WIDTH - 4, middle + 4, figures, "dim", end=True))
    title = f"{label_of(branch)}: wanted at {span.needed_s:.2f} s, sent at {started_s:.2f} s, first text at "
    title += f"{first_s:.2f} s, ended at {ended_s:.2f} s" + (f", failed: {branch.error}" if branch.error else "")
    title += ", cut" if branch.was_cut else ""
    return f"<g><title>{escape(title)}</title>{''.join(parts)}</g>"


def _bar(phase: str, since_s: float, until_s: float, end_s: float, top: float) -> str:
    x, width = _at(since_s, end_s), max(0.0, _at(until_s, end_s) - _at(since_s, end_s))
    if phase == "writing":
        width = max(2.0, width)  # it did write, however briefly
    return f'<rect class="{phase}" x="{x:.1f}" y="{top + 5}" width="{width:.1f}" height="{_ROW - 10}" rx="2"/>'


def _axis(end_s: float, height: float) -> str:
    step_s, parts, mark = mark_step(end_s, _BAR, _MARKS_APART), [], 0
    while mark * step_s <= end_s:
        x = _at(mark * step_s, end_s)
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="22" y2="{height}"/>')
        parts.append(_text(x, 16, mark_text(mark * step_s, step_s) + " s", "dim"))
        mark += 1
    return "".join(parts)


def _legend(y: float) -> str:
    parts, x = [], 4.0
    for phase, meaning in (("silent", "waiting for the first word"), ("writing", "being written")):
        parts.append(f'<rect class="{phase}" x="{x}" y="{y - 10}" width="14" height="11" rx="2"/>')
        parts.append(_text(x + 20, y, meaning, "dim"))
        x += 30 + 6.2 * len(meaning)
    parts.append(f'<line class="waiting" x1="{x}" x2="{x + 16}" y1="{y - 4}" y2="{y - 4}"/>')
    parts.append(_text(x + 22, y, "next in line   × failed or dropped   … cut", "dim"))
    return "".join(parts)


def _at(seconds: float, end_s: float) -> float:
    return _LABEL + min(1.0, seconds / end_s) * _BAR


def _text(x: float, y: float, text: str, style: str = "", *, end: bool = False) -> str:
    anchor = ' text-anchor="end"' if end else ""
    named = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{named}{anchor}>{escape(text)}</text>'
