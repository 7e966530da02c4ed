"""Answers in sections in the web chat: the opening is read while the headings stand below it and fill."""

import anyio
import pytest
from asking import ENDED, PLAN, SECTIONS, ask, fits, no_violations

from stretto import ServerFailedError
from stretto.testing import Reply, ScriptedBackend

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

WAY = "skeleton"
HEADINGS = ["Every week", "At the shop", "What to buy"]
HEAD, REST = PLAN.split("\n1.")
UNENDING = {"chunk_delay_s": 600}


def planned(**script):
    return ScriptedBackend({"You plan the answer": PLAN} | SECTIONS | script)


def begun(heading):
    """A section that is never more than begun."""
    return {f'"{heading}"': Reply(chunks=[f"About {heading.lower()}: ", "never"], **UNENDING)}


async def headings_of(page):
    return await page.locator("section h4").all_inner_texts()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_opening_is_read_while_the_headings_stand_below_it(chatting, scheme):
    plan = Reply(chunks=[f"{HEAD}\n", f"1.{REST}"], **UNENDING)
    async with chatting(planned(**{"You plan the answer": plan}), color_scheme=scheme) as page:
        await ask(page, strategy=WAY)
        await page.wait_for_selector(".lead >> text=Planning 3 sections")
        assert await headings_of(page) == HEADINGS
        assert await page.inner_text(".lead-in strong") == "first"
        assert await page.locator(".card .number").count() == 0
        tops = [(await page.locator(each).first.bounding_box())["y"] for each in (".pulse", ".lead-in", ".sections")]
        assert tops == sorted(tops)
        await no_violations(page)
        await page.press("body", "Escape")
        await page.wait_for_selector(ENDED)
        assert "Clean the chain first." in await page.inner_text(".leaf .text")


async def test_sections_fill_above_the_closing_and_their_times_are_told(chatting):
    event = anyio.Event()
    last = Reply(SECTIONS['"What to buy"'], hold=event)
    async with chatting(planned(**{'"What to buy"': last})) as page:
        await ask(page, strategy=WAY)
        await page.wait_for_selector(".lead >> text=3 sections: 2 done, 1 being written")
        assert await page.inner_text(".lead-out") == "Start today."
        assert await page.locator(".card.finished .state-text >> text=/to .* s$/").count() == 2
        assert await page.locator(".card ol li").count() == 2
        event.set()
        await page.wait_for_selector(ENDED)
        assert await headings_of(page) == HEADINGS
        assert await page.locator("h4 + .lane-of .writing").count() == 3
        assert await page.locator(".leaf .table td").count() == 4
        assert (await page.inner_text(".leaf .text")).endswith("Start today.")
        await page.click(".pulse summary")
        await page.locator(".timeline .name").nth(4).wait_for()
        rows = await page.locator(".timeline .name").all_text_contents()
        assert rows[:5] == ["Planning", *HEADINGS, "Closing"]
        await page.wait_for_selector("#send:enabled")
        await page.reload()
        await page.click("#conversations button")
        await page.wait_for_selector(ENDED)
        assert await page.locator("h4 + .lane-of .writing").count() == 3


# In one look, since the page draws its texts anew while they grow.
TOPS = """(texts) => texts.map((text) => [...document.querySelectorAll("section.answer :is(p, h4)")].find(
    (each) => each.textContent.includes(text)).getBoundingClientRect().top)"""


@pytest.mark.parametrize("width", [390, 1280])
async def test_what_is_read_stays_where_it_is_when_headings_and_sections_come(chatting, width):
    event = anyio.Event()
    plan = Reply(chunks=["Opening: Clean the chain **first**.\n", PLAN.split("\n", 1)[1]], chunk_delay_s=0.3)
    last = Reply(SECTIONS['"What to buy"'], hold=event)
    backend = planned(**{"You plan the answer": plan, '"What to buy"': last})
    viewport = {"width": width, "height": 700}
    async with chatting(backend, viewport=viewport, reduced_motion="reduce") as page:
        await ask(page, strategy=WAY)
        await page.get_by_text("Clean the chain").wait_for()
        seen = ["Clean the chain", *HEADINGS]
        (opening,) = await page.evaluate(TOPS, seen[:1])
        await page.wait_for_selector(".lead >> text=3 sections: 2 done, 1 being written")
        before = await page.evaluate(TOPS, seen)
        event.set()
        await page.wait_for_selector(ENDED)
        assert await page.evaluate(TOPS, seen) == pytest.approx(before, abs=1)
        assert before[0] == opening
        assert await fits(page)


