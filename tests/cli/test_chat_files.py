"""Chats in files: what is written stays, whoever is killed and whoever else writes."""

import json
import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace

import pytest
from patience import patience

from stretto.cli.chat.chat_file import ChatFile, Saved, Turn, read
from stretto.cli.chat.chat_folder import ChatFolder
from stretto.values.answer import Answer
from stretto.values.errors import InvalidRequestError, StrettoError
from stretto.values.route import Route

ROUTE = Route(strategy="direct", role="main", backend="scripted:model", reason="It is short.")
WRITING = """
import sys
from pathlib import Path
from stretto.cli.chat.chat_file import ChatFile, Turn
chat = ChatFile(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    chat.asked(Turn(f"{sys.argv[2]}{number}", "x" * 5_000))
    print(number, flush=True)
"""


def writing(file, name, times):
    return subprocess.Popen(
        [sys.executable, "-c", WRITING, str(file), name, str(times)], stdout=subprocess.PIPE, text=True
    )


def answered(chat, turn, text):
    answer = Answer(text=text, route=ROUTE)
    chat.answered(turn, answer)
    return replace(turn, text=text, answer=answer.model_dump(mode="json"))


@pytest.fixture
def chat(tmp_path):
    return ChatFile(tmp_path / "chats" / "0123abcd.jsonl")


def test_what_was_written_is_read_again(chat):
    first = Turn("a", "One?\nReally?", None, "2026-01-02T03:04:05+00:00")
    second = Turn("b", "Two?", "a")
    chat.asked(first)
    first = answered(chat, first, "First.")
    chat.asked(second)
    chat.stopped(replace(second, text="Sec", stopped="Stopped after 1.0 s."))
    settings = Saved(documents=("/home/me/lease.md",), system="Be brief.", schema="/home/me/lease.json")
    chat.set(settings)
    saved = ChatFile(chat.file).read()
    assert saved.turns == (first, replace(second, text="Sec", stopped="Stopped after 1.0 s."))
    assert replace(saved, turns=()) == settings
    assert saved.model == "scripted:model"


def test_only_the_owner_may_read_a_chat(chat):
    chat.asked(Turn("a", "One?"))
    assert stat.S_IMODE(chat.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(chat.file.parent.stat().st_mode) == 0o700


def test_an_edited_question_is_another_way_and_the_newest_counts(chat):
    for turn in (Turn("a", "One?"), Turn("b", "Two?", "a"), Turn("c", "Another two?", "a")):
        chat.asked(turn)
    saved = chat.read()
    assert [turn.question for turn in saved.conversation] == ["One?", "Another two?"]
    assert len(saved.turns) == 3


@pytest.mark.thorough
def test_two_processes_that_write_one_chat_lose_nothing(chat):
    chat.asked(Turn("first", "One?"))
    both = [writing(chat.file, name, 100) for name in ("left", "right")]
    assert [process.wait(patience(60)) for process in both] == [0, 0]
    for process in both:
        process.stdout.close()
    assert {turn.id for turn in chat.read().turns} == {
        "first",
        *(f"{name}{number}" for name in ("left", "right") for number in range(100)),
    }


def test_a_killed_process_loses_nothing_that_it_had_written(chat):
    chat.asked(Turn("first", "One?"))
    with writing(chat.file, "killed", 100_000) as process:
        written = [int(process.stdout.readline()) for _ in range(20)]
        process.send_signal(signal.SIGKILL)
    chat.asked(Turn("last", "Two?"))
    known = {turn.id for turn in chat.read().turns}
    assert {"first", "last", *(f"killed{number}" for number in written)} <= known


def test_half_a_line_harms_neither_the_one_before_nor_the_one_behind(chat):
    chat.asked(Turn("a", "One?"))
    with chat.file.open("ab") as file:
        file.write(b'{"type": "question", "id": "torn", "te')
    chat.asked(Turn("b", "Two?", "a"))
    assert [turn.id for turn in chat.read().conversation] == ["a", "b"]


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\n",
        b"[1, 2]\nnull\n" + b"[" * 100_000,
        b'{"type": "question", "id": 7, "text": "x"}\n{"type": "answer", "to": "nobody", "text": "x", "stopped": "x"}',
        b'{"type": "settings", "documents": "no list", "system": 4}\n{"type": "of a later version"}\n',
    ],
)
def test_lines_that_say_nothing_are_passed_over(content):
    saved = read(content)
    assert (saved.conversation, saved.documents, saved.system) == ([], (), None)


