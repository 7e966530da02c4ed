"""``stretto calibrate``: when to accept the answer of a smaller model, learned from your own questions."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stretto.cli import options
from stretto.cli.command_client import key_in, opener_of
from stretto.cli.commands.compare import (
    FirstSeed,
    MostSpent,
    Report,
    given,
    kept_file,
    reporting_kept,
    spending_of,
)
from stretto.cli.commands.learned_of_models import step_text
from stretto.cli.exits import reporting
from stretto.cli.output.plain import one_line, plain_json
from stretto.values.errors import InvalidRequestError

if TYPE_CHECKING:
    from rich.text import Text

    from stretto.calibrating import Calibration
    from stretto.calibrating.curve import Point
    from stretto.cli.output.screen import Cell, Screen

ROLES = ("smallest", "smaller", "small")


@reporting
def calibrate(
    context: typer.Context,
    *,
    questions: Annotated[
        Path | None,
        typer.Argument(
            metavar="[QUESTIONS.jsonl]",
            help='A question on each line: a string, or {"question": ..., "answer": ..., "response_format": ...}.',
        ),
    ] = None,
    small: Annotated[
        list[str] | None,
        options.of_model("--small", says="The model that answers first. Up to three, the smallest first."),
    ] = None,
    big: Annotated[
        str | None,
        options.of_model("--big", says="The large model; by default the one that the settings name."),
    ] = None,
    judge: Annotated[
        str | None,
        options.of_model("--judge", says="A model that compares longer answers, in both orders."),
    ] = None,
    base_url: options.BaseUrl = None,
    key_variable: options.KeyVariable = None,
    agreement: Annotated[
        float,
        typer.Option(
            "--agreement", metavar="SHARE", help="Share of the answers that should be as good as the large model's."
        ),
    ] = 0.95,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="WAY",
            help="How to measure how sure a model is: probability, check or agreement. By default what costs least.",
        ),
    ] = None,
    max_tokens: options.MaxTokens = None,
    temperature: options.Temperature = None,
    seed: FirstSeed = 0,
    budget: MostSpent = None,
    out: Report = None,
    router: Annotated[
        bool,
        typer.Option(
            "--router",
            help='Correct the router instead, from {"question": ..., "strategy": "skeleton"} or "direct" on each line, '
            "or from the .json report of stretto compare. No model is asked.",
        ),
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn when the answer of a small model is as good as that of a large one.

    Both models answer every question. Their answers are compared by the right answer if the file has one, by the
    format, by what short answers say, or else by the judge. What is learned is kept for these models, and
    `--strategy cascade` uses it. The table shows the cascade on questions that it was not learned from, next to random
    routing.
    """
    if router:
        _correct(questions)
        return
    import asyncio  # noqa: PLC0415 - keeps `stretto --help` light

    from stretto.calibrating import LabelledQuestion  # noqa: PLC0415 - likewise
    from stretto.cli.output.screen import Screen, print_lines  # noqa: PLC0415 - likewise
    from stretto.comparing import questions_in  # noqa: PLC0415 - likewise

    if questions is None or not small:
        missing = "no file of questions" if questions is None else "no small model: name it with --small"
        raise InvalidRequestError(
            f"There is {missing}. For instance: stretto calibrate mine.jsonl --small local:pocket"
        )
    if len(small) > len(ROLES):
        raise InvalidRequestError(
            f"--small was given {len(small)} times. A ladder has up to {len(ROLES)} small models."
        )
    if by not in (None, "probability", "check", "agreement"):
        raise InvalidRequestError(f"--by {by!r} cannot be used. Name probability, check or agreement.")
    spending = spending_of(budget)
    kept = kept_file(out, questions)
    screen = Screen(quiet=quiet)
    with reporting_kept(screen, kept):
        found = asyncio.run(
            _calibrated(
                context,
                screen,
                (small, big, judge, base_url, key_variable),
                questions=questions_in(questions, LabelledQuestion),
                goal=agreement,
                by=by,
                options=given(max_tokens=max_tokens, temperature=temperature),
                seed=seed,
                budget=spending,
                keep=kept,
            )
        )
    if out is not None:
        found.save(out)
    if json:
        screen.write(plain_json(found.as_json()) + "\n")
        return
    print_lines(lambda _: rendered(found))
    if out is not None:
        screen.note(f"The curve and all answers are in {out}")


