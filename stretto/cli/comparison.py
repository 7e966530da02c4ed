"""``stretto compare``: answers in parts and in one piece, on questions of your own."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stretto.cli import options
from stretto.cli.command_client import key_in, opener_of
from stretto.cli.exits import reporting
from stretto.cli.plain import plain_json
from stretto.errors import InvalidRequestError

if TYPE_CHECKING:
    from rich.text import Text

    from stretto.cli.columns import Cell
    from stretto.cli.screen import Screen
    from stretto.comparing import Comparison, Side, Spending
    from stretto.comparing.intervals import Interval

FirstSeed = Annotated[int, typer.Option("--seed", metavar="N", help="Of the first question; the next has the next.")]
MostSpent = Annotated[
    str | None,
    typer.Option(
        "--budget", metavar="N|$N", help="The most to spend: tokens (200000), or US dollars with a sign ('$2.50')."
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Write a page (.html) or JSON (.json). What is done is kept beside it; the same command goes on.",
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
        options.of_model("--judge", says="A model that says which answer it prefers, in both orders."),
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
    figures. Interrupt it when you like: with --out, the same command goes on where it ended.
    """
    import asyncio  # noqa: PLC0415 - keeps `stretto --help` light

    from stretto.cli.screen import Screen  # noqa: PLC0415 - likewise
    from stretto.comparing import questions_in  # noqa: PLC0415 - likewise

    screen = Screen(quiet=quiet)
    spending = spending_of(budget)
    writable(out)
    asked = questions_in(questions)
    ask = {"max_tokens": max_tokens, "temperature": temperature}
    given = {name: value for name, value in ask.items() if value is not None}
    models = (model, against_model, judge)
    found = asyncio.run(
        _compared(
            context, screen, asked, models, (strategy, against), given, base_url, key_variable, seed, spending, out
        )
    )
    if out is not None:
        found.save(out)
    if json:
        screen.write(plain_json(found.as_json()) + "\n")
    else:
        from rich.console import Console  # noqa: PLC0415 - not needed for JSON

        console = Console(highlight=False, markup=False, emoji=False)
        for line in rendered(found):
            console.print(line, soft_wrap=True)
    if out is not None:
        screen.note(f"The answers side by side are in {out}")


async def _compared(  # noqa: PLR0917 - the command's own options
    context: typer.Context,
    screen: Screen,
    questions: Any,
    models: tuple[str | None, str | None, str | None],
    strategies: tuple[str, str],
    given: dict[str, Any],
    base_url: str | None,
    key_variable: str | None,
    seed: int,
    spending: Spending,
    out: Path | None,
) -> Comparison:
    from stretto.comparing import compare_async  # noqa: PLC0415 - keeps `stretto --help` light

    open_ = opener_of(context)
    async with AsyncExitStack() as clients:
        client = await clients.enter_async_context(open_(models[0], base_url=base_url, api_key=key_in(key_variable)))
        beside = client if models[1] is None else await clients.enter_async_context(open_(models[1]))
        judge = None if models[2] is None else await clients.enter_async_context(open_(models[2]))
        one, other = _sides(client, beside, strategies, given)
        try:
            return await compare_async(
                questions,
                one,
                other,
                judge=judge,
                seed=seed,
                budget=spending,
                keep=None if out is None else out.with_suffix(".jsonl"),
                progress=screen.bar(),
            )
        finally:
            screen.end()


def _sides(client: Any, beside: Any, strategies: tuple[str, str], given: dict[str, Any]) -> tuple[Side, Side]:
    from stretto.comparing import Side  # noqa: PLC0415 - keeps `stretto --help` light

    names = list(strategies)
    if beside is not client:
        names = [f"{each.backends['main'].name} {name}" for each, name in zip((client, beside), names, strict=True)]
    if names[0] == names[1]:
        raise InvalidRequestError(
            f"Both sides are {names[0]!r}. Name another strategy with --against, or another model with --against-model."
        )
    one, other = (
        Side(name, each, {"strategy": strategy, **given})
        for name, each, strategy in zip(names, (client, beside), strategies, strict=True)
    )
    return one, other


def writable(out: Path | None) -> None:
    """Raise `InvalidRequestError` where a report cannot be written to this file."""
    if out is not None and (out.suffix.lower() not in (".html", ".json") or not out.parent.is_dir()):
        raise InvalidRequestError(f"--out {str(out)!r} cannot be written: name a .html or .json file in a folder.")


def spending_of(budget: str | None) -> Spending:
    """What ``--budget`` says. Raises `InvalidRequestError`."""
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
    """The comparison for a person."""
    from rich.text import Text  # noqa: PLC0415 - not needed for JSON

    from stretto.cli.columns import columns  # noqa: PLC0415 - likewise

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
        [row.name, f"{row.one.value:.2f}", f"{row.other.value:.2f}", _interval(row.difference), names[row.ahead]]
        for row in found.rows
    ]
    lines += [Text(), *columns([heading, *rows], right=(1, 2, 3))]
    if found.preferences:
        heading = [("the judge prefers", "bold"), one, "tie", other, "win rate (95%)"]
        rows = [
            [each.criterion, str(each.wins), str(each.ties), str(each.losses), _interval(each.rate)]
            for each in found.preferences
        ]
        lines += [Text(), *columns([heading, *rows], right=(1, 2, 3, 4))]
    if found.time_ratio:
        lines += [Text(), Text(f"{one} took {_interval(found.time_ratio)} times as long as {other}.", "bold")]
    return lines


def _interval(found: Interval) -> str:
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"
