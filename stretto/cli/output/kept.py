"""Lists of what was kept, for ``stretto chats`` and ``stretto logs``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from stretto.cli.output.plain import json_lines, one_line
from stretto.values.errors import InvalidRequestError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Kept = TypeVar("Kept", bound=DataclassInstance)

_SHOWN = 70  # characters of a question in a list

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def print_list(found: Sequence[Kept], lines: Callable[[Kept], Iterable[str]], *, json: bool, none: str) -> None:
    """Print what was found, each in its lines; ``none`` if nothing was."""
    if json:
        typer.echo(json_lines([asdict(each) for each in found]))
        return
    for each in found:
        for line in lines(each):
            typer.echo(line)
    if not found:
        typer.echo(none, err=True)


def print_search(found: Sequence[Kept], lines: Callable[[Kept], Iterable[str]], *, json: bool) -> None:
    """Print what a search has found. Raises `typer.Exit` with 1 if it found nothing, but not for JSON."""
    print_list(found, lines, json=json, none="Nothing was found.")
    if not found and not json:
        raise typer.Exit(1)


def check_one(name: object, *, everything: bool, remedy: str) -> None:
    """Raise `InvalidRequestError` unless either one or all are to be removed."""
    if (name is None) == (not everything):
        raise InvalidRequestError(remedy)


def cut(text: str) -> str:
    """A question as a list shows it."""
    text = one_line(text)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def minute(at: str) -> str:
    """A time as a list shows it, to the minute."""
    return one_line(at)[:16].replace("T", " ")
