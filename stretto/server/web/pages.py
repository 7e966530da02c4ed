"""The web chat at ``/``: one page, its files, and the two things that it cannot do in a browser.

The server parses documents and renders the page of an answer; for everything else the page uses the API like any
other client.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Any

import anyio.to_thread
from pydantic import ValidationError
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from stretto.display.notebook import answer_page
from stretto.documents import ReadingLimits, ReadingTime, read_bytes
from stretto.foundation.arguments import safe_repr
from stretto.server.apis.bodies import read_body, read_object
from stretto.server.exchange import Exchange
from stretto.server.problems import Problem
from stretto.server.service import Service
from stretto.values.answer import Answer
from stretto.values.errors import DocumentError

# No foreign sources, no inline script or style, no framing: whatever a model writes cannot run or load anything.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}
_KINDS = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    "": "text/plain",
    ".md": "text/plain",
}
_LONGEST_NAME = 255  # characters
_PAGE = files("stretto.server.web") / "page"


def pages() -> Sequence[BaseRoute]:
    """Return the routes of the page and its files. Everyone can see them: they contain no secret, and ask for a key."""
    return [Route("/", _index), Route("/web/{name:path}", _file)]


async def _index(request: Request) -> Response:
    return _response("index.html", request)


async def _file(request: Request) -> Response:
    return _response(request.path_params["name"], request)


def _response(name: str, request: Request) -> Response:
    file, kind = _files().get(name), _KINDS.get(PurePosixPath(name).suffix)
    if file is None or kind is None:
        problem = Problem(404, "There is no such file.", code="unknown_url")
        return Response(json.dumps(problem.as_openai()), 404, media_type="application/json")
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers = {**_HEADERS, "content-encoding": "gzip", "vary": "accept-encoding"}
        return Response(_compressed(name), headers=headers, media_type=kind)
    return Response(file.read_bytes(), headers=_HEADERS | {"vary": "accept-encoding"}, media_type=kind)


@cache
def _compressed(name: str) -> bytes:
    return gzip.compress(_files()[name].read_bytes())


@cache
def _files() -> Mapping[str, Traversable]:
    """Return the page's files by their names below ``/web/``: a name from a request is looked up and never opened."""
    found: dict[str, Traversable] = {}

    def walk(folder: Traversable, above: str) -> None:
        for each in folder.iterdir():
            if each.is_dir():
                walk(each, f"{above}{each.name}/")
            else:
                found[above + each.name] = each

    walk(_PAGE, "")
    return found


async def read_document(service: Service, exchange: Exchange) -> None:
    """Respond with a file's title, text and warnings: ``POST /web/read?name=report.pdf`` with its bytes."""
    # The name from the request gives the format and the title. It is never used as a path, on any system.
    given = QueryParams(exchange.scope["query_string"]).get("name", "")
    name = PurePosixPath(given.replace("\\", "/")).name
    if not name:
        raise Problem(400, "name= is missing. Give the file's name: its ending decides how it is read.", param="name")
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise Problem(
            400,
            f"name={safe_repr(name)} is no name of a file: it may have {_LONGEST_NAME} characters that can be printed.",
            param="name",
        )
    body = await read_body(exchange.receive, exchange.headers, service.options)
    settings = service.client.settings
    allowance = ReadingTime(ReadingLimits(settings.reading_s, settings.reading_memory_mb), settings.deadline_s)
    async with exchange.attended(), service.admission.admitted(exchange.holder, exchange.end):
        try:
            found = await anyio.to_thread.run_sync(
                _read, name, body, allowance, abandon_on_cancel=True, limiter=service.readers
            )
        finally:
            allowance.cancel()
    await exchange.send_json(found)


def _read(name: str, body: bytes, allowance: ReadingTime) -> dict[str, Any]:
    try:
        document = read_bytes(body, name, allowance=allowance)
    except DocumentError as error:
        raise Problem(400, str(error), param="name", code="unreadable_file") from None
    found: dict[str, Any] = {"title": document.title or name, "text": document.text}
    return found | {"warnings": document.warnings} if document.warnings else found


async def write_page(service: Service, exchange: Exchange) -> None:
    """Respond with the page of an answer as one file: ``POST /web/page`` with ``{"question", "answer"}``."""
    body = await read_object(exchange.receive, exchange.headers, service.options)
    question = body.get("question", "")
    try:
        answer = Answer.model_validate(body.get("answer"))
    except ValidationError:
        raise Problem(400, "answer= is not an answer of Stretto.", param="answer") from None
    if not isinstance(question, str):
        raise Problem(400, "question= takes a string.", param="question")
    async with exchange.attended(), service.admission.admitted(exchange.holder, exchange.end):
        pass  # it counts like any other request
    await exchange.send_bytes(answer_page(answer, question).encode(), "text/html; charset=utf-8")
