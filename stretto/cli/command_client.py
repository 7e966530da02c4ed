"""Where a command gets its client from, and its question."""

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
    """What makes the clients of this run: `AsyncStretto`, unless the caller of the program gave another."""
    given: Any = context.obj
    if given is not None:
        return given  # type: ignore[no-any-return]  # typer's context holds anything
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
    """Make the client of a command; ``local`` are settings of local models, ``roles`` what `models_of` gives.

    ``settings`` are for any model.

    Raises `StrettoError`.
    """
    opener = local_opener(opener_of(context), local, **settings)
    return opener(model, base_url=base_url, api_key=key_in(key_variable), roles=roles)


def models_of(roles: Sequence[tuple[str, str]] | None) -> dict[str, str]:
    """The models beside the main one by their roles. Raises `SettingsError` for a role that is given twice."""
    models: dict[str, str] = {}
    for role, model in roles or ():
        if role in models:
            raise SettingsError(f"--role {role}={model}: this role has a model already, {models[role]}. Name one.")
        models[role] = model
    return models


def local_opener(open_: Opener, local: Mapping[str, Any] | None, **settings: Any) -> Opener:
    """The same opener with settings for local models; it raises `SettingsError` where it opens none.

    ``settings`` are for any model; those that are ``None`` count as not given.
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


def key_in(variable: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The key that a variable of the environment holds. Raises `SettingsError` where it is not set."""
    if variable is None:
        return None
    key = environ.get(variable, "").strip()
    if not key:
        # The value is not repeated: somebody may have given the key itself.
        raise SettingsError("--key-variable names no variable that is set. Give the name of one, not the key itself.")
    return key


def question_of(words: Sequence[str] | None) -> str:
    """The question from the arguments, with the text from a pipe below it. Raises `InvalidRequestError`."""
    asked = " ".join(words or ()).strip()
    piped = _piped()
    if not asked and not piped.strip():
        raise InvalidRequestError('There is no question. Ask like this: stretto ask "How do I look after a bicycle?"')
    return "\n\n".join(part for part in (asked, piped.strip("\n")) if part.strip())


def _piped() -> str:
    """What a pipe or a file on standard input holds; nothing where it is a terminal, a device or a socket."""
    stream = sys.stdin
    if stream is None or stream.closed or stream.isatty():
        return ""
    try:
        kind = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):  # a stream without a file behind it, as in tests
        return stream.read()
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind)):
        return ""  # services hold a socket or a device open here that would never end
    from stretto.documents.encoding import decoded  # noqa: PLC0415 - keeps `stretto --help` light

    try:
        text, said = decoded(stream.buffer.read())
    except DocumentError as error:
        raise InvalidRequestError(f"The text on standard input was not read: {error}.") from None
    for sentence in said:
        typer.echo(f"Of standard input, {sentence}", err=True)
    return text