def test_a_circle_of_questions_ends():
    lines = [{"type": "question", "id": a, "after": b, "text": a} for a, b in (("a", "b"), ("b", "a"))]
    assert [turn.id for turn in read("\n".join(map(json.dumps, lines)).encode()).conversation] == ["a", "b"]


def test_a_file_that_went_away_is_not_begun_again(chat):
    chat.asked(Turn("a", "One?"))
    chat.file.unlink()
    with pytest.raises(StrettoError, match="cannot be used: No such file"):
        chat.asked(Turn("b", "Two?"))
    assert not chat.file.exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    tmp_path.joinpath("chats").write_text("a file")
    with pytest.raises(StrettoError, match="STRETTO_CHATS"):
        ChatFile(tmp_path / "chats" / "0123abcd.jsonl").asked(Turn("a", "One?"))


def kept(folder, name, *questions, at):
    chat = ChatFile(folder / f"{name}.jsonl")
    before = None
    for number, question in enumerate(questions):
        turn = Turn(f"{name}{number}", question, before)
        chat.asked(turn)
        answered(chat, turn, f"An answer about {question}")
        before = turn.id
    os.utime(chat.file, (at, at))


@pytest.fixture
def folder(tmp_path):
    kept(tmp_path, "0123abcd", "Tea with milk?", "And sugar?", at=1_000)
    kept(tmp_path, "01ffffff", "Coffee?", at=2_000)
    (tmp_path / "notes.jsonl").write_text("{}")
    return ChatFolder(tmp_path)


def test_the_last_used_chat_is_the_first_of_the_list(folder):
    assert [(each.id, each.questions, each.title) for each in folder.latest()] == [
        ("01ffffff", 1, "Coffee?"),
        ("0123abcd", 2, "Tea with milk?"),
    ]
    assert [each.id for each in folder.latest(1)] == ["01ffffff"]


def test_a_search_wants_all_words_and_not_their_case(folder):
    (found,) = folder.search("SUGAR tea", 10)
    assert (found.id, found.found) == ("0123abcd", "And sugar?")
    assert folder.search("sugar coffee", 10) == []
    assert folder.search("  ", 10) == []


def test_a_chat_is_found_by_the_beginning_of_its_name(folder):
    assert folder.find("012").id == "0123abcd"
    assert folder.find(None).id == "01ffffff"
    with pytest.raises(InvalidRequestError, match=r"'01' begins the names of 2 chats: 0123abcd, 01ffffff"):
        folder.find("01")


@pytest.mark.parametrize("name", ["", "77", "../0123abcd", "/etc/passwd", "*", "0123abcd.jsonl"])
def test_nothing_else_is_the_name_of_a_chat(folder, name):
    with pytest.raises(InvalidRequestError, match="There is no chat"):
        folder.find(name)


def test_a_chat_is_removed_by_its_whole_name(folder):
    with pytest.raises(InvalidRequestError, match="give its whole name: 0123abcd"):
        folder.delete("012")
    assert folder.delete("0123abcd") == 1
    assert folder.delete(None) == 1
    assert folder.folder.joinpath("notes.jsonl").exists()


def test_a_folder_without_chats_says_how_to_begin_one(tmp_path):
    assert ChatFolder(tmp_path / "none").latest() == []
    with pytest.raises(InvalidRequestError, match="Begin one with: stretto chat"):
        ChatFolder(tmp_path / "none").find(None)
