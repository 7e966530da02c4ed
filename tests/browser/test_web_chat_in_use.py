"""The web chat as people use it: files dropped anywhere, small screens, other scripts."""

import json
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from asking import ENDED, POINTS, READY, SKELETON, ask, by_points, fits, held, no_violations

from stretto.server import ServerOptions
from stretto.testing import Reply, ScriptedBackend

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]


# While an answer is written


async def test_a_stopped_answer_keeps_the_parts_whose_turn_had_not_come(chatting):
    never = {"chunk_delay_s": 600}
    script = {
        'Write point: Tyres|"Tyres", in about': Reply(chunks=["Pump them. ", "never"], **never),
        'Write point: Chain|"Chain", in about': Reply(chunks=["Oil it. ", "never"], **never),
        'Write point: Brakes|"Brakes", in about': Reply(chunks=["Check them. ", "never"], **never),
    }
    async with chatting(by_points(POINTS | script)) as page:
        await ask(page)
        for text in ("Pump them.", "Oil it.", "Check them."):
            await page.wait_for_selector(f".card >> text={text}")
        await page.press("body", "Escape")
        await page.wait_for_selector("text=Stopped after")
        text = await page.inner_text("section .text")
        assert [text.count(each) for each in ("Pump them.", "Oil it.", "Check them.")] == [1, 1, 1]


@pytest.mark.parametrize(
    ("strategy", "question", "pattern"),
    [
        ("skeleton", "Tell me about bicycles in a few paragraphs.", 'Write point: {0}|"{0}", in about'),
        ("items", "Describe each of these in one sentence\n\n1. Tyres\n2. Chain\n3. Brakes", "<entry>\n{}\n</entry>"),
    ],
    ids=["paragraphs", "items"],
)
async def test_what_a_stopped_answer_keeps_stands_in_it_once_in_every_form(chatting, strategy, question, pattern):
    texts = [f"{word} in most of the year{', as far as anyone can tell' * 4}." for word in ("Soft", "Dry", "Worn")]
    never = {"chunk_delay_s": 600}
    said = [Reply(texts[0]), *(Reply(chunks=[text, " never"], **never) for text in texts[1:])]
    script = {pattern.format(part): reply for part, reply in zip(("Tyres", "Chain", "Brakes"), said, strict=True)}
    kind = by_points if strategy == "skeleton" else ScriptedBackend
    async with chatting(kind(POINTS | script)) as page:
        await ask(page, question, strategy)
        for text in texts:
            await page.wait_for_selector(f".card >> text={text}")
        await page.press("body", "Escape")
        await page.wait_for_selector("text=Stopped after")
        text = await page.inner_text("section .text")
        assert [text.count(each) for each in texts] == [1, 1, 1]


async def test_a_stopped_answer_names_a_part_once_of_which_only_the_label_was_written(chatting):
    never = {"chunk_delay_s": 600}
    script = {
        "<entry>\nTyres\n</entry>": Reply(chunks=["**Pump** th", "never"], **never),
        "<entry>\nChain\n</entry>": Reply(chunks=["Chain: Oil it.", "never"], **never),
        "<entry>\nBrakes\n</entry>": Reply(chunks=["Look.", "never"], **never),
    }
    async with chatting(ScriptedBackend(script)) as page:
        await ask(page, "Describe each of these in one sentence\n\n- Tyres\n- Chain\n- Brakes", "items")
        for text in ("Pump th", "Oil it.", "Look."):
            await page.wait_for_selector(f".card >> text={text}")
        await page.press("body", "Escape")
        await page.wait_for_selector("text=Stopped after")
        text = await page.inner_text("section .text")
        assert [line for line in text.splitlines() if line] == ["Tyres: Pump th", "Chain: Oil it.", "Brakes: Look."]


UNWRITTEN = Path(__file__).parents[1] / "cli" / "unwritten_cases.json"
WHOLE = """async (cases) => {
    const { withUnwritten } = await import("/web/answer/unwritten.js");
    return cases.map(([text, parts]) => withUnwritten(text, parts.map(([title, text]) => ({ title, text }))));
}"""


