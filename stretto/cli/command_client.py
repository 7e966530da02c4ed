"""The client and the question of a command."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from stretto.cli.local_models import check_local
from stretto.values.errors import DocumentError, InvalidRequestError, SettingsError

if TYPE_CHECKING:
    from stretto.client.async_client import AsyncStretto

Opener = Callable[..., "AsyncStretto"]


def opener_of(context: typer.Context) -> Opener:
    """Return the factory of clients for this run: `AsyncStretto`, unless `run` was given another."""
    given: Any = context.obj
    if given is not None:
        return given  # type: ignore[no-any-return]  # typer's context can contain anything
    from stretto.client.async_client import AsyncStretto  # noqa: PLC0415 - keeps `stretto --help` light

    return AsyncStretto


def open_client(
    context: typer.Context,
    model: str | None,
    base_url: str | None,
    key_variable: str | None,
    local: Mapping[str, Any] | None = None,
    *,
    roles: Mapping[str, str] | None = None,
    **settings: Any,
) -> AsyncStretto:
    """Create the client of a command; ``local`` are settings for local models, ``roles`` the result of `models_of`.

    ``settings`` apply to all models.

    Raises `StrettoError`.
    """
    opener = local_opener(opener_of(context), local, **settings)
    return opener(model, base_url=base_url, api_key=key_in(key_variable), roles=roles)


def models_of(roles: Sequence[tuple[str, str]] | None) -> dict[str, str]:
    """Return the models other than the main one by role. Raises `SettingsError` for a duplicate role."""
    models: dict[str, str] = {}
    for role, model in roles or ():
        if role in models:
            raise SettingsError(f"--role {role}={model}: this role has a model already, {models[role]}. Name one.")
        models[role] = model
    return models


def local_opener(open_: Opener, local: Mapping[str, Any] | None, **settings: Any) -> Opener:
    """Return an opener with settings for local models; it raises `SettingsError` if no model is local.

    ``settings`` apply to all models; ``None`` counts as missing.
    """
    settings = {name: value for name, value in settings.items() if value is not None}
    if not local and not settings:
        return open_

    def opened(model: str | None = None, **arguments: Any) -> AsyncStretto:
        from stretto.config.settings import Settings  # noqa: PLC0415 - keeps `stretto --help` light

        client = open_(model, settings=Settings.load(**(local or {}), **settings), **arguments)
        check_local(client, local or {})
        return client

    return opened


def key_in(variable: str | None) -> str | None:
    """Return the API key in an environment variable. Raises `SettingsError` if it is not set."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        # The value is not shown: it may be the key itself.
        raise SettingsError("--key-variable names no variable that is set. Give the name of one, not the key itself.")
    return key


def question_of(words: Sequence[str] | None) -> str:
    """Return the question from the arguments, followed by piped text. Raises `InvalidRequestError`."""
    question = " ".join(words or ()).strip()
    piped = _piped()
    if not question and not piped.strip():
        raise InvalidRequestError('There is no question. Ask like this: stretto ask "How do I look after a bicycle?"')
    return "\n\n".join(part for part in (question, piped.strip("\n")) if part.strip())


def _piped() -> str:
    """Read standard input if it is a pipe or a file; empty for a terminal, a device or a socket."""
    stream = sys.stdin
    if stream is None or stream.closed or stream.isatty():
        return ""
    try:
        kind = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):  # a stream without a file descriptor, as in tests
        return stream.read()
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind)):
        return ""  # services keep a socket or a device open here that would never end
    from stretto.documents.encoding import decoded  # noqa: PLC0415 - keeps `stretto --help` light

    try:
        text, remarks = decoded(stream.buffer.read())
    except DocumentError as error:
        raise InvalidRequestError(f"The text on standard input was not read: {error}.") from None
    for sentence in remarks:
        typer.echo(f"Of standard input, {sentence}", err=True)
    return text
