"""The endpoint that an editor's plug-in asks at each keystroke: ``python endpoint.py``.

POST /complete {"editor": "any name", "before": "the text before the cursor"}

The answer is a stream of server-sent events: {"text": ...} for each piece, and last {"end": ...} with the reason (stop,
length, or cancelled by a newer keystroke) and how many tokens of the text were known from earlier ones.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from completer import Completer
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from stretto import StrettoError
from stretto.local import Finished, Piece

HOST, PORT = "127.0.0.1", 8077
MOST_BYTES = 2_000_000


def refused(message: str, status: int = 400) -> Response:
    """One line that says what is wrong."""
    return JSONResponse({"error": message}, status_code=status)


async def complete(request: Request) -> Response:
    """Stream the completion of one text."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        return refused("Send application/json.", 415)  # so a web page cannot ask from another site
    if int(request.headers.get("content-length") or MOST_BYTES + 1) > MOST_BYTES:
        return refused(f"Send at most {MOST_BYTES} bytes, with a Content-Length.", 413)
    try:
        body = await request.json()
        editor, before = body["editor"], body["before"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return refused('Send an object: {"editor": "any name", "before": "the text before the cursor"}.')
    if not isinstance(editor, str) or not isinstance(before, str):
        return refused("editor and before are strings.")
    return StreamingResponse(events(request.app.state.completer, editor, before), media_type="text/event-stream")


async def events(completer: Completer, editor: str, before: str) -> AsyncIterator[str]:
    """The events of one completion. A plug-in that leaves ends it."""
    loop, arrived = asyncio.get_running_loop(), asyncio.Queue[Piece | Finished]()
    try:
        handle = completer.complete(editor, before, lambda said: loop.call_soon_threadsafe(arrived.put_nowait, said))
    except StrettoError as error:
        yield event({"error": str(error)})
        return
    try:
        while isinstance(said := await arrived.get(), Piece):
            yield event({"text": said.text})
        if said.error is not None:
            yield event({"error": str(said.error)})
        yield event({"end": said.reason, "prompt_tokens": said.prompt_tokens, "cached_tokens": said.cached_tokens})
    finally:
        completer.forget(editor, handle)


def event(fields: dict[str, Any]) -> str:
    """One server-sent event."""
    return f"data: {json.dumps(fields)}\n\n"


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """One completer for all editors, loaded before the first keystroke."""
    app.state.completer = await asyncio.to_thread(Completer)
    yield
    await asyncio.to_thread(app.state.completer.close)


app = Starlette(
    routes=[Route("/complete", complete, methods=["POST"])],
    middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])],
    lifespan=lifespan,
)

if __name__ == "__main__":
    uvicorn.run(app, host=HOST, port=PORT, ws="none")
