"""Texts nested deeper than any reader follows, and lists of thousands, on the page."""

import pytest
from asking import ENDED, ask, fits

from stretto.testing import Reply, ScriptedBackend

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
NESTED = {
    "quotations": "> " * 6_000 + "deep",
    "quotations that fall back": "\n".join([*(">" * level + " x" for level in range(26, 0, -1)), ""] * 30),
    "lists": "\n".join("  " * level + "- x" for level in range(1_500)),
    "lists on one line": "- " * 3_000 + "x",
    "lists in quotations": "> 1. " * 3_000 + "x",
    "emphasis": "*_" * 3_000 + "x" + "_*" * 3_000,
    "items on one line": "- " * 4_000 + "x",
}


@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
async def test_an_answer_that_is_nested_too_deep_is_shown(chatting, text):
    async with chatting(ScriptedBackend({"": Reply(chunks=[text])})) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector(ENDED)
        await page.wait_for_selector(".figures >> text=1 call", state="attached")
        assert "x" in await page.inner_text("section .text") or "deep" in await page.inner_text("section .text")
        assert await fits(page)


AS_WRITTEN = {
    "it has tables of more than 20,000 cells.": "|" + "a|" * 600 + "\n|" + "-|" * 600 + "\n" + "|a\n" * 8_000,
    "it has too many signs of emphasis.": "*_a" * 4_000,
    "it has a paragraph of more than 40,000 characters.": "~~a" * 20_000,
}


@pytest.mark.parametrize("why", AS_WRITTEN)
async def test_what_would_take_too_long_to_draw_is_shown_as_it_was_written_and_why(chatting, why):
    text = AS_WRITTEN[why]
    async with chatting(ScriptedBackend({"": Reply(chunks=[text])})) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector(ENDED)
        assert await page.locator("section .text :is(table, em, strong, del)").count() == 0
        assert (await page.text_content("section .text p.plain")).strip() == text.strip()
        assert await page.text_content("section .text p.plain + p") == f"Shown as it was written: {why}"
        assert await fits(page)


async def test_a_table_of_a_thousand_rows_is_a_table(chatting):
    text = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 1_000
    async with chatting(ScriptedBackend({"": Reply(chunks=[text])})) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector(ENDED)
        assert await page.locator("section .text td").count() == 2_000


async def test_a_list_of_thousands_is_a_list(chatting):
    lines = "\n".join(f"- item {number}\n  - x" for number in range(2_000))
    async with chatting(ScriptedBackend({"": Reply(chunks=[lines])})) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector(ENDED)
        assert await page.locator("section .text ul ul").count() == 2_000


async def test_lists_and_quotations_below_the_deepest_level_are_text(chatting):
    lists = "\n".join("  " * level + f"- item {level}." for level in range(30))
    async with chatting(ScriptedBackend({"": Reply(chunks=[f"{lists}\n\n{'> ' * 30}quoted"])})) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector(ENDED)
        assert await page.locator("section .text ul").count() == 20
        assert await page.locator("section .text blockquote").count() == 20
        text = await page.text_content("section .text")
        assert [f"- item {level}." in text for level in range(30)] == [False] * 20 + [True] * 10
        assert f"{'> ' * 10}quoted" in text


DEEP = [f"{' ' * 900}- four", f"{' ' * 60}- three", f"{' ' * 44}> quoted", f"{'> ' * 700}quoted"]
DEEP_CODE = [*DEEP, "- ```", "        ```", f"{' ' * 300}+ end"]


@pytest.mark.parametrize(("before", "fence"), [("", "```"), ("", "~~~~"), ("- A list\n", "```"), ("> ", "```")])
async def test_code_keeps_its_indentation_however_deep(chatting, before, fence):
    margin = before if before == "> " else " " * 2 * bool(before)
    inside = "\n".join(margin + line for line in [f"{fence}yaml", *DEEP_CODE, fence])
    async with chatting(ScriptedBackend({"": Reply(chunks=[f"{before.strip('> ')}\n{inside}"])})) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector(ENDED)
        assert (await page.text_content("section .text pre code")).splitlines() == DEEP_CODE


async def test_indented_code_keeps_its_indentation_however_deep(chatting):
    inside = "\n".join("    " + line for line in DEEP)
    async with chatting(ScriptedBackend({"": Reply(chunks=[f"So:\n\n{inside}"])})) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector(ENDED)
        assert (await page.text_content("section .text pre code")).splitlines() == DEEP
