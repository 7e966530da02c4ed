"""``stretto prompts``: the templates of the strategies, to read before overriding them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stretto.cli import options
from stretto.cli.exits import reporting
from stretto.cli.output.plain import json_lines, one_line, plain
from stretto.values.errors import UnknownPromptError

if TYPE_CHECKING:
    from stretto.prompts import Catalogue

app = typer.Typer(help="List and show the prompt templates.", no_args_is_help=True)

Family = Annotated[
    str | None,
    typer.Option(
        "--family",
        metavar="NAME",
        help="Family of models, such as general or pocket.",
        autocompletion=options.complete_family,
    ),
]
Version = Annotated[
    str | None,
    typer.Option(
        "--version",
        metavar="V",
        help="Version, such as v1; the newest by default.",
        autocompletion=options.complete_version,
    ),
]


@app.command("list")
@reporting
def list_(family: Family = None, version: Version = None, json: options.Json = False) -> None:
    """List all templates: those of the package, and those of the folder in the setting templates."""
    catalogue = _catalogue()
    _check(catalogue, family, version)
    found = [each for each in catalogue if family in (None, each.family) and version in (None, each.version)]
    if json:
        fields = ("family", "version", "name", "purpose", "placeholders", "source")
        typer.echo(json_lines([{name: getattr(each, name) for name in fields} for each in found]))
        return
    from stretto.cli.output.screen import columns, print_lines  # noqa: PLC0415 - keeps `stretto --help` light

    rows = [(f"{each.family}/{each.version}/{each.name}", (one_line(each.purpose), "dim")) for each in found]
    print_lines(lambda width: columns(rows, width=width))


@app.command()
@reporting
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", autocompletion=options.complete_prompt)],
    family: Family = None,
    version: Version = None,
) -> None:
    """Print a template as its file holds it; one that a family lacks comes from general."""
    from stretto.prompts.catalogue import GENERAL  # noqa: PLC0415 - keeps `stretto --help` light

    catalogue = _catalogue()
    _check(catalogue, family, version)
    template = catalogue.get(name, family or GENERAL, version)
    typer.echo(f"{template.family}/{template.version}/{template.name} from {template.source}", err=True)
    typer.echo(plain(template.text), nl=not template.text.endswith("\n"))


def _check(catalogue: Catalogue, family: str | None, version: str | None) -> None:
    """Raise `UnknownPromptError` for a family or version without templates."""
    families, versions = {each.family for each in catalogue}, {each.version for each in catalogue}
    for what, given, there in (("family", family, families), ("version", version, versions)):
        if given is not None and given not in there:
            raise UnknownPromptError(
                f"There is no {what} {given!r} of prompts. Choose one of: {', '.join(sorted(there))}."
            )


def _catalogue() -> Catalogue:
    from stretto.config.settings import Settings  # noqa: PLC0415
    from stretto.prompts import Catalogue  # noqa: PLC0415 - keeps `stretto --help` light

    return Catalogue(Settings.load().templates)
