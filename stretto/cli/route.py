"""``stretto route``: how a question would be answered, and why, without answering it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from stretto.cli import options
from stretto.cli.exits import reporting
from stretto.cli.opening import documents_of, opener_of, question_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stretto.client import AsyncStretto
    from stretto.route import Route

BAR = 20  # cells


@reporting
def route(
    context: typer.Context,
    *,
    question: options.Question = None,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    strategy: options.Strategy = None,
    preference: options.Preferred = None,
    system: options.System = None,
    document: options.Documents = None,
    max_tokens: options.MaxTokens = None,
    json: options.Json = False,
) -> None:
    """Explain how a question would be answered.

    Loads no model and calls none, unless the setting second_opinion is on.
    """
    import asyncio  # noqa: PLC0415 - these two keep `stretto --help` light

    from stretto.cli.plain import plain_json  # noqa: PLC0415

    request: dict[str, Any] = {
        "strategy": strategy,
        "preference": preference.value if preference else None,
        "system": system,
        "documents": documents_of(document),
        "max_tokens": max_tokens,
    }
    asked = question_of(question)
    chosen = asyncio.run(_route(opener_of(context)(model, base_url=base_url), asked, request))
    if json:
        typer.echo(plain_json(chosen.model_dump_json(indent=2)))
        return
    from rich.console import Console  # noqa: PLC0415 - not needed for JSON

    console = Console(highlight=False, markup=False, emoji=False)
    console.print(*explanation(chosen), sep="\n", soft_wrap=not console.is_terminal)


async def _route(client: AsyncStretto, question: str, request: dict[str, Any]) -> Route:
    async with client:
        return await client.route(question, **{name: value for name, value in request.items() if value is not None})


def explanation(route: Route) -> list[RenderableType]:
    """The route for a person: its cause, what shape the answer has, what each way would cost."""
    from rich.table import Table  # noqa: PLC0415 - not needed for JSON
    from rich.text import Text  # noqa: PLC0415

    from stretto.cli.plain import one_line  # noqa: PLC0415

    lines: list[RenderableType] = [
        Text(one_line(route.cause)),
        Text(
            f"{route.strategy} on {one_line(route.backend)} ({route.role}), decided in {route.elapsed_ms:.0f} ms", "dim"
        ),
    ]
    shapes = {name: chance for name, chance in route.probabilities.items() if name != "skeleton"}
    if shapes:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold", show_header=False)
        for name, chance in sorted(shapes.items(), key=lambda entry: -entry[1]):
            table.add_row(name, f"{chance:4.0%}", Text("█" * round(chance * BAR), "green"))
        lines += [Text("\nShape of the answer", "bold"), table]
    if "skeleton" in route.probabilities:
        lines.append(Text(f"An outline first would serve: {route.probabilities['skeleton']:.0%} sure.", "dim"))
    if route.forecast:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for heading, side in (("", "left"), ("seconds", "right"), ("tokens", "right"), ("calls", "right")):
            table.add_column(heading, justify="right" if side == "right" else "left")
        for name, cost in route.forecast.items():
            mark = "bold" if name == route.strategy else ""
            table.add_row(Text(name, mark), f"{cost.seconds:.1f}", f"{cost.tokens:,}", f"{cost.calls:,}")
        lines += [Text("\nForecast", "bold"), table]
    return lines