async def _calibrated(
    context: typer.Context,
    screen: Screen,
    models: tuple[list[str], str | None, str | None, str | None, str | None],
    **run: Any,
) -> Calibration:
    from stretto.calibrating import calibrate_async  # noqa: PLC0415 - keeps `stretto --help` light

    small, big, judge, base_url, key_variable = models
    roles = dict(zip(ROLES[-len(small) :], small, strict=True))
    open_ = opener_of(context)
    async with AsyncExitStack() as clients:
        client = await clients.enter_async_context(
            open_(big, base_url=base_url, api_key=key_in(key_variable), roles=roles, fallback=())
        )
        judging = None if judge is None else await clients.enter_async_context(open_(judge))
        try:
            return await calibrate_async(client=client, judge=judging, progress=screen.bar(), **run)
        finally:
            screen.end()


def _correct(questions: Path | None) -> None:
    """Learn a correction of the router, and save it if it helps."""
    from stretto.calibrating import calibrate_router, routed_questions_in  # noqa: PLC0415 - keeps `stretto --help` light
    from stretto.router.correction import keep_correction  # noqa: PLC0415 - likewise

    if questions is None:
        raise InvalidRequestError("There is no file of questions. For instance: stretto calibrate mine.jsonl --router")
    found = calibrate_router(routed_questions_in(questions))
    typer.echo(found.summary)
    if found.correction is not None:
        typer.echo(f"Kept in {keep_correction(found.correction)}; stretto route --explain shows it.")


def rendered(found: Calibration) -> list[Text]:
    """Render the calibration as text."""
    from rich.text import Text  # noqa: PLC0415 - not needed for JSON

    from stretto.calibrating.page import counts, is_priced, rows  # noqa: PLC0415 - likewise
    from stretto.cli.output.screen import columns  # noqa: PLC0415 - likewise

    lines = [Text(one_line(counts(found)))]
    if found.curve:
        figures = rows(found)
        heading: list[Cell] = ["held out, mean (95%)", "to the large model", "as good", "", "seconds", "tokens"]
        known = is_priced(found)
        right = all(point.right is not None for _, point in figures)
        heading += [*(["right"] if right else []), *(["US dollars"] if known else [])]
        table: list[list[Cell]] = [heading]
        for name, point in figures:
            table.append(
                [*_cells(one_line(name), point), *([point.right.shown(".0%")] if right and point.right else [])]
            )
            if known and point.usd is not None:
                table[-1].append(f"{point.usd.value:.5f}")
        lines += [Text(), *columns(table, right=(1, 2, 4, 5, 6, 7))]
        if found.gap_recovered is not None:
            lines += [
                Text(),
                Text(
                    f"{found.gap_recovered:.0%} of the gap is recovered, averaged over all shares; random routing: 50%."
                ),
            ]
    if found.caution:
        lines.append(Text(found.caution, "yellow"))
    if found.learned is not None:
        lines += [Text(step_text(step.model, step.by, step.threshold), "bold") for step in found.learned.steps]
        lines.append(Text("Kept: --strategy cascade uses it. stretto learned prints what is kept.", "dim"))
    return lines


_BAR = 20  # cells


def _cells(name: str, point: Point) -> list[Cell]:
    bar = "█" * round(point.agreement.value * _BAR)
    return [
        name,
        f"{point.share.value:.0%}",
        point.agreement.shown(".0%"),
        (bar, "dim" if name.strip() == "random" else "green"),
        f"{point.seconds.value:.2f}",
        f"{point.tokens.value:,.0f}",
    ]
