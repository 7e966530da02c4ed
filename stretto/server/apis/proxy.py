"""Passes what this server does not know of an OpenAI API to the model's own server, and its response back, as is."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from stretto.backends.tenants import among_others
from stretto.server.apis.api_answer import Elsewhere
from stretto.server.apis.extension import ROUTE_HEADER
from stretto.server.exchange import Exchange, encoded
from stretto.server.limits.metering import Meter
from stretto.server.models import Served
from stretto.server.problems import Problem
from stretto.server.service import Service
from stretto.values.errors import ModelNotFoundError, StrettoError

if TYPE_CHECKING:
    from stretto.backends.providers.openai import OpenAIBackend

_UNKNOWN = frozenset({"unsupported_parameter", "unsupported_value"})  # problems that another server might not have

_BYTES = 4  # per token, roughly
_CACHE = re.compile(rb'"[^"]*cach[^"]*"\s*:|"timings"')


def responding(served: Served) -> OpenAIBackend | None:
    """Return the named backend if its server speaks OpenAI's API and so might have Responses and Completions."""
    backend: Any = served.backend  # or a wrapper that passes its methods on
    return backend if callable(getattr(backend, "responding", None)) else None


def elsewhere(api: str) -> Elsewhere:
    """Return what forwards the bodies of an API that only the model's own server knows.

    ``api`` is "responses", "completions" or "chat.completions". What it returns raises the problem if there is no such
    server.
    """

    async def pass_on_or_raise(body: dict[str, Any], service: Service, exchange: Exchange, problem: Problem) -> None:
        backend = responding(service.models.find(body["model"])) if problem.code in _UNKNOWN else None
        if backend is None:
            raise problem
        try:
            await _pass_on(exchange, backend, api, body, problem)
        except ModelNotFoundError as error:  # not every server that speaks OpenAI's API has all of its APIs
            problem.message += f" It was passed on, and refused: {error}"
            raise problem from error

    return pass_on_or_raise


async def _pass_on(
    exchange: Exchange, backend: OpenAIBackend, api: str, body: Mapping[str, Any], because: Problem
) -> None:
    """Forward a body, and return its response; count the tokens of both as they arrive."""
    sent = {name: value for name, value in body.items() if name != "stretto"} | {"model": backend.model}
    read = len(encoded(sent)) / _BYTES
    reason = f"{because.param} is known to the model's own server only: passed on as it is."
    route = {ROUTE_HEADER: json.dumps({"strategy": "direct", "backend": backend.name, "reason": reason})}
    exchange.meter.passed_on = read
    hides = among_others() and not getattr(backend, "parts_its_cache", False)
    async with _free_where_refused(exchange.meter), backend.responding(sent, api) as response:
        kind = response.headers.get("content-type", "application/json")
        if not kind.startswith("text/event-stream"):
            whole = b"".join([piece async for piece in response.iter_bytes()])
            exchange.meter.passed_on = _tokens_reported(whole) or read + len(whole) / _BYTES
            await exchange.send_bytes(_without_cache(whole) if hides else whole, kind, headers=route)
            return
        exchange.stream_headers = route
        tally = _Tally()
        async for piece in response.iter_bytes():
            lines = tally.feed(piece)
            exchange.meter.passed_on = tally.reported or read + tally.events
            await exchange.write(b"".join(map(_without_cache_in_line, lines)) if hides else piece)
        if hides:
            await exchange.write(_without_cache_in_line(tally.rest))
        await exchange.finish()


def _without_cache_in_line(line: bytes) -> bytes:
    field, found, data = line.partition(b"data:")
    if field or not found or not _CACHE.search(data):
        return line
    return b"data: " + _without_cache(data) + line[len(line.rstrip(b"\r\n")) :]


def _without_cache(body: bytes) -> bytes:
    """Strip a response of what the model server's cache knew of a prompt, which another key might have sent."""
    if not _CACHE.search(body):
        return body
    try:
        read = json.loads(body)
    except (ValueError, RecursionError):
        return body if not body.lstrip().startswith(b"{") else b"{}"
    left = [read]
    while left:
        match left.pop():
            case dict(fields):
                fields.pop("timings", None)  # from llama.cpp's server
                for name, value in fields.items():
                    if "cach" in name and isinstance(value, int | float):
                        fields[name] = 0
                    else:
                        left.append(value)
            case list(values):
                left += values
    return encoded(read)


@asynccontextmanager
async def _free_where_refused(meter: Meter) -> AsyncGenerator[None]:
    """Charge nothing for what the model's server refuses; what breaks off later costs what arrived."""
    read = meter.passed_on
    try:
        yield
    except StrettoError:
        if meter.passed_on == read:
            meter.passed_on = 0
        raise


class _Tally:
    """A token counter for a stream: takes its usage, or else about one token per event."""

    def __init__(self) -> None:
        self.reported = 0
        self.events = 0
        self.rest = b""  # an incomplete line

    def feed(self, piece: bytes) -> list[bytes]:
        """Count a chunk of the stream, and return the lines completed by it, each with its line end."""
        *lines, rest = piece.split(b"\n")
        if lines:
            lines[0], self.rest = self.rest + lines[0], b""
        self.rest += rest
        for line in lines:
            if line.startswith(b"data:"):
                self.events += 1
                if b'"usage"' in line:
                    self.reported = _tokens_reported(line.removeprefix(b"data:")) or self.reported
        return [line + b"\n" for line in lines]


def _tokens_reported(body: bytes) -> int:
    """Return the tokens that a response or an event reports as usage; 0 if it reports none."""
    try:
        reported = json.loads(body)
        reported = reported.get("response") or reported  # an event of Responses contains the whole response
        return int(reported["usage"]["total_tokens"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return 0
