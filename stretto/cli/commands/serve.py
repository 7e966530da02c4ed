"""``stretto serve``: serve models to clients of OpenAI's and Anthropic's APIs."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stretto.cli import options
from stretto.cli.command_client import key_in, models_of, opener_of
from stretto.cli.exits import Exit, reporting
from stretto.cli.local_models import check_local, with_local_model
from stretto.values.errors import MissingDependencyError, missing

if TYPE_CHECKING:
    from stretto.client.async_client import AsyncStretto
    from stretto.config.settings import Settings
    from stretto.server.service import Service

_MOST_CALLS = 500  # concurrent calls per backend; below the connection limit of its client

Models = Annotated[
    list[str] | None,
    options.of_model(
        "--model",
        "-m",
        says=f"{options.names_of_models()}, local:FOLDER, ... The first answers as 'stretto'; each further one, too, "
        "under 'stretto:PROVIDER:MODEL'. Without any, settings and keys decide.",
    ),
]
Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen; 0.0.0.0: on all networks.")]
Port = Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="Port to listen on; 0: any free one.")]
Keys = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        metavar="FILE",
        help="TOML with the keys that are let in, each with a name and limits. STRETTO_SERVER_KEY holds a single one.",
    ),
]
Cors = Annotated[
    list[str] | None,
    typer.Option(
        "--cors", metavar="ORIGIN", help="A web page that may call the server from a browser: https://chat.example."
    ),
]
ConcurrentAnswers = Annotated[
    int, typer.Option("--concurrent-answers", metavar="N", min=1, help="Answers written at a time.")
]
Queue = Annotated[int, typer.Option("--queue", metavar="N", min=0, help="Requests that may wait for their turn.")]
MaxBody = Annotated[
    float, typer.Option("--max-body", metavar="MB", min=0.001, help="The largest body of a request, in megabytes.")
]
Drain = Annotated[
    float,
    typer.Option("--drain", metavar="SECONDS", min=0, help="How long answers may go on when the server is stopped."),
]
Shared = Annotated[
    str | None,
    typer.Option(
        "--shared",
        metavar="URL",
        help="redis://HOST:PORT/DB, where several servers share limits and breakers. STRETTO_SHARED holds one with a "
        "password.",
    ),
]


@reporting
@with_local_model()
def serve(
    context: typer.Context,
    *,
    model: Models = None,
    role: options.Roles = None,
    fallback: options.Fallback = None,
    base_url: options.BaseUrl = None,
    key_variable: options.KeyVariable = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    keys: Keys = None,
    cors: Cors = None,
    concurrent_answers: ConcurrentAnswers = 128,
    queue: Queue = 512,
    max_body: MaxBody = 20,
    drain: Drain = 20,
    shared: Shared = None,
    local_model: dict[str, Any],
) -> None:
    """Serve the models to clients of OpenAI's and Anthropic's APIs.

    Runs until Ctrl-C or SIGTERM, and lets the answers under way end first; a second signal ends it at once.
    """
    try:
        from stretto.server.running import risk  # noqa: PLC0415
        from stretto.server.running import serve as run  # noqa: PLC0415
        from stretto.server.server_options import ServerOptions  # noqa: PLC0415 - these three are in an extra
    except ImportError as error:
        if isinstance(error, MissingDependencyError) or (error.name or "").startswith("stretto"):
            raise
        raise missing("stretto serve", str(error.name), "server") from None

    def show(line: str) -> None:
        with suppress(OSError, ValueError):  # a full disk or a closed reader is no reason not to serve
            typer.echo(line, err=True)

    def announce(address: str, service: Service) -> None:
        if warning := risk(service.options, service):
            show(f"warning: {warning}")
        for notice in (client.model_reason, *service.keyring.notices):
            if notice:
                show(notice)
        if client.store is not None:
            show(f"Limits and breakers are shared through {client.store.where}.")
        names = ", ".join(backend.name for backend in client.backends.values())
        show(f"{names} at {address}/v1 for clients of OpenAI, {address} for those of Anthropic.")
        if client.fallback:
            show(f"If a model of `stretto` fails, {', '.join(each.name for each in client.fallback)} takes over.")
        show(f"A chat for the browser is at {address}/.")
        show("Ctrl-C ends it.")

    served = ServerOptions(
        host=host,
        port=port,
        keys=keys,
        cors=tuple(cors or ()),
        concurrent_answers=concurrent_answers,
        queue=queue,
        body_bytes=int(max_body * 1_000_000),
        drain_s=drain,
    )
    settings = _settings(local_model | {"shared": shared, "fallback": fallback or None}, concurrent_answers)
    first, further = (model[0], model[1:]) if model else (None, [])
    numbered = [(f"model-{number}", name) for number, name in enumerate(further, 2)]
    client: AsyncStretto = opener_of(context)(
        first,
        base_url=base_url,
        api_key=key_in(key_variable),
        settings=settings,
        roles=models_of([*numbered, *(role or ())]),
    )
    check_local(client, local_model)
    if run(client, served, announce) == signal.SIGINT:
        raise typer.Exit(Exit.INTERRUPTED)


def _settings(given: dict[str, Any], concurrent_answers: int) -> Settings:
    """Return the settings, with enough concurrent calls for this many answers unless set explicitly."""
    from stretto.config.settings import Settings  # noqa: PLC0415 - keeps `stretto --help` light

    settings = Settings.load(**given)
    if "concurrent_calls" in settings.model_fields_set:
        return settings
    return settings.model_copy(
        update={"concurrent_calls": min(_MOST_CALLS, max(settings.concurrent_calls, 4 * concurrent_answers))}
    )
