"""The web chat as people use it: reloads, two tabs, files dropped anywhere, small screens, other scripts, nesting."""

import json
from contextlib import asynccontextmanager

import anyio
import pytest
from asking import ENDED, POINTS, SKELETON, ask, held, until

from stretto.server import ServerOptions
from stretto.testing import Reply, ScriptedBackend

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

READY = "#model option"


async def fits(page):
    """Whether nothing of the conversation is beside the window."""
    return await page.evaluate(
        """() => [document.documentElement, document.getElementById("conversation")]
            .every((each) => each.scrollWidth <= each.clientWidth)"""
    )


# What is kept


KEPT = """async () => {
    const done = (asked) => new Promise((resolve) => (asked.onsuccess = () => resolve(asked.result)));
    const base = await done(indexedDB.open("stretto"));
    const kept = await done(base.transaction("conversations").objectStore("conversations").getAll());
    base.close();
    return JSON.stringify(kept);
}"""


async def test_a_question_and_what_was_written_outlive_a_reload(chatting):
    half = Reply(chunks=["The first half. ", "never"], chunk_delay_s=600)
    async with chatting(ScriptedBackend({"": [half, Reply("Whole now.")]})) as page:
        await page.evaluate("window.history.replaceState(null, '', '/')")
        await ask(page, "What does a wheel do?", strategy="direct")
        await page.wait_for_selector("text=The first half.")
        await page.wait_for_selector("#conversations li")
        await page.reload()
        await page.wait_for_selector("text=the page was left")
        assert await page.inner_text(".asked h2") == "What does a wheel do?"
        await page.select_option("#strategy", "direct")
        await page.get_by_role("button", name="Retry", exact=True).click()
        await page.wait_for_selector("text=Whole now.")
        assert await page.locator("article").count() == 1


async def test_an_answer_under_way_is_kept_now_and_then(chatting):
    script = {"": Reply(chunks=[f"word{n} " for n in range(10_000)], chunk_delay_s=0.05)}
    async with chatting(ScriptedBackend(script)) as page:
        await ask(page, strategy="direct")
        with anyio.fail_after(60):
            while "word0" not in await page.evaluate(KEPT):
                pass
        await page.reload()
        await page.wait_for_selector("section .text >> text=word0")
        await page.wait_for_selector("button:text-is('Retry')")


async def test_the_list_keeps_the_focus_while_an_answer_is_kept(chatting):
    script = {"": Reply(chunks=[f"word{n} " for n in range(10_000)], chunk_delay_s=0.05)}
    async with chatting(ScriptedBackend(script)) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector("text=word0")
        button = await page.query_selector("#conversations button[aria-label^=Delete]")
        await button.focus()
        times = set()
        with anyio.fail_after(60):
            while len(times) < 3:  # the answer was kept twice
                (kept,) = json.loads(await page.evaluate(KEPT))
                times.add(kept["changed"])
        assert await button.evaluate("(each) => each === document.activeElement")
        await page.keyboard.press("Escape")
        await page.wait_for_selector("#send:enabled")
        assert (await page.evaluate("document.activeElement.ariaLabel")).startswith("Delete")


