"""A headless Chromium, and pages of it in front of a running server."""

import shutil
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from patience import patience
from playwright.async_api import async_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))

from live_server import serving

from stretto import AsyncStretto, Settings

BROWSERS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
)  # the same as in .ci/chromium.sh


@pytest.fixture
async def chromium():
    """A browser of a test's own: in a shared one, a page that hung kept the pages of later tests waiting."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert path, "There is no Chromium here. `make test-browser` installs Debian's."
    async with async_playwright() as playwright:
        # As root, in a container, Chromium's sandbox cannot be set up.
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest.fixture
async def page(chromium):
    """An empty page, for what is served by a program."""
    context = await chromium.new_context()
    opened = await context.new_page()
    opened.set_default_timeout(patience(60_000))
    yield opened
    await context.close()


@pytest.fixture
def chatting(chromium):
    """Serves a backend and opens the chat; whatever the page complains of fails the test."""

    @asynccontextmanager
    async def open_chat(backend, *, viewport=None, settings=None, options=None, **how):
        async with (
            AsyncStretto(backend, settings=settings or Settings(attempts=1)) as client,
            serving(client, options) as live,
        ):
            context = await chromium.new_context(viewport=viewport, accept_downloads=True, **how)
            page = await context.new_page()
            page.set_default_timeout(patience(60_000))
            page.complaints, page.addresses = [], []
            page.on("pageerror", lambda error: page.complaints.append(str(error)))
            page.on("request", lambda request: page.addresses.append(request.url))
            await page.goto(live.url)
            await page.wait_for_selector("#model option, #key-form:not([hidden])", state="attached")
            page.live = live
            try:
                yield page
            finally:
                await context.close()
            assert page.complaints == []

    return open_chat
