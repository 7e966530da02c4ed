"""What the tests of the web chat have in common: scripts, and a question put into the page."""

import anyio
from axe_playwright_python.async_playwright import DEFAULT_OPTIONS, Axe
from patience import patience

from stretto.extending import Capabilities
from stretto.testing import Reply, ScriptedBackend

POINTS = {"Outline the answer": "1. Tyres\n2. Chain\n3. Brakes"}
PLAN = """Opening: Clean the chain **first**.
Sections: Every week | At the shop | What to buy
1. steps, about 60 words: clean, oil
2. bullets, about 60 words: truing
3. table, about 60 words: part, price
Closing: Start today."""
SECTIONS = {
    '"Every week"': "Wipe the chain, then oil it.\n\n1. Wipe\n2. Oil",
    '"At the shop"': "- Have the wheels trued.\n- Ask for the bearings.",
    '"What to buy"': "| Part | Price |\n|---|---|\n| Pump | 20 |\n| Brush | 5 |",
}
SKELETON = POINTS | {"Tyres": "Pump them.", "": "Yes, of course."}
READY = "#model option"
ENDED = "section[aria-busy=false]"


def by_points(script, kind=ScriptedBackend, **options):
    """A model that answers by points, as the demonstration model does."""
    return kind(script, capabilities=Capabilities(prompt_family="pocket"), **options)


def held(**script):
    """A skeleton whose points wait for an event."""
    event = anyio.Event()
    return by_points(POINTS | {"": Reply("Written at last.", hold=event)} | script), event


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


SETTLED = """() => Promise.all(document.getAnimations()
  .filter((each) => Number.isFinite(each.effect.getComputedTiming().endTime))
  .map((each) => each.finished.catch(() => null)))"""  # colours that fade in are measured when they are there


OF_COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}


async def no_violations(page, *, colours_alone=False):
    """``colours_alone``: of a page that differs in nothing else from one that was looked at as a whole."""
    await page.evaluate(SETTLED)
    axe = Axe("0") if await page.evaluate("'axe' in window") else Axe()  # half a megabyte, once for each page
    found = await axe.run(page, options=DEFAULT_OPTIONS | (OF_COLOURS if colours_alone else {}))
    assert found.violations_count == 0, found.generate_report()


async def until(condition):
    with anyio.fail_after(patience(60)):
        while not condition():
            await anyio.lowlevel.checkpoint()
