"""The ASGI application: its routes, and who can call it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from stretto.client.async_client import AsyncStretto
from stretto.server import information
from stretto.server.apis.anthropic_messages import count_tokens, read_messages
from stretto.server.apis.api_answer import Endpoint, Handler, generating, refused
from stretto.server.apis.chat import read_chat
from stretto.server.apis.completions import read_completions
from stretto.server.apis.extension import ROUTE_HEADER
from stretto.server.apis.proxy import elsewhere
from stretto.server.apis.responses import read_responses
from stretto.server.exchange import named, request_id
from stretto.server.problems import Problem
from stretto.server.server_options import ServerOptions
from stretto.server.service import Service
from stretto.server.web.pages import pages, read_document, write_page
from stretto.values.errors import SettingsError

_WEBSOCKET = (
    426,
    "This server has no WebSocket and keeps no responses. Send POST /v1/responses, with stream: true for its events.",
    "websocket_not_supported",
)
_COMPACT = (
    404,
    "/v1/responses/compact is not served: only the model's own server can compact a conversation. "
    "Send a shorter conversation to /v1/responses.",
    "compaction_not_supported",
)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def create_app(
    client: AsyncStretto, options: ServerOptions | None = None, *, environ: Mapping[str, str] = os.environ
) -> Starlette:
    """Return an ASGI application that serves a client; mount it in another one, or pass it to an ASGI server.

    The client belongs to the caller, who closes it after the server has stopped. All requests share
    ``app.state.service``. Raises `SettingsError` if the keys cannot be read, and for ``cors="*"`` without keys.
    """
    service = Service(client, options, environ)
    app = Starlette(
        routes=_routes(service),
        middleware=[*_cors(service), Middleware(SameSite, service=service), Middleware(Slashes)],
        exception_handlers={HTTPException: _wrong_path},  # type: ignore[dict-item]  # starlette's type is wider
    )
    app.state.service = service
    return app


def _cors(service: Service) -> list[Middleware]:
    """Return the middleware that lets pages of chosen origins call the server from a browser."""
    origins = service.options.cors
    if not origins:
        return []
    if "*" in origins and not service.keyring.holders:
        raise SettingsError(
            "cors='*' lets every web page use this server, and there is no key. Name the origins, or set keys."
        )
    exposed = ["x-request-id", "request-id", "retry-after", ROUTE_HEADER]
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=exposed,
        )
    ]


def _routes(service: Service) -> list[BaseRoute]:
    def route(path: str, methods: list[str], handle: Handler, **how: Any) -> Route:
        return Route(path, Endpoint(service, path, handle, **how), methods=methods)

    return [
        route("/v1/chat/completions", ["POST"], generating(read_chat, elsewhere("chat.completions"))),
        route("/v1/completions", ["POST"], generating(read_completions, elsewhere("completions"))),
        route("/v1/responses", ["GET"], refused(*_WEBSOCKET)),
        route("/v1/responses", ["POST"], generating(read_responses, elsewhere("responses"))),
        route("/v1/responses/compact", ["POST"], refused(*_COMPACT)),
        route("/v1/messages", ["POST"], generating(read_messages), anthropic=True),
        route("/v1/messages/count_tokens", ["POST"], count_tokens, anthropic=True),
        route("/v1/models", ["GET"], information.models),
        route("/v1/models/{name:path}", ["GET"], information.model),
        route("/v1/route", ["POST"], information.routing(partial(read_chat, only_routed=True))),
        route("/health", ["GET"], information.health, guarded=False),
        route("/ready", ["GET"], information.ready, guarded=False),
        route("/metrics", ["GET"], information.metrics),
        route("/web/read", ["POST"], read_document),
        route("/web/page", ["POST"], write_page),
        *pages(),
    ]


async def _wrong_path(request: Request, error: HTTPException) -> Response:
    path = request.url.path
    if error.status_code == 405:
        problem = Problem(405, f"{path} does not take {request.method}.", headers=error.headers or {})
    else:
        problem = no_such_path(path, (route.path for route in request.app.routes if isinstance(route, Route)))
    return error_response(request.scope, problem)


class SameSite:
    """Middleware that refuses requests that pages of other sites send from a browser on this machine.

    Without a key, whatever reaches the server can use it. A browser sends any page's requests to loopback, and a page
    can point its own name at 127.0.0.1. So the host must be this one, and so must the origin, if there is one.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with 403."""
        if scope["type"] == "http" and (problem := self._problem(Headers(scope=scope))) is not None:
            await error_response(scope, problem)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _problem(self, headers: Headers) -> Problem | None:
        host = headers.get("host", "")
        keyless = not self._service.keyring.holders
        if keyless and self._service.options.loopback and _name(host) not in (*_LOOPBACK, self._service.options.host):
            return Problem(403, "This server answers to localhost only. Call it by that name.", code="wrong_host")
        origin = headers.get("origin")
        allowed = self._service.options.cors
        if origin is None or origin in allowed or "*" in allowed:
            return None
        if urlsplit(origin).netloc.lower() != host.lower():
            return Problem(403, "Pages of other sites may not call this server.", code="cross_origin")
        return None


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


_ANTHROPIC = ("/messages", "/messages/count_tokens", "/messages/batches")
_ADDRESSES = "Clients of OpenAI take an address that ends in /v1, those of Anthropic one without it."


class Slashes:
    """Middleware that ignores a trailing slash of a path, because not every client follows a redirect."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].endswith("/"):
            path = scope["path"].rstrip("/")
            if path != scope.get("root_path", ""):  # the page at / stays where it is, even if this app is mounted
                scope = {**scope, "path": path}
        await self._app(scope, receive, send)


def error_response(scope: Mapping[str, Any], problem: Problem) -> JSONResponse:
    """Return a problem that no adapter has seen, in the format of the API its path belongs to, with the request id."""
    own_id = request_id(Headers(scope=dict(scope)))
    body = problem.as_anthropic(own_id) if scope["path"].endswith(_ANTHROPIC) else problem.as_openai()
    return JSONResponse(body, problem.status, headers=named(own_id) | dict(problem.headers))


def no_such_path(path: str, known: Iterable[str]) -> Problem:
    """Return a 404 for a path, with the path that was meant if only its beginning is wrong."""
    intended = next((each for each in known if each.startswith("/v1/") and path.lower().endswith(each[3:])), None)
    hint = f"Did you mean {intended}? {_ADDRESSES}" if intended else "GET /v1/models shows that the server is alive."
    return Problem(404, f"There is no {path} here. {hint}", code="unknown_url")
