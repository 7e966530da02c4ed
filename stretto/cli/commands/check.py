"""``stretto check``: measure and save the abilities of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stretto.cli import options
from stretto.cli.command_client import opener_of
from stretto.cli.exits import reporting
from stretto.cli.output.plain import one_line, plain_json

if TYPE_CHECKING:
    from rich.text import Text

    from stretto.abilities import Abilities


@reporting
def check(
    context: typer.Context,
    *,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="For instance llamacpp:NAME or local:smollm2.",
            autocompletion=options.complete_local_model,
        ),
    ] = None,
    base_url: options.BaseUrl = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure what a model can do: plans, entries, labels, quotations, and its speed.

    Takes two minutes and 60 calls at most. The result is kept for this model. From then on, no strategy is chosen that
    needs what the model cannot do, and the prompts are those that suit it best.
    """
    import asyncio  # noqa: PLC0415 - keeps `stretto --help` light

    from stretto.abilities.kept import file_of  # noqa: PLC0415 - likewise
    from stretto.cli.output.screen import Screen, print_lines  # noqa: PLC0415 - likewise

    screen = Screen(quiet=quiet)
    client = opener_of(context)(model, base_url=base_url)

    async def measure() -> Abilities:
        async with client:
            return await client.check(screen.bar())

    try:
        found = asyncio.run(measure())
    finally:
        screen.end()
    if json:
        screen.write(plain_json(found.model_dump_json(indent=2)) + "\n")
        return
    print_lines(lambda width: rendered(found, width))
    screen.note(f"kept in {file_of(found.model)}")


def rendered(found: Abilities, width: int | None = None) -> list[Text]:
    """Render the result: a row for each ability, then prompts and speed."""
    from rich.text import Text  # noqa: PLC0415 - not needed for JSON

    from stretto.abilities.kept import DESCRIPTIONS  # noqa: PLC0415 - likewise
    from stretto.cli.output.screen import columns  # noqa: PLC0415 - likewise

    form = "" if found.quantisation is None else f", {found.quantisation}"
    lines = [Text(f"{one_line(found.model)}{form}, checked on {found.checked}"), Text()]
    rows = [
        (
            DESCRIPTIONS[name],
            f"{ability.right} of {ability.total}",
            ("held", "green") if ability.held else ("not held", "red"),
            (one_line(ability.example)[:60] if not ability.held else "", "dim"),
        )
        for name, ability in found.held.items()
    ]
    lines += columns(rows, width=width)
    if missing := [description for name, description in DESCRIPTIONS.items() if name not in found.held]:
        lines.append(Text(f"not measured in time: {', '.join(missing)}"))
    scores = ", ".join(f"{family} {right}" for family, right in found.families.items())
    lines += [Text(), Text(f"prompts: {found.family} (right entries: {scores})")]
    if found.tokens_per_s:
        speeds = [f"{rate:g} with {streams}" for streams, rate in found.tokens_per_s.items()]
        lines.append(Text(f"tokens a second of one stream: {', '.join(speeds)} at once"))
    if found.direct_tokens is not None:
        lines.append(Text(f"a direct answer to a question for advice: {found.direct_tokens} tokens"))
    return lines
