"""A FastAPI application that streams the events of an answer to its own page: ``uvicorn web_app:app``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, StreamingResponse

from stretto import AsyncStretto, StrettoError

MODEL = "local:pocket"  # for a real model: "openai:gpt-5.4-mini"
PAGE = Path(__file__).with_name("page.html")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One client for all requests, closed with the application. It loads its model while the page is opened already."""

    async def load() -> None:
        try:
            await app.state.stretto.load()
        except StrettoError as error:
            print(f"{MODEL} is not ready: {error}")  # a question says it again
        app.state.loaded = True

    async with AsyncStretto(MODEL) as app.state.stretto, anyio.create_task_group() as tasks:
        app.state.loaded = False
        tasks.start_soon(load)
        yield
        tasks.cancel_scope.cancel()


app = FastAPI(lifespan=lifespan)


@app.get("/")
async def page() -> FileResponse:
    """The page."""
    return FileResponse(PAGE)


@app.get("/answer")
async def answer(question: str, request: Request) -> StreamingResponse:
    """Every event of the answer as a server-sent event. A browser that leaves cancels the calls."""

    async def events() -> AsyncIterator[str]:
        stretto: AsyncStretto = request.app.state.stretto
        if not request.app.state.loaded:
            yield "event: loading\ndata: {}\n\n"
        try:
            async with stretto.stream(question) as stream:
                async for event in stream:
                    yield f"data: {event.model_dump_json()}\n\n"
        except StrettoError as error:
            yield f'event: problem\ndata: "{type(error).__name__}"\n\n'

    return StreamingResponse(events(), media_type="text/event-stream")
