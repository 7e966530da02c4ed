"""Notebook displays of an answer, its route and its timeline, and a page with all three."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING

from stretto.display.page import page, table
from stretto.display.rows import drawn, label_of
from stretto.display.timeline import draw, totals
from stretto.values.answer import Answer, Branch, Timeline
from stretto.values.route import Route

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


def answer_html(answer: Answer) -> str:
    """Render the text, a line of figures, the warnings, and the timeline."""
    warnings = "".join(f"<li>{escape(warning)}</li>" for warning in answer.warnings)
    return "\n".join(
        (
            f"<div>{markdown_html(answer.text)}</div>",
            f'<p class="dim"><small>{escape(figures(answer))}</small></p>',
            f"<ul>{warnings}</ul>" if warnings else "",
            draw(answer.timeline, answer.branches),
        )
    )


def route_html(route: Route) -> str:
    """Render the decision, its reason, and the expected cost of each strategy."""
    rows = [
        (name, f"{cost.seconds:.1f} s", f"{cost.tokens:,}", f"{cost.calls:,}") for name, cost in route.forecast.items()
    ]
    on = f" on {escape(route.backend)}" if route.backend else ""
    decoding = f"<p>{escape(route.decoding_reason)}</p>" if route.decoding_reason else ""
    return f"<p><b>{escape(route.strategy)}</b>{on}: {escape(route.reason)}</p>{decoding}" + (
        table(("strategy", "expected time", "tokens", "calls"), rows) if rows else ""
    )


def route_markdown(route: Route) -> str:
    """Render the route as Markdown, with untrusted text escaped."""
    rows = [
        f"| {_plain(name)} | {cost.seconds:.1f} s | {cost.tokens:,} | {cost.calls:,} |"
        for name, cost in route.forecast.items()
    ]
    table = ["", "| strategy | expected time | tokens | calls |", "|---|---:|---:|---:|", *rows] if rows else []
    on = f" on {_plain(route.backend)}" if route.backend else ""
    return "\n".join([f"**{_plain(route.strategy)}**{on}: {_plain(route.reason)}", *table])


def timeline_markdown(timeline: Timeline, branches: Sequence[Branch]) -> str:
    """Render the timeline's figures as a Markdown table, with untrusted text escaped."""
    shown, notes = drawn(branches)
    rows = [_timeline_row(branch) for branch in shown]
    rows += [f"| {note} | | | | |" for note in notes]
    table = ["", "| branch | wanted at | sent at | first text | ended |", "|---|---:|---:|---:|---:|", *rows]
    return "\n".join([totals(timeline), *(table if rows else [])])


def _timeline_row(branch: Branch) -> str:
    span = branch.span
    times = [span.needed_s, span.started_s, span.first_s, span.ended_s]
    how = " (failed)" if branch.status == "failed" else " (cut)" if branch.was_cut else ""
    cells = " | ".join("" if seconds is None else f"{seconds:.2f} s" for seconds in times)
    return f"| {_plain(label_of(branch))}{how} | {cells} |"


def answer_page(answer: Answer, question: str = "") -> str:
    """Render a standalone page: the question, the answer, its route and its timeline."""
    question_html = f'<h2>Question</h2><p style="white-space:pre-wrap">{escape(question)}</p>' if question else ""
    return page(
        f"Stretto: {answer.strategy or answer.route.strategy}",
        question_html,
        "<h2>Answer</h2>",
        answer_html(answer),
        "<h2>Route</h2>",
        route_html(answer.route),
        "<h2>Branches</h2>",
        _branches(answer),
    )


def figures(answer: Answer) -> str:
    """Return one line: strategy, seconds, tokens, calls and cost."""
    first = answer.timeline.first_text_s
    parts = [
        f"{answer.strategy or answer.route.strategy} on {answer.route.backend or answer.route.role}",
        f"{answer.timeline.total_s:.2f} s" + ("" if first is None else f", first text {first:.2f} s"),
        f"{answer.usage.prompt_tokens:,} tokens in, {answer.usage.completion_tokens:,} out",
        f"{answer.usage.calls:,} " + ("call" if answer.usage.calls == 1 else "calls"),
        f"cost {answer.cost}" if answer.cost else "cost unknown",
    ]
    return " · ".join(parts)


def markdown_html(text: str) -> str:
    """Render model text as HTML: without embedded HTML or images, and with web links only."""
    return str(_parser().render(text))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - keeps `import stretto` light

    # An image would be loaded from any address in the model's text, which could be used for tracking.
    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("image")


def _branches(answer: Answer) -> str:
    heads = ("branch", "heading or title", "status", "tokens", "error")
    rows = (
        (each.id, each.heading or each.title, each.status, f"{each.usage.completion_tokens:,}", each.error or "")
        for each in answer.branches
    )
    return table(heads, rows, texts=(0, 1, 2, 4))


def _plain(text: str) -> str:
    return "".join(f"\\{sign}" if sign in r"\`*_[]<>|#~$&" else sign for sign in " ".join(text.split()))
