"""Draw a trace in the form of Jaeger's API as Jaeger's page lays it out: ``python docs/trace_view.py FILE.json``.

On the left is the tree of services and operations, on the right are their bars below a scale. Of branches of one kind,
the longest is unfolded; the others show how many spans are below, as where they are folded in Jaeger. One span has its
details open.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

__all__ = ["draw"]

WIDTH, NAMES, ROW, HEAD, SCALE = 1100, 400, 26, 66, 30
INDENT, TICKS = 14, 4
COLOUR, LINE, GUIDE, DIM = "#17b8be", "#ddd", "#d0d0d0", "#777"
SHOWN_TAG = "stretto.engine.requests"  # the first span with the most of them has its details open
STYLE = (
    "text{font:12px 'Helvetica Neue',Helvetica,Arial,sans-serif;fill:#333}.service{font-weight:600}"
    ".operation,.dim{fill:#777}.title{font-size:16px}.mono{font-family:Menlo,Consolas,monospace;font-size:11px}"
)


@dataclass
class Row:
    """A span as it is shown.

    Attributes:
        span: in the form of Jaeger's API.
        depth: below how many others it stands.
        below: spans below it.
        is_open: whether those are shown.
    """

    span: dict[str, Any]
    depth: int
    below: int
    is_open: bool


def draw(trace: dict[str, Any]) -> str:
    """One trace of ``data`` as a picture."""
    spans = trace["spans"]
    began = min(span["startTime"] for span in spans)
    total = max(span["startTime"] + span["duration"] for span in spans) - began
    service = trace["processes"][spans[0]["processID"]]["serviceName"]
    shown = list(rows(spans))
    wanted = max(shown, key=weight)
    parts = [*heading(trace, service, total, 1 + max(depth(spans).values())), *scale(total)]
    y = HEAD + SCALE
    for row in shown:
        parts += drawn(row, service, y, (row.span["startTime"] - began) / total, row.span["duration"] / total)
        y += ROW
        if row is wanted:
            told, height = details(row, service, y, row.span["startTime"] - began)
            parts += told
            y += height
    parts.append(f'<path d="M{NAMES} {HEAD}V{y}" stroke="{LINE}"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 6}" viewBox="0 0 {WIDTH} {y + 6}">'
        f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def depth(spans: list[dict[str, Any]]) -> dict[str, int]:
    """Below how many others each span stands."""
    parents = {span["spanID"]: parent_of(span) for span in spans}
    found = {}
    for span in spans:
        above, count = parents[span["spanID"]], 0
        while above in parents:
            above, count = parents[above], count + 1
        found[span["spanID"]] = count
    return found


def weight(row: Row) -> int:
    """How much the details of a span have to tell."""
    return next((tag["value"] for tag in row.span["tags"] if tag["key"] == SHOWN_TAG), 0)


def parent_of(span: dict[str, Any]) -> str | None:
    """The number of the span above."""
    return span["references"][0]["spanID"] if span["references"] else None


def rows(spans: list[dict[str, Any]]) -> Iterator[Row]:
    """The spans from top to bottom: parents before their children, the earliest first."""
    children: dict[str | None, list[dict[str, Any]]] = {}
    for span in sorted(spans, key=lambda each: each["startTime"]):
        children.setdefault(parent_of(span), []).append(span)

    def count(span: dict[str, Any]) -> int:
        return sum(1 + count(child) for child in children.get(span["spanID"], []))

    def walk(parent: str | None, deep: int) -> Iterator[Row]:
        here = children.get(parent, [])
        longest = {span["operationName"]: span for span in sorted(here, key=lambda each: each["duration"])}
        for span in here:
            is_open = count(span) > 0 and longest[span["operationName"]] is span
            yield Row(span, deep, count(span), is_open)
            if is_open:
                yield from walk(span["spanID"], deep + 1)

    return walk(None, 0)


def heading(trace: dict[str, Any], service: str, total: int, levels: int) -> Iterator[str]:
    """The name of the trace and the line of figures below it."""
    first = min(trace["spans"], key=lambda span: span["startTime"])
    start = datetime.fromtimestamp(first["startTime"] / 1e6, tz=UTC)
    figures = {
        "Trace Start": f"{start:%B %d %Y, %H:%M:%S}.{start.microsecond // 1000:03d}",
        "Duration": time(total),
        "Services": len({span["processID"] for span in trace["spans"]}),
        "Depth": levels,
        "Total Spans": len(trace["spans"]),
    }
    yield f'<rect width="{WIDTH}" height="{HEAD}" fill="#fff"/>'
    yield (
        f'<text x="14" y="26" class="title"><tspan class="service">{escape(service)}: {escape(first["operationName"])}'
        f'</tspan><tspan class="dim" dx="10">{trace["traceID"][:7]}</tspan></text>'
    )
    told = "".join(
        f'<tspan class="dim" dx="{18 if number else 0}">{name} </tspan><tspan class="service">{value}</tspan>'
        for number, (name, value) in enumerate(figures.items())
    )
    yield f'<text x="14" y="50">{told}</text>'


def scale(total: int) -> Iterator[str]:
    """The row above the spans: what stands below, and the ticks."""
    yield f'<rect y="{HEAD}" width="{WIDTH}" height="{SCALE}" fill="#ececec"/>'
    yield f'<text x="14" y="{HEAD + 20}" class="title">Service &amp; Operation</text>'
    for tick in range(TICKS + 1):
        x = NAMES + (WIDTH - NAMES) * tick / TICKS
        anchor, shift = ("end", -4) if tick == TICKS else ("start", 4)
        yield f'<text x="{x + shift:.0f}" y="{HEAD + 20}" text-anchor="{anchor}">{time(total * tick / TICKS)}</text>'
        yield f'<path d="M{x:.0f} {HEAD}v{SCALE}" stroke="{GUIDE}"/>'


def drawn(row: Row, service: str, y: int, start: float, share: float) -> Iterator[str]:
    """One span: its name in the tree, and its bar."""
    room = WIDTH - NAMES
    for tick in range(1, TICKS):
        yield f'<path d="M{NAMES + room * tick / TICKS:.0f} {y}v{ROW}" stroke="#eee"/>'
    for level in range(row.depth + 1):
        yield f'<path d="M{12 + INDENT * level} {y}v{ROW}" stroke="{GUIDE}"/>'
    x, middle = 12 + INDENT * row.depth, y + 17
    if row.below:
        caret = "M-3 -2h6l-3 5z" if row.is_open else "M-2 -3v6l5 -3z"
        yield f'<path transform="translate({x} {y + 13})" d="{caret}" fill="#666"/>'
    folded = f'<tspan class="dim">{row.below} </tspan>' if row.below and not row.is_open else ""
    error = '<tspan fill="#db2828" dx="6">!</tspan>' if any(each["key"] == "error" for each in row.span["tags"]) else ""
    yield f'<rect x="{x + 8}" y="{y + 5}" width="3" height="16" fill="{COLOUR}"/>'
    yield (
        f'<text x="{x + 16}" y="{middle}">{folded}<tspan class="service">{escape(service)}</tspan>'
        f'<tspan class="operation" dx="6">{escape(row.span["operationName"])}</tspan>{error}</text>'
    )
    left, wide = NAMES + start * room, max(1.5, share * room)
    yield f'<rect x="{left:.1f}" y="{y + 7}" width="{wide:.1f}" height="12" rx="2" fill="{COLOUR}"/>'
    told = time(row.span["duration"])
    if left + wide + 60 < WIDTH:
        yield f'<text x="{left + wide + 5:.1f}" y="{middle}" class="dim">{told}</text>'
    elif left - 60 > NAMES:
        yield f'<text x="{left - 5:.1f}" y="{middle}" class="dim" text-anchor="end">{told}</text>'
    yield f'<path d="M0 {y + ROW}H{WIDTH}" stroke="#f2f2f2"/>'


def details(row: Row, service: str, y: int, start: int) -> tuple[list[str], int]:
    """What unfolds below a span, and its height: times, tags, and the number of the span."""
    tags, x = row.span["tags"], NAMES + 14
    height = 78 + 20 * len(tags)
    parts = [f'<path d="M{12 + INDENT * level} {y}v{height}" stroke="{GUIDE}"/>' for level in range(row.depth + 1)]
    parts += [
        f'<rect x="{NAMES}" y="{y}" width="{WIDTH - NAMES}" height="{height}" fill="#fafafa" stroke="{LINE}"/>',
        f'<rect x="{NAMES}" y="{y}" width="{WIDTH - NAMES}" height="3" fill="{COLOUR}"/>',
        f'<text x="{x}" y="{y + 24}" class="title">{escape(row.span["operationName"])}</text>',
    ]
    figures = {"Service:": service, "Duration:": time(row.span["duration"]), "Start Time:": time(start)}
    told = "".join(
        f'<tspan class="dim" dx="{14 if number else 0}">{name} </tspan><tspan>{escape(value)}</tspan>'
        for number, (name, value) in enumerate(figures.items())
    )
    parts.append(f'<text x="{WIDTH - 14}" y="{y + 24}" text-anchor="end">{told}</text>')
    parts.append(f'<text x="{x}" y="{y + 50}" class="service">Tags</text>')
    for number, tag in enumerate(tags):
        line = y + 58 + 20 * number
        fill = "#fff" if number % 2 else "#f0f0f0"
        value = json.dumps(tag["value"])
        parts.append(f'<rect x="{x}" y="{line}" width="{WIDTH - x - 14}" height="20" fill="{fill}"/>')
        parts.append(f'<text x="{x + 6}" y="{line + 14}" class="mono dim">{escape(tag["key"])}</text>')
        parts.append(f'<text x="{x + 280}" y="{line + 14}" class="mono">{escape(value)}</text>')
    parts.append(
        f'<text x="{WIDTH - 14}" y="{y + height - 7}" text-anchor="end"><tspan class="dim">SpanID: </tspan>'
        f"<tspan>{row.span['spanID']}</tspan></text>"
    )
    return parts, height


def time(microseconds: float) -> str:
    """A duration as Jaeger writes it: 950μs, 12.3ms, 4.56s."""
    if microseconds >= 1e6:
        return f"{round(microseconds / 1e6, 2):g}s"
    return f"{round(microseconds / 1e3, 2):g}ms" if microseconds >= 1e3 else f"{microseconds:.0f}μs"


if __name__ == "__main__":
    print(draw(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["data"][0]), end="")
