"""``stretto logs``: store, list, search, show and delete answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stretto.cli.answer_store import AnswerStore, Kept
from stretto.cli.exits import reporting
from stretto.cli.output.kept import Json, check_one, cut, minute, print_list, print_search
from stretto.cli.output.plain import one_line, plain, plain_json
from stretto.values.errors import InvalidRequestError

app = typer.Typer(no_args_is_help=False, help="Keep answers in a file of this machine, and find them again.")

Number = Annotated[int, typer.Argument(metavar="NUMBER", help="The number of an answer, as in the list.")]
Most = Annotated[int, typer.Option("--most", "-n", min=1, help="Maximum number of answers.")]


@app.callback(invoke_without_command=True)
@reporting
def latest(context: typer.Context, *, most: Most = 10, json: Json = False) -> None:
    """List the newest answers that were kept. `stretto logs on` begins to keep them."""
    if context.invoked_subcommand is not None:
        return
    store = AnswerStore()
    none = "No answers were kept." + ("" if store.on else " Begin with: stretto logs on")
    print_list(store.latest(most), _lines, json=json, none=none)


@app.command("on")
@reporting
def switch_on() -> None:
    """Keep the questions and answers of `stretto ask` and `stretto chat` from now on."""
    AnswerStore().switch(on=True)
    typer.echo(f"Questions and answers are kept in {AnswerStore().file}")


@app.command("off")
@reporting
def switch_off() -> None:
    """Keep no more answers. Those that were kept stay until they are deleted."""
    AnswerStore().switch(on=False)
    typer.echo("No more answers are kept. Remove those that were with: stretto logs delete --all")


@app.command()
@reporting
def status() -> None:
    """Say whether answers are kept, and where."""
    store = AnswerStore()
    typer.echo(f"{'on' if store.on else 'off'}: {store.file}")


@app.command()
@reporting
def search(
    words: Annotated[list[str], typer.Argument(help="Words that occur in the question or the answer.")],
    *,
    most: Most = 10,
    json: Json = False,
) -> None:
    """Find answers by words of the question or the answer; all of them must be there."""
    print_search(AnswerStore().search(" ".join(words), most), _lines, json=json)


@app.command()
@reporting
def show(
    number: Number,
    *,
    json: Json = False,
    trace: Annotated[Path | None, typer.Option("--trace", help="Write what ran when to this page, FILE.html.")] = None,
) -> None:
    """Print one answer with its question."""
    store = AnswerStore()
    kept, whole = store.get(number), store.whole(number)
    if kept is None or whole is None:
        raise InvalidRequestError(f"There is no answer {number} in {str(store.file)!r}. See: stretto logs")
    if trace is not None:
        from stretto.display.notebook import answer_page  # noqa: PLC0415 - likewise
        from stretto.values.answer import Answer  # noqa: PLC0415 - keeps `stretto --help` light

        trace.write_text(answer_page(Answer.model_validate_json(whole), kept.question), encoding="utf-8")
    if json:
        typer.echo(plain_json(whole))
        return
    typer.echo(plain(f"# {kept.question}\n\n{kept.text}"))
    cost = "cost unknown" if kept.usd is None else f"${kept.usd:.6f}"
    about = f"{kept.asked_at} · {kept.model} · {kept.strategy} · {kept.seconds:.2f} s · {cost}"
    typer.echo(one_line(about), err=True)


@app.command()
@reporting
def delete(
    number: Annotated[int | None, typer.Argument(metavar="NUMBER", help="The number of an answer.")] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Remove all answers.")] = False,
) -> None:
    """Remove an answer from the file, or all."""
    check_one(number, everything=everything, remedy="Name one answer by its number, or say --all.")
    removed = AnswerStore().delete(number)
    if not removed and number is not None:
        raise InvalidRequestError(f"There is no answer {number}. See: stretto logs")
    typer.echo(f"Removed: {removed:,}")


def _lines(kept: Kept) -> tuple[str]:
    return (f"{kept.id:>5}  {minute(kept.asked_at)}  {cut(kept.question)}",)
