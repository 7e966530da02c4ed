"""The chat in a terminal, by Textual's pilot: over HTTP against a scripted server, and on the embedded model."""

import json
import re
from importlib.resources import files

import anyio
import pytest
from piloting import POINTS, chatting, held, over
from scripted import opening
from textual import events

from stretto.cli.chat.chat_file import Turn
from stretto.cli.chat.chat_folder import ChatFolder
from stretto.cli.terminal.answer_view import PARTS
from stretto.cli.terminal.chat_app import EXAMPLES, OF_ANY
from stretto.cli.terminal.ways import NAMES
from stretto.client.async_client import AsyncStretto
from stretto.testing import Reply
from stretto.testing.server import Fault, HttpReply, ReplyRule, ScriptedServer
from stretto.values.errors import ServerFailedError

pytestmark = pytest.mark.anyio


async def test_it_opens_with_the_model_and_with_what_can_be_asked():
    async with chatting(opening({"": "Fine."})) as chat:
        assert f"{chat.state.name} answers." in chat.whole_text
        assert all(question in chat.whole_text for question in OF_ANY)
        assert f"/compare {OF_ANY[0]}" in chat.whole_text


def test_both_chats_offer_the_same_questions():
    page = files("stretto.server.web").joinpath("page", "examples.js").read_text(encoding="utf-8")
    offered = [re.findall(r'"([^"]+\?)"', line) for line in page.splitlines() if line.count('?"') > 1]
    assert offered == [list(OF_ANY), list(EXAMPLES["local:pocket"])]


async def test_points_are_written_side_by_side():
    unending = HttpReply("Hot words without end.", fault=Fault("stall", after=2))
    async with (
        ScriptedServer([ReplyRule("Write point", unending), ReplyRule("", POINTS)]) as server,
        over(server) as chat,
    ):
        await chat.send("How do I make tea?")
        await chat.until(lambda: [card.state for card in chat.view.cards.values()] == ["writing"] * 4)
        await chat.tick()
        assert chat.view.columns == 2
        assert chat.screen.count("Hot words") == 4
        assert all(f"▸ {title}" in chat.screen for title in ("Tea", "Milk", "Sugar", "Lemon"))
        assert "Ctrl-C stops" in chat.app.foot


async def test_points_settle_into_one_text():
    async with (
        ScriptedServer([ReplyRule("Write point", "Hot words."), ReplyRule("", POINTS)]) as server,
        over(server) as chat,
    ):
        await chat.ask("How do I make tea?")
        assert not chat.app.query("Card")
        text = chat.view.text
        assert text.index("Tea") < text.index("Milk") < text.index("Sugar") < text.index("Lemon")
        assert text.count("Hot words.") == 4
        assert "In parallel: You chose it." in chat.whole_text
        assert "5 calls" in chat.whole_text
        assert "1 Tea: Hot words." in chat.screen


@pytest.mark.thorough
async def test_the_embedded_model_answers_in_points():
    async with chatting(AsyncStretto, model="local:pocket", strategy="skeleton", size=(120, 40)) as chat:
        assert "demonstration model" in chat.whole_text
        await chat.ask("How do I look after a bicycle?")  # its cards may be gone before anyone looks
        assert len(chat.state.turns[0].text) > 200
        assert chat.view.text == chat.state.turns[0].text
        assert "In parallel · " in chat.whole_text


async def test_the_route_and_its_reason_are_shown():
    async with chatting(opening({"": "Fine."})) as chat:
        await chat.ask("How are you?")
        answer = chat.app.answering.last
        assert f"One piece: {answer.route.reason}" in chat.whole_text


async def test_samples_stand_side_by_side_and_fold_into_one_line():
    let_go = anyio.Event()
    samples = [Reply("It is 42."), Reply("It is 41."), *[Reply("It is 42.", hold=let_go)] * 3]
    async with chatting(opening({"": samples}), strategy="consensus", size=(120, 30)) as chat:
        await chat.send("How much is 17 and 25?")
        await chat.until(lambda: chat.screen.count("✓ Sample") == 2)
        assert chat.view.columns == 3
        let_go.set()
        await chat.done()
        assert not chat.app.query("Card")
        assert chat.view.text == "It is 42."
        assert re.search(r"5 samples, \d agree: 42 \(\d\), 41 \(1\)", chat.whole_text)