async def test_what_a_stopped_answer_keeps_is_the_same_as_in_the_terminal(chatting):
    cases = json.loads(UNWRITTEN.read_text(encoding="utf-8"))
    async with chatting(ScriptedBackend({"": "Yes."})) as page:
        assert await page.evaluate(WHOLE, cases) == [whole for _, _, whole in cases]


async def test_the_end_of_an_answer_does_not_take_the_focus_away(chatting):
    backend, event = held()
    async with chatting(backend) as page:
        await ask(page)
        await page.wait_for_selector(".card:nth-child(3)")
        await page.focus("#search")
        event.set()
        await page.wait_for_selector(ENDED)
        await page.wait_for_selector("#send:enabled")
        assert await page.evaluate("document.activeElement.id") == "search"


async def test_what_has_to_wait_for_an_answer_says_so(chatting):
    backend, event = held()
    async with chatting(backend) as page:
        await ask(page)
        await page.wait_for_selector(".card:nth-child(3)")
        await page.click("#new")
        await page.wait_for_selector("#notice >> text=Stop it first")
        assert [await page.is_visible(each) for each in ("#send", "#stop")] == [False, True]
        event.set()
        await page.wait_for_selector("#send:enabled")
        assert not await page.is_visible("#notice")  # there is nothing to wait for any more


async def test_the_route_is_shown_while_the_model_is_silent(chatting):
    event = anyio.Event()
    async with chatting(ScriptedBackend({"": Reply("1. Tyres\n2. Chain\n3. Brakes", hold=event)})) as page:
        await ask(page)
        await page.wait_for_selector(".lead >> text=Planning the sections")
        assert not event.is_set()
        event.set()
        await page.wait_for_selector(ENDED)


async def test_several_answers_violate_nothing(chatting):
    async with chatting(by_points(SKELETON)) as page:
        for strategy, words in (("skeleton", "In parallel"), ("direct", "One piece")):
            await ask(page, strategy=strategy)
            await page.wait_for_selector(f".route >> text={words}", state="attached")
            await page.wait_for_selector("#send:enabled")
        await no_violations(page)


async def test_a_timeline_says_how_many_branches_it_leaves_out(chatting):
    places = "\n".join(
        f"- {chr(97 + number // 26)}{chr(97 + number % 26)}ton, {'far away ' * 9}" for number in range(70)
    )
    backend = ScriptedBackend({"": "A fine place."})
    async with chatting(backend) as page:
        await ask(page, f"Describe each of these places in one sentence:\n\n{places}", "items")
        await page.wait_for_selector(ENDED)
        await page.click(".pulse summary")
        await page.wait_for_selector(f".timeline >> text=and {len(backend.calls) - 60} more")


async def test_a_comparison_that_is_retried_has_one_result(chatting):
    async with chatting(by_points(SKELETON)) as page:
        await page.check("#compare")
        await ask(page)
        first = await page.wait_for_selector("text=Measured:")
        await page.get_by_role("button", name="Retry", exact=True).click()
        await first.wait_for_element_state("hidden")  # the next one may come at once, in the same words
        await page.wait_for_selector("text=Measured:")
        assert await page.locator("text=Measured:").count() == 1


