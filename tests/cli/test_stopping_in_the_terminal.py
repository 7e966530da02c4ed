"""Answers that are stopped in the terminal chat: what was written of them stays, once, and the chat goes on."""

import pytest
from piloting import POINTS, chatting, held, over
from scripted import opening

from stretto.cli.chat.chat_folder import ChatFolder
from stretto.testing import Reply
from stretto.testing.server import Fault, HttpReply, ReplyRule, ScriptedServer

pytestmark = pytest.mark.anyio


async def test_a_stopped_answer_keeps_the_parts_whose_turn_had_not_come():
    unending = HttpReply("Hot words without end.", fault=Fault("stall", after=2))
    chat = ChatFolder().begin()
    async with (
        ScriptedServer([ReplyRule("Write point", unending), ReplyRule("", POINTS)]) as server,
        over(server, chat=chat) as driven,
    ):
        await driven.send("How do I make tea?")
        await driven.until(lambda: [card.text.count("Hot words") for card in driven.view.cards.values()] == [1] * 4)
        await driven.pilot.press("escape")
        await driven.done()
        assert driven.view.text.count("Hot words") == 4
        assert all(driven.view.text.count(title) == 1 for title in ("Tea", "Milk", "Sugar", "Lemon"))
        assert driven.state.turns[-1].text == driven.view.text


PARTS = ("Lake", "Moor", "Reef")
DONE = "Calm in most months of the year, fed by three cold springs and ringed with reeds where herons stand and wait "
BEGUN = "Damp under every boot, purple when heather blooms, and so wide that old paths vanish behind a single low hill "
LATER = (
    "Bright with coral beneath shallow water, loud at each tide, home to crabs, eels and more fish than divers count "
)


@pytest.mark.parametrize(
    ("strategy", "question", "pattern"),
    [
        ("skeleton", "Tell me about landscapes.", 'Write point: {0}|"{0}", in about'),
        ("skeleton", "Tell me about landscapes in a few paragraphs.", 'Write point: {0}|"{0}", in about'),
        ("items", "Describe each of these in one sentence\n\n1. Lake\n2. Moor\n3. Reef", "<entry>\n{}\n</entry>"),
    ],
    ids=["numbered", "paragraphs", "items"],
)
async def test_what_a_stopped_answer_keeps_stands_in_it_once_in_every_form(strategy, question, pattern):
    said = [Reply(DONE), Reply(chunks=[BEGUN, "x"], chunk_delay_s=600), Reply(chunks=[LATER, "x"], chunk_delay_s=600)]
    script = {pattern.format(part): reply for part, reply in zip(PARTS, said, strict=True)}
    script |= {"Outline the answer": "\n".join(f"{at}. {part}" for at, part in enumerate(PARTS, 1))}
    family = "pocket" if strategy == "skeleton" else "general"
    opener = opening({**script, "": "(none)"}, context_window=1_600, prompt_family=family)
    async with chatting(opener, chat=ChatFolder().begin(), strategy=strategy) as chat:
        await chat.send(question)
        texts = [DONE.strip(), BEGUN.strip(), LATER.strip()]
        await chat.until(lambda: [card.text.strip() for card in chat.view.cards.values()] == texts)
        await chat.until(lambda: BEGUN.strip() in chat.view.text)
        await chat.pilot.press("escape")
        await chat.done()
        assert [chat.view.text.count(text) for text in texts] == [1, 1, 1]
        assert chat.state.turns[-1].text == chat.view.text


@pytest.mark.parametrize("key", ["ctrl+c", "escape"])
async def test_a_key_stops_the_answer_and_leaves_the_chat_open(key):
    async with ScriptedServer(
        [ReplyRule("more", "Fine."), ReplyRule("", HttpReply("One two", fault=Fault("stall", after=1)))]
    ) as server:
        async with over(server, strategy="direct", chat=ChatFolder().begin()) as chat:
            await chat.send("Why?")
            await chat.until(lambda: chat.view.text)
            await chat.pilot.press(key)
            await chat.done()
            assert chat.app.is_running
            assert "Stopped after" in chat.whole_text
            await server.wait_until(lambda server: server.active_streams == 0)
            await chat.ask("more?")
            assert chat.view.text == "Fine."
        assert [turn.text for turn in ChatFolder().find(None).read().turns] == ["One", "Fine."]
        said = server.requests[-1].body["messages"]
        assert [message["content"] for message in said] == ["Why?", "One", "more?"]


async def test_stopping_while_points_are_written_keeps_what_had_settled():
    open_client, _ = held(**{"Write point: Tea": "Boil it."})
    async with chatting(open_client, strategy="skeleton") as chat:
        await chat.send("How do I make tea?")
        await chat.until(lambda: len(chat.app.query("Card")) == 4)
        await chat.pilot.press("ctrl+c")
        await chat.done()
        assert not chat.app.query("Card")
        assert chat.state.turns[0].stopped.startswith("Stopped after")
        assert chat.state.client.backends["main"].running == 0


@pytest.mark.parametrize("way", ["/quit", "ctrl+d", "ctrl+q"])
async def test_leaving_while_an_answer_is_written_keeps_it(way):
    file = ChatFolder().begin()
    script = {"": Reply(chunks=["One ", "two"], chunk_delay_s=3600)}
    async with chatting(opening(script), strategy="direct", chat=file) as chat:
        await chat.send("Why?")
        await chat.until(lambda: chat.view.text)
        if way.startswith("/"):
            await chat.pilot.press("ctrl+c")
            await chat.done()
            await chat.send(way)
        else:
            await chat.pilot.press(way)
        await chat.until(lambda: not chat.app.is_running)
        assert chat.app.return_code == 0
    (turn,) = file.read().turns
    assert turn.text == "One "
    assert turn.stopped.startswith("Stopped after")
