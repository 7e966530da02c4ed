"""``stretto route``: how a question would be answered, and why, without answering it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from stretto.backends.known_models import typical_tokens
from stretto.cli import options
from stretto.cli.command_client import local_opener, models_of, opener_of, question_of
from stretto.cli.exits import reporting

if TYPE_CHECKING:
    from rich.text import Text

    from stretto.backends.base import Backend
    from stretto.client.async_client import AsyncStretto
    from stretto.values.route import Route

BAR = 20  # cells


@reporting
@options.with_request
def route(
    context: typer.Context,
    *,
    question: options.Question = None,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    role: options.Roles = None,
    prompt_family: options.PromptFamily = None,
    request: dict[str, Any],
    explain: Annotated[
        bool, typer.Option("--explain", help="Also print what spoke for and against an outline, and your correction.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Explain how a question would be answered.

    Loads no model and calls none, unless the setting second_opinion is on.
    """
    import asyncio  # noqa: PLC0415 - these two keep `stretto --help` light

    from stretto.cli.output.plain import plain_json  # noqa: PLC0415

    prompt = question_of(question)
    opener = local_opener(opener_of(context), None, prompt_family=prompt_family)
    client = opener(model, base_url=base_url, roles=models_of(role))
    chosen, overflow = asyncio.run(_route(client, prompt, request))
    if json:
        typer.echo(plain_json(chosen.model_dump_json(indent=2)))
        return
    from rich.console import Console  # noqa: PLC0415 - not needed for JSON

    console = Console(highlight=False, markup=False, emoji=False)
    for line in [*explanation(chosen, overflow), *(_outline(chosen, prompt) if explain else [])]:
        console.print(line, soft_wrap=not console.is_terminal)


async def _route(client: AsyncStretto, question: str, request: dict[str, Any]) -> tuple[Route, str | None]:
    """Return the route and, if the prompt does not fit, the reason."""
    async with client:
        chosen = await client.route(question, **request)
        # Documents are excluded: they are read in passages if they do not fit.
        read = len(question) + len(request.get("system", ""))
        return chosen, _overflow(read, client.backends[chosen.role])


def _overflow(characters: int, backend: Backend) -> str | None:
    tokens, window = typical_tokens(characters), backend.capabilities.context_window
    if window is None or tokens < window:
        return None
    return (
        f"The prompt does not fit: it has about {tokens:,} tokens, and {backend.name} reads {window:,}. "
        "Shorten it, or name another model."
    )


def explanation(route: Route, overflow: str | None = None) -> list[Text]:
    """Render the route: its reason, the shape of the answer, the expected cost of each strategy.

    ``overflow``: why the prompt does not fit, in which case there is no forecast.
    """
    from rich.text import Text  # noqa: PLC0415 - not needed for JSON

    from stretto.cli.output.plain import in_options, one_line  # noqa: PLC0415
    from stretto.cli.output.screen import Cell, columns  # noqa: PLC0415

    lines = [
        *([Text(one_line(overflow), "red")] if overflow else []),
        Text(one_line(in_options(route.reason))),
        Text(f"{route.strategy} on {one_line(route.backend)}, decided in {route.elapsed_ms:.0f} ms", "dim"),
    ]
    if route.decoding is not None:
        lines += [Text(), Text(one_line(route.decoding_reason))]
        if route.decoding_forecast is not None:
            lines.append(Text(one_line(route.decoding_forecast.summary), "dim"))
    chances = sorted(route.probabilities.items(), key=lambda entry: -entry[1])
    shapes = [(name, chance) for name, chance in chances if name != "skeleton"]
    if shapes:
        bars = [(name, f"{chance:.0%}", ("█" * round(chance * BAR), "green")) for name, chance in shapes]
        lines += [Text(), Text("Shape of the answer", "bold"), *columns(bars, right=(1,))]
    if "skeleton" in route.probabilities:
        lines += [Text(), Text(f"Parts side by side would serve: {route.probabilities['skeleton']:.0%} sure.")]
    if route.forecast and not overflow:
        heading: list[Cell] = [("Forecast", "bold"), ("seconds", "dim"), ("tokens", "dim"), ("calls", "dim")]
        is_priced = any(cost.cost for cost in route.forecast.values())
        costs = [
            (
                f"{name} (chosen)" if name == route.strategy else name,
                f"{cost.seconds:.1f}",
                f"{cost.tokens:,}",
                f"{cost.calls:,}",
                *((_dollars(cost.cost),) if is_priced else ()),
            )
            for name, cost in route.forecast.items()
        ]
        if is_priced:
            heading.append(("US dollars", "dim"))
        lines += [Text(), *columns([heading, *costs], right=(1, 2, 3, 4) if is_priced else (1, 2, 3))]
        chosen = route.forecast.get(route.strategy)
        if chosen is not None and chosen.cached:
            note = (
                f"{chosen.cached:,} of these tokens come from the provider's cache: the calls wait for the first one."
            )
            lines.append(Text(note, "dim"))
        if chosen is not None and chosen.rejected:
            note = (
                f"{chosen.rejected:,} of these tokens are those of a prediction that change, billed like written ones."
            )
            lines.append(Text(note, "dim"))
    return lines


def _dollars(cost: float | None) -> str:
    return "unknown" if cost is None else f"{cost:.5f}"


def _outline(route: Route, question: str) -> list[Text]:
    """Render the evidence for and against an outline, and the effect of the user's correction."""
    from rich.text import Text  # noqa: PLC0415 - not needed for JSON

    from stretto.cli.commands.learned_of_models import correction_text  # noqa: PLC0415 - likewise
    from stretto.cli.output.plain import one_line  # noqa: PLC0415 - likewise
    from stretto.cli.output.screen import columns  # noqa: PLC0415 - likewise
    from stretto.router.correction import correction, moved  # noqa: PLC0415 - likewise
    from stretto.router.shape import ShapeModel  # noqa: PLC0415 - likewise

    cues = [(one_line(cue), f"{share:+.2f}") for cue, share in ShapeModel.committed().explain(question)]
    lines = [Text(), Text("What spoke for (+) and against (-) an outline", "bold"), *columns(cues, right=(1,))]
    found, chance = correction(), route.probabilities.get("skeleton")
    if found is None:
        lines += [
            Text(),
            Text("The router is as it comes: no correction was learned (stretto calibrate --router).", "dim"),
        ]
    elif chance is not None:
        lines += [
            Text(),
            Text(f"{moved(chance, -found.offset):.0%} sure of an outline before {correction_text(found)}."),
        ]
    return lines