async def test_the_page_can_be_asked_again_after_a_failure_of_its_own(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        await page.evaluate("() => { conversations.replaceChildren = () => { throw new Error('a broken list'); }; }")
        await ask(page, strategy="direct")
        await page.wait_for_selector("#notice >> text=a broken list")
        await page.wait_for_selector("#send:enabled")
        await page.evaluate("() => { delete conversations.replaceChildren; }")
        await page.get_by_role("button", name="New chat").click()
        await ask(page, strategy="direct")
        await page.wait_for_selector("text=It rolls.")


async def test_straight_generation_is_not_compared_with_itself(chatting):
    backend = ScriptedBackend({"": "It rolls."})
    async with chatting(backend) as page:
        await page.check("#compare")
        await ask(page, strategy="direct")
        await page.wait_for_selector("#notice >> text=nothing to compare")
        await page.wait_for_selector("#send:enabled")
        assert len(backend.calls) == 1


# Documents


@asynccontextmanager
async def slow_reading(page):
    """The server reads documents only once the event is set."""
    event = anyio.Event()

    async def wait(route):
        await event.wait()
        await route.continue_()

    await page.route("**/web/read*", wait)
    yield event


DROP = """(selector) => {
    const data = new DataTransfer();
    data.items.add(new File(["The rent is 900 euros."], "lease.txt", {type: "text/plain"}));
    const drop = new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true});
    document.querySelector(selector).dispatchEvent(drop);
    return drop.defaultPrevented;
}"""


@pytest.mark.parametrize("where", ["#conversation", "#side", "#question"])
async def test_a_file_may_be_dropped_anywhere(chatting, where):
    async with chatting(ScriptedBackend({"": "Yes."})) as page:
        assert await page.evaluate(DROP, where)  # otherwise the browser leaves the page for the file
        await page.wait_for_selector("#documents >> text=lease")


async def test_a_question_waits_for_the_document_that_is_being_read(chatting):
    backend = ScriptedBackend({"": "900 euros."})
    async with chatting(backend) as page, slow_reading(page) as event:
        await page.evaluate(DROP, "#question")
        await page.wait_for_selector("text=Reading lease.txt")
        await ask(page, "What is the rent?", strategy="direct")
        await page.wait_for_selector("#notice >> text=still being read")
        assert await page.input_value("#question") == "What is the rent?"
        event.set()
        await page.wait_for_selector("text=Reading", state="detached")
        await page.press("#question", "Enter")
        await page.wait_for_selector("text=900 euros.")
        assert "The rent is 900 euros." in str(backend.calls[0][0])


async def test_a_file_that_cannot_be_read_keeps_no_other_out(chatting, tmp_path):
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 nothing else")
    (tmp_path / "lease.txt").write_text("The rent is 900 euros.")
    async with chatting(ScriptedBackend({"": "Yes."})) as page:
        await page.set_input_files("#attach", [tmp_path / "broken.pdf", tmp_path / "lease.txt"])
        await page.wait_for_selector("#documents li:not(.problem) >> text=lease")
        await page.wait_for_selector("#documents li.problem >> text=broken.pdf")
        await page.get_by_role("button", name="Take broken.pdf out").click()
        await ask(page, strategy="direct")
        await page.wait_for_selector(ENDED)
        assert "with lease" in await page.inner_text(".asked")


# Small screens, long words, other scripts


LONG = "X" * 400
WIDE = (
    f"A {LONG} b `{LONG}`\n\n# {LONG}\n\n```python\nvalue = '{LONG}'\n```\n\n| a | b |\n|---|---|\n| {LONG} | {LONG} |"
)


@pytest.mark.parametrize("strategy", ["direct", "skeleton"])
async def test_long_words_code_and_tables_stay_inside_a_narrow_page(chatting, strategy):
    event = anyio.Event()
    script = {"Outline the answer": f"1. {LONG}\n2. Chain\n3. Brakes"}
    script |= {"": Reply(chunks=[WIDE, " End."], hold=event if strategy == "skeleton" else None)}
    async with chatting(by_points(script), viewport={"width": 320, "height": 640}) as page:
        await ask(page, LONG, strategy=strategy)
        if strategy == "skeleton":
            await page.wait_for_selector(".card:nth-child(3)")
            assert await fits(page)
            event.set()
        await page.wait_for_selector(ENDED)
        assert await fits(page)


@pytest.mark.parametrize("size", [(320, 568), (640, 400), (320, 256)])
async def test_a_small_or_enlarged_page_leaves_room_for_the_answer(chatting, size):
    width, height = size
    async with chatting(by_points(SKELETON), viewport={"width": width, "height": height}) as page:
        await page.fill("#question", "How do I look after a bicycle?")
        await page.press("#question", "Enter")
        await page.wait_for_selector(ENDED)
        room = await page.locator("#conversation").bounding_box()
        assert room["height"] >= 0.4 * height
        await page.wait_for_selector("#send:enabled")  # Stop stands there until the answer is kept
        send = await page.locator("#send").bounding_box()
        assert send["y"] + send["height"] <= height
        await page.click(".pulse summary")
        await page.wait_for_selector(".timeline", state="attached")
        letters = await page.evaluate(
            """() => {
                const svg = document.querySelector(".timeline");
                return parseFloat(getComputedStyle(svg).fontSize) * svg.clientWidth / svg.viewBox.baseVal.width;
            }"""
        )
        assert letters >= 9  # pixels


TABLE = "| Part | Pressure in bar, as it stands on the side |\n|---|---:|\n| Tyres | 2.5 |"


async def test_tables_keep_their_words_and_the_side_of_their_columns(chatting):
    async with chatting(ScriptedBackend({"": TABLE}), viewport={"width": 260, "height": 640}) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector(ENDED)
        assert await page.locator("td").evaluate_all(
            "(all) => all.map((each) => getComputedStyle(each).textAlign)"
        ) == [*("start", "-webkit-right")]
        heights = await page.locator("td").evaluate_all("(all) => all.map((each) => each.clientHeight)")
        line = await page.evaluate("() => parseFloat(getComputedStyle(document.querySelector('td')).lineHeight)")
        assert max(heights) < 2 * line  # "Tyres" stands on one line
        assert await fits(page)


async def test_a_list_goes_on_where_other_text_broke_it(chatting):
    async with chatting(ScriptedBackend({"": Reply(chunks=["1. Pump\n\nSo:\n\n2. Oil"])})) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector(ENDED)
        assert await page.locator(".text ol").evaluate_all("(all) => all.map((each) => each.start)") == [1, 2]


async def test_what_is_done_of_a_list_is_told_apart_from_what_is_not(chatting):
    async with chatting(ScriptedBackend({"": Reply(chunks=["- [ ] Pump them\n- [x] Oil it"])})) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector(ENDED)
        assert await page.locator("li").evaluate_all(
            "(all) => all.filter((each) => each.closest('.text')).map((each) => each.innerText.trim())"
        ) == ["☐ Pump them", "☑ Oil it"]


async def test_code_is_scrolled_to_its_end_and_no_button_covers_it(chatting):
    code = f"```python\nvalue = '{'x' * 300}'\n```"
    async with chatting(ScriptedBackend({"": Reply(chunks=[code])}), viewport={"width": 390, "height": 640}) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector(ENDED)
        await page.evaluate("() => { const code = document.querySelector('pre'); code.scrollLeft = code.scrollWidth; }")
        assert await page.inner_text(".code .top > span:first-child") == "python"
        button = await page.get_by_role("button", name="Copy code").bounding_box()
        end = await page.evaluate(
            """() => {
                const range = document.createRange();
                range.selectNodeContents(document.querySelector("pre code"));
                return range.getBoundingClientRect().right;
            }"""
        )
        assert end <= 390
        code = await page.locator("pre").bounding_box()
        assert button["y"] + button["height"] <= code["y"]  # it stands above, and covers nothing


async def test_text_of_other_scripts_runs_in_its_own_direction(chatting):
    async with chatting(ScriptedBackend({"": "זוהי תשובה.\n\n- אחד\n\nIn English.\n\n```\ncode\n```"})) as page:
        await ask(page, "מה זה אופניים?", strategy="direct")
        await page.wait_for_selector(ENDED)
        turned = await page.evaluate(
            "() => [...document.querySelectorAll('section .text > *')].map((each) => getComputedStyle(each).direction)"
        )
        assert turned == ["rtl", "rtl", "ltr", "ltr"]
        assert await page.locator(".asked h2").evaluate("(each) => getComputedStyle(each).direction") == "rtl"


async def test_a_part_stays_where_it_begins_however_long_it_grows(chatting):
    lines = [f"line {at}\n\n" for at in range(30)]
    script = {'Write point: Chain|"Chain", in about': Reply("Never.", hold=anyio.Event())}
    script |= {"": Reply(chunks=["Many words.\n\n", *lines], chunk_delay_s=0.02)}
    async with chatting(by_points(POINTS | script), reduced_motion="reduce") as page:
        await ask(page)
        # In one step, since it is drawn anew all the time.
        top = "document.querySelector('.card .text p').getBoundingClientRect().top"
        await page.wait_for_selector(".card >> text=line 2")  # by then the question is at the top
        before = await page.evaluate(top)
        await page.wait_for_selector(".card >> text=line 29")
        assert abs(await page.evaluate(top) - before) <= 8
        hidden = "(all) => all.map((each) => each.scrollHeight > each.clientHeight + 2)"
        assert await page.locator(".card > .text").evaluate_all(hidden) == [False, False, True]  # the second is next
        third = page.locator(".card:nth-child(3) > .text")
        lines = "(each) => [each.scrollTop, each.clientHeight % parseFloat(getComputedStyle(each).lineHeight)]"
        assert await third.evaluate(lines) == [0, 0]  # the first lines, whole


# Networks, keys, announcements


async def test_the_page_works_over_a_network_without_encryption(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        # What browsers give to no page that is neither encrypted nor of this machine.
        await page.add_init_script(
            """delete Crypto.prototype.randomUUID;
            Object.defineProperty(Navigator.prototype, "clipboard", {value: undefined});"""
        )
        await page.goto(page.live.url)
        await page.wait_for_selector(READY, state="attached")
        await ask(page, strategy="direct")
        await page.wait_for_selector(ENDED)
        await page.click("text=Copy")
        await page.wait_for_selector("text=Copied")


async def test_a_wrong_key_is_told(chatting, tmp_path):
    keys = tmp_path / "keys.toml"
    keys.write_text('[me]\nkey = "a-long-enough-secret-key-1"\n')
    async with chatting(ScriptedBackend({"": "Let in."}), options=ServerOptions(port=0, keys=keys)) as page:
        await no_violations(page)
        await page.fill("#key", "another-key-that-is-long")
        await page.press("#key", "Enter")
        await page.wait_for_selector("#notice >> text=does not know this key")
        await page.fill("#key", "a-long-enough-secret-key-1")
        await page.press("#key", "Enter")
        await page.wait_for_selector(READY, state="attached")
        assert not await page.is_visible("#notice")


async def test_a_key_may_hold_any_letters(chatting, tmp_path):
    keys = tmp_path / "keys.toml"
    keys.write_text('[me]\nkey = "Schlüssel-ключ-密钥-🔑-1"\n', encoding="utf-8")
    async with chatting(ScriptedBackend({"": "Let in."}), options=ServerOptions(port=0, keys=keys)) as page:
        await page.fill("#key", "неверный-длинный-ключ")
        await page.press("#key", "Enter")
        await page.wait_for_selector("#notice >> text=does not know this key")
        await page.reload()
        await page.wait_for_selector("#key-form:not([hidden])")
        await page.fill("#key", "Schlüssel-ключ-密钥-🔑-1")
        await page.press("#key", "Enter")
        await page.wait_for_selector(READY, state="attached")
        await ask(page, strategy="direct")
        await page.wait_for_selector("text=Let in.")
        assert not await page.is_visible("#away")


async def test_ten_points_are_not_announced_one_by_one(chatting):
    event = anyio.Event()
    titles = "\n".join(f"{number}. Point number {number}" for number in range(1, 11))
    script = {"Outline the answer": titles, "": Reply("Written.", hold=event)}
    async with chatting(by_points(script)) as page:
        await page.evaluate(
            """() => {
                window.said = [];
                new MutationObserver(() => said.push(document.getElementById("status").textContent))
                    .observe(document.getElementById("status"), {childList: true});
            }"""
        )
        await ask(page, "How do I look after a bicycle?")
        await page.wait_for_selector(".card:nth-child(10)")
        event.set()
        await page.wait_for_selector(ENDED)
        said = await page.evaluate("said")
        assert len([each for each in said if "parts so far" in each]) <= 2
        assert "complete" in said[-1]
