"""The web chat with a JSON schema: fields while they are written, records as JSON, and what is no schema."""

import json

import anyio
import pytest
from asking import ENDED, ask, no_violations
from test_web_chat import INJECTIONS

from stretto.testing import Reply, ScriptedBackend

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

LONG = {"type": "string", "description": "Two paragraphs"}
TEXTS = {"history": "It was a *port*. " * 12, "sights": 'The "pier".\n\nThe mill.', "food": "Fish, and_more_of it."}
VELL = {"name": "Vell"} | TEXTS
UNENDING = {"chunk_delay_s": 600}
CARDS = """() => Object.fromEntries([...document.querySelectorAll(".card")].map((each) =>
    [each.querySelector("h3").textContent, each.classList[1]]))"""


def schema_of(**properties):
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


TOWN = schema_of(name={"type": "string"}, **dict.fromkeys(TEXTS, LONG))


def fields(**replies):
    """What writes a town field by field; ``replies`` instead of some of its texts."""
    first = json.dumps({"name": "Vell", "history": TEXTS["history"]})
    lines = json.dumps({"outline": {"sights": "The pier.", "food": "Fish."}})
    script = {"only these fields": replies.get("first", first), "only `outline`": lines}
    for name in ("sights", "food"):
        script[f"only the field `{name}`"] = replies.get(name, json.dumps({name: TEXTS[name]}))
    return script


async def use(page, schema):
    await page.click("#form")
    await page.fill("#schema-text", schema if isinstance(schema, str) else json.dumps(schema))
    await page.click("#schema button[type=submit]")


async def used(page, schema):
    await use(page, schema)
    await page.wait_for_selector("#form[aria-pressed=true]")
    await page.wait_for_selector("#schema", state="hidden")


async def shown(page):
    """The record that the last answer shows."""
    return json.loads(await page.inner_text(f"article:last-child {ENDED} .text pre code"))


def said_before(prompt):
    """The record that the model is told it wrote."""
    (said,) = (json.loads(message.content) for message in prompt.messages if message.role == "assistant")
    return said


async def test_fields_are_seen_while_they_are_written_and_become_one_record(chatting, tmp_path):
    event = anyio.Event()
    backend = ScriptedBackend({"Which": "Vell.", **fields(food=Reply(json.dumps({"food": TEXTS["food"]}), hold=event))})
    async with chatting(backend) as page:
        await page.click("#form")
        await no_violations(page)
        (tmp_path / "town.json").write_text(json.dumps({"type": "json_schema", "json_schema": {"schema": TOWN}}))
        await page.set_input_files("#schema-file", tmp_path / "town.json")
        await page.wait_for_selector("#form[aria-pressed=true]")
        await ask(page, "Describe Vell.", strategy="fields")
        await page.wait_for_selector(".card:nth-child(1).finished")
        await page.wait_for_selector(".card:nth-child(2).finished")
        assert await page.evaluate(CARDS) == {"First fields": "finished", "sights": "finished", "food": "silent"}
        cards = await page.locator(".cards:not(.others)").inner_text()
        assert all(text in cards for text in ("name: Vell", "It was a port.", 'The "pier".'))
        assert "{" not in cards
        await no_violations(page)
        event.set()
        await page.wait_for_selector(ENDED)
        assert await shown(page) == VELL
        assert "4 calls" in await page.text_content(".figures")
        await no_violations(page)
        await page.wait_for_selector("#send:enabled")
        await page.reload()
        await page.wait_for_selector(f"{ENDED} pre")
        assert await shown(page) == VELL
        await page.click("#form")
        assert json.loads(await page.input_value("#schema-text")) == TOWN
        await page.click("#schema-remove")
        await page.wait_for_selector("#form[aria-pressed=false]")
        await ask(page, "Which town was it?", strategy="direct")
        await page.wait_for_selector(f"article:last-child {ENDED} >> text=Vell.")
        prompt = backend.calls[-1][0]
        assert said_before(prompt) == VELL
        assert prompt.response_schema is None


async def test_what_is_no_schema_is_told_at_once_and_changes_nothing(chatting):
    async with chatting(ScriptedBackend({"": json.dumps(VELL)})) as page:
        await used(page, TOWN)
        wrong = {
            "{": "it is no JSON",
            "[]": "it is no object",
            '{"type": "<b>"}': "is no type of JSON",
            '{"properties": {"a": {"$ref": "#/none"}}}': "a $ref leads to '/none', which is not in it",
        }
        for text, cause in wrong.items():
            await use(page, text)
            await page.wait_for_selector("#schema-problem:not([hidden])")
            said = await page.inner_text("#schema-problem")
            assert said.startswith("This schema cannot be used: ")
            assert cause in said
            assert said.endswith('Give one such as {"type": "object", "properties": {"name": {"type": "string"}}}.')
            await page.press("#schema-text", "Escape")
            assert await page.get_attribute("#form", "aria-pressed") == "true"
        await ask(page, "Describe Vell.", strategy="direct")
        await page.wait_for_selector(ENDED)
        assert await shown(page) == VELL


