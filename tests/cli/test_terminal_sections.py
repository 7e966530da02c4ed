"""Answers in sections in the terminal's chat: the opening is read while the headings stand below it and fill."""

import anyio
import pytest
from piloting import chatting
from scripted import opening

from stretto.testing import Reply
from stretto.values.errors import ServerFailedError

pytestmark = pytest.mark.anyio

WAY = "skeleton"
HEADINGS = ["Every week", "At the shop", "What to buy"]
HEAD = "Opening: Clean the chain **first**.\nSections: Every week | At the shop | What to buy\n"
PLAN = f"{HEAD}1. steps, 60 words: clean\n2. bullets, 60 words: truing\n3. table, 60 words: part\nClosing: Start today."
SECTIONS = {
    '"Every week"': "1. Wipe it.\n2. Oil it.",
    '"At the shop"': "- Have the wheels trued.\n- Ask for the bearings.\n- Pay.",
    '"What to buy"': "| Part | Price |\n|---|---|\n| Pump | 20 |",
}
UNENDING = {"chunk_delay_s": 600}


def planned(**script):
    return opening({"You plan the answer": PLAN} | SECTIONS | script)


def row_of(chat, text):
    """The row of the screen on which a text stands."""
    return next(row for row, line in enumerate(chat.screen.split("\n")) if text in line)


async def test_the_opening_is_read_while_the_headings_stand_below_it():
    plan = Reply(chunks=[HEAD, "never"], **UNENDING)
    async with chatting(planned(**{"You plan the answer": plan}), strategy=WAY) as chat:
        await chat.send("How do I look after a bicycle?")
        await chat.until(lambda: len(chat.view.cards) == 3 and "Clean the chain first." in chat.screen)
        await chat.tick()
        rows = [row_of(chat, text) for text in ("> How", "Clean the chain first.", *(f"· {each}" for each in HEADINGS))]
        assert rows == sorted(rows)
        assert rows[0] == 0
        assert "planning: 3 sections" in chat.app.foot
        await chat.pilot.press("escape")
        await chat.done()
        assert "Clean the chain" in chat.view.text


@pytest.mark.thorough
@pytest.mark.parametrize("size", [(100, 32), (40, 60)])
async def test_sections_fill_where_they_stand_and_nothing_moves_at_the_end(size):
    let_go = anyio.Event()
    last = Reply(SECTIONS['"What to buy"'], hold=let_go)
    async with chatting(planned(**{'"What to buy"': last}), strategy=WAY, size=size) as chat:
        await chat.ask("/strategy direct")  # something that stands above the question
        await chat.ask("/strategy skeleton")
        await chat.send("How do I look after a bicycle?")
        await chat.until(lambda: [card.state for card in chat.view.cards.values()] == ["finished"] * 2 + ["silent"])
        await chat.tick()
        await chat.until(lambda: "Start today." in chat.screen and row_of(chat, "> How") == 0)
        shown = ("Clean the chain first.", "Every week", "Wipe it.", "At the shop", "Pay.", "What to buy")
        rows = [row_of(chat, text) for text in (*shown, "Start today.")]
        assert rows == sorted(rows)
        assert "✓ Every week · 6 words" in chat.screen
        let_go.set()
        await chat.done()
        assert [row_of(chat, text) for text in shown] == rows[:-1]
        assert row_of(chat, "> How") == 0
        assert not chat.app.query("Section")
        assert all(strip.cell_length <= size[0] for strip in chat.strips)


