"""What the web chat keeps: over a reload, in two tabs, in exports, and in a browser that keeps nothing."""

import json
import re
import time

import anyio
import pytest
from asking import ENDED, READY, SKELETON, ask, by_points, held, until
from patience import patience

from stretto.testing import Reply, ScriptedBackend

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

KEPT = """async () => {
    const done = (asked) => new Promise((resolve) => (asked.onsuccess = () => resolve(asked.result)));
    const base = await done(indexedDB.open("stretto"));
    const kept = base.transaction(["conversations", "turns"]);
    const heads = await done(kept.objectStore("conversations").getAll());
    for (const head of heads) {
        head.turns = await done(kept.objectStore("turns").getAll(IDBKeyRange.bound([head.id], [head.id, []])));
    }
    base.close();
    return JSON.stringify(heads);
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


async def test_a_stopped_answer_keeps_the_way_it_was_written_over_a_reload(chatting):
    backend, _ = held()
    async with chatting(backend) as page:
        await ask(page)
        await page.wait_for_selector(".card >> nth=2")
        await page.keyboard.press("Escape")
        await page.wait_for_selector(f"{ENDED} >> text=Stopped")
        await page.wait_for_selector("#send:enabled")
        await page.reload()
        await page.wait_for_selector(f"{ENDED} >> text=Stopped")
        await page.click(".pulse summary")
        assert (await page.inner_text(".route b")) == "In parallel"


async def test_an_answer_under_way_is_kept_now_and_then(chatting):
    script = {"": Reply(chunks=[f"word{n} " for n in range(10_000)], chunk_delay_s=0.05)}
    async with chatting(ScriptedBackend(script)) as page:
        await ask(page, strategy="direct")
        with anyio.fail_after(patience(60)):
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
        button = await page.wait_for_selector("#conversations button[aria-label^=Delete]")
        await button.focus()
        times = set()
        with anyio.fail_after(patience(60)):
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
        await page.wait_for_selector("#send:enabled")
        await page.wait_for_url("**/#*")
        other = await page.context.new_page()
        await other.goto(page.url)
        await other.wait_for_selector("text=It rolls.")
        await ask(page, "Second question", strategy="direct")
        await page.wait_for_selector("#send:enabled")
        await ask(other, "Third question", strategy="direct")
        await other.wait_for_selector("#send:enabled")
        for each in (page, other):
            await each.wait_for_selector("#conversations li:nth-child(2)")
        assert "went on in another tab" in await other.inner_text("#notice")
        asked = []
        for number in (1, 2):
            await page.click(f"#conversations li:nth-child({number}) button")
            await page.wait_for_selector(f"#conversations li:nth-child({number}) [aria-current]")
            asked.append(await page.locator(".asked h2").all_inner_texts())
        assert sorted(asked) == [["First question", "Second question"], ["First question", "Third question"]]


async def test_another_tab_opens_a_conversation_as_it_is_now(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        await ask(page, "First question", strategy="direct")
        await page.wait_for_selector("#send:enabled")
        other = await page.context.new_page()
        await other.goto(page.live.url)
        await other.wait_for_selector("#conversations li")
        await ask(page, "Second question", strategy="direct")
        await page.wait_for_selector("#send:enabled")
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
        await page.wait_for_selector("#send:enabled")
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
        await page.wait_for_selector("#send:enabled")
        async with page.expect_download() as saved:
            await page.click("#manage")
            await page.click("#export")
        await (await saved.value).save_as(tmp_path / "all.json")
        await page.set_input_files("#import", tmp_path / "all.json")
        await page.wait_for_selector("#notice >> text=imported")
        assert await page.locator("#conversations li").count() == 1
        await ask(page, "Second question", strategy="direct")
        await page.wait_for_selector("#send:enabled")
        await page.set_input_files("#import", tmp_path / "all.json")
        await page.wait_for_selector("#conversations li:nth-child(2)")
        assert await page.locator(".asked h2").all_inner_texts() == ["First question", "Second question"]
        await page.set_input_files("#import", tmp_path / "all.json")
        await page.wait_for_selector("#notice >> text=0 conversations")
        assert await page.locator("#conversations li").count() == 2


async def test_imported_conversations_keep_their_order(chatting, tmp_path):
    names = {"Newest": 3_000, "Middle": 2_000, "Oldest": 1_000}
    conversations = [{"id": name[0] * 32, "title": name, "changed": at, "turns": []} for name, at in names.items()]
    (tmp_path / "three.json").write_text(json.dumps({"stretto": 1, "conversations": conversations}))
    async with chatting(ScriptedBackend({"": "Yes."})) as page:
        await page.set_input_files("#import", tmp_path / "three.json")
        await page.wait_for_selector("#notice >> text=3 conversations")
        await page.wait_for_selector("#conversations li:nth-child(3)")
        assert await page.locator("#conversations button[dir]").all_inner_texts() == list(names)
        assert [each["changed"] for each in json.loads(await page.evaluate(KEPT))] == [2_000, 3_000, 1_000]


async def test_the_list_has_days_and_a_search_that_finds_nothing_says_so(chatting, tmp_path):
    days, noon = {"Now": 0, "Then": 1, "Before": 4, "Long ago": 4_000}, time.mktime((2026, 7, 15, 12, 0, 0, 0, 0, -1))
    changed = {title: (noon - ago * 86_400) * 1_000 for title, ago in days.items()}
    conversations = [{"id": title, "title": title, "changed": at, "turns": []} for title, at in changed.items()]
    (tmp_path / "four.json").write_text(json.dumps({"stretto": 1, "conversations": conversations}))
    async with chatting(ScriptedBackend({"": "Yes."})) as page:
        await page.clock.set_fixed_time(noon)  # no day begins meanwhile
        await page.set_input_files("#import", tmp_path / "four.json")
        await page.wait_for_selector("#conversations ul:nth-of-type(4)")
        headings = await page.locator("#conversations h2").all_inner_texts()
        assert headings[:3] == ["Today", "Yesterday", "Last 7 days"]
        assert re.fullmatch(r"\w+ 20\d\d", headings[3])
        await page.fill("#search", "long")
        await page.wait_for_function("() => conversations.querySelectorAll('li').length === 1")
        assert await page.get_attribute("#conversations button[dir]", "title") == "Long ago"
        await page.fill("#search", "never said")
        await page.wait_for_selector("#conversations >> text=No conversation has these words.")


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
        await page.wait_for_selector("#notice >> text=keeps no conversations")
        await ask(page, strategy="direct")
        await page.wait_for_selector("text=It rolls.")


# A write that the browser breaks off, for want of room.
FULL = """() => {
    window.put = IDBObjectStore.prototype.put;
    const full = new WeakSet();
    IDBObjectStore.prototype.put = function () {
        if (!full.has(this.transaction)) this.transaction.abort();
        full.add(this.transaction);
    };
}"""
ROOM = "() => { IDBObjectStore.prototype.put = window.put; }"


async def test_an_answer_that_could_not_be_kept_is_kept_with_the_next_and_only_once(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        for number, before in enumerate(("() => {}", FULL, ROOM), 1):
            await page.evaluate(before)
            await ask(page, f"Question {number}", strategy="direct")
            await page.wait_for_selector(f"article:nth-child({number}) {ENDED}")
            await page.wait_for_selector("#send:enabled")
            told = await page.inner_text("#notice") if before == FULL else "is not kept"
            assert "is not kept" in told
        kept = json.loads(await page.evaluate(KEPT))
        assert [[turn["question"] for turn in each["turns"]] for each in kept] == [
            ["Question 1", "Question 2", "Question 3"]
        ]


OLDER = """async () => {
    const done = (asked) => new Promise((resolve) => (asked.onsuccess = () => resolve(asked.result)));
    await done(indexedDB.deleteDatabase("stretto"));
    const asked = indexedDB.open("stretto", 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore("conversations", {keyPath: "id"});
    const base = await done(asked);
    const answers = [{text: "It rolls.", branches: [], stopped: "Stopped."}];
    const turns = ["First", "Second"].map((question) => ({question, documents: [], answers}));
    const store = base.transaction("conversations", "readwrite").objectStore("conversations");
    await done(store.put({id: "a".repeat(32), title: "Older", changed: 5, turns}));
    base.close();
}"""


async def test_what_the_version_before_kept_is_there(chatting):
    async with chatting(ScriptedBackend({"": "Yes."})) as page:
        await page.goto(f"{page.live.url}/web/icon.svg")  # of the same origin, without the page's scripts
        await page.evaluate(OLDER)
        await page.goto(page.live.url)
        await page.click("#conversations button:text-is('Older')")
        await page.wait_for_selector("h2:text-is('Second')")
        assert await page.locator("section .text >> text=It rolls.").count() == 2
        await ask(page, "Third", strategy="direct")
        await page.wait_for_selector("#send:enabled")
        (kept,) = json.loads(await page.evaluate(KEPT))
        assert [turn["question"] for turn in kept["turns"]] == ["First", "Second", "Third"]


async def test_a_comparison_that_an_earlier_version_kept_has_both_answers(chatting, tmp_path):
    file = tmp_path / "all.json"
    async with chatting(by_points(SKELETON)) as page:
        await page.check("#compare")
        await ask(page)
        await page.wait_for_selector("#send:enabled")
        async with page.expect_download() as saved:
            await page.click("#manage")
            await page.click("#export")
        await (await saved.value).save_as(file)
    kept = json.loads(file.read_text())
    (answer,) = kept["conversations"][0]["turns"][0]["answers"]
    answer["straight"] = answer.pop("direct")
    file.write_text(json.dumps(kept))
    async with chatting(by_points(SKELETON)) as page:
        await page.set_input_files("#import", file)
        await page.click("#conversations button[dir]")
        await page.wait_for_selector("text=Measured:")
        assert await page.locator(".sides.two > section").count() == 2


async def ask_in_two_conversations(page):
    for question in ("First question", "Second question"):
        await page.click("#new")
        await ask(page, question, strategy="direct")
        await page.wait_for_selector("#send:enabled")


async def test_back_and_forward_turn_to_the_conversations_before_and_after(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        await ask_in_two_conversations(page)
        await page.click("#conversations button:text-is('First question')")
        await page.wait_for_selector("h2:text-is('First question')")
        await page.go_back()
        await page.wait_for_selector("h2:text-is('Second question')")
        await page.go_back()  # to what was there before the new chat
        await page.wait_for_selector("h2:text-is('First question')")
        await page.go_forward()
        await page.go_forward()
        await page.wait_for_selector("h2:text-is('First question')")


async def test_of_two_steps_the_later_one_counts_although_the_earlier_one_is_read_longer(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        await ask_in_two_conversations(page)
        shown = await page.evaluate(
            """async () => {
                const { one } = await import("/web/history.js");
                const id = location.hash.slice(1), listed = [...document.querySelectorAll("#conversations button")];
                for (const title of ["First question", "Second question"])
                    listed.find((each) => each.textContent === title).click();
                for (let read = 0; read < 20; read += 1) await one(id);
                return [...document.querySelectorAll("h2")].map((each) => each.textContent);
            }"""
        )
        assert ("First question" in shown, "Second question" in shown) == (False, True)


async def test_what_was_chosen_last_is_chosen_after_a_reload(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        model = await page.locator("#model option").last.get_attribute("value")
        await page.select_option("#model", model)
        await page.select_option("#strategy", "skeleton")
        await page.select_option("#preference", "careful")
        await page.goto(page.live.url)
        await page.wait_for_selector(READY, state="attached")
        assert [await page.input_value(f"#{each}") for each in ("model", "strategy", "preference")] == [
            *(model, "skeleton", "careful")
        ]


@pytest.mark.parametrize("kept", ['{"model": "gone", "strategy": 3}', "[", "null", "7"])
async def test_choices_that_are_none_any_more_are_passed_over(chatting, kept):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        await page.evaluate("(kept) => localStorage.setItem('stretto-choices', kept)", kept)
        await page.goto(page.live.url)
        await page.wait_for_selector(READY, state="attached")
        assert await page.input_value("#strategy") == "auto"
        await ask(page, strategy="direct")
        await page.wait_for_selector("text=It rolls.")
