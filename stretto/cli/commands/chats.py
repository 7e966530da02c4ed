"""``stretto chats``: list, search, show and delete saved chats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from stretto.cli.chat.chat_folder import ChatFolder, Listed
from stretto.cli.exits import reporting
from stretto.cli.output.kept import Json, check_one, cut, minute, print_list, print_search
from stretto.cli.output.plain import one_line, plain

app = typer.Typer(no_args_is_help=False, help="Find, read and remove the chats that `stretto chat` has kept.")

Name = Annotated[str, typer.Argument(metavar="ID", help="The beginning of a chat's name, as in the list.")]
Most = Annotated[int, typer.Option("--most", "-n", min=1, help="Maximum number of chats.")]


@app.callback(invoke_without_command=True)
@reporting
def newest(context: typer.Context, *, most: Most = 10, json: Json = False) -> None:
    """List the chats that were used last. Continue one: stretto chat --resume ID."""
    if context.invoked_subcommand is None:
        _list(most=most, json=json)


@app.command("list")
@reporting
def listed(*, most: Most = 10, json: Json = False) -> None:
    """List the chats that were used last, as `stretto chats` alone does."""
    _list(most=most, json=json)


@app.command()
@reporting
def search(
    words: Annotated[list[str], typer.Argument(help="Words that occur in the questions or answers of a chat.")],
    *,
    most: Most = 10,
    json: Json = False,
) -> None:
    """Find chats by words of their questions and answers; all of them must be there."""
    print_search(ChatFolder().search(" ".join(words), most), _lines, json=json)


@app.command()
@reporting
def show(
    name: Name,
    *,
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="Also print what is no longer part of the conversation, such as questions that were edited."
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with the whole answers.")] = False,
) -> None:
    """Print one chat as Markdown."""
    from stretto.cli.chat.export import as_json, as_markdown  # noqa: PLC0415 - keeps `stretto --help` light

    saved = ChatFolder().find(name).read()
    turns = saved.turns if every else saved.conversation
    typer.echo(as_json(turns) if json else as_markdown(turns).rstrip("\n"))
    if hidden := len(saved.turns) - len(turns):
        typer.echo(f"Turns that are not part of the conversation any more: {hidden:,}. See them with --all.", err=True)


@app.command()
@reporting
def delete(
    name: Annotated[str | None, typer.Argument(metavar="ID", help="The whole name of a chat.")] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Remove all chats.")] = False,
) -> None:
    """Remove a chat, or all."""
    check_one(name, everything=everything, remedy="Name one chat, or say --all.")
    typer.echo(f"Removed: {ChatFolder().delete(name):,}")


def _list(*, most: int, json: bool) -> None:
    folder = ChatFolder()
    none = f"No chats were kept in {plain(str(folder.folder))}. Begin one with: stretto chat"
    print_list(folder.latest(most), _lines, json=json, none=none)


def _lines(each: Listed) -> Iterator[str]:
    yield f"{each.id}  {minute(each.used_at)}  {each.questions:>3}  {cut(each.title)}"
    if each.found and one_line(each.found) != one_line(each.title):
        yield f"{'':>33}{cut(each.found)}"
