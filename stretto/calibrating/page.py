"""A calibration as one HTML page: the curve, its figures, and every answer. Model text is shown as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from stretto.calibrating.curve import Point
from stretto.calibrating.report import Answered, Calibration
from stretto.display.page import page, section, side_by_side, style_of_pairs, svg, table
from stretto.display.palette import Scheme, palette


def _colours(scheme: Scheme) -> str:
    colours = palette(scheme)
    return (
        f".axis{{stroke:{colours.field}}}"
        f".cascade{{stroke:{colours.voices[0]};fill:{colours.voices[0]}}}.chance{{stroke:{colours.dim}}}"
        f".goal{{stroke:{colours.good};fill:{colours.good}}}"
    )


_STYLE = style_of_pairs(_colours)
_WIDTH, _HEIGHT, _LEFT, _BASE = 760, 340, 60, 290


def calibration_page(found: Calibration) -> str:
    """Return the standalone page, which runs no script."""
    smaller, main = ", then ".join(found.smaller), found.main
    parts = [
        _STYLE,
        f"<h1>{escape(smaller)} before {escape(main)}</h1>",
        f'<p class="dim">judge: {escape(found.judge or "none")}<br>goal: {found.goal:.0%} of the answers as good as '
        f"those of {escape(main)}</p>",
        f"<p>{escape(counts(found))}</p>",
    ]
    if found.caution:
        parts.append(f"<p>{escape(found.caution)}</p>")
    if found.curve:
        parts += ["<h2>Agreement by cost</h2>", _plot(found), _table(found)]
    parts += ["<h2>Answers</h2>", *(_pair(pair, found) for pair in found.answered)]
    return page(f"{smaller} before {main}", *parts)


def counts(found: Calibration) -> str:
    """Return one sentence with the number of questions and what decided whether answers are as good."""
    sentence = f"{len(found.answered)} of {found.asked} questions answered"
    if found.failed:
        sentence += f", {found.failed} left out because {found.main} or the judge did not answer"
    ways = {
        "answer": "by the right answer",
        "format": "by the format",
        "equality": "by what both say",
        "judge": "by the judge",
        "none": "without a small answer",
    }
    return f"{sentence}; compared {', '.join(f'{ways[name]} {count}' for name, count in found.judged_by.items())}."


def rows(found: Calibration) -> list[tuple[str, Point]]:
    """Return the printed figures: both models alone, the cascade, and random routing with the same share."""
    small, large = found.alone
    named: list[tuple[str, Point | None]] = [(f"{found.smaller[0]} alone", small)]
    for point in _spread(found.curve):
        named += [("cascade", point), ("  random", found.random(point.share.value))]
    if found.at_goal is not None:
        named += [
            (f"cascade for {found.goal:.0%}", found.at_goal),
            ("  random", found.random(found.at_goal.share.value)),
        ]
    named.append((f"{found.main} alone", large))
    return [(name, point) for name, point in named if point is not None]


def is_priced(found: Calibration) -> bool:
    """Return whether all prices are known and some are not 0."""
    points = [point.usd for _, point in rows(found)]
    return None not in points and any(point is not None and point.value for point in points)


def _spread(points: Sequence[Point], most: int = 4) -> list[Point]:
    """Return up to ``most`` points of the curve that are far apart, by the share of the large model."""
    inner = [point for point in points if 0.02 < point.share.value < 0.98]
    wanted = [(number + 1) / (most + 1) for number in range(most)]
    near = {min(range(len(inner)), key=lambda at: abs(inner[at].share.value - share)) for share in wanted if inner}
    return sorted((inner[at] for at in near), key=lambda point: point.share.value)


def _table(found: Calibration) -> str:
    known = is_priced(found)
    right = all(point.right is not None for _, point in rows(found))
    heads = ["", "to the large model", "as good", *(["right"] if right else []), "seconds", "tokens"]
    heads += ["US dollars"] if known else []
    every: list[list[str]] = []
    for name, point in rows(found):
        cells = [name, point.share.shown(".0%"), point.agreement.shown(".0%")]
        cells += [point.right.shown(".0%")] if right and point.right else []
        cells += [f"{point.seconds.value:.2f}", f"{point.tokens.value:,.0f}"]
        cells += [f"{point.usd.value:.5f}"] if known and point.usd else []
        every.append(cells)
    gap = found.gap_recovered
    gap_note = (
        "" if gap is None else f"<p>{gap:.0%} of the gap is recovered on average over all shares; chance has 50%.</p>"
    )
    return table(heads, every) + gap_note


def _plot(found: Calibration) -> str:
    """Plot agreement by share: the cascade with its interval, and random routing."""
    small = found.alone[0]
    points = sorted(found.curve, key=lambda point: point.share.value)
    ends = [
        (each.agreement.value, each.agreement.value) if each.agreement.low is None else each.agreement.ends
        for each in points
    ]
    least = min([low for low, _ in ends] + [small.agreement.value if small else 1.0])
    low = max(0.0, min(0.9, least - 0.02))

    def x(share: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - 30) * share

    def y(agreement: float) -> float:
        return _BASE - (_BASE - 20) * (agreement - low) / (1 - low)

    upper = [(x(each.share.value), y(high)) for each, (_, high) in zip(points, ends, strict=True)]
    lower = [(x(each.share.value), y(low)) for each, (low, _) in zip(points, ends, strict=True)]
    band = " ".join(f"{across:.1f},{up:.1f}" for across, up in [*upper, *reversed(lower)])
    line = " ".join(f"{x(each.share.value):.1f},{y(each.agreement.value):.1f}" for each in points)
    parts = [
        f'<polygon class="cascade" points="{band}" fill-opacity="0.15" stroke="none"/>',
        f'<polyline class="cascade" points="{line}" fill="none" stroke-width="2" style="fill:none"/>',
    ]
    if small is not None:
        parts.append(
            f'<line class="chance" x1="{x(0):.1f}" y1="{y(small.agreement.value):.1f}" x2="{x(1):.1f}" '
            f'y2="{y(1):.1f}" stroke-dasharray="5 4"/>'
        )
    if found.at_goal is not None:
        at = found.at_goal
        parts.append(
            f'<circle class="goal" cx="{x(at.share.value):.1f}" cy="{y(at.agreement.value):.1f}" r="6">'
            f"<title>goal {found.goal:.0%}</title></circle>"
        )
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - 30}" y1="{_BASE}" y2="{_BASE}"/>')
    for tenth in range(0, 11, 2):
        parts.append(f'<text x="{x(tenth / 10):.0f}" y="{_BASE + 18}" text-anchor="middle">{tenth * 10}%</text>')
        value = low + (1 - low) * tenth / 10
        parts.append(f'<text x="{_LEFT - 8}" y="{y(value) + 4:.0f}" text-anchor="end">{value:.0%}</text>')
    parts.append(
        f'<text x="{_LEFT}" y="{_HEIGHT - 8}">share of questions to the large model; up: answers as good as its own. '
        "Line: cascade on held-out questions, with 95% interval; dashed: chance; dot: the goal</text>"
    )
    return svg(_WIDTH, _HEIGHT, "Agreement by share", *parts)


def _pair(pair: Answered, found: Calibration) -> str:
    sections = []
    for name, sample, good in zip(found.smaller, pair.smaller, pair.goodness, strict=True):
        score = "no score" if sample.score is None else f"score {sample.score:.3f}"
        verdict = "as good" if good.good else "worse"
        figures = f"{name}: {score}, {verdict} by {good.judged_by}, {sample.total_s:.2f} s, {sample.tokens:,} tokens"
        sections.append(section(figures, sample.text))
    main = f"{found.main}: {pair.main.total_s:.2f} s, {pair.main.tokens:,} tokens"
    sections.append(section(main, pair.main.text))
    return side_by_side(f"{pair.question.id}: {pair.question.question}", sections)
