"""``stretto chat --web``: the chat in a browser, served by this program on a free port."""

from __future__ import annotations

import webbrowser
from typing import TYPE_CHECKING

import typer

from stretto.values.errors import MissingDependencyError, missing

if TYPE_CHECKING:
    from stretto.client.async_client import AsyncStretto
    from stretto.server.service import Service


def serve_chat(client: AsyncStretto, *, port: int = 0, browse: bool = True) -> int | None:
    """Serve the page on this machine only until a signal comes, which is returned. ``browse``: open a browser."""
    try:
        from stretto.server.running import serve  # noqa: PLC0415
        from stretto.server.server_options import ServerOptions  # noqa: PLC0415 - these two are of an extra
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
