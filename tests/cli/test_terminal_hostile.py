"""What a model means ill: nothing of it steers the terminal, and nothing of it can be clicked or is read as markup."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from piloting import chatting
from plans import ASKED, plan
from scripted import opening
from textual.strip import Strip

from stretto.cli.chat.chat_folder import ChatFolder
from stretto.cli.terminal.cards import Card
from stretto.cli.terminal.lines import Words, Written, words

HOSTILE = [
    "\x1b[2J\x1b[31mred\x1b]0;title\x07\x1b]52;c;ZXZpbA==\x07",
    "\x9b31m\x9d0;title\x9c\x90q\x9c",
    "[bold red]loud[/] [@click=app.quit]leave[/] [link=file:///etc/passwd]here[/link]",
    "[words](javascript:alert(1)) <http://evil.example/> ![picture](http://evil.example/p.png)",
    "<script>alert(1)</script> <b onclick=x>b</b> &lt;b&gt;",
    "\u202eback to front\u2066\u2069 one\u2028two\u2029three\ttab\rreturn\x08\x08\x7f",
    "\x1b_Gf=100;AAAA\x1b\\ \x1bPq#0\x1b\\ \x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "```\n\x1b[31mcode\x1b[0m\n[@click=app.quit]x[/]\n```\n\n| a\x1b | b |\n|---|---|\n| \x1b[1m | [red]x[/] |",
]
ALL = "\n\n".join(HOSTILE)
SCROLLING = ("scroll_up", "scroll_down", "grab", "release")


def harmless(strips, *, actions=()):
    """Only characters that are seen, and no style that does anything but the named actions."""
    for strip in strips:
        for segment in strip:
            assert not segment.control
            assert not [sign for sign in segment.text if unicodedata.category(sign) in ("Cc", "Zl", "Zp")], segment
            assert not set(segment.text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
            if segment.style is not None:
                assert segment.style.link is None
                acts = {value for key, value in segment.style.meta.items() if key.startswith("@")}
                assert acts <= set(actions), segment


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("width", [1, 7, 40, 100])
def test_no_widget_lets_anything_through(text, width):
    card = Card(text)
    card.text, card.rows = text, 9
    failed = Card(text)
    failed.error = text
    for widget in (Written(text), Words(words(text, "red")), card, failed):
        strips = widget.draw_rows(width)
        assert strips
        harmless(strips)


@given(st.text(), st.integers(1, 60))
def test_no_text_at_all_gets_through(text, width):
    harmless([*Written(text).draw_rows(width), *Words(words(text)).draw_rows(width)])


@given(st.lists(st.text(st.sampled_from("a[]*#`|-\n 1.<>\x1b\\"), max_size=20), max_size=8))
def test_pieces_draw_what_the_whole_draws(pieces):
    growing = Written()
    for piece in pieces:
        growing.feed(piece)
        growing.draw_rows(30)
    whole = Written("".join(pieces))
    assert lines(growing.draw_rows(30)) == lines(whole.draw_rows(30))


def lines(strips):
    return [strip.text.rstrip() for strip in strips if isinstance(strip, Strip)]


@pytest.mark.thorough
@pytest.mark.anyio
async def test_a_hostile_model_cannot_act_on_the_chat():
    headings = [text.splitlines()[0].replace("|", "") for text in HOSTILE]
    script = {ASKED: plan(*headings), "": ALL}
    file = ChatFolder().begin()
    async with chatting(
        opening(script, name="evil:[red]\x1b[31mmodel"), strategy="skeleton", chat=file, trace=True
    ) as chat:
        await chat.send("What [bold]is[/] \x1b[31mtea?")
        while chat.app.busy:
            await chat.tick()
            harmless_but_for_textual(chat.strips)
        await chat.pilot.pause()
        harmless_but_for_textual(chat.strips)
        assert "[bold]is[/]" in chat.whole_text
        for widget in chat.app.query("Written, Words, Card"):
            harmless(widget.draw_rows(60))
        for y in range(0, chat.app.talk.max_scroll_y + 1, chat.app.talk.size.height):
            chat.app.talk.scroll_to(y=y, animate=False)
            await chat.pilot.pause()
            for row in range(0, chat.app.talk.size.height, 9):
                await chat.pilot.click(chat.app.talk, offset=(6, row))
        assert chat.app.is_running
    async with chatting(opening(script), chat=ChatFolder().find(None)) as chat:  # and once more from the file
        harmless_but_for_textual(chat.strips)
        await chat.ask("/help")
        assert chat.app.is_running


def harmless_but_for_textual(strips):
    """The rows of the screen: Textual's scroll bar can be clicked."""
    harmless(strips, actions=SCROLLING)
    assert all("\x1b" not in strip.text for strip in strips)