async def test_a_plan_without_sections_goes_on_as_one_text(chatting):
    event = anyio.Event()
    plan = "Opening: Clean the chain first.\nSections: Only this\n1. steps, 60 words: clean\n"
    script = {"You plan the answer": plan, "Only this": "Lost.", "": Reply("Then oil it.", hold=event)}
    async with chatting(ScriptedBackend(script)) as page:
        await ask(page, strategy=WAY)
        await page.wait_for_selector(".lead >> text=Being written")
        assert await page.locator(".card").count() == 0
        assert await page.inner_text(".leaf:not([hidden]) .text") == "Clean the chain first."
        event.set()
        await page.wait_for_selector(ENDED)
        assert (await page.inner_text(".leaf .text")).split("\n\n") == ["Clean the chain first.", "Then oil it."]
        assert "Only this" not in await page.inner_text("section.answer .leaf")
        assert await page.inner_text(".detail") == "in one piece"


async def test_a_section_that_fails_is_told_below_its_heading(chatting):
    event = anyio.Event()
    failing = {'"At the shop"': Reply(fault=ServerFailedError("it hung up"))}
    last = Reply(SECTIONS['"What to buy"'], hold=event)
    async with chatting(planned(**failing, **{'"What to buy"': last})) as page:
        await ask(page, strategy=WAY)
        await page.wait_for_selector(".card.failed")
        assert "it hung up" in await page.inner_text(".card.failed .state")
        await no_violations(page)
        event.set()
        await page.wait_for_selector(ENDED)
        assert await headings_of(page) == HEADINGS
        assert await page.locator(".warnings li").count() >= 1


async def test_an_answer_that_is_stopped_keeps_what_was_written_of_each_section(chatting):
    async with chatting(planned(**begun("Every week"), **begun("At the shop"))) as page:
        await ask(page, strategy=WAY)
        await page.wait_for_selector(".card >> text=About at the shop:")
        await page.wait_for_selector(".lead-out >> text=Start today.")
        await page.press("body", "Escape")
        await page.wait_for_selector(ENDED)
        shown = [line for line in (await page.inner_text(".leaf .text")).split("\n") if line]
        assert shown == [
            *("Clean the chain first.", "Every week", "About every week:", "At the shop", "About at the shop:"),
            "Start today.",
        ]
        assert await headings_of(page) == HEADINGS[:2]


async def test_hostile_headings_run_nothing_and_stand_as_they_will_stand(chatting):
    hostile = ["<img src=x onerror=hit=1>", "[x](javascript:hit=1) `a`", "\x1b[31mred _x_ ![y](http://e.com/z.png)"]
    plan = (
        "Opening: Fine.\nSections: "
        + " | ".join(hostile)
        + "\n"
        + "".join(f"{number}. steps, 60 words: x\n" for number in (1, 2, 3))
    )
    event = anyio.Event()
    script = {"You plan the answer": plan, 'section "<img': Reply("Text.", hold=event), "": "Text."}
    async with chatting(ScriptedBackend(script)) as page:
        await ask(page, strategy=WAY)
        await page.wait_for_selector(".card:nth-child(3)")
        before = await headings_of(page)
        event.set()
        await page.wait_for_selector(ENDED)
        assert await headings_of(page) == before
        assert await page.locator("h4 + .lane-of").count() == 3
        assert await page.evaluate("window.hit") is None
        assert await page.locator("section :is(img, script, a[href^=javascript])").count() == 0
        assert {address for address in page.addresses if not address.startswith(page.live.url)} == set()


async def test_answers_in_sections_can_be_compared_side_by_side(chatting):
    async with chatting(planned(**{"": "Straight."})) as page:
        await page.check("#compare")
        await ask(page, strategy=WAY)
        await page.wait_for_selector("text=Measured:")
        assert await page.locator(".sides.two > section").count() == 2
        assert await page.locator(".sides.two > section:first-of-type h4").all_inner_texts() == HEADINGS
        assert await fits(page)
        await no_violations(page)


async def test_sections_of_a_report_are_shown_without_the_marks_of_their_places(chatting, tmp_path):
    file = tmp_path / "lease.txt"
    file.write_text("The rent is 900 euros. The lease ends in May. " * 40)
    event = anyio.Event()
    plan = (
        "Opening: The rent is 900 euros [cite:1].\nSections: Rent | End\n1. bullets, 60 words: rent [cite:1]\n"
        "2. bullets, 60 words: end [cite:2]\nClosing: none"
    )
    script = {
        "You plan the answer": plan,
        '"Rent"': Reply("- It is 900 euros [cite:1].", hold=event),
        '"End"': "- It ends in May [cite:2], as said [cite:",
    }
    async with chatting(ScriptedBackend(script)) as page:
        await page.set_input_files("#attach", file)
        await page.wait_for_selector("#documents >> text=/^lease/")
        await ask(page, "Write a two-page report on this lease: its rent and its end.", strategy="auto")
        await page.wait_for_selector(".card >> text=It ends in May, as said")
        assert "cite" not in await page.inner_text(".sections")
        event.set()
        await page.wait_for_selector(ENDED)
        assert await headings_of(page) == ["Rent", "End"]
        assert await page.locator(".leaf .text button.cite").count() == 3
