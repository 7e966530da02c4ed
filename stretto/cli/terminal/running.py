"""Runs the chat in the terminal: its signals, and how it ends."""

from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack

import typer

from stretto.cli.chat_state import ChatState
from stretto.cli.exits import PATIENCE_S, Exit, leaving_within
from stretto.cli.terminal.app import ChatApp


def run_chat(state: ChatState, *, trace: bool, mouse: bool) -> int:
    """Chat until the user leaves. Returns the exit code; the client is closed."""
    app = ChatApp(state, trace=trace)
    with ExitStack() as leaving, asyncio.Runner() as runner:
        try:
            runner.run(_run(app, mouse=mouse))
        finally:
            leaving.enter_context(leaving_within(PATIENCE_S, Exit(app.return_code or 0)))
            if state.chat is not None and state.chat.exists:
                typer.echo(f"Go on with this chat: stretto chat --resume {state.chat.id}", err=True)
            runner.run(state.client.aclose())
    return app.return_code or 0


async def _run(app: ChatApp, *, mouse: bool) -> None:
    loop = asyncio.get_running_loop()
    handlers = {
        "SIGINT": app.action_interrupt,
        "SIGTERM": lambda: app.leave(Exit.FAILED),
        "SIGHUP": lambda: app.leave(Exit.FAILED),
    }
    for name, handler in handlers.items():
        try:
            loop.add_signal_handler(getattr(signal, name), handler)
        except (AttributeError, NotImplementedError):  # Windows
            continue
    await app.run_async(mouse=mouse)
