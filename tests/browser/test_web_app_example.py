"""The page of the example `web_app`, in front of a scripted model."""

import importlib
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
import uvicorn
from asking import POINTS, by_points, held, until

from stretto import AsyncStretto, ServerFailedError, Settings
from stretto.testing import Reply, ScriptedBackend

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
QUESTION = "How do I look after a bicycle?"


@pytest.fixture
async def opened(page, monkeypatch):
    """Serves the example with another model, and opens its page."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples" / "web_app")
    example = importlib.import_module("web_app")

    @asynccontextmanager
    async def open_example(backend):
        client = AsyncStretto(backend, settings=Settings(attempts=1))
        monkeypatch.setattr(example, "AsyncStretto", lambda _: client)
        server = uvicorn.Server(uvicorn.Config(example.app, port=0, log_level="error"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve)
            await until(lambda: server.started)
            port = server.servers[0].sockets[0].getsockname()[1]
            await page.goto(f"http://127.0.0.1:{port}")
            try:
                yield server
            finally:
                await page.goto("about:blank")
                server.should_exit = True

    return open_example


async def ask(page, question=QUESTION):
    await page.fill("input", question)
    await page.click("button")


async def test_the_parts_stand_side_by_side_and_settle_into_one_text(page, opened):
    backend, event = held()
    async with opened(backend):
        await ask(page)
        await page.wait_for_selector(".part:nth-child(3)")
        boxes = [await part.bounding_box() for part in await page.locator(".part").all()]
        assert len({box["y"] for box in boxes}) == 1
        assert (await page.inner_text("#route")).startswith("skeleton: ")
        event.set()
        await page.wait_for_selector("#text >> text=Written at last.")
        assert await page.locator(".part").count() == 0


class Loaded(ScriptedBackend):
    """A local model that is being loaded until the event is set."""

    event: anyio.Event

    async def load_ahead(self):
        await self.event.wait()

    @asynccontextmanager
    async def stream(self, prompt, options):
        await self.event.wait()
        async with super().stream(prompt, options) as chunks:
            yield chunks


async def test_a_question_before_the_model_is_loaded_is_told_so(page, opened):
    backend = by_points(POINTS | {"": "Written at last."}, Loaded, name="local:scripted")
    backend.event = anyio.Event()
    async with opened(backend):
        await ask(page)
        await page.wait_for_selector("#now >> text=The model is being loaded")
        backend.event.set()
        await page.wait_for_selector("#text >> text=Written at last.")


async def test_a_second_question_replaces_the_first(page, opened):
    event = anyio.Event()
    script = {"Again": "The second answer."} | POINTS | {"": Reply("Written at last.", hold=event)}
    async with opened(by_points(script)):
        await ask(page)
        await page.wait_for_selector(".part:nth-child(3)")
        await ask(page, "Again: one word?")
        event.set()
        await page.wait_for_selector("#text >> text=The second answer.")
        assert "Written at last." not in await page.inner_text("body")


async def test_a_failure_is_told(page, opened):
    async with opened(ScriptedBackend({"": Reply(fault=ServerFailedError("The server is down."))})):
        await ask(page)
        await page.wait_for_selector("#text >> text=failed")


async def test_a_connection_that_is_lost_is_told_below_what_was_written_and_asks_nothing_again(page, opened):
    half = {'Write point: Tyres|"Tyres", in about': Reply(chunks=["Pump them. ", "never"], chunk_delay_s=600)}
    script = POINTS | half | {"": Reply("Written at last.", hold=anyio.Event())}
    async with opened(by_points(script)) as server:
        await ask(page)
        await page.wait_for_selector(".part >> text=Pump them.")
        for connection in server.server_state.connections:
            connection.transport.abort()
        await page.wait_for_selector("#text >> text=The connection was lost.")
        told = (await page.text_content("#text")).split("\n\n")
        assert told == ["Tyres: Pump them. ", "Chain: ", "Brakes: ", "The connection was lost."]
        assert await page.locator(".part").count() == 0
        assert await page.evaluate("source.readyState") == 2  # closed
