"""A chat whose answers fit a JSON schema: line by line, in the whole terminal, and when it is gone on with."""

import json
import os

import anyio
import pytest
from piloting import chatting
from scripted import opening
from test_terminal_hostile import HOSTILE, harmless

from stretto.cli.chat.chat_folder import ChatFolder
from stretto.cli.output.plain import record_in
from stretto.cli.terminal.lines import Written
from stretto.testing import Reply

LONG = {"type": "string", "description": "Two paragraphs"}
TEXTS = {"history": "It was a *port*. " * 12, "sights": 'The "pier".\n\nThe mill.', "food": "Fish, and_more_of it."}
VELL = {"name": "Vell"} | TEXTS
UNENDING = {"chunk_delay_s": 600}


def schema_of(**properties):
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


NOTE = schema_of(note=LONG)
NOTES = schema_of(note=LONG, more={"$ref": "#/$defs/note"}) | {"required": ["note"]}
TOWN = schema_of(name={"type": "string"}, **dict.fromkeys(TEXTS, LONG))


@pytest.fixture
def town(tmp_path):
    file = tmp_path / "town.json"
    file.write_text(json.dumps(TOWN))
    return file


def fields(**replies):
    """What writes a town field by field; ``replies`` instead of some of its texts."""
    first = json.dumps({"name": "Vell", "history": TEXTS["history"]})
    lines = json.dumps({"outline": {"sights": "The pier.", "food": "Fish."}})
    script = {"only these fields": replies.get("first", first), "only `outline`": lines}
    for name in ("sights", "food"):
        script[f"only the field `{name}`"] = replies.get(name, json.dumps({name: TEXTS[name]}))
    return script


def states(chat):
    return {card.title: card.state for card in chat.view.cards.values()}


def test_line_by_line_each_answer_is_a_record_until_the_schema_is_taken_away(stretto, town):
    opened = []
    script = {r"Plain\?\Z": "Just *words*.", "": json.dumps(VELL)}
    lines = f"Vell?\nAgain?\n/schema\n/schema -\n/schema\nPlain?\n/schema {town}\nVell?\n"
    result = stretto("chat", "--schema", str(town), piped=lines, script=script, opened=opened, json_schema=True)
    assert result.exit_code == 0
    said = json.dumps(VELL, indent=2, ensure_ascii=False)
    assert result.stdout == f"{said}\n{said}\nJust *words*.\n{said}\n"
    assert result.stderr.count(f"schema: {town}") == 3
    assert result.stderr.count("schema: none") == 2
    assert [prompt.response_schema == TOWN for prompt, _ in opened[0].calls] == [True, True, False, True]
    again = opened[0].calls[1][0].messages
    assert [message.content for message in again] == ["Vell?", json.dumps(VELL), "Again?"]


WRONG = {None: "No such file", "{": "it is no JSON", "[]": "it holds no JSON schema", '{"type": "x"}': "is no type of"}


@pytest.mark.parametrize("text", WRONG)
def test_a_file_that_holds_no_schema_is_one_error_and_changes_nothing(stretto, tmp_path, town, text):
    wrong = tmp_path / "wrong.json"
    if text is not None:
        wrong.write_text(text)
    refused = stretto("chat", "--schema", str(wrong), piped="Why?\n")
    assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert refused.stderr.startswith(f"error: --schema '{wrong}' cannot be used: ")
    assert WRONG[text] in refused.stderr
    result = stretto("chat", "-q", "--schema", str(town), piped=f"/schema {wrong}\nVell?\n", script=json.dumps(VELL))
    assert result.stderr.startswith(f"error: /schema '{wrong}' cannot be used: ")
    assert result.stderr.count("\n") == 1
    assert "Name a file with a JSON schema" in result.stderr
    assert json.loads(result.stdout) == VELL


