"""``stretto chats``, and going on with a chat line by line."""

import json

import pytest
from plans import ASKED, plan

from stretto.cli.chat.chat_file import Turn
from stretto.cli.chat.chat_folder import ChatFolder

HOSTILE = "Tea \x1b]0;owned\x07\x1b[2J\x9b31m\u202emilk"


@pytest.fixture
def kept(stretto):
    """A chat of two turns; gives its name."""
    chat = ChatFolder().begin()
    chat.asked(Turn("a", "What is tea?"))
    result = stretto(
        "chat", "--resume", chat.id, "-s", "direct", piped="/retry\nAnd milk?\n", script={"": ["Leaves.", "White."]}
    )
    assert result.exit_code == 0, result.stderr
    return chat.id


def test_going_on_line_by_line_keeps_the_turns(stretto, kept):
    result = stretto("chats", "show", kept)
    assert result.stdout.startswith("## What is tea?\n\nLeaves.\n\n*direct · ")
    assert "## And milk?\n\nWhite.\n" in result.stdout
    assert "no answer" in stretto("chats", "show", kept, "--all").stdout


def test_the_model_is_told_what_was_said_before(stretto, kept):
    opened = []
    stretto("chat", "--resume", "-s", "direct", piped="And sugar?\n", opened=opened)
    said = [message.content for message in opened[0].calls[0][0].messages]
    assert said == ["What is tea?", "Leaves.", "And milk?", "White.", "And sugar?"]


def test_another_model_that_goes_on_is_a_warning(stretto, kept):
    result = stretto("chat", "--resume", kept, piped="", name="other:model")
    assert "scripted:model wrote this chat so far. other:model continues it." in result.stderr


@pytest.mark.thorough
def test_list_and_search(stretto, kept):
    assert stretto("chats").stdout == stretto("chats", "list").stdout
    assert f"{kept}  " in stretto("chats").stdout
    assert kept in stretto("chats", "search", "white", "tea").stdout
    nothing = stretto("chats", "search", "coffee")
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (1, "", "Nothing was found.\n")
    (listed,) = json.loads(stretto("chats", "--json").stdout)
    assert (listed["id"], listed["questions"], listed["title"]) == (kept, 2, "What is tea?")


def test_show_as_json_has_the_whole_answers(stretto, kept):
    turns = json.loads(stretto("chats", "show", kept[:5], "--json").stdout)["turns"]
    assert [turn["answer"]["route"]["strategy"] for turn in turns] == ["direct", "direct"]


def test_delete(stretto, kept):
    assert stretto("chats", "delete").exit_code == 2
    assert stretto("chats", "delete", kept).stdout == "Removed: 1\n"
    assert stretto("chats", "show", kept).exit_code == 2
    assert "Begin one with: stretto chat" in stretto("chats").stderr
    assert stretto("chats", "delete", "--all").stdout == "Removed: 0\n"


def test_what_a_pipe_asks_is_not_kept(stretto):
    stretto("chat", "-s", "direct", piped="One?\n")
    assert ChatFolder().latest() == []


def test_no_history_and_resume_exclude_each_other(stretto, kept):
    result = stretto("chat", "--resume", "--no-history", piped="")
    assert result.exit_code == 2
    assert "exclude each other" in result.stderr


def test_nothing_that_is_kept_can_steer_a_terminal(stretto, kept):
    stretto("chat", "--resume", kept, "-s", "direct", piped="Why?\n", script=HOSTILE)
    for command in (("chats", "show", kept), ("chats", "show", kept, "--json"), ("chats", "search", "milk", "why?")):
        shown = stretto(*command).stdout
        assert not set(shown) & set("\x1b\x07\x9b\u202e"), command


def test_edit_retry_and_compare_line_by_line(stretto):
    opened = []
    lines = "One?\n/edit Two?\n/retry\n/edit\n"
    result = stretto("chat", "-s", "direct", piped=lines, opened=opened)
    assert [prompt.messages[-1].content for prompt, _ in opened[0].calls] == ["One?", "Two?", "Two?"]
    assert all(len(prompt.messages) == 1 for prompt, _ in opened[0].calls)
    assert "error: /edit takes the question" in result.stderr
    script = {ASKED: plan("Tea", "Milk"), "": "Words."}
    result = stretto("chat", "-s", "skeleton", piped="/compare How do I make tea?\n", script=script)
    assert "seconds in total" in result.stderr


def test_export_writes_a_new_file_only(stretto, tmp_path):
    file = tmp_path / "chat.md"
    endings = (file, file, tmp_path / "chat.txt", "", tmp_path / "no" / "a.md")
    first, *others = (f"/export {ending}" for ending in (file, *endings))
    lines = "\n".join([first, "Why?", *others, ""])
    result = stretto("chat", "-s", "direct", "-q", piped=lines)
    errors = result.stderr.splitlines()
    assert errors[0] == "error: There is nothing to export yet. Ask something first."
    assert errors[1].endswith(f"The chat is in {file}")
    assert "is there already" in errors[2]
    assert "exported as .md or .json" in errors[3]
    assert "takes the name of a file" in errors[4]
    assert "cannot be written: No such file or directory" in errors[5]
    assert file.read_text().startswith("## Why?\n\nA plain answer.\n")


def test_documents_can_be_named_and_left_out_again(stretto, tmp_path):
    opened = []
    (tmp_path / "lease.md").write_text("The rent is 900 euros.")
    lines = f"/document\n/document {tmp_path}/lease.md\nRent?\n/document -\nRent?\n/document {tmp_path}/none.md\n"
    result = stretto("chat", "-s", "direct", piped=lines, opened=opened)
    first, second = (" ".join(message.content for message in prompt.messages) for prompt, _ in opened[0].calls)
    assert "900 euros" in first
    assert "900 euros" not in second.split("Rent?")[-1]
    assert "1 document of 22 characters is read for every question" in result.stderr
    assert "error: " in result.stderr.splitlines()[-1]
