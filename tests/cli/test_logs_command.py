"""Answers that are kept in a file: switched on, found again, removed."""

import json
import os
import re
import sqlite3
import stat
from pathlib import Path

import pytest


@pytest.fixture
def file():
    return Path(os.environ["STRETTO_LOGS"])


@pytest.fixture
def kept(stretto):
    """Three answers in the file."""
    assert stretto("logs", "on").exit_code == 0
    for question, answer in (
        ("Where is Oslo?", "In Norway."),
        ("What is tea?", "Leaves."),
        ("How warm?", "20 °C; tea"),
    ):
        assert stretto("ask", question, script=answer).exit_code == 0


def test_nothing_is_kept_until_it_is_switched_on(stretto, file):
    stretto("ask", "Where is Oslo?")
    assert not file.exists()
    result = stretto("logs")
    assert "stretto logs on" in result.stderr
    assert stretto("logs", "status").stdout.startswith("off: ")


def test_the_file_is_for_its_owner_only(stretto, kept, file):
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.thorough
@pytest.mark.usefixtures("kept")
def test_kept_answers_are_listed_the_newest_first(stretto):
    listed = stretto("logs").stdout.splitlines()
    assert [re.sub(r"^ +(\d+)  \S+ \S+  ", r"\1 ", line) for line in listed] == [
        "3 How warm?",
        "2 What is tea?",
        "1 Where is Oslo?",
    ]
    assert len(stretto("logs", "--most", "1").stdout.splitlines()) == 1
    assert [each["text"] for each in json.loads(stretto("logs", "--json").stdout)] == [
        "20 °C; tea",
        "Leaves.",
        "In Norway.",
    ]


@pytest.mark.thorough
@pytest.mark.usefixtures("kept")
def test_answers_are_found_by_words_of_question_and_text(stretto):
    assert "Oslo" in stretto("logs", "search", "norway").stdout
    assert len(stretto("logs", "search", "tea").stdout.splitlines()) == 2
    nothing = stretto("logs", "search", "tea", "norway")
    assert nothing.exit_code == 1
    assert nothing.stdout == ""


@pytest.mark.thorough
@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("words", ['"', "tea*", "NOT tea", "question:tea OR", "(", "'; DROP TABLE answers; --"])
def test_words_are_words_and_no_query_language(stretto, words):
    result = stretto("logs", "search", "--", words)
    assert result.exit_code in (0, 1)
    assert "Traceback" not in result.stderr
    assert len(stretto("logs").stdout.splitlines()) == 3


@pytest.mark.thorough
@pytest.mark.usefixtures("kept")
def test_one_answer_is_shown_whole(stretto, tmp_path):
    shown = stretto("logs", "show", "1", "--trace", str(tmp_path / "out.html"))
    assert "# Where is Oslo?\n\nIn Norway." in shown.stdout
    assert "scripted:model" in shown.stderr
    assert "<svg" in (tmp_path / "out.html").read_text()
    assert json.loads(stretto("logs", "show", "1", "--json").stdout)["branches"]
    assert "no answer 9" in stretto("logs", "show", "9").stderr


@pytest.mark.thorough
@pytest.mark.usefixtures("kept")
def test_removed_answers_leave_nothing_behind(stretto, file):
    assert stretto("logs", "delete", "1").exit_code == 0
    assert b"Norway" not in file.read_bytes()
    assert stretto("logs", "search", "norway").exit_code == 1
    assert "no answer 1" in stretto("logs", "delete", "1").stderr
    assert "--all" in stretto("logs", "delete").stderr
    assert stretto("logs", "delete", "--all").stdout == "Removed: 2\n"
    assert stretto("logs").stdout == ""


@pytest.mark.thorough
@pytest.mark.usefixtures("kept")
def test_switched_off_nothing_is_added_and_nothing_lost(stretto):
    stretto("logs", "off")
    stretto("ask", "And now?")
    assert len(stretto("logs").stdout.splitlines()) == 3
    stretto("logs", "on")
    stretto("ask", "And now?")
    assert len(stretto("logs").stdout.splitlines()) == 4


def test_the_turns_of_a_chat_are_kept(stretto):
    stretto("logs", "on")
    stretto("chat", piped="One?\nTwo?\n")
    assert [line.split("  ")[-1] for line in stretto("logs").stdout.splitlines()] == ["Two?", "One?"]


def test_a_file_that_is_no_database_costs_a_warning_and_no_answer(stretto, file):
    file.parent.mkdir()
    file.write_text("not a database, but a text that is long enough to be taken for one" * 20)
    result = stretto("ask", "Why?", script="Because.")
    assert result.exit_code == 0
    assert "Because." in result.stdout
    assert "STRETTO_LOGS" in result.stderr.replace("\n", " ")
    assert "cannot be used" in stretto("logs").stderr


@pytest.mark.thorough
@pytest.mark.usefixtures("kept")
def test_another_program_that_is_writing_costs_no_answer(stretto, file, monkeypatch):
    monkeypatch.setattr("stretto.cli.answer_store.WAIT_S", 0.01)  # not to wait five seconds
    writer = sqlite3.connect(file)
    writer.execute("BEGIN EXCLUSIVE")
    result = stretto("ask", "Why?", script="Because.")
    writer.rollback()
    writer.close()
    assert result.exit_code == 0
    assert "locked" in result.stderr
