"""``stretto chat``: a conversation, in the whole terminal, line by line, or in a browser."""

from __future__ import annotations

import contextlib
import signal
import sys
import webbrowser
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stretto.cli import options
from stretto.cli.command_client import key_in, local_opener, models_of, opener_of
from stretto.cli.exits import PATIENCE_S, Exit, complain, leaving_within, reporting
from stretto.cli.local_models import OF_A_LOCAL_MODEL, with_local_model
from stretto.cli.usage import RESUMED
from stretto.values.errors import InvalidRequestError, MissingDependencyError, StrettoError, missing

if TYPE_CHECKING:
    import asyncio

    from stretto.cli.chat.chat_file import ChatFile
    from stretto.cli.chat.chat_folder import ChatFolder
    from stretto.cli.chat.chat_state import ChatState
    from stretto.cli.chat.conversation import Conversation
    from stretto.client.async_client import AsyncStretto
    from stretto.server.service import Service


@reporting
@with_local_model()
def chat(
    context: typer.Context,
    *,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    key_variable: options.KeyVariable = None,
    role: options.Roles = None,
    fallback: options.Fallback = None,
    strategy: options.Strategy = None,
    preference: options.Preferred = None,
    system: options.System = None,
    document: options.Documents = None,
    schema: options.Schema = None,
    decoding: options.Decoding = None,
    local_model: dict[str, Any],
    on_missing: options.Missing = None,
    prompt_family: options.PromptFamily = None,
    trace: Annotated[bool, typer.Option("--trace", help="Draw what ran when, below each answer.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the last chat; --resume ID: that one of `stretto chats`.")
    ] = False,
    resumed: Annotated[str | None, typer.Option(RESUMED, hidden=True)] = None,
    no_history: Annotated[bool, typer.Option("--no-history", help="Keep nothing of this chat in a file.")] = False,
    no_mouse: Annotated[bool, typer.Option("--no-mouse", help="Leave the mouse to the terminal.")] = False,
    web: Annotated[
        bool, typer.Option("--web", help="Chat in a browser; the model is chosen here, all else there.")
    ] = False,
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Port of the web chat; 0: any free one.")
    ] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser; print the address only.")] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Chat line by line, and show answers without drawing their Markdown.")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Talk with a model; /help lists the commands. --web: in a browser.

    Ctrl-C cancels the answer and keeps the program, Ctrl-D ends it. Without a terminal, every line of
    standard input is a question.
    """
    from stretto.cli.chat.chat_folder import ChatFolder  # noqa: PLC0415 - these two keep `stretto --help` light
    from stretto.cli.chat.chat_state import ChatState  # noqa: PLC0415

    opener = local_opener(opener_of(context), local_model, prompt_family=prompt_family, fallback=fallback or None)
    opener = partial(opener, roles=models_of(role))
    if web:
        _refuse_with_web(context)

        client = opener(model, base_url=base_url, api_key=key_in(key_variable))
        if serve_chat(client, port=port, browse=not no_browser) == signal.SIGINT:
            raise typer.Exit(Exit.INTERRUPTED)
        return
    folder = ChatFolder()
    file = _file(folder, resumes=resume or resumed is not None, name=resumed, keeps=not no_history)
    state = ChatState(
        opener,
        model=model,
        base_url=base_url,
        api_key=key_in(key_variable),
        strategy=strategy,
        preference=preference.value if preference else None,
        system=system,
        documents=document or (),
        schema=schema,
        decoding=decoding,
        on_missing=on_missing.value if on_missing else None,
        chat=file,
        begin=folder.begin if file is not None else None,
    )
    if not (plain or quiet):
        from stretto.cli.terminal import fits  # noqa: PLC0415

        if fits():
            _fill(state, trace=trace, mouse=not no_mouse)
            return
    _line_by_line(state, trace=trace, quiet=quiet, plain=plain)


def _file(folder: ChatFolder, *, resumes: bool, name: str | None, keeps: bool) -> ChatFile | None:
    """Return the file of the chat. Piped input is saved only if it continues a chat."""
    if resumes and not keeps:
        raise InvalidRequestError("--resume and --no-history exclude each other: a chat that is resumed is kept.")
    if resumes:
        return folder.find(name)
    return folder.begin() if keeps and sys.stdin.isatty() else None


def _fill(state: ChatState, *, trace: bool, mouse: bool) -> None:
    """Run the full-screen chat."""
    from stretto.cli.terminal.chat_app import run_chat  # noqa: PLC0415 - its dependencies are in an extra

    if code := run_chat(state, trace=trace, mouse=mouse):
        raise typer.Exit(code)


def _line_by_line(state: ChatState, *, trace: bool, quiet: bool, plain: bool) -> None:
    import asyncio  # noqa: PLC0415 - these three keep `stretto --help` light

    from stretto.cli.chat.conversation import Conversation  # noqa: PLC0415
    from stretto.cli.output.screen import Screen  # noqa: PLC0415

    conversation = Conversation(state, Screen(quiet=quiet, unrendered=plain), trace=trace)
    with asyncio.Runner() as runner:
        try:
            _talk(conversation, runner)
        finally:
            with leaving_within(PATIENCE_S, Exit.OK):
                runner.run(conversation.aclose())


_WITH_WEB = {
    *("web", "port", "no_browser", "model", "base_url", "key_variable", "role", "fallback"),
    *OF_A_LOCAL_MODEL,
}


def _refuse_with_web(context: typer.Context) -> None:
    """Raise `InvalidRequestError` for an option that the web page would ignore, because it has its own."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in _WITH_WEB and source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise InvalidRequestError(f"{option} cannot be used with --web. Choose it on the page, or leave --web out.")


