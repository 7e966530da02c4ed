"""A comparison as one HTML page: tables, plots, and every pair side by side. Model text is shown as plain text."""

from __future__ import annotations

from html import escape

from stretto.comparing.comparison_report import Comparison, Pair, Preferences
from stretto.comparing.question_sampling import Sample
from stretto.display.page import page, section, side_by_side, style_of_pairs, svg, table
from stretto.display.palette import Scheme, palette


def _colours(scheme: Scheme) -> str:
    colours = palette(scheme)
    return (
        f".win{{fill:{colours.good}}}.tie{{fill:{colours.field}}}.loss{{fill:{colours.bad}}}"
        f".axis{{stroke:{colours.field}}}"
    )


_STYLE = style_of_pairs(_colours)
_WIDTH, _LABEL, _ROW, _TOP = 760, 130, 26, 30
_BAR = _WIDTH - _LABEL - 120
_SLOWEST = 4.0  # larger ratios are drawn at the edge


def comparison_page(found: Comparison) -> str:
    """Return the standalone page, which runs no script."""
    one, other = (escape(name) for name in found.sides)
    parts = [
        _STYLE,
        f"<h1>{one} against {other}</h1>",
        f'<p class="dim">{one}: {escape(found.models[0])}<br>{other}: {escape(found.models[1])}'
        + (f"<br>judge: {escape(found.judge)}" if found.judge else "<br>no judge: measured by code alone")
        + f"<br>first seed: {found.seed}</p>",
        f"<p>{_counts(found)}</p>",
    ]
    if found.time_ratio:
        parts += [
            "<h2>Time</h2>",
            f"<p>{one} took {found.time_ratio.shown('.2f')} times as long as {other} (median, and 95% interval).</p>",
            _ratios(found),
        ]
    if found.judge:
        parts.append("<h2>What the judge prefers</h2>")
        parts += [f"<p>{escape(each)}</p>" for each in found.notes]
    if found.preferences:
        parts += [_bars(found.preferences, found.sides), _preferences(found)]
    parts += ["<h2>What code measures</h2>", _table(found), "<h2>Answers</h2>"]
    parts += [_pair(pair, found.sides) for pair in found.pairs]
    return page(f"{found.sides[0]} against {found.sides[1]}", *parts)


def _counts(found: Comparison) -> str:
    same = len(found.pairs) - len(found.in_parts) - sum(pair.one.failed or pair.other.failed for pair in found.pairs)
    parts = [f"{len(found.pairs):,} of {found.asked:,} questions asked", f"{len(found.in_parts):,} compared"]
    if same:
        parts.append(f"{same:,} written in the same way by both sides and left out of the figures")
    parts += [f"{name} failed on {number:,}" for name, number in zip(found.sides, found.failed, strict=True) if number]
    return escape("; ".join(parts)) + "."


def _table(found: Comparison) -> str:
    names = {"one": found.sides[0], "other": found.sides[1], "": ""}
    rows = (
        (row.name, f"{row.one.value:.2f}", f"{row.other.value:.2f}", row.difference.shown(".2f"), names[row.ahead])
        for row in found.rows
    )
    return table(("mean", *found.sides, "difference, 95% interval", "better"), rows, texts=(0, 4))


def _preferences(found: Comparison) -> str:
    one, other = found.sides
    heads = ("criterion", f"{one} preferred", "tie", "flipped", f"{other} preferred", "win rate, 95%")
    rows = (
        (each.criterion, *map(str, (each.wins, each.ties, each.flipped, each.losses)), each.rate.shown(".2f"))
        for each in found.preferences
    )
    return table(heads, rows)


def _bars(preferences: tuple[Preferences, ...], sides: tuple[str, str]) -> str:
    """Draw wins, ties (including flipped verdicts), and losses as stacked bars."""
    legend = f"{escape(sides[0])} preferred · tie or flipped · {escape(sides[1])} preferred"
    parts = [f'<text x="{_LABEL}" y="18">{legend}</text>']
    for row, each in enumerate(preferences):
        y, x = _TOP + row * _ROW, float(_LABEL)
        parts.append(f'<text x="0" y="{y + 15}">{each.criterion}</text>')
        even = each.ties + each.flipped
        whole = each.wins + even + each.losses
        for kind, number in (("win", each.wins), ("tie", even), ("loss", each.losses)):
            width = _BAR * number / whole
            parts.append(f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="18"/>')
            x += width
        parts.append(f'<text x="{x + 8:.1f}" y="{y + 15}">{each.wins} · {even} · {each.losses}</text>')
    return svg(_WIDTH, _TOP + _ROW * len(preferences), "What the judge prefers", *parts)


def _ratios(found: Comparison) -> str:
    """Draw the ratio of times with one dot per question; left of the line, the tested side is faster."""

    def x(ratio: float) -> float:
        return 20 + (_WIDTH - 60) * min(ratio, _SLOWEST) / _SLOWEST

    marks = "".join(
        f'<text x="{x(mark):.0f}" y="92" text-anchor="middle">{mark:g}</text>'
        for mark in (0.0, 0.5, 1.0, 2.0, 3.0, 4.0)
    )
    dots = []
    for number, pair in enumerate(found.in_parts):
        if pair.other.total_s <= 0:
            continue
        ratio = pair.one.total_s / pair.other.total_s
        kind = "win" if ratio < 1 else "loss"
        dots.append(
            f'<circle class="{kind}" cx="{x(ratio):.1f}" cy="{20 + number * 7 % 50}" r="4" fill-opacity="0.7">'
            f"<title>{escape(pair.question.id)}: {ratio:.2f}</title></circle>"
        )
    line = f'<line class="axis" x1="{x(1):.0f}" x2="{x(1):.0f}" y1="8" y2="78"/>'
    one, other = (escape(name) for name in found.sides)
    legend = f'<text x="20" y="112">time of {one} over {other}, a dot a question</text>'
    return svg(_WIDTH, 118, "Times", line, *dots, marks, legend)


def _pair(pair: Pair, sides: tuple[str, str]) -> str:
    notes: list[str] = []
    if pair.verdict:
        names = {"one": sides[0], "other": sides[1], "tie": "tie", "flipped": "flipped"}
        notes.append("; ".join(f"{name}: {names[value]}" for name, value in pair.verdict.preferences.items()))
        notes += [
            f"The judge, with {names[each.first]} as A: {each.error or each.why}"
            for each in pair.verdict.readings
            if each.error or each.why
        ]
    words = [each.words for each in pair.figures]
    sections = map(_answer, (pair.one, pair.other), sides, words)
    return side_by_side(f"{pair.question.id}: {pair.question.question}", sections, filter(None, notes))


def _answer(sample: Sample, name: str, words: int) -> str:
    how = sample.strategy or "failed"
    length = f"{words:,} words, {sample.tokens:,} tokens"
    figures = f"{name}: {how}, {sample.total_s:.2f} s, {length}, {sample.finish_reason}"
    return section(figures, sample.text, sample.warnings)
