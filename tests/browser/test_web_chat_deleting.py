"""Conversations of the web chat that are deleted and brought back: by mouse, by keyboard, and in two tabs."""

import pytest
from asking import ENDED, ask, no_violations

from stretto.testing import ScriptedBackend

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
FAILING = """(what) => {
    const failed = new WeakSet();
    IDBObjectStore.prototype[what] = function () {
        if (!failed.has(this.transaction)) this.transaction.abort();
        failed.add(this.transaction);
    };
}"""
FOCUSED = "document.activeElement.id"


async def two_conversations(page):
    """Two answered questions, the second of them open; returns the id of the first."""
    for question in ("First question", "Second question"):
        await page.click("#new")
        await ask(page, question, strategy="direct")
        await page.wait_for_selector(f"article:has-text('{question}') {ENDED}")
        await page.wait_for_selector("#send:enabled")
    button = page.locator("#conversations button:text-is('First question')")
    return (await button.get_attribute("id")).removeprefix("open-")


async def test_a_deletion_is_taken_back(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        await ask(page, "First question", strategy="direct")
        await page.wait_for_selector("#send:enabled")
        await page.click("#conversations [aria-label^=Delete]")
        await page.wait_for_selector("#notice >> text=“First question” was deleted.")
        assert await page.locator("#conversations li").count() == 0
        await no_violations(page)
        await page.get_by_role("button", name="Undo").click()
        await page.click("#conversations button:text-is('First question')")
        await page.wait_for_selector("text=It rolls.")
        assert not await page.is_visible("#notice")


async def test_who_goes_by_keyboard_keeps_the_focus_through_deletion_and_undo(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        first = await two_conversations(page)
        await page.press(f"#delete-{first}", "Enter")
        await page.wait_for_function(f"() => {FOCUSED} === 'search'")
        told = await page.inner_text("#status")
        assert "“First question” was deleted." in told
        assert "Undo" in told
        await page.get_by_role("button", name="Undo").press("Enter")
        await page.wait_for_function(f"() => {FOCUSED} === 'open-{first}'")
        assert await page.inner_text("#status") == "It is back."
        assert not await page.is_visible("#notice")


async def test_a_conversation_that_is_not_brought_back_is_not_said_to_be(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        first = await two_conversations(page)
        await page.press(f"#delete-{first}", "Enter")
        await page.wait_for_selector("#notice >> text=was deleted.")
        await page.evaluate(FAILING, "put")
        await page.get_by_role("button", name="Undo").press("Enter")
        await page.wait_for_selector("#notice >> text=It stays deleted")
        await page.wait_for_function(f"() => {FOCUSED} === 'search'")
        assert "It stays deleted" in await page.inner_text("#status")
        assert await page.locator("#conversations li").count() == 1


async def test_undo_leaves_what_another_tab_went_on_with(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        await ask(page, "First question", strategy="direct")
        await page.wait_for_selector("#send:enabled")
        await page.wait_for_url("**/#*")
        other = await page.context.new_page()
        await other.goto(page.url)
        await other.wait_for_selector("text=It rolls.")
        await page.click("#conversations [aria-label^=Delete]")
        await page.wait_for_selector("#notice >> text=was deleted.")
        await ask(other, "Second question", strategy="direct")
        await other.wait_for_selector(f"article:nth-child(2) {ENDED}")
        await other.wait_for_selector("#send:enabled")
        await page.get_by_role("button", name="Undo").click()
        await page.wait_for_selector("#status:text-is('It is back.')", state="attached")
        await page.click("#conversations button")
        await page.wait_for_selector("article:nth-child(2)")
        assert await page.locator(".asked h2").all_inner_texts() == ["First question", "Second question"]


async def test_a_conversation_that_cannot_be_deleted_stays_and_that_is_said(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector("#send:enabled")
        await page.evaluate(FAILING, "delete")
        await page.click("#conversations [aria-label^=Delete]")
        await page.wait_for_selector("#notice >> text=Nothing was deleted")
        assert await page.locator("#conversations li").count() == 1
