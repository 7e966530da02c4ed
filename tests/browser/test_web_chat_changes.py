"""What a rewrite changed, in the web chat."""

import pytest
from asking import ENDED, ask, fits, no_violations
from rewriting import RENAME, TEXT

from stretto.testing import ScriptedBackend

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

HOSTILE = "<img src=x onerror=alert(1)>"
CHANGES = '{"changes": [{"old": "letter", "new": "mail"}]}'


async def changed(page):
    return await page.locator(".changes summary").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_changes_are_folded_below_the_text_and_are_kept(chatting, scheme):
    places = TEXT.count("letter")
    async with chatting(ScriptedBackend({'{"changes"': CHANGES}), color_scheme=scheme) as page:
        await page.evaluate("window.history.replaceState(null, '', '/')")
        await ask(page, RENAME, strategy="auto")
        await page.wait_for_selector(ENDED)
        assert await changed(page) == f"Changed in {places} places"
        await page.click(".changes summary")
        assert await page.locator(".changes del").all_inner_texts() == ["letter"]
        assert await page.locator(".changes ins").all_inner_texts() == ["mail"]
        assert await page.inner_text(".changes li") == f"letter → mail ({places} times)"
        assert await fits(page)
        await no_violations(page)
        await page.wait_for_selector("#send:enabled")
        await page.reload()
        await page.wait_for_selector(".changes summary")
        assert await changed(page) == f"Changed in {places} places"


async def test_a_hostile_change_stays_text(chatting):
    hostile = CHANGES.replace("mail", HOSTILE)
    async with chatting(ScriptedBackend({'{"changes"': hostile})) as page:
        await ask(page, RENAME, strategy="auto")
        await page.wait_for_selector(ENDED)
        await page.click(".changes summary")
        assert await page.locator(".changes ins").first.inner_text() == HOSTILE
        assert await page.locator(".answer img").count() == 0
        assert await fits(page)