@pytest.mark.thorough
@pytest.mark.anyio
async def test_fields_are_seen_while_they_are_written_and_become_one_record(town):
    let_go, folder = anyio.Event(), ChatFolder()
    script = fields(
        sights=Reply(json.dumps({"sights": TEXTS["sights"]})),
        food=Reply(json.dumps({"food": TEXTS["food"]}), hold=let_go),
    )
    async with chatting(opening(script), strategy="fields", schema=town, chat=folder.begin(), size=(120, 40)) as chat:
        assert f"schema: {town}" in chat.whole_text
        await chat.send("Describe Vell.")
        await chat.until(lambda: states(chat) == {"First fields": "finished", "sights": "finished", "food": "silent"})
        await chat.tick()
        assert all(shown in chat.screen for shown in ("✓ First fields", "✓ sights", "… food", 'The "pier".', "a port."))
        assert "{" not in chat.screen
        let_go.set()
        await chat.done()
        assert json.loads(chat.view.text) == VELL
        assert '"food": "Fish, and_more_of it."' in chat.screen
        assert "It was a *port*." in chat.screen
        assert "Field by field: You chose it." in chat.whole_text
    opened = []
    async with chatting(opening(fields(), opened=opened), strategy="fields", chat=folder.find(None)) as chat:
        assert f"schema: {town}" in chat.whole_text
        assert '"food": "Fish, and_more_of it."' in chat.screen
        await chat.ask("And once more?")
        assert json.loads(chat.view.text) == VELL
        assert json.loads(opened[0].calls[0][0].messages[-2].content) == VELL
        await chat.ask("/schema -")
        await chat.ask("/strategy direct")
        await chat.ask("Which was it?")
    async with chatting(opening({"": "Fine."}), chat=folder.find(None)) as chat:
        assert chat.state.schema is None
        await chat.ask(f"/schema {town}")
        await chat.ask("/retry")
    town.unlink()
    async with chatting(opening({"": "Fine."}), chat=folder.find(None)) as chat:
        assert "The schema of this chat is not used any more: /schema" in chat.whole_text
        assert chat.state.schema is None


@pytest.mark.thorough
@pytest.mark.anyio
async def test_a_stopped_record_is_json_with_what_is_there_and_the_chat_goes_on(town):
    first = Reply(chunks=[f'{{"name": "Vell", "history": "{TEXTS["history"]}', 'never"}'], **UNENDING)
    script = fields(first=first, sights=Reply(chunks=['{"sights": "The \\"pi', 'never"}'], **UNENDING))
    opened = []
    opener = opening({"Which": "Vell.", **script}, opened=opened)
    async with chatting(opener, strategy="fields", schema=town, size=(120, 40)) as chat:
        await chat.send("Describe Vell.")
        await chat.until(lambda: states(chat) == {"First fields": "writing", "sights": "writing", "food": "finished"})
        await chat.until(lambda: [card.text for card in chat.view.cards.values()][1] == 'The "pi')
        await chat.pilot.press("escape")
        await chat.done()
        there = {"name": "Vell", "history": TEXTS["history"], "sights": 'The "pi', "food": TEXTS["food"]}
        assert json.loads(chat.view.text) == there
        assert chat.state.turns[-1].text == chat.view.text
        assert '"sights": "The \\"pi"' in chat.screen
        await chat.ask("/schema -")
        await chat.ask("/strategy direct")
        await chat.ask("Which town was it?")
        assert chat.view.text == "Vell."
        assert json.loads(opened[0].calls[-1][0].messages[1].content) == there


@pytest.mark.anyio
async def test_a_record_in_one_piece_is_shown_as_json_while_it_comes_and_where_it_was_stopped(town):
    begun = Reply(chunks=['{"name": "Vell", "history": "It *was* a', 'never"}'], **UNENDING)
    async with chatting(opening({"": begun}), strategy="direct", schema=town) as chat:
        await chat.send("Describe Vell.")
        await chat.until(lambda: '"history": "It *was* a"' in chat.screen)
        await chat.pilot.press("escape")
        await chat.done()
        assert json.loads(chat.view.text) == {"name": "Vell", "history": "It *was* a"}


@pytest.mark.thorough
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("schema", "reasons"),
    [
        (NOTE, ("which one call writes as fast", "only one of its fields is long")),
        ({"$ref": "#/$defs/note", "$defs": {"note": NOTES}}, ("records of its own kind",) * 2),
    ],
    ids=["one string", "recursion"],
)
async def test_a_schema_that_fields_do_not_take_is_answered_straight_with_the_reason(tmp_path, schema, reasons):
    file = tmp_path / "note.json"
    file.write_text(json.dumps(schema))
    async with chatting(opening({"": '{"note": "Fine."}'}), schema=file) as chat:
        for strategy, reason in zip(("auto", "fields"), reasons, strict=True):
            await chat.ask(f"/strategy {strategy}")
            await chat.ask("Write a note.")
            assert json.loads(chat.view.text) == {"note": "Fine."}
            assert reason in chat.view.notes_text


@pytest.mark.anyio
async def test_fields_that_cannot_be_written_give_way_to_one_piece(town):
    let_go = anyio.Event()
    script = fields(first="I would rather not.") | {"": Reply(chunks=['{"name": "Ve', 'll"}'], hold=let_go)}
    opened = []
    async with chatting(opening(script, opened=opened, json_schema=True), strategy="fields", schema=town) as chat:
        await chat.send("Describe Vell.")
        await chat.until(lambda: opened[0].calls and opened[0].calls[-1][0].response_schema == TOWN)
        let_go.set()
        await chat.done()
        assert chat.view.text == '{"name": "Vell"}'
        assert "Answered in one piece instead of field by field" in chat.whole_text


