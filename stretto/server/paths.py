"""Requests that no path takes: what their errors say, and paths that are written in another way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from stretto.server.exchange import named, request_id
from stretto.server.problems import Problem

_ANTHROPIC = ("/messages", "/messages/count_tokens", "/messages/batches")
_ADDRESSES = "Clients of OpenAI take an address that ends in /v1, those of Anthropic one without it."


class Slashes:
    """Takes a path with a slash behind it for the path without, because not every client follows a redirection."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http" and scope["path"].endswith("/"):
            path = scope["path"].rstrip("/")
            if path != scope.get("root_path", ""):  # the page at / stays where it is, also where this app is mounted
                scope = {**scope, "path": path}
        await self._app(scope, receive, send)


def error_response(scope: Mapping[str, Any], problem: Problem) -> JSONResponse:
    """A problem that no dialect has seen, in the form of the API that its path belongs to, with the request's id."""
    own_id = request_id(Headers(scope=dict(scope)))
    body = problem.as_anthropic(own_id) if scope["path"].endswith(_ANTHROPIC) else problem.as_openai()
    return JSONResponse(body, problem.status, headers=named(own_id) | dict(problem.headers))


def no_such_path(path: str, known: Iterable[str]) -> Problem:
    """404 for a path, with the one that was meant where the beginning of it is wrong."""
    meant = next((each for each in known if each.startswith("/v1/") and path.lower().endswith(each[3:])), None)
    hint = f"Did you mean {meant}? {_ADDRESSES}" if meant else "GET /v1/models shows that the server is alive."
    return Problem(404, f"There is no {path} here. {hint}", code="unknown_url")