@pytest.mark.thorough
async def test_the_question_stays_at_the_top_of_another_size_until_the_reader_scrolls():
    let_go = anyio.Event()
    last = Reply(SECTIONS['"What to buy"'], hold=let_go)
    async with chatting(planned(**{'"What to buy"': last}), strategy=WAY) as chat:
        await chat.ask("/strategy skeleton")
        await chat.send("How do I look after a bicycle?")
        await chat.until(lambda: "Start today." in chat.screen and row_of(chat, "> How") == 0)
        for size in ((100, 60), (60, 20), (100, 40)):
            await chat.pilot.resize_terminal(*size)
            await chat.until(lambda size=size: chat.app.size == size and row_of(chat, "> How") == 0)
        await chat.pilot.press("pageup")
        await chat.until(lambda: "/strategy skeleton" in chat.screen)
        await chat.pilot.wait_for_animation()
        row = row_of(chat, "> How")
        assert row > 0
        let_go.set()
        await chat.done()
        assert row_of(chat, "> How") == row


async def test_a_section_that_is_not_read_yet_shows_its_first_rows():
    held = {'"Every week"': Reply("Words.", hold=anyio.Event())}
    async with chatting(planned(**held), strategy=WAY) as chat:
        await chat.send("How do I look after a bicycle?")
        await chat.until(lambda: [card.state for card in chat.view.cards.values()][1] == "finished")
        await chat.tick()
        assert "Ask for the bearings." in chat.screen
        assert "Pay." not in chat.screen


async def test_a_plan_without_sections_goes_on_as_one_text():
    let_go = anyio.Event()
    plan = "Opening: Clean the chain first.\nSections: Only this\n1. steps, 60 words: clean\n"
    script = {"You plan the answer": plan, "": Reply("Then oil it.", hold=let_go)}
    async with chatting(opening(script), strategy=WAY) as chat:
        await chat.send("How do I look after a bicycle?")
        await chat.until(lambda: "Clean the chain first." in chat.screen and not chat.view.cards)
        let_go.set()
        await chat.done()
        assert chat.view.text == "Clean the chain first.\n\nThen oil it."
        assert "Only this" not in chat.screen.split("warning")[0]


async def test_a_stopped_answer_keeps_what_there_is_of_each_section_once():
    begun = {f'"{each}"': Reply(chunks=[f"About {each.lower()}: ", "never"], **UNENDING) for each in HEADINGS[:2]}
    async with chatting(planned(**begun), strategy=WAY) as chat:
        await chat.send("How do I look after a bicycle?")
        await chat.until(lambda: sum(bool(card.text) for card in chat.view.cards.values()) == 2)
        await chat.until(lambda: "Start today." in chat.screen)
        await chat.pilot.press("escape")
        await chat.done()
        assert [part.strip() for part in chat.view.text.split("\n\n")] == [
            *("Clean the chain **first**.", "## Every week", "About every week:"),
            *("## At the shop", "About at the shop:", "Start today."),
        ]


async def test_a_section_that_fails_says_so_below_its_heading():
    let_go = anyio.Event()
    failing = {'"At the shop"': Reply(fault=ServerFailedError("It [bold]fell[/] \x1b[31mover."))}
    last = Reply(SECTIONS['"What to buy"'], hold=let_go)
    async with chatting(planned(**failing, **{'"What to buy"': last}), strategy=WAY) as chat:
        await chat.send("How do I look after a bicycle?")
        await chat.until(lambda: "failed" in [card.state for card in chat.view.cards.values()])
        await chat.tick()
        assert row_of(chat, "It [bold]fell[/] [31mover.") == row_of(chat, "✗ At the shop") + 1
        let_go.set()
        await chat.done()
        assert "warning: " in chat.whole_text


async def test_hostile_headings_are_characters():
    hostile = ["[red]x[/] <b>", "\x1b[31mred", "[click](http://e.com) @click"]
    plan = f"Opening: Fine.\nSections: {' | '.join(hostile)}\n" + "".join(
        f"{n}. steps, 60 words: x\n" for n in (1, 2, 3)
    )
    async with chatting(opening({"You plan the answer": plan, "": "Text."}), strategy=WAY) as chat:
        await chat.ask("How do I look after a bicycle?")
        assert all(shown in chat.screen for shown in ("[red]x[/]", "[31mred", "click (http://e.com) @click"))
        assert "\x1b" not in chat.screen
