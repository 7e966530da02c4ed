"""What the tests of the web chat have in common: scripts, and a question put into the page."""

import anyio
from axe_playwright_python.async_playwright import Axe
from patience import patience

from stretto.testing import Reply, ScriptedBackend

POINTS = {"Write only the outline": "1. Tyres\n2. Chain\n3. Brakes"}
SKELETON = POINTS | {"Tyres": "Pump them.", "": "Yes, of course."}
READY = "#model option"
ENDED = "section[aria-busy=false]"


def held(**script):
    """A skeleton whose points wait for an event."""
    event = anyio.Event()
    return ScriptedBackend(POINTS | {"": Reply("Written at last.", hold=event)} | script), event


async def ask(page, question="How do I look after a bicycle?", strategy="skeleton"):
    await page.select_option("#strategy", strategy)
    await page.fill("#question", question)
    await page.press("#question", "Enter")


async def fits(page):
    """Whether nothing of the conversation is beside the window."""
    return await page.evaluate(
        """() => [document.documentElement, document.getElementById("conversation")]
            .every((each) => each.scrollWidth <= each.clientWidth)"""
    )


async def no_violations(page):
    found = await Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


async def until(condition):
    with anyio.fail_after(patience(60)):
        while not condition():
            await anyio.lowlevel.checkpoint()
