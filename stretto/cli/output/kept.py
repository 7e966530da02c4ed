"""Lists of saved chats and answers, for ``stretto chats`` and ``stretto logs``."""

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
    """Print the entries found, formatted by ``lines``; ``none`` if there are none."""
    if json:
        typer.echo(json_lines([asdict(each) for each in found]))
        return
    for each in found:
        for line in lines(each):
            typer.echo(line)
    if not found:
        typer.echo(none, err=True)


def print_search(found: Sequence[Kept], lines: Callable[[Kept], Iterable[str]], *, json: bool) -> None:
    """Print the results of a search. Raises `typer.Exit` with 1 if there are none, but not for JSON."""
    print_list(found, lines, json=json, none="Nothing was found.")
    if not found and not json:
        raise typer.Exit(1)


def check_one(name: object, *, everything: bool, remedy: str) -> None:
    """Raise `InvalidRequestError` unless either one or all are to be deleted."""
    if (name is None) == (not everything):
        raise InvalidRequestError(remedy)


def cut(text: str) -> str:
    """Shorten a question for a list."""
    text = one_line(text)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def minute(at: str) -> str:
    """Format a time for a list, to the minute."""
    return one_line(at)[:16].replace("T", " ")
