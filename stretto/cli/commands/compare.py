"""``stretto compare``: answers in parts and in one piece, for your own questions."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stretto.cli import options
from stretto.cli.command_client import key_in, opener_of
from stretto.cli.exits import reporting
from stretto.cli.output.plain import one_line, plain_json
from stretto.values.errors import InvalidRequestError

if TYPE_CHECKING:
    from rich.text import Text

    from stretto.cli.output.screen import Cell, Screen
    from stretto.comparing import Comparison, Side, Spending

MOST_SHOWN, LONGEST_WHY = 30, 100  # questions shown with the judge's reason, and its maximum length in characters
FirstSeed = Annotated[
    int, typer.Option("--seed", metavar="N", help="Seed of the first question; each further question adds 1.")
]
MostSpent = Annotated[
    str | None,
    typer.Option(
        "--budget", metavar="N|$N", help="Maximum to spend: tokens (200000), or US dollars with a sign ('$2.50')."
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write a page (.html) or JSON (.json). Finished work is kept next to it, in NAME.kept.jsonl; the same "
        "command continues.",
    ),
]


@reporting
def compare(
    context: typer.Context,
    *,
    questions: Annotated[
        Path,
        typer.Argument(
            metavar="QUESTIONS.jsonl", help='A question on each line: a string, or {"question": ..., "points": 5}.'
        ),
    ],
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    key_variable: options.KeyVariable = None,
    strategy: Annotated[
        str,
        typer.Option(
            "--strategy", "-s", metavar="NAME", help="The side that is tried.", autocompletion=options.complete_strategy
        ),
    ] = "auto",
    against: Annotated[
        str,
        typer.Option(
            "--against",
            metavar="NAME",
            help="The strategy that it is measured against.",
            autocompletion=options.complete_strategy,
        ),
    ] = "direct",
    against_model: Annotated[
        str | None,
        options.of_model("--against-model", says="Measure against another model."),
    ] = None,
    judge: Annotated[
        str | None,
        options.of_model("--judge", says="A model that reads both answers blind, in both orders, and prefers one."),
    ] = None,
    max_tokens: options.MaxTokens = None,
    temperature: options.Temperature = None,
    seed: FirstSeed = 0,
    budget: MostSpent = None,
    out: Report = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Answer questions in two ways, and compare: by code, by the clock, and by a judge.

    By default `auto` is measured against `direct`. Questions that both write in the same way are left out of the
    figures. You can interrupt it: with --out, the same command continues where it stopped.
    """
    import asyncio  # noqa: PLC0415 - keeps `stretto --help` light

    from stretto.cli.output.screen import Screen, print_lines  # noqa: PLC0415 - likewise
    from stretto.comparing import questions_in  # noqa: PLC0415 - likewise

    screen = Screen(quiet=quiet)
    spending = spending_of(budget)
    kept = kept_file(out, questions)
    every_question = questions_in(questions)
    with reporting_kept(screen, kept):
        found = asyncio.run(
            _compared(
                context,
                screen,
                (model, against_model, judge, base_url, key_variable),
                (strategy, against),
                given(max_tokens=max_tokens, temperature=temperature),
                questions=every_question,
                seed=seed,
                budget=spending,
                keep=kept,
            )
        )
    if out is not None:
        found.save(out)
    if json:
        screen.write(plain_json(found.as_json()) + "\n")
    else:
        print_lines(lambda _: rendered(found))
    if out is not None:
        screen.note(f"The answers side by side are in {out}")


async def _compared(
    context: typer.Context,
    screen: Screen,
    models: tuple[str | None, str | None, str | None, str | None, str | None],
    strategies: tuple[str, str],
    options: dict[str, Any],
    **run: Any,
) -> Comparison:
    from stretto.comparing import compare_async  # noqa: PLC0415 - keeps `stretto --help` light

    model, against_model, judge, base_url, key_variable = models
    open_ = opener_of(context)
    async with AsyncExitStack() as clients:
        client = await clients.enter_async_context(open_(model, base_url=base_url, api_key=key_in(key_variable)))
        other_client = client if against_model is None else await clients.enter_async_context(open_(against_model))
        judging = None if judge is None else await clients.enter_async_context(open_(judge))
        one, other = _sides(client, other_client, strategies, options)
        try:
            return await compare_async(one=one, other=other, judge=judging, progress=screen.bar(), **run)
        finally:
            screen.end()


def _sides(client: Any, other_client: Any, strategies: tuple[str, str], options: dict[str, Any]) -> tuple[Side, Side]:
    from stretto.comparing import Side  # noqa: PLC0415 - keeps `stretto --help` light

    names = list(strategies)
    if other_client is not client:
        names = [
            f"{each.backends['main'].name} {name}" for each, name in zip((client, other_client), names, strict=True)
        ]
    if names[0] == names[1]:
        raise InvalidRequestError(
            f"Both sides are {names[0]!r}. Name another strategy with --against, or another model with --against-model."
        )
    one, other = (
        Side(name, each, {"strategy": strategy, **options})
        for name, each, strategy in zip(names, (client, other_client), strategies, strict=True)
    )
    return one, other


