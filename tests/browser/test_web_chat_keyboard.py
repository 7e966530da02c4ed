"""The web chat without a pointer: each control is reached by Tab, shows that it has the focus, and works."""

import json

import pytest
from asking import ENDED, ask

from stretto.extending import Capabilities
from stretto.testing import Reply, ScriptedBackend

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

# Numbers what can have the focus, and tells of each whether it is seen to have it.
NUMBER = """() => {
    const seen = (each) => each.checkVisibility() && !each.closest("[popover]:not(:popover-open)");
    const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
    window.controls = all.filter((each) => seen(each) && !each.disabled);
    return controls.map((each) => each.ariaLabel || each.id || each.textContent.slice(0, 40));
}"""
FOCUSED = """() => {
    const own = document.activeElement;
    const around = [own, own.closest(".chip"), own.closest(".box"), own.previousElementSibling].filter(Boolean);
    const ringed = (each) => getComputedStyle(each).outlineStyle !== "none";
    const framed = own.matches(".box textarea, #search"); // whose frame takes another colour
    const isThere = own.matches(".hidden, .toggle input") || getComputedStyle(own).opacity === "1";
    return [controls.indexOf(own), isThere && (framed || around.some(ringed))];
}"""
ANSWER = "It **rolls**.\n\n```python\nroll()\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n[more](https://example.org)"


async def test_each_control_is_reached_by_tab_and_shows_its_focus(chatting):
    async with chatting(ScriptedBackend({"": ANSWER})) as page:
        await ask(page, "What does a wheel do?", strategy="direct")
        await page.wait_for_selector("#send:enabled")
        await page.get_by_role("button", name="Retry", exact=True).press("Enter")
        await page.wait_for_selector(".actions .pages")
        await page.wait_for_selector("#send:enabled")
        names = await page.evaluate(NUMBER)
        await page.evaluate("document.activeElement.blur()")
        reached = {}
        for _ in range(2 * len(names)):
            await page.keyboard.press("Tab")
            at, shown = await page.evaluate(FOCUSED)
            if at in reached:
                break
            if at >= 0:
                reached[at] = shown
        assert [name for at, name in enumerate(names) if at not in reached] == []
        assert [names[at] for at, shown in reached.items() if not shown] == []


async def test_a_question_is_asked_stopped_changed_and_turned_back_by_the_keyboard(chatting):
    half = Reply(chunks=["The first half. ", "never"], chunk_delay_s=600)
    async with chatting(ScriptedBackend({"brakes": ANSWER, "": [half, Reply("It rolls.")]})) as page:
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.textContent") == "Skip to the question"
        await page.keyboard.press("Enter")
        await page.keyboard.type("Is this it?")
        await page.keyboard.press("Shift+Enter")
        await page.keyboard.type("Really?")
        await page.press("#strategy", "O")  # One piece
        assert await page.input_value("#strategy") == "direct"
        await page.press("#question", "Enter")
        await page.wait_for_selector("text=The first half.")
        assert await page.inner_text(".asked h2") == "Is this it?\nReally?"
        await page.keyboard.press("Escape")
        await page.wait_for_selector("text=Stopped after")
        await page.wait_for_function("() => document.activeElement.id === 'question'")
        await page.get_by_role("button", name="Retry", exact=True).press("Enter")
        await page.wait_for_selector("text=It rolls.")
        await page.get_by_role("button", name="Previous answer").press("Enter")
        await page.wait_for_selector("text=The first half.")
        await page.get_by_role("button", name="Edit").press("Enter")
        await page.keyboard.press("Control+a")
        await page.keyboard.type("What do brakes do?")
        await page.keyboard.press("Enter")
        await page.wait_for_selector(f"{ENDED} pre")
        await page.wait_for_selector("#send:enabled")
        await page.get_by_role("button", name="Copy code").press("Enter")
        await page.wait_for_selector("text=Copied")
        await page.get_by_role("button", name="Wrap").press(" ")
        assert await page.locator("pre.wrapped").count() == 1
        await page.locator(".pulse summary").press("Enter")
        await page.wait_for_selector(".route >> text=One piece")
        async with page.expect_download():
            await page.get_by_role("button", name="Save as a page").press("Enter")
        await page.get_by_role("button", name="Previous question").press("Enter")
        await page.wait_for_selector(".asked .pages >> text=1/2")


async def test_conversations_and_choices_are_ruled_by_the_keyboard(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        await ask(page, "First question", strategy="direct")
        await page.wait_for_selector("#send:enabled")
        await page.press("#new", "Enter")
        await page.wait_for_selector(".welcome")
        assert await page.evaluate("document.activeElement.id") == "question"
        await page.press("#search", "f")
        await page.locator("#conversations button[dir]").press("Enter")
        await page.wait_for_selector("text=It rolls.")
        await page.press("#manage", "Enter")
        async with page.expect_download():
            await page.press("#export", "Enter")
        await page.press("#preference", "F")
        assert await page.input_value("#preference") == "fastest"
        await page.press("#compare", " ")
        assert await page.is_checked("#compare")
        async with page.expect_file_chooser():
            await page.press("#attach", "Enter")


async def test_a_passage_is_opened_and_closed_by_the_keyboard(chatting, tmp_path):
    (tmp_path / "lease.txt").write_text("The rent is 900 euros.\n\n" + "It has three rooms. " * 800)
    record = {"evidence": ["The rent is 900 euros."], "rationale": "r", "answer": "900 euros", "confidence": 5}
    script = {'"no_information"': json.dumps(record), "": "The rent is 900 euros [cite:1]."}
    small = Capabilities(context_window=4_000, json_schema=True)
    async with chatting(ScriptedBackend(script, capabilities=small)) as page:
        await page.set_input_files("#attach", tmp_path / "lease.txt")
        await page.wait_for_selector("#documents >> text=/^lease/")
        await ask(page, "What is the rent?", strategy="document")
        await page.locator(f"{ENDED} .text .cite").press("Enter")
        await page.wait_for_selector(".passage:focus mark")
        await page.keyboard.press("Escape")
        await page.wait_for_selector(".passage", state="detached")
        assert await page.evaluate("document.activeElement.className") == "cite"
