"""The program: its commands, its version, its exit codes."""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated

import typer

from stretto.backends.local.loading_notice import silence
from stretto.cli.command_client import Opener
from stretto.cli.commands import chats, learned_of_models, logs, prompts
from stretto.cli.commands.ask import ask
from stretto.cli.commands.bench import bench
from stretto.cli.commands.calibrate import calibrate
from stretto.cli.commands.chat import chat
from stretto.cli.commands.check import check
from stretto.cli.commands.compare import compare
from stretto.cli.commands.doctor import doctor
from stretto.cli.commands.route import route
from stretto.cli.commands.serve import serve
from stretto.cli.completing import prepare
from stretto.cli.exits import MEANINGS, Exit, complain
from stretto.cli.usage import Program, spelled_out
from stretto.values.errors import SettingsError

EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {code.value:<4} {meaning}" for code, meaning in MEANINGS.items())

app = typer.Typer(
    cls=Program,
    name="stretto",
    rich_markup_mode=None,  # plain help: the same on a terminal, in a pipe and in the documentation
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command(epilog="\b\nExit codes: see stretto --help.")(ask)
app.command()(route)
app.command()(chat)
app.command()(serve)
app.add_typer(chats.app, name="chats")
app.add_typer(prompts.app, name="prompts")
app.add_typer(logs.app, name="logs")
app.command()(compare)
app.command()(calibrate)
app.command()(check)
app.add_typer(learned_of_models.app, name="learned")
app.command()(bench)
app.command()(doctor)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - only here

        typer.echo(f"stretto {version('stretto')}")
        raise typer.Exit


@app.callback(epilog=EPILOG, no_args_is_help=True)
def stretto(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Answers of language models, faster: their parts are written in parallel."""


def run(open_client: Opener | None = None) -> None:
    """Run the program. ``open_client`` creates its clients, with the arguments of `AsyncStretto`."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a character that the terminal cannot show must not abort the answer
    prepare(os.environ)
    silence()  # each command shows its own progress
    if level := os.environ.get("STRETTO_LOG"):
        from stretto.observe.structured_logs import log_json  # noqa: PLC0415 - keeps `stretto --help` light

        try:
            log_json(sys.stderr, level)
        except SettingsError as error:
            complain(f"STRETTO_LOG: {error}")
            sys.exit(Exit.BAD_REQUEST)
    try:
        app(spelled_out(sys.argv[1:]), obj=open_client, prog_name="stretto")
    finally:
        if "triton" not in sys.modules:  # its bindings would report leaks at exit
            gc.freeze()  # else the interpreter would garbage-collect all of torch at exit, which takes a second
