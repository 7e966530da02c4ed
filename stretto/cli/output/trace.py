"""``--trace``: the timeline drawn in text, and the waiting times of calls to a local model.

One row per branch: waiting for its turn, waiting for the first text, writing. The characters alone distinguish the
phases, so the drawing works without colour, and in ASCII.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from stretto.cli.output.plain import one_line
from stretto.cli.output.screen import columns
from stretto.display.palette import TERMINAL
from stretto.display.rows import drawn, end_of, label_of, mark_step, mark_text, tokens_of
from stretto.display.timeline import totals
from stretto.values.answer import Answer, Branch, Span

MOST_LABEL = 24  # cells
FEWEST_BAR = 16
TOKENS = "  tokens"
HEADING = f"     time{TOKENS}"
NARROW = 56  # cells; below this width, labels take the room of the tokens
MARKS_APART = 12  # minimum number of cells between two numbers of the axis


_MOST_WAITS = 12  # rows
_WAITS = (
    ("turn", "started_s"),
    ("load", "loaded_s"),
    ("prepare", "prepared_s"),
    ("queue", "admitted_s"),
    ("prompt", "prompt_read_s"),
    ("token", "first_token_s"),
    ("text", "first_s"),
)
"""The stages that a call waits for, in order, each with the time in `Span` at which it ends."""


@dataclass(frozen=True)
class _Signs:
    waiting: str = "·"
    silent: str = "░"
    writing: str = "█"
    failed: str = "×"
    cut: str = "…"
    between: str = "·"


_ASCII = _Signs(".", "-", "#", "x", "/", "|")
_STYLES = {
    "waiting": "dim",
    "silent": TERMINAL.wait,
    "writing": TERMINAL.accent,
    "failed": f"bold {TERMINAL.bad}",
    "cut": f"bold {TERMINAL.bad}",
}


def render_timeline(answer: Answer, width: int = 80, *, blocks: bool = True) -> list[Text]:
    """Render the timeline of an answer in lines of at most ``width`` cells; ``blocks=False`` uses only ASCII."""
    signs = _Signs() if blocks else _ASCII
    branches, notes = drawn(answer.branches)
    end_s = end_of(answer.branches, answer.timeline.total_s)
    if not answer.branches or end_s <= 0:
        return [Text("Nothing ran.", "dim")]
    labels = [_label(branch) for branch in branches]
    heading = HEADING if width >= NARROW else HEADING[: -len(TOKENS)]
    room = min(MOST_LABEL, max(cell_len(label) for label in labels), max(1, width - len(heading) - FEWEST_BAR - 1))
    bar = max(FEWEST_BAR, width - room - len(heading) - 1)
    rows = [_axis(end_s, room, bar, heading)]
    for branch, label in zip(branches, labels, strict=True):
        row = Text(_fitted(label, room) + " ", "dim" if branch.status == "failed" else "")
        rows.append(row + _phases(branch, bar, end_s, signs) + _figures(branch, end_s)[: len(heading)])
    return [
        *rows,
        *(Text(note, "dim") for note in notes),
        *_legend(answer.branches, signs, width),
        Text(totals(answer.timeline, signs.between), "dim"),
        *_decoded(answer, width, signs),
        *_waits(branches, room),
    ]


def _label(branch: Branch) -> str:
    return one_line(label_of(branch))


def _fitted(label: str, room: int) -> str:
    if cell_len(label) <= room:
        return set_cell_size(label, room)
    return set_cell_size(set_cell_size(label, room - 1).rstrip() + "…", room)


def _phases(branch: Branch, bar: int, end_s: float, signs: _Signs) -> Text:
    """Render the bar of one branch in exactly ``bar`` cells."""
    span = branch.span
    ended_s = span.ended_s if span.ended_s is not None else end_s
    started_s = span.started_s if span.started_s is not None else ended_s
    first_s = span.first_s if span.first_s is not None else ended_s
    row = Text()
    for phase, until_s in (("", span.needed_s), ("waiting", started_s), ("silent", first_s), ("writing", ended_s)):
        until = round(until_s / end_s * bar)
        if phase == "writing" and span.first_s is not None:
            row = row[: bar - 1]
            until = max(until, len(row) + 1)  # it did write, however briefly
        cells = max(0, min(bar, until) - len(row))
        row.append((getattr(signs, phase) if phase else " ") * cells, _STYLES.get(phase, ""))
    if end := "failed" if branch.status == "failed" else "cut" if branch.was_cut else "":
        row = row[: bar - 1]
        row.append(getattr(signs, end), _STYLES[end])
    row.append(" " * (bar - len(row)))
    return row


def _figures(branch: Branch, end_s: float) -> Text:
    """Return how long the branch took since it was requested, and how much it wrote."""
    span = branch.span
    took_s = (span.ended_s if span.ended_s is not None else end_s) - span.needed_s
    return Text(f"{took_s:7.2f} s{tokens_of(branch):>8}", "dim")


def _axis(end_s: float, room: int, bar: int, heading: str) -> Text:
    """Render the axis: numbers above a line, in seconds since the request arrived."""
    step_s = mark_step(end_s, bar, MARKS_APART)
    numbers = " " * bar
    mark = 0
    while (at := round(mark * step_s / end_s * bar)) < bar:
        number = mark_text(mark * step_s, step_s) + (" s" if mark == 0 else "")
        if at + len(number) <= bar:
            numbers = numbers[:at] + number + numbers[at + len(number) :]
        mark += 1
    return Text(" " * (room + 1) + numbers + heading, "dim")


def _legend(branches: Sequence[Branch], signs: _Signs, width: int) -> list[Text]:
    """Render the legend of the signs, on as many lines as needed."""
    meanings = {"waiting": "next in line", "silent": "waiting for the first word", "writing": "being written"}
    if any(branch.status == "failed" for branch in branches):
        meanings["failed"] = "failed or dropped"
    if any(branch.was_cut for branch in branches):
        meanings["cut"] = "cut"
    lines = [Text()]
    for phase, meaning in meanings.items():
        sign = getattr(signs, phase) * (1 if phase in ("failed", "cut") else 2)
        if lines[-1] and cell_len(f"{lines[-1].plain}  {sign} {meaning}") > width:
            lines.append(Text())
        lines[-1].append("  " if lines[-1] else "").append(sign, _STYLES[phase]).append(f" {meaning}", "dim")
    return lines


def _decoded(answer: Answer, width: int, signs: _Signs) -> list[Text]:
    """Render the tokens per forward pass of a local model, and the acceptance of each source's drafts."""
    found = answer.decoding
    if found is None:
        return []
    parts = [
        f"decoding {one_line(', '.join(found.methods))}",
        f"{found.steps:,} steps",
        f"{found.tokens_per_step:.2f} tokens a step",
        f"{found.rows_per_step:.1f} rows a step",
    ]
    for source, share in sorted(found.acceptance.items(), key=lambda entry: -found.accepted.get(entry[0], 0)):
        parts.append(f"{one_line(source)} {share:.0%} of {found.drafted[source]:,} drafted accepted")
    return _wrapped(parts, width, signs)


