"""The web chat in a real browser: answers, stops, failures, documents, history, hostile text, accessibility."""

import json
from pathlib import Path

import anyio
import pytest
from asking import ENDED, POINTS, SKELETON, ask, by_points, held, no_violations, until

from stretto import ServerFailedError
from stretto.extending import Capabilities
from stretto.server import ServerOptions
from stretto.testing import Reply, ScriptedBackend

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_points_are_written_side_by_side_and_settle_into_one_answer(chatting, scheme):
    backend, event = held()
    async with chatting(backend, color_scheme=scheme) as page:
        await ask(page)
        await page.wait_for_selector(".card:nth-child(3)")
        assert await page.locator(".card h3").all_inner_texts() == ["Tyres", "Chain", "Brakes"]
        await page.wait_for_selector(".lead >> text=Writing 3 sections at once")
        assert await page.locator("svg.lane-bar rect").count() >= 3
        await no_violations(page)
        event.set()
        await page.wait_for_selector(ENDED)
        assert await page.locator(".card").count() == 0
        text = await page.inner_text("section .text")
        assert [text.count(each) for each in ("Tyres", "Chain", "Brakes", "Written at last.")] == [1, 1, 1, 3]
        assert "4 calls" in await page.text_content(".figures")
        assert "complete" in await page.inner_text("#status")
        await no_violations(page)
        await page.emulate_media(media="print")
        assert [await page.is_visible(each) for each in ("#side", "#composer", ".actions", ".asked h2")] == [
            *(False, False, False, True)
        ]
        assert await page.evaluate("() => getComputedStyle(conversation).overflowY") == "visible"  # all pages of it


async def test_a_stopped_answer_keeps_its_text_and_ends_its_calls(chatting):
    backend = ScriptedBackend({"": Reply(chunks=["The first half. ", "never"], chunk_delay_s=600)})
    async with chatting(backend) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector("text=The first half.")
        assert backend.running == 1
        await page.press("body", "Escape")
        await page.wait_for_selector("text=Stopped after")
        assert "The first half." in await page.inner_text("section .text")
        await until(lambda: backend.running == 0)
        await page.wait_for_selector("#send:enabled")


async def test_a_failed_point_is_told_in_its_card_and_in_the_answer(chatting):
    event = anyio.Event()
    script = {
        'Write point: Chain|"Chain", in about': Reply(fault=ServerFailedError("it hung up")),
        "": Reply("Fine.", hold=event),
    }
    async with chatting(by_points(POINTS | script)) as page:
        await ask(page)
        await page.wait_for_selector(".card.failed")
        assert "it hung up" in await page.inner_text(".card.failed .state")
        event.set()
        await page.wait_for_selector(ENDED)
        assert await page.locator(".warnings li").count() >= 1
        await no_violations(page)


async def test_an_answer_that_fails_says_why_and_can_be_asked_for_again(chatting):
    fault = Reply(fault=ServerFailedError("it is on fire"))
    backend = ScriptedBackend({"": [fault, fault, Reply("Put out.")]})  # it is asked twice before it is told
    async with chatting(backend) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector(".problem")
        assert await page.inner_text(".problem") == "It is on fire. Nothing was written."
        assert not await page.is_visible(".lead")
        await page.wait_for_selector("#question:not([placeholder='Ask a follow-up'])")
        await page.click("button:text-is('Retry')")
        await page.wait_for_selector("text=Put out.")
        await page.wait_for_selector("#question[placeholder='Ask a follow-up']")


async def test_an_answer_that_fell_back_says_how_it_was_written_in_the_end(chatting):
    async with chatting(by_points({"Outline the answer": "I would rather not.", "": "All in one."})) as page:
        await ask(page)
        await page.wait_for_selector(f"{ENDED} >> text=All in one.")
        told = await page.text_content(".route")
        assert told.startswith("In parallel: You chose it.")
        assert "It was written otherwise in the end: One piece." in told
        assert await page.inner_text(".detail") == "in one piece"


async def test_choices_have_plain_words_and_one_model_one_name(chatting):
    async with chatting(ScriptedBackend({"": "Yes."}, name="openai:scripted")) as page:
        assert await page.locator("#model option").all_text_contents() == ["openai:scripted"]
        options = page.locator("#strategy option, #preference option")
        names = [await options.evaluate_all(f"(all) => all.map((each) => each.{part})") for part in ("text", "value")]
        assert {name.lower() for name in names[0]} & set(names[1]) == {"careful"}
        assert all(await options.evaluate_all("(all) => all.map((each) => each.title.includes(each.value))"))


