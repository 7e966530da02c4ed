"""Sends long conversations through an SDK whose work for each message would block the event loop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.to_thread

from stretto.foundation.bounds import VERY_LONG, is_long

_CLOSING_S = 5.0


def around_the_sdk(parameters: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a request into the SDK's arguments and what goes into the body in addition.

    The SDKs process each message and tool by its type in Python, a millisecond for each, which would block the
    event loop for seconds. A few of them stay arguments, where tools that trace the SDKs look for them.
    """
    listed = {name: value for name, value in parameters.items() if isinstance(value, list) and is_long(value)}
    arguments = {name: [] if name in listed else value for name, value in parameters.items()}
    return arguments, listed


async def post_very_long(client: Any, path: str, body: dict[str, Any], stream_of: Any) -> Any | None:
    """Send a body of hundreds of messages, parts or tools as JSON that was serialised in a thread.

    Even outside its arguments, an SDK copies each message and serialises all of them in one go.

    Returns:
        the SDK's stream; ``None`` if the body is shorter, or contains values that only the SDK can serialise.
    """
    if not is_long(*body.values(), most=VERY_LONG):
        return None
    content = await anyio.to_thread.run_sync(_encoded, body)
    if content is None:
        return None
    headers = {"content-type": "application/json"}
    return await client.post(
        path, content=content, cast_to=object, stream=True, stream_cls=stream_of, options={"headers": headers}
    )


async def post(client: Any, path: str, body: dict[str, Any]) -> Any:
    """Post JSON with an HTTP library's own client, and return the response, whose body is still to be read.

    Raises the library's error for an error status; its response has been read.
    """
    content = await anyio.to_thread.run_sync(_encoded, body) if is_long(*body.values(), most=VERY_LONG) else None
    given = {"json": body} if content is None else {"content": content, "headers": {"content-type": "application/json"}}
    response = await client.send(client.build_request("POST", path, **given), stream=True)
    if response.is_success:
        return response
    try:
        await response.aread()
    finally:
        with anyio.move_on_after(_CLOSING_S, shield=True):
            await response.aclose()
    return response.raise_for_status()


def _encoded(body: Mapping[str, Any]) -> bytes | None:
    # Entry by entry: the encoder of the standard library lets no other thread run until it is done.
    try:
        fields = (
            f"{_json(name)}:[{','.join(map(_json, value))}]"
            if isinstance(value, list)
            else f"{_json(name)}:{_json(value)}"
            for name, value in body.items()
        )
        return f"{{{','.join(fields)}}}".encode()
    except (TypeError, ValueError, RecursionError):
        return None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