async def test_two_tabs_that_go_on_with_one_conversation_lose_nothing(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        await ask(page, "First question", strategy="direct")
        await page.wait_for_selector(ENDED)
        await page.wait_for_url("**/#*")
        other = await page.context.new_page()
        await other.goto(page.url)
        await other.wait_for_selector("text=It rolls.")
        await ask(page, "Second question", strategy="direct")
        await page.wait_for_selector(f"article:nth-child(2) {ENDED}")
        await ask(other, "Third question", strategy="direct")
        await other.wait_for_selector(f"article:nth-child(2) {ENDED}")
        for each in (page, other):
            await each.wait_for_selector("#conversations li:nth-child(2)")
        assert "went on in another tab" in await other.inner_text("#told")
        asked = []
        for number in (1, 2):
            await page.click(f"#conversations li:nth-child({number}) button")
            await page.wait_for_selector(f"#conversations li:nth-child({number}) [aria-current]")
            asked.append(await page.locator(".asked h2").all_inner_texts())
        assert sorted(asked) == [["First question", "Second question"], ["First question", "Third question"]]


async def test_another_tab_opens_a_conversation_as_it_is_now(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        await ask(page, "First question", strategy="direct")
        await page.wait_for_selector(ENDED)
        other = await page.context.new_page()
        await other.goto(page.live.url)
        await other.wait_for_selector("#conversations li")
        await ask(page, "Second question", strategy="direct")
        await page.wait_for_selector(f"article:nth-child(2) {ENDED}")
        await other.click("#conversations button")
        await other.wait_for_selector("text=Second question")


async def test_a_conversation_that_is_deleted_while_it_is_answered_stays_deleted(chatting):
    backend = ScriptedBackend({"": Reply(chunks=["The first half. ", "never"], chunk_delay_s=600)})
    async with chatting(backend) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector("text=The first half.")
        await page.click("#conversations button[aria-label^=Delete]")
        await page.wait_for_selector("#conversations li", state="detached")
        await until(lambda: backend.running == 0)
        await page.reload()
        await page.wait_for_selector(".welcome")
        assert await page.locator("#conversations li").count() == 0


@pytest.mark.parametrize(
    ("then", "shown"),
    [
        ("question.value = 'Second question'; composer.requestSubmit()", ["Second question"]),
        ("document.getElementById('new').click()", []),
    ],
    ids=["question", "new"],
)
async def test_what_is_asked_for_while_a_conversation_opens_is_not_replaced_by_it(chatting, then, shown):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        await ask(page, "First question", strategy="direct")
        await page.wait_for_selector(f"{ENDED} .figures")
        await page.click("#new")
        await page.evaluate(f"() => {{ document.querySelector('#conversations button').click(); {then}; }}")
        if shown:
            await page.wait_for_selector(f"{ENDED} >> text=It rolls.")
        await page.wait_for_selector("#send:enabled")
        kept = json.loads(await page.evaluate(KEPT))
        assert await page.locator(".asked h2").all_inner_texts() == shown
        assert sorted(turn["question"] for each in kept for turn in each["turns"]) == ["First question", *shown]
        assert all(turn["answers"] for each in kept for turn in each["turns"])


async def test_a_question_after_a_deletion_does_not_bring_the_conversation_back(chatting):
    backend = ScriptedBackend({"": [Reply(chunks=["The first half. ", "never"], chunk_delay_s=600), "Whole."]})
    async with chatting(backend) as page:
        await ask(page, "First question", strategy="direct")
        await page.wait_for_selector("text=The first half.")
        await page.evaluate(
            """() => new MutationObserver(([{target}], observer) => target.disabled || setTimeout(() => {
                observer.disconnect();
                question.value = "Second question";
                composer.requestSubmit();
            })).observe(document.getElementById("send"), {attributes: true, attributeFilter: ["disabled"]})"""
        )
        await page.click("#conversations button[aria-label^=Delete]")
        await page.wait_for_selector(f"{ENDED} >> text=Whole.")
        await page.wait_for_selector("#send:enabled")
        assert await page.locator(".asked h2").all_inner_texts() == ["Second question"]
        assert "First question" not in await page.evaluate(KEPT)


async def test_the_same_export_twice_adds_nothing_and_overwrites_nothing(chatting, tmp_path):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        await ask(page, "First question", strategy="direct")
        await page.wait_for_selector(ENDED)
        async with page.expect_download() as saved:
            await page.click("#export")
        await (await saved.value).save_as(tmp_path / "all.json")
        await page.set_input_files("#import", tmp_path / "all.json")
        await page.wait_for_selector("#told >> text=imported")
        assert await page.locator("#conversations li").count() == 1
        await ask(page, "Second question", strategy="direct")
        await page.wait_for_selector(f"article:nth-child(2) {ENDED}")
        await page.set_input_files("#import", tmp_path / "all.json")
        await page.wait_for_selector("#conversations li:nth-child(2)")
        assert await page.locator(".asked h2").all_inner_texts() == ["First question", "Second question"]
        await page.set_input_files("#import", tmp_path / "all.json")
        await page.wait_for_selector("#told >> text=0 conversations")
        assert await page.locator("#conversations li").count() == 2


async def test_imported_conversations_keep_their_order(chatting, tmp_path):
    names = {"Newest": 3_000, "Middle": 2_000, "Oldest": 1_000}
    conversations = [{"id": name[0] * 32, "title": name, "changed": at, "turns": []} for name, at in names.items()]
    (tmp_path / "three.json").write_text(json.dumps({"stretto": 1, "conversations": conversations}))
    async with chatting(ScriptedBackend({"": "Yes."})) as page:
        await page.set_input_files("#import", tmp_path / "three.json")
        await page.wait_for_selector("#told >> text=3 conversations")
        await page.wait_for_selector("#conversations li:nth-child(3)")
        assert await page.locator("#conversations button[dir]").all_inner_texts() == list(names)
        assert [each["changed"] for each in json.loads(await page.evaluate(KEPT))] == [2_000, 3_000, 1_000]


async def test_an_imported_answer_with_wrong_figures_still_shows_its_text(chatting, tmp_path):
    answer = {"text": "What it said.", "branches": [{}], "usage": 7, "timeline": None, "route": 1}
    turns = [{"question": "Odd?", "documents": [], "answers": [answer]}]
    kept = {"stretto": 1, "conversations": [{"id": "a" * 32, "title": "Odd", "changed": 1, "turns": turns}]}
    (tmp_path / "odd.json").write_text(json.dumps(kept))
    async with chatting(ScriptedBackend({"": "Yes."})) as page:
        await page.set_input_files("#import", tmp_path / "odd.json")
        await page.click("#conversations button")
        await page.wait_for_selector("text=What it said.")


async def test_a_browser_that_keeps_nothing_still_answers(chatting, chromium):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        await page.add_init_script("Object.defineProperty(window, 'indexedDB', {value: undefined})")
        await page.goto(page.live.url)
        await page.wait_for_selector(READY, state="attached")
        await page.wait_for_selector("#told >> text=keeps no conversations")
        await ask(page, strategy="direct")
        await page.wait_for_selector("text=It rolls.")


# A write that the browser breaks off, for want of room.
FULL = """() => {
    window.put = IDBObjectStore.prototype.put;
    IDBObjectStore.prototype.put = function () { this.transaction.abort(); };
}"""
ROOM = "() => { IDBObjectStore.prototype.put = window.put; }"


async def test_an_answer_that_could_not_be_kept_is_kept_with_the_next_and_only_once(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        for number, before in enumerate(("() => {}", FULL, ROOM), 1):
            await page.evaluate(before)
            await ask(page, f"Question {number}", strategy="direct")
            await page.wait_for_selector(f"article:nth-child({number}) {ENDED}")
            await page.wait_for_selector("#send:enabled")
            told = await page.inner_text("#told") if before == FULL else "is not kept"
            assert "is not kept" in told
        kept = json.loads(await page.evaluate(KEPT))
        assert [[turn["question"] for turn in each["turns"]] for each in kept] == [
            ["Question 1", "Question 2", "Question 3"]
        ]


async def test_back_returns_to_the_conversation_before(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        for question in ("First question", "Second question"):
            await page.click("#new")
            await ask(page, question, strategy="direct")
            await page.wait_for_selector(ENDED)
        await page.click("#conversations button:text-is('First question')")
        await page.wait_for_selector("h2:text-is('First question')")
        await page.go_back()
        await page.wait_for_selector("h2:text-is('Second question')")


# While an answer is written


async def test_a_stopped_answer_keeps_the_parts_whose_turn_had_not_come(chatting):
    never = {"chunk_delay_s": 600}
    script = {
        '"Tyres", (and nothing|in about)': Reply(chunks=["Pump them. ", "never"], **never),
        '"Chain", (and nothing|in about)': Reply(chunks=["Oil it. ", "never"], **never),
        '"Brakes", (and nothing|in about)': Reply(chunks=["Check them. ", "never"], **never),
    }
    async with chatting(ScriptedBackend(POINTS | script)) as page:
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
        ("skeleton", "Tell me about bicycles in a few paragraphs.", '"{}", (and nothing|in about)'),
        ("items", "Describe each of these in one sentence\n\n1. Tyres\n2. Chain\n3. Brakes", "<entry>\n{}\n</entry>"),
    ],
    ids=["paragraphs", "items"],
)
async def test_what_a_stopped_answer_keeps_stands_in_it_once_in_every_form(chatting, strategy, question, pattern):
    texts = [f"{word} in most of the year{', as far as anyone can tell' * 4}." for word in ("Soft", "Dry", "Worn")]
    never = {"chunk_delay_s": 600}
    said = [Reply(texts[0]), *(Reply(chunks=[text, " never"], **never) for text in texts[1:])]
    script = {pattern.format(part): reply for part, reply in zip(("Tyres", "Chain", "Brakes"), said, strict=True)}
    async with chatting(ScriptedBackend(POINTS | script)) as page:
        await ask(page, question, strategy)
        for text in texts:
            await page.wait_for_selector(f".card >> text={text}")
        await page.press("body", "Escape")
        await page.wait_for_selector("text=Stopped after")
        text = await page.inner_text("section .text")
        assert [text.count(each) for each in texts] == [1, 1, 1]


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
        await page.wait_for_selector("#told >> text=Stop it first")
        event.set()
        await page.wait_for_selector(ENDED)


async def test_a_comparison_that_is_retried_has_one_result(chatting):
    async with chatting(ScriptedBackend(SKELETON)) as page:
        await page.check("#compare")
        await ask(page)
        await page.wait_for_selector("text=Measured:")
        await page.get_by_role("button", name="Retry", exact=True).click()
        await page.wait_for_selector("text=Measured:", state="detached")
        await page.wait_for_selector("text=Measured:")
        assert await page.locator("text=Measured:").count() == 1


async def test_the_page_can_be_asked_again_after_a_failure_of_its_own(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        await page.evaluate("() => { conversations.replaceChildren = () => { throw new Error('a broken list'); }; }")
        await ask(page, strategy="direct")
        await page.wait_for_selector("#told >> text=a broken list")
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
        await page.wait_for_selector("#told >> text=nothing to compare")
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
        await page.wait_for_selector("#told >> text=still being read")
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
    script = {"Write only the outline": f"1. {LONG}\n2. Chain\n3. Brakes"}
    script |= {"": Reply(chunks=[WIDE, " End."], hold=event if strategy == "skeleton" else None)}
    async with chatting(ScriptedBackend(script), viewport={"width": 320, "height": 640}) as page:
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
    async with chatting(ScriptedBackend(SKELETON), viewport={"width": width, "height": height}) as page:
        await page.fill("#question", "How do I look after a bicycle?")
        await page.press("#question", "Enter")
        await page.wait_for_selector(ENDED)
        room = await page.locator("#conversation").bounding_box()
        assert room["height"] >= 0.4 * height
        send = await page.locator("#send").bounding_box()
        assert send["y"] + send["height"] <= height
        letters = await page.evaluate(
            """() => {
                const svg = document.querySelector(".timeline");
                return parseFloat(getComputedStyle(svg).fontSize) * svg.clientWidth / svg.viewBox.baseVal.width;
            }"""
        )
        assert letters >= 9  # pixels


async def test_text_of_other_scripts_runs_in_its_own_direction(chatting):
    async with chatting(ScriptedBackend({"": "זוהי תשובה.\n\n- אחד\n\nIn English.\n\n```\ncode\n```"})) as page:
        await ask(page, "מה זה אופניים?", strategy="direct")
        await page.wait_for_selector(ENDED)
        turned = await page.evaluate(
            "() => [...document.querySelectorAll('section .text > *')].map((each) => getComputedStyle(each).direction)"
        )
        assert turned == ["rtl", "rtl", "ltr", "ltr"]
        assert await page.locator(".asked h2").evaluate("(each) => getComputedStyle(each).direction") == "rtl"


async def test_the_title_of_a_part_stays_in_sight_while_it_is_written(chatting):
    script = {"": Reply(chunks=["Many words.\n\n" + "a\n\n" * 30, "never"], chunk_delay_s=600)}
    async with chatting(ScriptedBackend(POINTS | script)) as page:
        await ask(page)
        await page.wait_for_selector(".card >> text=Many words.")
        await page.wait_for_function("() => document.querySelector('.card').scrollTop > 50")
        inside = await page.evaluate(
            """() => {
                const card = document.querySelector(".card");
                return card.querySelector("h3").getBoundingClientRect().bottom - card.getBoundingClientRect().top;
            }"""
        )
        assert inside > 15


# Hostile and unusual


NESTED = {
    "quotations": "> " * 6_000 + "deep",
    "lists": "\n".join("  " * level + "- x" for level in range(1_500)),
    "emphasis": "*_" * 3_000 + "x" + "_*" * 3_000,
}


@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED)
async def test_an_answer_that_is_nested_too_deep_is_shown(chatting, text):
    async with chatting(ScriptedBackend({"": Reply(chunks=[text])})) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector(ENDED)
        await page.wait_for_selector(".figures >> text=1 call")
        assert "x" in await page.inner_text("section .text") or "deep" in await page.inner_text("section .text")
        assert await fits(page)


DEEP_CODE = [f"{' ' * 60}- three", f"{' ' * 48}- two", f"{' ' * 44}> quoted", f"{'> ' * 24}quoted", "- ```", "+ end"]


@pytest.mark.parametrize(("before", "fence"), [("", "```"), ("", "~~~~"), ("- A list\n", "```"), ("> ", "```")])
async def test_code_keeps_its_indentation_however_deep(chatting, before, fence):
    margin = before if before == "> " else " " * 2 * bool(before)
    inside = "\n".join(margin + line for line in [f"{fence}yaml", *DEEP_CODE, fence])
    text = f"{before.strip('> ')}\n{inside}\n\n{' ' * 60}- cut"
    async with chatting(ScriptedBackend({"": Reply(chunks=[text])})) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector(ENDED)
        assert (await page.text_content("section .text pre code")).splitlines() == DEEP_CODE
        assert f"{' ' * 41}- cut" not in await page.text_content("section .text")


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
        await page.fill("#key", "another-key-that-is-long")
        await page.press("#key", "Enter")
        await page.wait_for_selector("#told >> text=does not know this key")
        await page.fill("#key", "a-long-enough-secret-key-1")
        await page.press("#key", "Enter")
        await page.wait_for_selector(READY, state="attached")
        assert not await page.is_visible("#told")


async def test_a_key_may_hold_any_letters(chatting, tmp_path):
    keys = tmp_path / "keys.toml"
    keys.write_text('[me]\nkey = "Schlüssel-ключ-密钥-🔑-1"\n', encoding="utf-8")
    async with chatting(ScriptedBackend({"": "Let in."}), options=ServerOptions(port=0, keys=keys)) as page:
        await page.fill("#key", "неверный-длинный-ключ")
        await page.press("#key", "Enter")
        await page.wait_for_selector("#told >> text=does not know this key")
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
    script = {"Write only the outline": titles, "": Reply("Written.", hold=event)}
    async with chatting(ScriptedBackend(script)) as page:
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
