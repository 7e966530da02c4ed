"""Every state of the web chat looks as in the pictures of `looks/`, at three widths, on a light and on a dark ground.
Axe-core has nothing against any of them.

Both are compared at a quarter of their size, so how letters are drawn does not count: at most 2% of the points may
differ by more than a tenth of the scale. ``STRETTO_NEW_LOOKS=1 pytest tests/browser/test_looks.py`` takes the pictures
anew; look at them before they are committed.
"""

import io
import json
import os
from pathlib import Path

import pytest
from asking import PLAN, POINTS, SECTIONS, SKELETON, ask, no_violations
from PIL import Image, ImageChops

from stretto import ServerFailedError
from stretto.extending import Capabilities
from stretto.testing import Reply, ScriptedBackend

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

LOOKS = Path(__file__).parent / "looks"
SEEN = Path(__file__).parents[2] / "build" / "looks"
MOST_DIFFERENT = 0.02  # of the points
STEPS = 26  # of 256, from which a point is different
QUARTER = 4
# Seconds, and bars that are as long as they took.
CHANGING = ".detail, .lane-bar, .both, .verdict, .track svg, .track output, .known { visibility: hidden }"
WIDTHS = (1280, 768, 390)
HEIGHT = 800


async def empty(page):
    await page.wait_for_selector(".welcome")


async def writing(page):
    await ask(page)
    await page.wait_for_selector(".card:nth-child(3) >> text=A sentence")


async def sections(page):
    await ask(page, strategy="skeleton")
    await page.wait_for_selector(".lead >> text=2 done, 1 being written")


async def samples(page):
    await ask(page, strategy="consensus")
    await page.wait_for_selector(".others .card:nth-child(5) >> text=A sentence")


async def settled(page):
    await ask(page)
    await page.wait_for_selector("#send:enabled")


async def stopped(page):
    await ask(page, strategy="direct")
    await page.wait_for_selector("text=The first half.")
    await page.press("body", "Escape")
    await page.wait_for_selector("text=Stopped after")
    await page.wait_for_selector("#send:enabled")


async def failed(page):
    await ask(page, strategy="direct")
    await page.wait_for_selector(".problem")
    await page.wait_for_selector("#send:enabled")


async def straight(page):
    await ask(page, strategy="direct")
    await page.wait_for_selector("text=The first half.")


async def connecting(page, lead="Connecting"):
    await page.route("**/v1/chat/completions", lambda _: None)
    await ask(page)
    await page.wait_for_selector(f".lead >> text={lead}")


async def loading(page):
    await page.route("**/health", lambda route: route.fulfill(json={"status": "ok", "prepared": False}))
    await connecting(page, "Loading the model")


async def reading(page):
    await ask_of_lease(page)
    await page.wait_for_selector(".strip .read:nth-child(3)")


async def cited(page):
    await ask_of_lease(page)
    await page.wait_for_selector("#send:enabled")
    await page.click(".text .cite")


async def compared_ways(page):
    await page.check("#compare")
    await ask(page)
    await page.wait_for_selector("#send:enabled")


async def ask_of_lease(page):
    lease = {"name": "lease.txt", "mimeType": "text/plain", "buffer": LEASE.encode()}
    await page.set_input_files("#attach", lease)
    await page.wait_for_selector("#documents >> text=/^lease/")
    await ask(page, "What is the rent?", strategy="document")


async def planning(page):
    await ask(page)
    await page.wait_for_selector(".lead >> text=Planning")


async def offline(page):
    await page.context.set_offline(True)
    await ask(page)
    await page.wait_for_selector("#away:not([hidden])")