async def test_a_stopped_record_is_json_with_what_is_there_and_the_chat_goes_on(chatting):
    first = Reply(chunks=[f'{{"name": "Vell", "history": "{TEXTS["history"]}', 'never"}'], **UNENDING)
    script = fields(first=first, sights=Reply(chunks=['{"sights": "The \\"pi', 'never"}'], **UNENDING))
    backend = ScriptedBackend({"Which": '{"name": "Vell"}', **script})
    async with chatting(backend) as page:
        await used(page, TOWN)
        await ask(page, "Describe Vell.", strategy="fields")
        await page.wait_for_selector('.card:nth-child(2) >> text=The "pi')
        await page.wait_for_selector(".card:nth-child(3).finished")
        await page.press("body", "Escape")
        await page.wait_for_selector("text=Stopped after")
        there = {"name": "Vell", "history": TEXTS["history"], "sights": 'The "pi', "food": TEXTS["food"]}
        assert await shown(page) == there
        await page.wait_for_selector("#send:enabled")
        await ask(page, "Which town was it?", strategy="direct")
        await page.wait_for_selector(f"article:last-child {ENDED}")
        assert await shown(page) == {"name": "Vell"}
        assert said_before(backend.calls[-1][0]) == there


async def test_a_record_in_one_piece_is_shown_while_it_comes_and_where_it_was_stopped(chatting):
    begun = Reply(chunks=['{"name": "Vell", "history": "It *was* a', 'never"}'], **UNENDING)
    async with chatting(ScriptedBackend({"": begun})) as page:
        await used(page, TOWN)
        await ask(page, "Describe Vell.", strategy="direct")
        await page.wait_for_selector("pre >> text=It *was* a")
        await page.press("body", "Escape")
        await page.wait_for_selector("text=Stopped after")
        assert await shown(page) == {"name": "Vell", "history": "It *was* a"}


async def test_a_schema_that_fields_do_not_take_is_answered_straight_with_the_reason(chatting):
    async with chatting(ScriptedBackend({"": '{"note": "Fine."}'})) as page:
        await used(page, schema_of(note=LONG))
        await ask(page, "Write a note.", strategy="auto")
        await page.wait_for_selector(f"{ENDED} pre")
        assert "which one call writes as fast" in await page.text_content(".route")
        await page.wait_for_selector("#send:enabled")
        await ask(page, "Another one.", strategy="fields")
        await page.wait_for_selector(".warnings li >> text=only one of its fields is long")
        assert await shown(page) == {"note": "Fine."}


async def test_two_tabs_have_their_own_schemas(chatting):
    event = anyio.Event()
    backend = ScriptedBackend({"Rome": Reply("Just words.", hold=event), **fields()})
    async with chatting(backend) as page:
        other = await page.context.new_page()
        await other.goto(page.live.url)
        await other.wait_for_selector("#model option", state="attached")
        await used(page, TOWN)
        await ask(other, "And Rome?", strategy="direct")
        await ask(page, "Describe Vell.", strategy="fields")
        await page.wait_for_selector(f"{ENDED} pre")
        event.set()
        await other.wait_for_selector(f"{ENDED} >> text=Just words.")
        assert await shown(page) == VELL
        assert await other.get_attribute("#form", "aria-pressed") == "false"


async def test_hostile_names_and_texts_of_a_record_are_characters(chatting):
    names = ["<img src=x onerror=window.hit=1>", "[x](javascript:window.hit=1)", "__proto__"]
    long = LONG | {"title": INJECTIONS[0], "description": f"Two paragraphs {INJECTIONS[1]}"}
    text = "\n".join(INJECTIONS)
    script = {
        "only these fields": json.dumps({"name": text, names[0]: text}),
        "only `outline`": json.dumps({"outline": dict.fromkeys(names[1:], "x")}),
        "only the field `[^`]*javascript": json.dumps({names[1]: text}),
        "only the field `__proto__": json.dumps({names[2]: text}),
    }
    async with chatting(ScriptedBackend(script)) as page:
        await used(page, schema_of(name={"type": "string"}, **dict.fromkeys(names, long)) | {"title": INJECTIONS[0]})
        await ask(page, "Describe it.", strategy="fields")
        await page.wait_for_selector(f"{ENDED} pre")
        assert await shown(page) == {"name": text} | dict.fromkeys(names, text)
        assert await page.locator("#conversation :is(img, script, iframe, form, input, style)").count() == 0
        assert await page.evaluate("window.hit") is None


SO_FAR = """async (text) => {
    const { asLines, recordSoFar } = await import("/web/answer/record.js");
    const prefixes = [...text].map((_, at) => text.slice(0, at + 1));
    const lines = asLines(text).querySelector("code").textContent;
    return [prefixes.map((each) => recordSoFar([], each, {})), lines];
}"""


async def test_each_beginning_of_a_record_is_whole_json_and_a_whole_one_stays_as_it_was_written(chatting):
    text = r'{"a": "x\u00fc\\ \"q\" {[,", "n": [1, {"b": null}, []], "isbn": 97831614841001234567, "c": {}, "d": true}'
    async with chatting(ScriptedBackend({"": "Yes."})) as page:
        prefixes, lines = await page.evaluate(SO_FAR, text)
    found = [json.loads(each) for each in prefixes if each]
    whole = json.loads(text)
    assert all(whole["a"].startswith(each.get("a", "")) for each in found)
    assert [len(each) for each in found] == sorted(len(each) for each in found)
    assert found[-1].keys() == whole.keys()
    assert json.loads(lines) == whole
    assert "97831614841001234567" in lines
    assert len(lines.splitlines()) > len(whole)