@pytest.mark.anyio
async def test_both_ways_of_a_record_are_compared(town):
    script = fields() | {"": json.dumps(VELL)}
    async with chatting(opening(script), strategy="fields", schema=town, size=(120, 60)) as chat:
        await chat.ask("/compare Describe Vell.")
        assert [json.loads(view.text) for view in chat.views] == [VELL, VELL]
        assert chat.screen.count('"name": "Vell"') == 2


@pytest.mark.anyio
async def test_names_and_texts_of_a_hostile_record_are_characters(tmp_path):
    file, names = tmp_path / "hostile.json", ["[red]x[/]", "\x1b[31mred", "<b>b</b>"]
    long = LONG | {"title": HOSTILE[0], "description": f"Two paragraphs {HOSTILE[0]}"}
    file.write_text(
        json.dumps(schema_of(name={"type": "string"}, **dict.fromkeys(names, long)) | {"title": HOSTILE[1]})
    )
    script = {"only these fields": json.dumps({"name": HOSTILE[0], names[0]: HOSTILE[2]})}
    script["only `outline`"] = json.dumps({"outline": dict.fromkeys(names[1:], "x")})
    script |= {
        "only the field `[^`]*31mred": json.dumps({names[1]: HOSTILE[0]}),
        "only the field `[^`]*<b>": json.dumps({names[2]: HOSTILE[5]}),
    }
    async with chatting(opening(script), strategy="fields", schema=file, size=(120, 60)) as chat:
        await chat.ask("Describe it.")
        assert [*json.loads(chat.view.text)] == ["name", *names]
        assert all(f'"{shown}": ' in chat.screen for shown in ("[red]x[/]", "\\u001b[31mred", "<b>b</b>"))
        harmless(chat.strips, actions=("scroll_up", "scroll_down", "grab", "release"))


@pytest.mark.parametrize("text", [*HOSTILE, "\ud83d"])
def test_no_text_of_a_record_gets_through(text):
    written = Written()
    written.settle("", record_in(json.dumps({text: [text]})))
    for width in (7, 100):
        harmless(written.draw_rows(width))
        "".join(strip.text for strip in written.draw_rows(width)).encode()


def test_a_record_is_exported_as_a_block_of_code(stretto, town, tmp_path):
    lines = f"Vell?\n/export {tmp_path}/chat.md\n"
    stretto("chat", "--schema", str(town), piped=lines, script=json.dumps(VELL))
    block = (tmp_path / "chat.md").read_text().partition("```json\n")[2].partition("\n```")[0]
    assert json.loads(block) == VELL


DEEP = '{"a":' + "[" * 600 + "]" * 600 + "}"
LOST = [
    '{"x": 0.12345678901234567890}',
    '{"x": 1e400}',
    '{"x": 1, "x": 2}',
    '{"x": NaN}',
    '{"x": 1e99999999999999999999}',
]


@pytest.mark.parametrize("text", [DEEP, *LOST])
def test_a_record_that_would_lose_something_on_lines_is_shown_as_it_is(text):
    assert record_in(text) == ""


def test_a_price_stays_a_price():
    assert record_in('{"price": 10.00}') == '{\n  "price": 10.0\n}'


@pytest.mark.anyio
async def test_a_field_nested_deeper_than_is_read_ends_no_chat(town):
    async with chatting(opening(fields(sights=DEEP)), strategy="fields", schema=town) as chat:
        await chat.ask("Describe Vell.")
        assert chat.view.text


@pytest.mark.anyio
async def test_a_list_in_prose_that_was_stopped_is_not_taken_for_the_answer(town):
    said = Reply(chunks=["As passage [1] says, Vell is old.", "never"], **UNENDING)
    async with chatting(opening({"": said}, json_schema=False), strategy="direct", schema=town) as chat:
        await chat.send("Describe Vell.")
        await chat.until(lambda: chat.view._record.value == [1])
        await chat.pilot.press("escape")
        await chat.done()
        assert chat.view.text != "[1]"
        assert all(turn.text != "[1]" for turn in chat.state.turns)


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="only there are named pipes")
def test_a_pipe_that_nobody_writes_to_is_one_error(stretto, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refused = stretto("chat", "--schema", str(tmp_path / "pipe"), piped="Why?\n")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "it is a pipe, and nothing writes to it" in refused.stderr