def test_both_chats_take_the_same_for_parts_of_an_answer():
    gain = (files("stretto.server.web") / "page" / "answer" / "gain.js").read_text(encoding="utf-8")
    assert tuple(json.loads(re.search(r"PARTS = new Set\((\[.+?\])\)", gain)[1])) == PARTS


def test_both_chats_call_the_ways_the_same():
    page = files("stretto.server.web").joinpath("page", "words.js").read_text(encoding="utf-8")
    line = next(line for line in page.splitlines() if line.startswith("const WAYS"))
    assert dict(re.findall(r'(\w+): "([^"]+)"', line)) == NAMES


@pytest.mark.parametrize(("width", "columns"), [(40, 1), (60, 1), (80, 2), (120, 3), (200, 4)])
async def test_points_stand_below_each_other_where_there_is_no_room(width, columns):
    open_client, let_go = held()
    async with chatting(open_client, strategy="skeleton", size=(width, 24)) as chat:
        await chat.send("How do I make tea?")
        await chat.until(lambda: len(chat.app.query("Card")) == 4)
        await chat.pilot.pause()
        assert chat.view.columns == columns
        beside = {card.region.y for card in chat.app.query("Card")}
        assert len(beside) == -(-4 // columns)
        assert all(card.region.right <= width for card in chat.app.query("Card"))
        let_go.set()
        await chat.done()
        assert all(strip.cell_length <= width for strip in chat.strips)


@pytest.mark.parametrize("width", [40, 60, 200])
async def test_the_foot_names_its_keys_however_narrow_the_terminal_is(width):
    open_client, let_go = held()
    async with chatting(open_client, strategy="skeleton", size=(width, 24)) as chat:
        assert "/help · Ctrl-D ends" in chat.screen
        await chat.send("How do I make tea?")
        await chat.until(lambda: len(chat.app.query("Card")) == 4)
        await chat.until(lambda: "writing 4 sections" in chat.app.foot)
        await chat.pilot.pause()
        assert "writing 4 sections" in chat.screen
        assert "Ctrl-C stops" in chat.screen
        let_go.set()
        await chat.done()
        await chat.pilot.press("up")
        await chat.tick()
        assert "Escape leaves it" in chat.screen


async def test_points_are_arranged_anew_when_the_window_changes():
    open_client, let_go = held()
    async with chatting(open_client, strategy="skeleton", size=(120, 30)) as chat:
        await chat.send("How do I make tea?")
        await chat.until(lambda: len(chat.app.query("Card")) == 4 and chat.view.columns == 3)
        await chat.pilot.resize_terminal(40, 20)
        await chat.until(lambda: chat.view.columns == 1)
        let_go.set()
        await chat.done()


async def test_a_failed_answer_is_an_error_and_the_chat_goes_on():
    async with ScriptedServer("Fine.") as server, over(server, strategy="direct") as chat:
        server.script(Fault("status", status=401))
        await chat.ask("Why?")
        assert "error: " in chat.whole_text
        await chat.ask("/retry")
        assert chat.view.text == "Fine."
        assert len(chat.views) == 1


async def test_a_failed_point_is_marked_in_its_card():
    let_go = anyio.Event()
    failing = Reply(fault=ServerFailedError("It [bold]fell[/] \x1b[31mover."))
    script = {
        'Write point: Milk|"Milk"': failing,
        "Write point: Tea": Reply("Hot.", hold=let_go),
        "": "1. Tea\n2. Milk\n",
    }
    async with chatting(opening(script, prompt_family="pocket"), strategy="skeleton") as chat:
        await chat.send("How do I make tea?")
        await chat.until(lambda: "failed" in [card.state for card in chat.view.cards.values()])
        await chat.tick()
        assert "✗ Milk" in chat.screen
        assert "It [bold]fell[/] [31mover." in chat.screen
        let_go.set()
        await chat.done()
        assert "warning: " in chat.whole_text


@pytest.mark.thorough
async def test_enter_sends_and_other_keys_begin_a_line():
    opened = []
    async with chatting(opening({"": "Fine."}, opened=opened), strategy="direct") as chat:
        await chat.pilot.press("a", "ctrl+j", "b", "shift+enter", "c", "backslash", "enter", "d")
        assert chat.app.asking.text == "a\nb\nc\nd"
        assert chat.app.asking.size.height == 4
        await chat.pilot.press("enter")
        await chat.done()
        assert chat.app.asking.text == ""
        assert opened[0].calls[0][0].messages[-1].content == "a\nb\nc\nd"


async def test_what_is_pasted_is_not_sent_line_by_line():
    async with chatting(opening({"": "Fine."}), strategy="direct") as chat:
        chat.app.post_message(events.Paste("One?\rTwo?\r\n\x1b[2J"))
        await chat.until(lambda: chat.app.asking.text)
        assert chat.app.asking.text == "One?\nTwo?\n[2J"
        assert chat.state.turns == []


@pytest.mark.thorough
async def test_the_last_question_can_be_edited():
    opened = []
    open_client = opening({"tea": "About tea.", "": "About coffee."}, opened=opened)
    async with chatting(open_client, strategy="direct", chat=ChatFolder().begin()) as chat:
        await chat.ask("First?")
        await chat.ask("What is coffee?")
        await chat.pilot.press("up")
        assert chat.app.asking.text == "What is coffee?"
        await chat.pilot.press("escape")
        assert chat.app.asking.text == ""
        await chat.ask("/edit")
        await chat.ask("What is tea?")
        assert [turn.question for turn in chat.state.turns] == ["First?", "What is tea?"]
        assert "coffee?" not in chat.whole_text
        assert [message.content for message in opened[0].calls[-1][0].messages][0::2] == ["First?", "What is tea?"]
        saved = ChatFolder().find(None).read()
        assert [turn.question for turn in saved.conversation] == ["First?", "What is tea?"]
        assert [turn.question for turn in saved.turns] == ["First?", "What is coffee?", "What is tea?"]


async def test_a_chat_is_gone_on_with():
    folder = ChatFolder()
    async with chatting(opening({"": "Leaves."}), strategy="direct", chat=folder.begin(), system="Be brief.") as chat:
        await chat.ask("What is tea?")
    opened = []
    async with chatting(opening({"": "White."}, opened=opened), strategy="direct", chat=folder.find(None)) as chat:
        assert "> What is tea?" in chat.whole_text
        assert "Leaves." in chat.whole_text
        assert "One piece · " in chat.whole_text
        await chat.ask("And milk?")
    said = [message.content for message in opened[0].calls[0][0].messages]
    assert said == ["Be brief.", "What is tea?", "Leaves.", "And milk?"]
    assert len(folder.find(None).read().conversation) == 2


async def test_a_question_whose_answer_never_came_is_taken_up_again():
    file = ChatFolder().begin()
    file.asked(Turn("a", "What is tea?"))
    async with chatting(opening({"": "Leaves."}), strategy="direct", chat=file) as chat:
        assert "There is no answer." in chat.whole_text
        assert chat.app.asking.text == "What is tea?"
        await chat.pilot.press("enter")
        await chat.done()
        assert [turn.text for turn in chat.state.turns] == ["Leaves."]


@pytest.mark.thorough
async def test_the_documents_of_a_chat_are_read_again(tmp_path):
    (tmp_path / "lease.md").write_text("The rent is 900 euros.")
    folder = ChatFolder()
    async with chatting(opening({"": "900."}), strategy="direct", chat=folder.begin()) as chat:
        await chat.ask(f"/document {tmp_path}/lease.md")
        assert "1 document of 22 characters is read" in chat.whole_text
        await chat.ask("What is the rent?")
    async with chatting(opening({"": "900."}), chat=folder.find(None)) as chat:
        assert chat.state.documents == (tmp_path / "lease.md",)
    (tmp_path / "lease.md").unlink()
    async with chatting(opening({"": "900."}), chat=folder.find(None)) as chat:
        assert "A document of this chat cannot be read again" in chat.whole_text


async def test_sections_of_a_report_are_shown_without_the_marks_of_their_places(tmp_path):
    (tmp_path / "lease.md").write_text("The rent is 900 euros. The lease ends in May. " * 40)
    let_go = anyio.Event()
    plan = (
        "Opening: The rent is 900 euros.\nSections: Rent | End\n1. bullets, 60 words: rent [cite:1]\n"
        "2. bullets, 60 words: end [cite:2]\nClosing: none"
    )
    script = {
        "You plan the answer": plan,
        '"Rent"': Reply("- It is 900 euros [cite:1].", hold=let_go),
        '"End"': "- It ends in May [cite:2], as said.",
    }
    options = {"documents": [tmp_path / "lease.md"], "strategy": "auto"}
    async with chatting(opening(script), **options) as chat:
        await chat.send("Write a two-page report on this lease: its rent and its end.")
        await chat.until(lambda: "It ends in May, as said." in chat.screen)
        assert "cite:" not in chat.screen
        let_go.set()
        await chat.done()
        assert "## " not in chat.screen
        assert "It ends in May [lease.md, chars" in " ".join(chat.screen.split())


async def test_the_passages_of_a_long_document_are_a_strip(tmp_path):
    record = json.dumps({"evidence": ["x"], "answer": "900", "confidence": 5, "no_information": False})
    script = {'"no_information"': record, "": "It is 900."}
    text = "# Terms\n\nThe rent is 900 euros.\n\n" + "The parties meet once a year in the garden.\n\n" * 400
    (tmp_path / "lease.md").write_text(text)
    options = {"documents": [tmp_path / "lease.md"], "size": (40, 24)}
    async with chatting(opening(script, context_window=3_000), **options) as chat:
        await chat.ask("What is the rent?")
        (strip,) = chat.app.query("Passages")
        marks, said = (row.text for row in strip.draw_rows(36))
        assert set(marks) <= set("░▒█×")
        assert "passages read" in said


@pytest.mark.thorough
async def test_both_ways_are_compared_side_by_side_with_times():
    script = {"Outline the answer": POINTS, "Write point": "Words.", "": "Straight."}
    async with chatting(opening(script, prompt_family="pocket"), strategy="skeleton", size=(120, 50)) as chat:
        await chat.ask("/compare How do I make tea?")
        one, other = chat.views
        assert one.region.y == other.region.y
        assert one.region.right <= other.region.x
        assert "Words." in one.text
        assert other.text == "Straight."
        assert "seconds in total" in chat.whole_text
        assert len(chat.state.turns) == 1
        assert chat.state.turns[0].text == one.text
        await chat.pilot.resize_terminal(50, 40)
        await chat.until(lambda: other.region.y >= one.region.bottom)


async def test_what_was_written_straight_on_cannot_be_compared():
    async with chatting(opening({"": "Fine."}), strategy="direct") as chat:
        await chat.ask("/compare")
        assert "error: There is no question yet." in chat.whole_text
        await chat.ask("/compare Why?")
        assert "There is nothing to compare" in chat.whole_text


async def test_the_chat_is_exported(tmp_path):
    async with chatting(opening({"": "**Leaves**."}), strategy="direct") as chat:
        await chat.ask("What is tea?")
        await chat.ask(f"/export {tmp_path}/chat.md")
        await chat.ask(f"/export {tmp_path}/chat.json")
    assert (tmp_path / "chat.md").read_text().startswith("## What is tea?\n\n**Leaves**.\n\n*direct · ")
    (turn,) = json.loads((tmp_path / "chat.json").read_text())["turns"]
    assert (turn["question"], turn["answer"]["text"]) == ("What is tea?", "**Leaves**.")


@pytest.mark.thorough
async def test_choices_apply_to_what_follows():
    opened = []
    async with chatting(opening({"": "Fine."}, opened=opened)) as chat:
        for line in ("/strategy direct", "/preference careful", "/system Be brief.", "/model other:model", "/trace on"):
            await chat.ask(line)
        await chat.ask("Why?")
        assert opened[0].closed
        assert [message.content for message in opened[1].calls[0][0].messages] == ["Be brief.", "Why?"]
        assert "critical path" in chat.whole_text
        assert "other:model · One piece" in chat.app.foot


async def test_a_wrong_command_is_an_error_and_stays_to_be_mended():
    async with chatting(opening({"": "Fine."})) as chat:
        await chat.ask("/nope [red]x[/]")
        assert "error: There is no command /nope. /help lists them." in chat.whole_text
        assert chat.app.asking.text == "/nope [red]x[/]"
        await chat.ask("/strategy magic")
        assert "error: There is no strategy 'magic'" in chat.whole_text
        await chat.ask("/help")
        assert all(f"/{name}" in chat.whole_text for name in ("document", "compare", "export", "edit", "clear", "quit"))


async def test_clear_begins_another_chat():
    folder = ChatFolder()
    async with chatting(opening({"": "Fine."}), strategy="direct", chat=folder.begin(), begin=folder.begin) as chat:
        await chat.ask("One?")
        await chat.ask("/clear")
        assert "> One?" not in chat.whole_text
        await chat.ask("Two?")
    assert sorted(each.title for each in folder.latest()) == ["One?", "Two?"]


async def test_a_second_question_waits_where_it_is_typed():
    open_client, let_go = held()
    async with chatting(open_client, strategy="skeleton") as chat:
        await chat.send("How do I make tea?")
        await chat.send("And coffee?")
        assert chat.app.asking.text == "And coffee?"
        await chat.tick()
        assert chat.app.foot == "Enter sends your question when this answer is complete · Ctrl-C stops"
        let_go.set()
        await chat.done()
        await chat.tick()
        assert "Enter sends your" not in chat.app.foot
        assert len(chat.state.turns) == 1


async def test_a_file_that_cannot_be_written_is_a_warning_and_no_end(tmp_path):
    (tmp_path / "chats").write_text("no folder")
    async with chatting(opening({"": "Fine."}), strategy="direct", chat=ChatFolder().begin()) as chat:
        await chat.ask("Why?")
        assert chat.view.text == "Fine."
        assert "warning: The chat in" in chat.whole_text


async def test_the_conversation_is_scrolled_by_keys():
    long = "\n\n".join(f"Line {number}." for number in range(100))
    async with chatting(opening({"": long}), strategy="direct", size=(60, 20)) as chat:
        await chat.ask("Why?")
        await chat.until(lambda: chat.app.talk.scroll_y > 50)
        bottom = chat.app.talk.scroll_y
        await chat.pilot.press("pageup")
        await chat.until(lambda: chat.app.talk.scroll_y < bottom)
        assert chat.app.asking.has_focus


async def test_ctrl_c_gives_up_what_is_typed_and_then_says_how_to_leave():
    async with chatting(opening({"": "Fine."})) as chat:
        await chat.pilot.press("a", "b", "ctrl+c")
        assert chat.app.asking.text == ""
        await chat.pilot.press("ctrl+c")
        await chat.until(lambda: "Ctrl-D ends the chat" in chat.app.foot)


@pytest.mark.thorough
async def test_the_mouse_selects_and_ctrl_c_copies():
    async with chatting(opening({"": "Some words to copy."}), strategy="direct") as chat:
        await chat.ask("Why?")
        (written,) = chat.app.query("Written")
        await chat.pilot.mouse_down(written, offset=(0, 0))
        await chat.pilot.hover(written, offset=(9, 0))
        await chat.pilot.mouse_up(written, offset=(9, 0))
        await chat.pilot.pause()
        await chat.pilot.press("ctrl+c")
        assert chat.app.clipboard.startswith("Some words")
        assert chat.app.asking.has_focus
