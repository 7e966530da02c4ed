"""``--compare``: figures of the chosen strategy and ``direct``, side by side."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from stretto.backends.tenants import UNKNOWN, asked_for
from stretto.cli.output.live import answer_live, silently, wait_live
from stretto.cli.output.plain import json_lines, one_line, plain_json
from stretto.cli.output.screen import Screen, columns
from stretto.values.answer import Answer
from stretto.values.request import Message

if TYPE_CHECKING:
    from stretto.client.async_client import AsyncStretto


Wait = Callable[[Coroutine[Any, Any, Any], str], Awaitable[object]]
"""Waits for something without events, and shows what it is."""


async def loaded(client: AsyncStretto, question: str, wait: Wait) -> None:
    """Load model, SDK and router before timing, because only the first of two answers would wait for them."""
    local = [one_line(each.name) for each in client.backends.values() if each.name.startswith("local:")]
    await (wait(client.load(), f"loading {', '.join(local)}") if local else client.load())
    if not client.settings.second_opinion:  # which would make a call
        await client.route(question)


async def make_ready(client: AsyncStretto, question: str, screen: Screen) -> None:
    """Do the same with a progress line."""
    await loaded(client, question, lambda work, doing: wait_live(work, screen, doing))


async def direct_answer(
    client: AsyncStretto,
    question: str | Sequence[Message],
    screen: Screen,
    answer: Answer,
    request: Mapping[str, Any],
) -> Sequence[Answer]:
    """Return the direct answer to the same request; nothing if the given answer is direct."""
    if _written(answer) == "direct":
        screen.note("Nothing to compare: the answer was written with direct. Compare with --strategy skeleton.")
        return ()
    screen.note("Once more with direct, to compare.")
    with asked_for(UNKNOWN):  # else a local model would draft it from the given answer
        return (await answer_live(client, question, screen, silently, **{**request, "strategy": "direct"}),)


def figures(answer: Answer) -> dict[str, float | int | None]:
    """Return the compared figures of an answer."""
    words, total_s = len(answer.text.split()), answer.timeline.total_s
    return {
        "first_text_s": answer.timeline.first_text_s,
        "total_s": total_s,
        "prompt_tokens": answer.usage.prompt_tokens,
        "completion_tokens": answer.usage.completion_tokens,
        "calls": answer.usage.calls,
        "cost_usd": None if answer.cost is None else answer.cost.usd,
        "words": words,
        "words_per_second": words / total_s if total_s > 0 else None,
    }


def speed_up(answer: Answer, direct: Answer) -> float | None:
    """Return the speed-up of the answer over the direct one."""
    total_s = answer.timeline.total_s
    return direct.timeline.total_s / total_s if total_s > 0 else None


def as_json(answers: Sequence[Answer]) -> str:
    """Format one answer unchanged; two with their figures, as ``{"answer", "direct", "comparison"}``."""
    if len(answers) == 1:
        return plain_json(answers[0].model_dump_json(indent=2))
    answer, direct = answers
    both = {
        "answer": answer.model_dump(mode="json"),
        "direct": direct.model_dump(mode="json"),
        "comparison": {
            _written(answer): figures(answer),
            "direct": figures(direct),
            "speed_up": speed_up(answer, direct),
        },
    }
    return json_lines(both)


def table(answer: Answer, direct: Answer) -> list[Text]:
    """Render the figures of both answers side by side, and one sentence."""
    units = (
        "seconds to first text",
        "seconds in total",
        "prompt tokens",
        "completion tokens",
        "calls",
        "US dollars",
        "words",
        "words per second",
    )
    both = zip(units, figures(answer).values(), figures(direct).values(), strict=True)
    rows = [(unit, _shown(one), _shown(other)) for unit, one, other in both]
    heading = ("", (_written(answer), "bold"), ("direct", "bold"))
    return [*columns([heading, *rows], right=(1, 2)), Text(_sentence(answer, direct), "bold")]


def _shown(figure: float | None) -> str:
    if figure is None:
        return "-"
    if isinstance(figure, float):
        return f"{figure:.2f}" if figure == 0 or figure >= 0.1 else f"{figure:.2g}"
    return f"{figure:,}"


def _sentence(answer: Answer, direct: Answer) -> str:
    times = speed_up(answer, direct)
    if times is None:
        return ""
    tokens = direct.usage.total_tokens
    token_ratio = f", for {answer.usage.total_tokens / tokens:.1f} times the tokens" if tokens else ""
    how = f"was {times:.1f} times as fast as direct" if times >= 1 else f"took {1 / times:.1f} times as long as direct"
    return f"{_written(answer)} {how}{token_ratio}."


def _written(answer: Answer) -> str:
    """Return the strategy that actually wrote an answer."""
    return answer.strategy or answer.route.strategy
