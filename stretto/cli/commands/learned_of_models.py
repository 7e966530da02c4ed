"""``stretto learned``: print and delete what was measured and learned about models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stretto.cli.exits import reporting
from stretto.cli.output.kept import Json, check_one
from stretto.cli.output.plain import json_lines, one_line
from stretto.foundation.arguments import safe_repr
from stretto.values.errors import InvalidRequestError

if TYPE_CHECKING:
    from rich.text import Text

    from stretto.abilities import Abilities
    from stretto.router.correction import Correction
    from stretto.strategies.cascade.learned import Learned

app = typer.Typer(no_args_is_help=False, help="Print and remove what checks and calibrations learned of models.")

ROUTER = "router"


@app.callback(invoke_without_command=True)
@reporting
def learned(context: typer.Context, *, json: Json = False) -> None:
    """Print what `stretto check` and `stretto calibrate` have kept."""
    if context.invoked_subcommand is not None:
        return
    from stretto.abilities.kept import all_abilities  # noqa: PLC0415 - keeps `stretto --help` light
    from stretto.router.correction import correction, correction_file  # noqa: PLC0415 - likewise
    from stretto.strategies.cascade.learned import all_learned  # noqa: PLC0415 - likewise

    abilities, cascades, router = all_abilities(), all_learned(), correction()
    if json:
        kept = {
            "abilities": [{"file": str(file), **found.model_dump(mode="json")} for file, found in abilities],
            "cascades": [{"file": str(file), **found.model_dump(mode="json")} for file, found in cascades],
            "router": router and router.model_dump(mode="json"),
        }
        typer.echo(json_lines(kept))
        return
    from rich.text import Text  # noqa: PLC0415 - not needed for JSON

    from stretto.cli.output.screen import print_lines  # noqa: PLC0415 - likewise

    lines = [] if abilities or cascades or router else [Text("Nothing was learned yet.")]
    if router is not None:
        lines += [Text(f"{ROUTER}: {correction_text(router)}"), Text(f"  {correction_file()}", "dim")]
    for file, checked in abilities:
        lines += [*_of_check(checked), Text(f"  {file}", "dim")]
    for file, found in cascades:
        lines += [*_of_cascade(found), Text(f"  {file}", "dim")]
    print_lines(lambda _: lines)


@app.command()
@reporting
def delete(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help=f"As `stretto learned` names it; {ROUTER} for the router's correction."),
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Remove what was learned of all models.")] = False,
) -> None:
    """Remove what was learned of a model, or everything. Answers are then written as before it was learned."""
    check_one(model, everything=everything, remedy="Name one model, as stretto learned does, or say --all.")
    files = _files() if model is None else _files_about(model)
    if model is not None and not files:
        raise InvalidRequestError(f"Nothing was learned of {safe_repr(model)}. See: stretto learned")
    for file in files:
        file.unlink(missing_ok=True)
    typer.echo(f"Removed: {len(files):,}")


def _files() -> list[Path]:
    """Return all saved files, including damaged ones."""
    from stretto.abilities.kept import FOLDER as ABILITIES  # noqa: PLC0415 - keeps `stretto --help` light
    from stretto.config.kept_values import files_in  # noqa: PLC0415 - likewise
    from stretto.router.correction import correction_file  # noqa: PLC0415 - likewise
    from stretto.strategies.cascade.learned import FOLDER as CASCADES  # noqa: PLC0415 - likewise

    router = correction_file()
    return [*files_in(ABILITIES), *files_in(CASCADES), *([router] if router.is_file() else [])]


def _files_about(model: str) -> list[Path]:
    """Return the files about a model, or about the router."""
    from stretto.client.forgetting import files_about  # noqa: PLC0415 - keeps `stretto --help` light
    from stretto.router.correction import correction_file  # noqa: PLC0415 - likewise

    if model == ROUTER:
        return [file for file in [correction_file()] if file.is_file()]
    return files_about(model)


def correction_text(found: Correction) -> str:
    """Describe a correction of the router in half a sentence."""
    return (
        f"a correction of {found.offset:+.2f}, learned from {found.questions} questions on {found.learned}; held out, "
        f"{found.right} instead of {found.right_before} got the strategy that was wanted"
    )


def step_text(model: str, by: str, threshold: float | None) -> str:
    """Describe when the answer of a smaller model is accepted."""
    if threshold is None:
        return f"{one_line(model)}: asking it first does not pay"
    conditions = {
        "probability": f"its answer is accepted from a mean log-probability of {threshold:g} on",
        "check": "its answer is accepted if it says that it is sure"
        if threshold > 0
        else "its answer is always accepted",
        "agreement": f"its answer is accepted if two of its answers have {threshold:.0%} in common",
    }
    return f"{one_line(model)}: {conditions[by]}"


def _of_check(found: Abilities) -> list[Text]:
    from rich.text import Text  # noqa: PLC0415 - not needed for JSON

    from stretto.abilities.kept import DESCRIPTIONS  # noqa: PLC0415 - likewise

    lacking = ", ".join(DESCRIPTIONS.get(name, name) for name, ability in found.held.items() if not ability.held)
    old = "" if found.is_current else "; the prompts have changed since, so it is not used"
    return [
        Text(one_line(found.model)),
        Text(f"  checked on {found.checked}: {f'not held: {lacking}' if lacking else 'all held'}{old}"),
    ]


def _of_cascade(found: Learned) -> list[Text]:
    from rich.text import Text  # noqa: PLC0415 - not needed for JSON

    agreement, share = found.agreement, found.share
    old = "" if found.is_current else "; the prompts have changed since, so it is not used"
    return [
        Text(one_line(f"{' then '.join(step.model for step in found.steps)} before {found.main}")),
        *(Text(f"  {step_text(step.model, step.by, step.threshold)}") for step in found.steps),
        Text(
            f"  learned from {found.questions} questions on {found.learned}; held out, {agreement.value:.0%} "
            f"({agreement.low:.0%} to {agreement.high:.0%}) as good, and {share.value:.0%} to the large model{old}"
        ),
    ]
