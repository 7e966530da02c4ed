"""Where a command gets its client from, and its question."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from stretto.errors import InvalidRequestError, SettingsError

if TYPE_CHECKING:
    from stretto.client import AsyncStretto
    from stretto.document import Document

Opener = Callable[..., "AsyncStretto"]


def opener_of(context: typer.Context) -> Opener:
    """What makes the clients of this run: `AsyncStretto`, unless the caller of the program gave another."""
    given: Any = context.obj
    if given is not None:
        return given  # type: ignore[no-any-return]  # typer's context holds anything
    from stretto.client import AsyncStretto  # noqa: PLC0415 - keeps `stretto --help` light

    return AsyncStretto


def open_client(
    context: typer.Context, model: str | None, base_url: str | None, key_variable: str | None
) -> AsyncStretto:
    """Make the client of a command. Raises `StrettoError`."""
    return opener_of(context)(model, base_url=base_url, api_key=key_in(key_variable))


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


def documents_of(files: Sequence[Path] | None) -> tuple[Document, ...]:
    """Read the documents; each is titled with its file's name. Raises `InvalidRequestError`."""
    from stretto.document import Document  # noqa: PLC0415 - keeps `stretto --help` light

    found = []
    for file in files or ():
        try:
            content = file.expanduser().read_bytes()
        except OSError as error:
            raise InvalidRequestError(f"The document {str(file)!r} cannot be read: {error.strerror}.") from None
        found.append(Document(text=_decoded(content, f"The document {str(file)!r}"), title=file.name))
    return tuple(found)


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
    return _decoded(stream.buffer.read(), "The text on standard input")


def _decoded(content: bytes, what: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"{what} is not UTF-8 text (byte {error.start}). Convert it to text first.") from None