def _waits(branches: Sequence[Branch], room: int) -> list[Text]:
    """Render the stages before the first text of calls to a local model: the longest of each, in seconds."""
    local = [branch for branch in branches if branch.span.loaded_s is not None]
    if not local:
        return []
    longest = sorted(local, key=_wait_s, reverse=True)[:_MOST_WAITS]
    rows = [[_fitted(_label(branch), room), *map(_seconds, _steps_of(branch.span))] for branch in longest]
    heading = ["before the first text, in s", *(name for name, *_ in _WAITS)]
    lines = columns([heading, *rows], right=range(1, len(heading)))
    if len(longest) < len(local):
        lines.append(Text(f"{len(local) - len(longest):,} more branches waited less"))
    return [Text(line.plain, "dim") for line in lines]


def _steps_of(span: Span) -> list[float | None]:
    """Return the time a call spent in each of `_WAITS`; ``None`` for stages that it did not reach."""
    found: list[float | None] = []
    since: float | None = span.needed_s
    for _, name in _WAITS:
        until = getattr(span, name)
        end = span.ended_s if until is None else until
        found.append(None if since is None or end is None else max(0.0, end - since))
        since = until
    return found


def _wait_s(branch: Branch) -> float:
    return sum(seconds or 0.0 for seconds in _steps_of(branch.span))


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2f}"


def _wrapped(parts: Sequence[str], width: int, signs: _Signs) -> list[Text]:
    """Lay out parts side by side, on as many lines as needed."""
    lines = [parts[0]]
    for part in parts[1:]:
        joined = f"{lines[-1]} {signs.between} {part}"
        if cell_len(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(part)
    return [Text(line, "dim") for line in lines]