SENTENCES = "A sentence that fills the line, and a second one. "
NEVER = {"chunk_delay_s": 600}
POINT = Reply(chunks=[SENTENCES * 2, "never"], **NEVER)
HALF = Reply(chunks=["The first half. ", "never"], **NEVER)
WRITTEN = {
    f'Write point: {title}|"{title}", in about': Reply(
        chunks=[f"{title} word{n} " for n in range(24)], chunk_delay_s=0.04
    )
    for title in ("Tyres", "Chain", "Brakes")
}
BUYING = Reply(chunks=["| Part | Price |\n|---|---|\n| Pump | 20 |\n", "never"], **NEVER)
SILENT = Reply(chunks=["", "never"], **NEVER)
FAULT = Reply(fault=ServerFailedError("it is on fire"))
LEASE = "Pets are allowed. The rent is 900 euros. The cellar is dry.\n\n" + "It has three rooms. " * 3_000
FOUND = {"evidence": ["The rent is 900 euros."], "rationale": "r", "answer": "900 euros", "confidence": 5}
READ = json.dumps(FOUND)
STATES = {
    "empty": (empty, SKELETON),
    "offline": (offline, SKELETON),
    "connecting": (connecting, SKELETON),
    "loading": (loading, SKELETON),
    "planning": (planning, {"": SILENT}),
    "writing": (writing, POINTS | {"": POINT}),
    "sections": (sections, {"You plan the answer": PLAN} | SECTIONS | {'"What to buy"': BUYING}),
    "straight": (straight, {"": HALF}),
    "samples": (samples, {"": POINT}),
    "reading": (reading, {'"no_information"': [READ, READ, READ, SILENT]}),
    "settled": (settled, POINTS | WRITTEN),
    "cited": (cited, {'"no_information"': READ, "": "The rent is 900 euros [cite:1]."}),
    "compared": (compared_ways, SKELETON),
    "stopped": (stopped, {"": HALF}),
    "failed": (failed, {"": FAULT}),
}


@pytest.mark.parametrize("state", STATES)
async def test_a_state_looks_as_it_did_and_everyone_can_use_it(chatting, state):
    reach, script = STATES[state]
    different = {}
    family = "pocket" if "Outline the answer" in script else "general"
    backend = ScriptedBackend(
        script, capabilities=Capabilities(context_window=4_000, json_schema=True, prompt_family=family)
    )
    async with chatting(backend, viewport={"width": WIDTHS[0], "height": HEIGHT}, bypass_csp=True) as page:
        await reach(page)
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": HEIGHT})
            for scheme in ("light", "dark"):
                await page.emulate_media(color_scheme=scheme)
                shot = await page.screenshot(animations="disabled", style=CHANGING)
                name = f"{state}-{width}-{scheme}.png"
                different[name] = compared(name, Image.open(io.BytesIO(shot)).convert("RGB"))
                await no_violations(page, colours_alone=scheme == "dark")  # style/palette.css has no more of it
    assert {name: share for name, share in different.items() if share > MOST_DIFFERENT} == {}, f"Seen now: {SEEN}"


def compared(name, seen):
    """How much of it differs from the kept picture; what is seen is kept in a folder where that is too much."""
    small = seen.resize((seen.width // QUARTER, seen.height // QUARTER), Image.Resampling.BOX)
    if os.environ.get("STRETTO_NEW_LOOKS"):
        LOOKS.mkdir(exist_ok=True)
        small.save(LOOKS / name, optimize=True)
        return 0
    different = share_of_different(small, Image.open(LOOKS / name).convert("RGB"))
    if different > MOST_DIFFERENT:
        SEEN.mkdir(parents=True, exist_ok=True)
        seen.save(SEEN / name)
    return different


def share_of_different(one, other):
    assert one.size == other.size
    red, green, blue = ImageChops.difference(one, other).split()
    strongest = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    return sum(strongest.histogram()[STEPS:]) / (one.width * one.height)


def test_a_changed_colour_and_a_moved_line_are_seen():
    ground = Image.new("RGB", (320, 200), "#ffffff")
    moved = ground.copy()
    moved.paste("#4b3fc4", (0, 0, 320, 8))
    assert share_of_different(ground, ground) == 0
    assert share_of_different(ground, Image.new("RGB", (320, 200), "#ffe0ff")) == 1
    assert share_of_different(ground, moved) > MOST_DIFFERENT
