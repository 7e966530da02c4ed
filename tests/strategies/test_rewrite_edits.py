"""A given text that is changed by edits: what is made of them, and what happens where one cannot be made."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streaming import streamed, text_of
from test_rewrite import PARAGRAPHS, TEXT, piece_of

from stretto import AsyncStretto
from stretto.strategies.rewrite.edits import Edit, apply, edits_in
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio

WRONG = TEXT.replace("Paragraph 7 of the letter", "Paragraph 7 of teh leter")
CORRECT = f"Correct the spelling of this text:\n\n{WRONG}"
LIST = "Write one JSON object"


def changes(*pairs):
    return json.dumps({"changes": [{"old": old, "new": new} for old, new in pairs]})


def editor(*replies):
    """A model that answers so to the piece with the mistake, and finds no mistake in the others."""
    left = list(replies)

    def reply(prompt):
        if LIST not in text_of(prompt):
            return piece_of(prompt).replace("teh leter", "the letter")
        return left.pop(0) if "teh leter" in piece_of(prompt) else changes()

    return ScriptedBackend(reply)


async def ask(backend, question=CORRECT, **request):
    return await streamed(backend, question, strategy="rewrite", **request)


async def test_only_what_changes_is_written_and_events_tell_it():
    backend = editor(changes(("7 of teh leter is", "7 of the letter is")))
    wrong = WRONG.replace("teh leter", "the letter").replace("Paragraph 7 of the letter", "Paragraph 7 of teh leter", 1)
    answer, events = await ask(backend, f"Correct the spelling of this text:\n\n{wrong}")
    assert answer.text == TEXT
    (edited,) = [event for event in events if event.type == "text_edited"]
    assert (edited.old, edited.new) == ("7 of teh leter is", "7 of the letter is")
    assert answer.text[edited.start :].startswith(edited.new)
    assert answer.usage.completion_tokens < len(TEXT) // 4 * 0.3
    assert (answer.warnings, answer.finish_reason, answer.strategy) == ((), "stop", "rewrite")
    assert answer.route.reason.endswith("Changed in 1 place by edits.")


async def test_a_change_that_cannot_be_made_is_asked_for_once_more():
    backend = editor(changes(("teh leter is", "the letter is"), ("absent", "x")), changes())
    wrong = TEXT.replace("Paragraph 7 of the letter", "Paragraph 7 of teh leter", 1)
    answer, _ = await ask(backend, f"Correct the spelling of this text:\n\n{wrong}")
    assert answer.text == TEXT
    again = [text_of(prompt) for prompt, _ in backend.calls if " faults\n" in text_of(prompt)]
    assert len(again) == 1
    assert '"absent" does not stand in the piece' in again[0]


@pytest.mark.parametrize("second", [changes(("absent", "x")), "Sorry, I cannot.", changes(("teh leter", "the letter"))])
async def test_a_piece_whose_changes_cannot_be_made_is_written_anew(second):
    answer, events = await ask(editor(changes(("absent", "x")), second))
    assert answer.text == TEXT
    assert [branch.kind for branch in answer.branches].count("piece") == 1
    assert all(PARAGRAPHS[7] not in event.old for event in events if event.type == "text_edited")


async def test_a_rename_reaches_every_place_in_text_and_code():
    text = "\n\n".join(["The function foo and its foobar. " * 9, "```py\nfoo(1)\n```", "It calls foo."] * 3)
    backend = ScriptedBackend(lambda prompt: changes(("foo", "bar")))
    answer, _ = await ask(backend, f"Rename foo to bar in this text:\n\n{text}")
    assert answer.text == text.replace("foo", "bar").replace("barbar", "foobar")


async def test_a_sentence_is_added_in_one_place_by_one_call():
    backend = ScriptedBackend(
        lambda prompt: changes(
            (PARAGRAPHS[3][-40:] + "\n\nParagraph 4", PARAGRAPHS[3][-40:] + " It rained.\n\nParagraph 4")
        )
    )
    answer, _ = await ask(backend, f"Add a sentence about rain to this letter:\n\n{TEXT}")
    assert answer.text == TEXT.replace("\n\nParagraph 4", " It rained.\n\nParagraph 4", 1)
    assert len(backend.calls) == 1


async def test_a_change_that_would_lose_a_link_is_not_made():
    text = TEXT.replace("Paragraph 7 of the letter", "Paragraph 7 of teh leter with https://example.org/a", 1)
    reply = changes(("teh leter with https://example.org/a", "the letter"))
    answer, _ = await ask(editor(reply, reply), f"Correct the spelling of this text:\n\n{text}")
    assert "the letter with https://example.org/a" in answer.text


TEXTS = st.text(st.sampled_from("ab \n\r.é😀|`{}"), max_size=60)


@given(TEXTS, st.lists(st.tuples(TEXTS, TEXTS), max_size=4), st.booleans())
def test_outside_of_what_is_changed_a_text_stays_byte_for_byte(source, pairs, everywhere):
    applied = apply(source, [Edit(old, new) for old, new in pairs], everywhere=everywhere)
    restored = applied.text
    for edit in reversed(applied.made):
        assert restored[edit.start : edit.start + len(edit.new)] == edit.new
        restored = restored[: edit.start] + edit.old + restored[edit.start + len(edit.new) :]
    assert restored == source


@given(st.text(max_size=80))
def test_any_text_is_read_for_changes(text):
    assert edits_in(text) is None or isinstance(edits_in(text), list)


async def test_a_task_that_changed_much_is_written_anew_the_next_time():
    def reply(prompt):
        piece = piece_of(prompt)
        return changes((piece, piece.upper())) if LIST in text_of(prompt) else piece.upper()

    async with AsyncStretto(ScriptedBackend(reply)) as stretto:
        first = await stretto.ask(CORRECT, strategy="rewrite")
        route = await stretto.route(CORRECT)
        second = await stretto.ask(CORRECT, strategy="rewrite")
        other = await stretto.route(f'Rename "letter" to "mail" in this text:\n\n{TEXT}')
    assert {branch.kind for branch in first.branches} == {"edits"}
    assert {branch.kind for branch in second.branches} == {"piece"}
    assert first.text == second.text == WRONG.upper()
    assert "side by side" in route.reason
    assert "Only what changes" in other.reason
