"""What this server does not know of Responses goes to the model's own server as it is, and comes back as it is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from stretto.server.exchange import Exchange
from stretto.server.extension import ROUTE_HEADER
from stretto.server.models import Served
from stretto.server.problems import Problem

UNKNOWN = frozenset({"unsupported_parameter", "unsupported_value"})
"""Codes of the problems that another server may not have."""


class RawResponse(Protocol):
    """An HTTP response of an SDK."""

    headers: Mapping[str, str]

    def iter_bytes(self) -> AsyncIterator[bytes]:
        """The body, piece by piece."""
        ...


class Responding(Protocol):
    """A backend whose server speaks OpenAI's API, and so may have Responses."""

    model: str

    @property
    def name(self) -> str:
        """The model's name, with its provider."""
        ...

    def responding(self, body: Mapping[str, Any]) -> AbstractAsyncContextManager[RawResponse]:
        """Send a body as it is."""
        ...


def responding(served: Served) -> Responding | None:
    """The backend behind a name, if its server speaks OpenAI's API."""
    # Not isinstance: wrappers pass on what the backend inside has, which a protocol does not see since Python 3.12.
    backend: Any = served.client.backends["main"]
    return backend if callable(getattr(backend, Responding.responding.__name__, None)) else None


async def pass_on(exchange: Exchange, backend: Responding, body: Mapping[str, Any], because: Problem) -> None:
    """Send the body on, and the response back. Raises `StrettoError`."""
    sent = {name: value for name, value in body.items() if name != "stretto"} | {"model": backend.model}
    cause = f"{because.param} is known to the model's own server only: passed on as it is."
    route = {ROUTE_HEADER: json.dumps({"strategy": "direct", "backend": backend.name, "cause": cause})}
    async with backend.responding(sent) as response:
        kind = response.headers.get("content-type", "application/json")
        if not kind.startswith("text/event-stream"):
            await exchange.send_bytes(b"".join([piece async for piece in response.iter_bytes()]), kind, headers=route)
            return
        exchange.beside = route
        async for piece in response.iter_bytes():
            await exchange.write(piece)
        await exchange.finish()