async def test_a_document_is_read_and_its_passages_light_up(chatting, tmp_path):
    file = tmp_path / "lease.txt"
    file.write_text("The rent is 900 euros. " * 1000)
    record = json.dumps({"evidence": ["The rent is 900 euros."], "rationale": "r", "answer": "900", "confidence": 5})
    small = Capabilities(context_window=4_000, json_schema=True)
    async with chatting(ScriptedBackend({"": record}, capabilities=small)) as page:
        await page.set_input_files("#attach", file)
        await page.wait_for_selector("#documents >> text=/^lease/")  # and no longer "Reading lease.txt …"
        await ask(page, "What is the rent?", strategy="document")
        await page.wait_for_selector(ENDED)
        assert "with lease" in await page.inner_text(".asked")
        assert await page.locator(".strip span").count() >= 2
        assert "passages read" in await page.get_attribute(".strip", "aria-label")


PLACES = """async () => {
    const { placeOf } = await import("/web/answer/citations.js");
    const whole = "x".repeat(900) + "\\n## The chain ##\\n" + "y".repeat(100);
    const at = (start, rest = "chars 1-2") => placeOf({ label: `[Log, ${rest}]`, start }, whole);
    return [at(0), at(500), at(950), at(0, "p. 12"), placeOf({ label: "[Log, chars 1-2]", start: 1 }, undefined)];
}"""


async def test_a_place_in_a_document_is_named_as_a_person_says_it(chatting):
    async with chatting(by_points(SKELETON)) as page:
        assert await page.evaluate(PLACES) == [
            *("Log, at the beginning", "Log, near the middle", "Log, under “The chain”", "Log, p. 12", "Log")
        ]


async def test_a_citation_opens_its_passage_with_what_stands_around_it(chatting, tmp_path):
    file = tmp_path / "lease.txt"
    file.write_text("Pets are allowed. The rent is 900 euros. The cellar is dry.\n\n" + "It has three rooms. " * 800)
    record = {"evidence": ["The rent is 900 euros."], "rationale": "r", "answer": "900 euros", "confidence": 5}
    script = {'"no_information"': json.dumps(record), "": "The rent is 900 euros [cite:1]."}
    small = Capabilities(context_window=4_000, json_schema=True)
    async with chatting(ScriptedBackend(script, capabilities=small)) as page:
        await page.set_input_files("#attach", file)
        await page.wait_for_selector("#documents >> text=/^lease/")
        await ask(page, "What is the rent?", strategy="document")
        await page.wait_for_selector(ENDED)
        await page.wait_for_selector("#send:enabled")
        frame = [await page.locator(each).bounding_box() for each in ("header img", "#composer .box")]
        await page.click(f"{ENDED} .text .cite")
        assert await page.inner_text(".passage h3") == "lease.txt, at the beginning"
        assert [await page.locator(each).bounding_box() for each in ("header img", "#composer .box")] == frame
        assert await page.inner_text(".passage mark") == "The rent is 900 euros."
        shown = await page.inner_text(".passage p")
        assert shown.startswith("Pets are allowed. The rent")
        assert shown.endswith(" …")
        await no_violations(page)


async def test_a_file_that_cannot_be_read_is_named(chatting, tmp_path):
    file = tmp_path / "broken.pdf"
    file.write_bytes(b"%PDF-1.7 nothing else")
    async with chatting(ScriptedBackend({"": "Yes."})) as page:
        await page.set_input_files("#attach", file)
        await page.wait_for_selector("#documents .problem >> text=broken.pdf")
        assert "/" not in await page.inner_text("#documents")  # no path of the server


async def test_both_ways_stand_side_by_side_with_what_was_measured(chatting):
    async with chatting(by_points(SKELETON)) as page:
        await page.check("#compare")
        await ask(page)
        await page.wait_for_selector("text=Measured:")
        assert await page.locator(".sides.two > section").count() == 2
        await no_violations(page)


async def test_an_edited_question_keeps_the_first_one_a_page_before_it(chatting):
    async with chatting(ScriptedBackend({"brakes": "They stop you.", "": "It rolls."})) as page:
        await ask(page, "What does a wheel do?", strategy="direct")
        await page.wait_for_selector("#send:enabled")
        await page.click("text=Edit")
        assert await page.input_value("article textarea") == "What does a wheel do?"
        await no_violations(page)
        await page.fill("article textarea", "What do brakes do?")
        await page.press("article textarea", "Enter")
        await page.wait_for_selector("text=They stop you.")
        await page.wait_for_selector("#send:enabled")
        assert await page.locator("article").count() == 1
        assert await page.inner_text(".asked .pages span") == "2/2"
        await page.get_by_role("button", name="Previous question").click()
        await page.wait_for_selector("text=It rolls.")
        assert await page.inner_text(".asked h2") == "What does a wheel do?"
        await page.reload()
        await page.wait_for_selector("text=It rolls.")
        await page.get_by_role("button", name="Next question").click()
        await page.wait_for_selector("text=They stop you.")


