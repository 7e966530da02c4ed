"""Live display of one answer from its first event to its last, and the notes below it."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from rich.text import Text

from stretto.backends.provider_table import default_keys, either
from stretto.cli.output.plain import one_line, plain_json
from stretto.cli.output.progress import Progress, status_of
from stretto.cli.output.screen import FRAME_S, Cell, Screen, columns
from stretto.values.answer import Answer
from stretto.values.errors import StrettoError
from stretto.values.events import AnswerFinished, BranchDelta, Event, RouteChosen, TextDelta

if TYPE_CHECKING:
    from stretto.client.async_client import AsyncStretto
    from stretto.values.request import Message


T = TypeVar("T")
Show = Callable[[Event], None]

BEGINNING = (BranchDelta, TextDelta, AnswerFinished)
"""Events before which an answer may still fail with an error."""


async def answer_live(
    client: AsyncStretto,
    prompt: str | Sequence[Message],
    screen: Screen,
    show: Show | None = None,
    *,
    first: bool = False,
    begin: Callable[[], None] = lambda: None,
    **request: Any,
) -> Answer:
    """Ask, and pass every event to ``show``; by default, the text is written to the screen as it arrives.

    A progress line is drawn while nothing arrives. The line is always ended, however the answer ends. ``first``: this
    is the client's first answer, so a local model has to be loaded. ``begin`` is called just before the first text,
    not earlier: its note about the model would only obscure an error.
    """
    show = show or text_on(screen, explain=request.get("strategy") in (None, "auto"))
    main = client.backends["main"].name
    begun = False
    progress = Progress(main, time.monotonic, loads=first and main.startswith("local:"), blocks=screen.encodes_blocks)
    try:
        async with client.stream(prompt, **request) as events:
            while True:
                with anyio.move_on_after(FRAME_S if screen.redraws else math.inf) as pause:
                    event = await anext(events, None)
                if not pause.cancelled_caught:
                    if event is None:
                        if problem := log(prompt, events.answer):
                            screen.warn(problem)
                        return events.answer
                    if not begun and isinstance(event, BEGINNING):
                        begun = True
                        begin()
                    progress.see(event)
                    screen.below = progress.ahead
                    show(event)
                screen.tick(progress.phrase)
    except asyncio.CancelledError:
        screen.interrupt()
        raise
    finally:
        screen.end()


def log(prompt: str | Sequence[Message], answer: Answer) -> str:
    """Store the answer for ``stretto logs``, if that is on. Return the error if that failed, else nothing."""
    from stretto.cli.answer_store import AnswerStore  # noqa: PLC0415 - SQLite is imported only when needed

    try:
        AnswerStore().add(prompt if isinstance(prompt, str) else prompt[-1].content, answer)
    except StrettoError as error:
        return str(error)
    return ""


async def wait_live(work: Coroutine[Any, Any, T], screen: Screen, doing: str) -> T:
    """Wait for something without events, with a progress line."""
    began = time.monotonic()
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({task}, timeout=FRAME_S if screen.live else None))[0]:
            screen.tick(lambda: f"{doing} · {time.monotonic() - began:.1f} s")
        return task.result()
    finally:
        task.cancel()
        screen.erase()


def text_on(screen: Screen, *, explain: bool = True, silent: bool = False) -> Show:
    """Show the text of the answer, preceded by the reason for its strategy, but not before an error.

    ``silent``: the text is shown by other means.
    """
    reason = ""

    def show(event: Event) -> None:
        nonlocal reason
        if reason and isinstance(event, BEGINNING):
            screen.note(reason)
            reason = ""
        match event:
            case RouteChosen() if explain:
                reason = f"{event.route.strategy}: {event.route.reason}"
            case TextDelta() if not silent:
                screen.answer(event.text)

    return show


def events_on(screen: Screen) -> Show:
    """Return a callback that prints every event as a line of JSON."""

    def show(event: Event) -> None:
        screen.write(plain_json(event.model_dump_json()) + "\n")

    return show


def silently(event: Event) -> None:
    """Show nothing: the answer is printed when it is complete, or not at all."""


def conclude(answer: Answer, screen: Screen, *, footnotes: bool = True) -> None:
    """Print the notes of an answer: citations, warnings, and figures."""
    if footnotes and answer.citations and not screen.quiet:
        screen.show(*footnotes_of(answer))
    for warning in answer.warnings:
        screen.warn(warning)
    screen.note(status_of(answer))


def introduce(client: AsyncStretto, screen: Screen, *, named: bool) -> None:
    """Print which model answers if the user has not ``named`` one, and what the demonstration model is."""
    notice, warns = notice_of(client, named=named)
    if notice:
        screen.note(notice, "yellow" if warns else "dim")


def demonstration() -> str:
    """Explain what the pocket model is, and how to use a real one."""
    return (
        "local:pocket is a demonstration model: it knows 100 everyday topics, and its answers may be wrong. "
        f"For real answers set {either([*default_keys()])}, or name a model with --model."
    )


def notice_of(client: AsyncStretto, *, named: bool) -> tuple[str, bool]:
    """Return a note on the model if the user has not ``named`` one, possibly empty, and whether it is a warning."""
    main = client.backends["main"].name
    if main == "local:pocket":
        return demonstration(), True
    return ("" if named else client.model_reason or f"{one_line(main)} answers: the settings say so."), False


_MOST = 40
_LONGEST = 160  # characters of a quotation


def footnotes_of(answer: Answer) -> list[Text]:
    """Return one line per citation: its number, its label in the answer, the heading above it, and its text."""
    lines = []
    for citation in answer.citations[:_MOST]:
        quote, heading = one_line(citation.quote), one_line(citation.heading)
        excerpt = quote if len(quote) <= _LONGEST else quote[: _LONGEST - 1].rstrip() + "…"
        line = Text(f"{citation.number} {one_line(citation.label)}", "bold")
        line.append(f" {heading}:" if heading and heading != excerpt else "", "not bold dim")
        lines.append(line.append(f" {excerpt}", "not bold dim"))
    if (more := len(answer.citations) - _MOST) > 0:
        lines.append(Text(f"and {more:,} more, which --json prints", "dim"))
    return lines


def logprobs_of(answer: Answer, width: int | None) -> list[Text]:
    """Render a row per token: its probability, its log-probability, and the most probable tokens in its place.

    Tokens are shown as JSON strings, which makes spaces and line breaks visible.
    """
    head: tuple[Cell, ...] = tuple((each, "bold") for each in ("token", "probability", "logprob", "most probable"))
    rows = [head]
    for score in answer.logprobs:
        top = "  ".join(f"{_shown(token)} {_percent(logprob)}" for token, logprob in score.top)
        logprob = f"{score.logprob:z.3f}"  # z: -0.000 becomes 0.000
        rows.append((_shown(score.token), _percent(score.logprob), logprob, top))
    if not any(score.top for score in answer.logprobs):
        rows = [row[:-1] for row in rows]
    return columns(rows, width=width, right=(1, 2))


def _shown(token: str) -> str:
    return plain_json(json.dumps(token, ensure_ascii=False))


def _percent(logprob: float) -> str:
    probability = math.exp(logprob)
    return "<0.1%" if probability < 0.0005 else f"{probability:.1%}"