def _talk(conversation: Conversation, runner: asyncio.Runner) -> None:
    """Read lines and answer them until the end of input or ``/quit``."""
    typing, goes_on = _prepare(), True
    while goes_on:
        try:
            goes_on = _turn(conversation, runner, typing=typing)
        except KeyboardInterrupt:
            if not typing:
                raise
            # Another Ctrl-C while the previous one was being handled.


def _turn(conversation: Conversation, runner: asyncio.Runner, *, typing: bool) -> bool:
    """Read a line and answer it. Return False if no more are to be read."""
    from stretto.cli.chat.conversation import Ended  # noqa: PLC0415 - keeps `stretto --help` light

    try:
        line = _read(prompting=typing)
    except EOFError:
        if typing:
            typer.echo("", err=True)
        return False
    except KeyboardInterrupt:
        if not typing:
            raise
        typer.echo("", err=True)  # a new prompt: only the line is abandoned
        return True
    except UnicodeDecodeError:
        complain("That line is not UTF-8 text.")
        return True
    try:
        runner.run(conversation.take(line))
    except Ended:
        return False
    except KeyboardInterrupt:
        typer.echo("cancelled", err=True)
        if not typing:
            raise typer.Exit(Exit.INTERRUPTED) from None
    except StrettoError as error:
        complain(error)
    return True


def _read(*, prompting: bool) -> str:
    """Read a line; the prompt is never written to piped output."""
    if prompting and not sys.stdout.isatty():
        typer.echo("> ", nl=False, err=True)
        return input()
    return input("> " if prompting else "")


def _prepare() -> bool:
    """Return whether input is interactive; if so, enable line editing and history where available."""
    if not sys.stdin.isatty():
        return False
    with contextlib.suppress(ImportError):  # Windows has its own
        import readline  # noqa: F401, PLC0415 - importing it adds line editing to `input`
    return True


def serve_chat(client: AsyncStretto, *, port: int = 0, browse: bool = True) -> int | None:
    """Serve the page on this machine only, until a signal, which is returned. ``browse``: open a browser."""
    try:
        from stretto.server.running import serve  # noqa: PLC0415
        from stretto.server.server_options import ServerOptions  # noqa: PLC0415 - these two are in an extra
    except ImportError as error:
        if isinstance(error, MissingDependencyError) or (error.name or "").startswith("stretto"):
            raise
        raise missing("stretto chat --web", str(error.name), "server") from None

    def announce(address: str, _: Service) -> None:
        if client.model_reason:
            typer.echo(client.model_reason, err=True)
        typer.echo(f"The chat is at {address}/ on this machine. Ctrl-C ends it.", err=True)
        if browse and not webbrowser.open(f"{address}/"):
            typer.echo("No browser could be opened. Open that address in one.", err=True)

    return serve(client, ServerOptions(port=port), announce)
