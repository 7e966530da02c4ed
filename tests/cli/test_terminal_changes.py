"""What a rewrite changed, in the terminal's chat."""

import pytest
from piloting import chatting
from rewriting import RENAME, TEXT
from scripted import opening

from stretto.cli.terminal.answer_view import changes_of
from stretto.values.events import TextEdited

pytestmark = pytest.mark.anyio


def edit(old, new, start=0):
    return TextEdited(branch_id="edits-1", start=start, old=old, new=new)


def said(*edits, text="", trace=False):
    return [line.plain for line in changes_of(edits, text, trace=trace)]


async def test_the_chat_counts_the_changes_and_shows_alike_ones_once():
    script = {'{"changes"': '{"changes": [{"old": "letter", "new": "mail"}]}'}
    async with chatting(opening(script), strategy="rewrite", size=(100, 120)) as chat:
        await chat.ask(RENAME)
        assert chat.view.text == TEXT.replace("letter", "mail")
        places = TEXT.count("letter")
        assert f"Changed in {places} places:" in chat.view.notes_text
        assert f"letter → mail ({places} times)" in chat.view.notes_text


def test_a_change_has_its_line_where_the_details_are_wanted():
    text = "One mail.\n\nTwo mails."
    edits = (edit("letter", "mail", 4), edit("letters", "mails", 15))
    assert said(*edits, text=text, trace=True) == [
        "Changed in 2 places:",
        "  line 1: letter → mail",
        "  line 3: letters → mails",
    ]


def test_many_changes_are_cut_and_none_say_nothing():
    assert said() == []
    lines = said(*(edit(f"old{number}", "") for number in range(20)))
    assert lines[:2] == ["Changed in 20 places:", "  old0 → nothing"]
    assert len(lines) == 7
    assert "and 15 more" in lines[-1]


def test_hostile_text_stays_one_line_of_characters():
    lines = said(edit("a\n\x1b[31mred[/bold]", "[bold]b" + "c" * 500))
    assert len(lines) == 2
    assert "\x1b" not in lines[1]
    assert "[bold]b" in lines[1]
    assert len(lines[1]) < 140
