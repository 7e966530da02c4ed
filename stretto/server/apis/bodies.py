"""The body of a request: bounded in size, depth and time; JSON with a conversation and fields that can be read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import anyio
from pydantic import BeforeValidator, Field, ValidationError
from starlette.types import Receive

from stretto.foundation.arguments import safe_repr
from stretto.foundation.bounds import check_numbers
from stretto.server.problems import Problem, of_turn
from stretto.server.server_options import ServerOptions
from stretto.values.errors import InvalidRequestError
from stretto.values.generation_options import not_bool
from stretto.values.messages import Message, messages_of

_DRAINED = 1 << 26  # most bytes to read of a body that is refused
_LONG = 1 << 18  # bytes; longer JSON is parsed in a thread
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


class ClientDisconnectedError(Exception):
    """The client has closed the connection, so nobody will read a response."""


async def read_object(receive: Receive, headers: Mapping[str, str], options: ServerOptions) -> dict[str, Any]:
    """Read a JSON object. Raises `Problem` (400, 408, 413, 415) or `ClientDisconnectedError`."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        # Any site's page can send text/plain to this machine; JSON needs a CORS permission that is not granted.
        raise Problem(
            415,
            "The body must be sent as JSON. Add the header content-type: application/json.",
            code="unsupported_media_type",
        )
    if (packed := headers.get("content-encoding", "identity").strip().lower()) != "identity":
        raise Problem(
            415,
            f"The body is packed ({safe_repr(packed)}), and this server does not unpack. "
            "Send it without content-encoding.",
            code="unsupported_media_type",
        )
    body = await read_body(receive, headers, options)
    found = await anyio.to_thread.run_sync(_parsed, body) if len(body) > _LONG else _parsed(body)
    if not isinstance(found, dict):
        raise Problem(400, "The body must be a JSON object, in braces.", code="invalid_json")
    return found


async def read_body(receive: Receive, headers: Mapping[str, str], options: ServerOptions) -> bytes:
    """Read the bytes of a body. Raises `Problem` (408, 413) or `ClientDisconnectedError`."""
    announced = headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > options.body_bytes:
        raise await _too_large(receive, options, left=0 if "expect" in headers else _DRAINED)
    pieces: list[bytes] = []
    size = 0
    with anyio.move_on_after(options.body_s):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnectedError
            piece = message.get("body", b"")
            size += len(piece)
            last = not message.get("more_body", False)
            if size > options.body_bytes:
                raise await _too_large(receive, options, left=_DRAINED, last=last)
            pieces.append(piece)
            if last:
                return b"".join(pieces)
    raise Problem(
        408,
        f"The body did not arrive within {options.body_s:g} s.",
        code="request_timeout",
        headers={"connection": "close"},
    )


def read_turns(
    turns: Sequence[Mapping[str, Any]], field: str, places: Sequence[int] | None = None
) -> tuple[Message, ...]:
    """Return the messages of a conversation in this field, at these indices. Raises `Problem`, naming the index."""
    check_contents(turns, field, places)
    try:
        check_numbers(messages=turns)
    except InvalidRequestError as error:
        raise Problem(400, str(error), param=field, code="too_many_entries") from None
    found: list[Message] = []
    for place, turn in zip(places or range(len(turns)), turns, strict=True):
        try:
            found += messages_of(turn)
        except (InvalidRequestError, ValidationError) as error:
            raise of_turn(error, f"{field}.{place}") from None
    if not found:
        raise Problem(400, f"{field} holds no message. Add one with the question.", param=field, code="invalid_value")
    return tuple(found)


async def _too_large(receive: Receive, options: ServerOptions, *, left: int, last: bool = False) -> Problem:
    """Return the refusal of a body after draining it: a client that is still sending does not read."""
    with anyio.move_on_after(options.body_s):
        while left > 0 and not last:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnectedError
            left -= len(message.get("body", b""))
            last = not message.get("more_body", False)
    return Problem(
        413,
        f"The body is larger than {options.body_bytes:,} bytes, the most this server takes. Send less.",
        code="request_too_large",
        headers={} if last else {"connection": "close"},
    )


def _parsed(body: bytes) -> Any:
    import jiter  # noqa: PLC0415 - with the first request

    body = body.removeprefix(b"\xef\xbb\xbf")
    try:
        return jiter.from_json(body, allow_inf_nan=False)
    except ValueError as error:
        # Half a surrogate pair can come from a client that cut its text; anything else is an error.
        mended = _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], body)
        reason = str(error)
        if mended != body:
            try:
                return jiter.from_json(mended, allow_inf_nan=False)
            except ValueError as still:
                reason = str(still)
        raise Problem(400, f"The body is not JSON: {reason}.", code="invalid_json") from None


MOST_MESSAGES = 4096  # each costs time in every layer that reads it
MOST_TOOLS = 1024  # OpenAI accepts 128
MOST_STOPS = 256  # OpenAI accepts 4

Count = Annotated[int, BeforeValidator(not_bool), Field(ge=1)]
"""A number of tokens or answers. ``true`` is not one, though Python takes it for 1."""

Number = Annotated[float, BeforeValidator(not_bool)]
Seed = Annotated[int, BeforeValidator(not_bool), Field(ge=-(2**63), lt=2**63)]
Small = Annotated[int, BeforeValidator(not_bool), Field(ge=0, le=20)]


def check_number(field: str, given: Sequence[Any] | str | None, most: int) -> None:
    """Raise `Problem` if a list is longer than this server accepts."""
    if given is not None and not isinstance(given, str) and len(given) > most:
        message = f"{field} holds {len(given):,} entries, and {most:,} are the most. Send fewer."
        raise Problem(400, message, param=field, code="array_above_max_length")


def check_tools(tools: Sequence[Mapping[str, Any]] | None, choice: Any) -> None:
    """Raise `Problem` for a tool without a type or a name, and for a tool choice without tools."""
    check_number("tools", tools, MOST_TOOLS)
    for place, tool in enumerate(tools or ()):
        if "input_schema" in tool and "function" not in tool:  # Anthropic's format
            named, where = tool.get("name"), f"tools.{place}.name"
        else:
            kind = tool.get("type")
            if not isinstance(kind, str) or not kind:
                message = f'tools.{place}.type={safe_repr(kind)} cannot be used: it takes "function" or another type.'
                raise Problem(400, message, param=f"tools.{place}.type", code="invalid_value")
            if kind not in ("function", "custom"):
                continue  # a tool of the model's own server, which knows its fields
            inner = tool.get(kind)
            named = inner.get("name") if isinstance(inner, Mapping) else None
            where = f"tools.{place}.{kind}.name"
        if not isinstance(named, str) or not named:
            message = f"{where}={safe_repr(named)} cannot be used: a tool needs a name."
            raise Problem(400, message, param=where, code="invalid_value")
    kind = choice.get("type") if isinstance(choice, Mapping) else choice
    if not tools and kind not in (None, "auto", "none"):  # clients send these with every request
        message = "tool_choice cannot be used without tools. Add tools, or leave it out."
        raise Problem(400, message, param="tool_choice", code="invalid_value")


def check_contents(turns: Sequence[Mapping[str, Any]], field: str, places: Sequence[int] | None = None) -> None:
    """Raise `Problem` for a turn whose content is an empty list; one of the assistant can have only calls."""
    check_number(field, turns, MOST_MESSAGES)
    for place, turn in zip(places or range(len(turns)), turns, strict=True):
        if turn.get("content") == [] and turn.get("role") != "assistant":
            where = f"{field}.{place}.content"
            raise Problem(400, f"{where}=[] cannot be used: it takes a text or at least one part.", param=where)