async def test_conversations_are_kept_exported_deleted_and_imported(chatting, tmp_path):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        page.on("dialog", lambda dialog: dialog.accept())
        await ask(page, "What does a wheel do?", strategy="direct")
        await page.wait_for_selector("#send:enabled")
        async with page.expect_download() as saved:
            await page.click("#manage")
            await page.click("#export")
        await (await saved.value).save_as(tmp_path / "all.json")
        await page.reload()
        await page.click("#conversations button")
        await page.wait_for_selector("text=It rolls.")
        await page.click("#manage")
        await page.click("#delete-all")
        await page.wait_for_selector("#conversations li", state="detached")
        await page.set_input_files("#import", tmp_path / "all.json")
        await page.wait_for_selector("#conversations li")
        (tmp_path / "wrong.json").write_text('{"conversations": [{"id": 1}]}')
        await page.set_input_files("#import", tmp_path / "wrong.json")
        await page.wait_for_selector("text=Nothing was imported")
        assert await page.locator("#conversations li").count() == 1


async def test_an_answer_is_saved_as_one_page(chatting, tmp_path):
    async with chatting(by_points(SKELETON)) as page:
        await ask(page)
        async with page.expect_download() as saved:
            await page.click("text=Save as a page")
        await (await saved.value).save_as(tmp_path / "answer.html")
    text = (tmp_path / "answer.html").read_text()
    assert "How do I look after a bicycle?" in text
    assert "<svg" in text
    assert "<script" not in text


async def test_two_thousand_lines_of_history_open_and_go_on(chatting, tmp_path):
    answer = {
        "text": "\n".join(f"- line {n} with `code` and **words**" for n in range(40)),
        "branches": [],
        "stopped": "x",
    }
    turns = [{"question": f"Question {n}?", "documents": [], "answers": [answer]} for n in range(50)]
    kept = {"stretto": 1, "conversations": [{"id": "long", "title": "Long", "changed": 1, "turns": turns}]}
    (tmp_path / "long.json").write_text(json.dumps(kept))
    backend = ScriptedBackend({"": "Still here."})
    async with chatting(backend) as page:
        await page.set_input_files("#import", tmp_path / "long.json")
        await page.click("text=Long")
        await page.wait_for_selector("text=Question 49?")
        assert await page.locator("article").count() == 10
        await page.click("text=Show 40 earlier questions")
        assert await page.locator("article").count() == 20
        await ask(page, "And now?", strategy="direct")
        await page.wait_for_selector("text=Still here.")
        assert len(backend.calls[-1][0].messages) == 101


INJECTIONS = (Path(__file__).parent / "injections.txt").read_text().split("\n---\n")


async def test_hostile_answers_run_nothing_and_load_nothing(chatting):
    titles = "\n".join(f"{n}. {text.splitlines()[0][:60]}" for n, text in enumerate(INJECTIONS[:6], 1))
    script = {"Outline the answer": titles, "": "\n\n".join(INJECTIONS)}
    async with chatting(by_points(script)) as page:
        dialogs = []
        page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        for strategy in ("direct", "skeleton"):
            await ask(page, INJECTIONS[0], strategy=strategy)
            await page.wait_for_selector(f"article:last-child {ENDED}")
        await page.reload()
        await page.click("#conversations button")
        await page.wait_for_selector(ENDED)
        inside = await page.evaluate(
            """() => [...document.querySelectorAll("#conversation *")].flatMap((each) => [
                .../^(SCRIPT|IMG|IFRAME|OBJECT|EMBED|FORM|INPUT|STYLE|LINK|META|BASE|VIDEO)$/.test(each.tagName)
                    ? [each.tagName] : [],
                ...[...each.attributes].map((one) => one.name).filter((name) => /^(on.*|style)$/.test(name)),
                ...each.href && !/^(https?|mailto):/.test(each.href) ? [each.href] : [],
            ])"""
        )
        assert inside == []
        assert await page.evaluate("window.hit") is None
        assert dialogs == []
        assert {address for address in page.addresses if not address.startswith(page.live.url)} == set()


async def test_a_narrow_page_keeps_its_list_out_of_the_way(chatting):
    async with chatting(by_points(SKELETON), viewport={"width": 380, "height": 700}) as page:
        assert not await page.is_visible("#new")
        await page.click("#open-side")
        await page.wait_for_selector("#new:visible")
        await no_violations(page)
        await page.press("body", "Escape")
        await page.wait_for_selector("#new", state="hidden")
        await page.select_option("#strategy", "document")  # the longest name
        for choice in ("#strategy", "#preference", "#send"):
            box = await page.locator(choice).bounding_box()
            assert 0 <= box["x"] < box["x"] + box["width"] <= 380
        await ask(page)
        await page.wait_for_selector(ENDED)
        wide = await page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 380
        await no_violations(page)


async def test_a_server_with_keys_asks_for_one(chatting, tmp_path):
    keys = tmp_path / "keys.toml"
    keys.write_text('[me]\nkey = "a-long-enough-secret-key-1"\n')
    async with chatting(ScriptedBackend({"": "Let in."}), options=ServerOptions(port=0, keys=keys)) as page:
        await page.fill("#key", "a-long-enough-secret-key-1")
        await page.press("#key", "Enter")
        await page.wait_for_selector("#model option", state="attached")
        await ask(page, strategy="direct")
        await page.wait_for_selector("text=Let in.")
        assert "secret" not in await page.content()