def given(**options: Any) -> dict[str, Any]:
    """Return the request options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def kept_file(out: Path | None, questions: Path) -> Path | None:
    """Return the file for finished work next to a report. Raises `InvalidRequestError` if either is not writable."""
    from stretto.comparing.keeping import ENDING  # noqa: PLC0415 - keeps `stretto --help` light

    if out is None:
        return None
    if out.suffix.lower() not in (".html", ".json") or not out.parent.is_dir():
        raise InvalidRequestError(f"--out {str(out)!r} cannot be written: name a .html or .json file in a folder.")
    kept = out.with_suffix(ENDING)
    if any(each.exists() and questions.exists() and each.samefile(questions) for each in (out, kept)):
        raise InvalidRequestError(f"--out {str(out)!r} would write over the questions. Name another file.")
    return kept


@contextmanager
def reporting_kept(screen: Screen, kept: Path | None) -> Iterator[None]:
    """On an interrupt, print which file has the finished work, and which command continues."""
    try:
        yield
    except KeyboardInterrupt:
        if kept is None:
            screen.note(
                "Nothing is kept without --out FILE.html. With it, the same command continues where it stopped."
            )
        else:
            command = shlex.join(["stretto", *sys.argv[1:]])
            screen.note(f"Finished work is kept in {kept}. Continue with:")
            screen.note(f"  {command}")
        raise


def spending_of(budget: str | None) -> Spending:
    """Parse ``--budget``. Raises `InvalidRequestError`."""
    from stretto.comparing import Spending  # noqa: PLC0415 - keeps `stretto --help` light

    if budget is None:
        return Spending()
    wrong = InvalidRequestError(
        f"--budget {budget!r} is no amount. Give tokens, such as 200000, or US dollars, such as '$2.50'."
    )
    try:
        amount = float(budget.removeprefix("$").replace("_", "").replace(",", ""))
    except ValueError:
        raise wrong from None
    if not 0 < amount < float("inf"):
        raise wrong
    return Spending(usd=amount) if budget.startswith("$") else Spending(tokens=int(amount))


def rendered(found: Comparison) -> list[Text]:
    """Render the comparison as text."""
    from rich.text import Text  # noqa: PLC0415 - not needed for JSON

    from stretto.cli.output.screen import columns  # noqa: PLC0415 - likewise

    one, other = found.sides
    failed = [f", {name} failed on {number}" for name, number in zip(found.sides, found.failed, strict=True) if number]
    lines = [
        Text(
            f"{len(found.pairs)} of {found.asked} questions asked, {len(found.in_parts)} written in different ways "
            f"and compared{''.join(failed)}"
        )
    ]
    if not found.in_parts:
        return lines
    names = {"one": one, "other": other, "": ""}
    heading: list[Cell] = [("mean", "bold"), (one, "bold"), (other, "bold"), "difference (95%)", "better"]
    rows: list[list[Cell]] = [
        [row.name, f"{row.one.value:.2f}", f"{row.other.value:.2f}", row.difference.shown(".2f"), names[row.ahead]]
        for row in found.rows
    ]
    lines += [Text(), *columns([heading, *rows], right=(1, 2, 3))]
    if found.judge:
        lines += [Text(), *_judged(found)]
    if found.time_ratio:
        lines += [Text(), Text(f"{one} took {found.time_ratio.shown('.2f')} times as long as {other}.", "bold")]
    return lines


def _judged(found: Comparison) -> list[Text]:
    """Render the judge's preferences: by criterion with both lengths, and by question with its reason."""
    from rich.text import Text  # noqa: PLC0415 - not needed for JSON

    from stretto.cli.output.screen import columns  # noqa: PLC0415 - likewise

    one, other = found.sides
    notes = [Text(one_line(each)) for each in found.notes]
    if not found.preferences:
        return notes
    heading: list[Cell] = [("the judge prefers", "bold"), one, "tie", "flipped", other, "win rate (95%)"]
    rows: list[list[Cell]] = [
        [each.criterion, *map(str, (each.wins, each.ties, each.flipped, each.losses)), each.rate.shown(".2f")]
        for each in found.preferences
    ]
    words = [f"{row.value:.0f}" for each in found.rows if each.name == "words" for row in (each.one, each.other)]
    rows.append(["words (mean)", words[0], "", "", words[1], ""])
    names = {"one": one, "other": other}
    questions: list[list[Cell]] = [
        [("question", "bold"), "overall", f"words, {one}", f"words, {other}", f"why (A is {one})"]
    ]
    judged = [(pair, pair.verdict) for pair in found.in_parts if pair.verdict and not pair.verdict.error]
    for pair, verdict in judged[:MOST_SHOWN]:
        overall, reading = verdict.preferences["overall"], verdict.readings[0]
        preferred = names.get(overall, overall) + (f", {reading.strength}" if overall in names else "").rstrip(", ")
        why = shorten(one_line(reading.why), LONGEST_WHY, placeholder=" ...")
        questions.append([one_line(pair.question.id), preferred, *(str(each.words) for each in pair.figures), why])
    more = len(judged) - MOST_SHOWN
    return [
        *columns([heading, *rows], right=(1, 2, 3, 4, 5)),
        Text(),
        *columns(questions, right=(2, 3)),
        *([Text(f"and {more} more; --out FILE.html has all of them")] if more > 0 else []),
        *notes,
    ]
