"""The web chat while its server is gone: the server is a process that is killed, and another one takes its port."""

import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.streams.text import TextReceiveStream
from patience import patience
from ports import reserved_port

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

PROGRAM = str(Path(__file__).with_name("scripted_program.py"))
HALF = {"": {"chunks": ["The first half. ", "never"], "chunk_delay_s": 600}}
WHOLE = {"": {"text": "Here again."}}


@asynccontextmanager
async def server(port, script):
    """Starts one and waits for its address; it is killed at the end."""
    command = [sys.executable, PROGRAM, str(port), json.dumps(script)]
    process = await anyio.open_process(command, stderr=None, env={**os.environ, "STRETTO_SETTINGS": os.devnull})
    try:
        with anyio.fail_after(patience(120)):
            address = await TextReceiveStream(process.stdout).receive()
        yield process, address.strip()
    finally:
        await gone(process)
        await process.aclose()


async def gone(process):
    if process.returncode is None:
        process.kill()
    with anyio.fail_after(patience(60), shield=True):
        await process.wait()


@pytest.fixture
def port():
    """Of a server, which no other program has while it is gone."""
    with reserved_port() as port:
        yield port


async def test_an_answer_that_broke_off_is_asked_for_again_when_the_server_is_back(page, port):
    async with server(port, HALF) as (process, address):
        await page.goto(address)
        await page.wait_for_selector("#model option", state="attached")
        await page.select_option("#strategy", "direct")
        await page.fill("#question", "Where are you?")
        await page.press("#question", "Enter")
        await page.wait_for_selector("text=The first half.")
        await gone(process)
        await page.wait_for_selector("#away:not([hidden])")
        assert "cannot be reached" in await page.inner_text(".problem")
        assert "The first half." in await page.inner_text("section .text")
        await page.wait_for_selector("#send:enabled")
    async with server(port, WHOLE):
        await page.wait_for_selector("#away", state="hidden")
        assert await page.text_content("#status") == "The server is back."
        await page.get_by_role("button", name="Retry", exact=True).click()
        await page.wait_for_selector("text=Here again.")
        assert await page.locator("article").count() == 1


async def test_a_question_to_a_server_that_is_gone_is_not_lost(page, port):
    async with server(port, WHOLE) as (process, address):
        await page.goto(address)
        await page.wait_for_selector("#model option", state="attached")
        await page.select_option("#strategy", "direct")
        await gone(process)
        await page.fill("#question", "Are you there?")
        await page.press("#question", "Enter")
        await page.wait_for_selector("#away:not([hidden])")
        assert "Are you there?" in await page.inner_text(".asked")
    async with server(port, WHOLE):
        await page.wait_for_selector("#away", state="hidden")
        await page.get_by_role("button", name="Retry", exact=True).click()
        await page.wait_for_selector("text=Here again.")
