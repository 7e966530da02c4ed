"""``stretto chat`` on a terminal, as a program: what it sends there, signals, and when it goes line by line."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from terminal import Terminal, without_textual

from stretto.cli.chat.chat_folder import ChatFolder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pseudo terminals are a thing of POSIX")
PLAIN = json.dumps({"": "A plain answer."})
NEVER_ENDING = json.dumps({"stop here": "Fine.", "": {"chunks": ["First ", "second."], "chunk_delay_s": 3600}})
HOSTILE = json.dumps(
    {"": "Begin \x1b]0;owned\x07\x1b]52;c;ZXZpbA==\x07\x1b[5mblink\x9b5m \x1b]8;;http://evil.example\x07end."}
)
ALTERNATE, BACK = "\x1b[?1049h", "\x1b[?1049l"
ENTER = "\r"


def test_a_question_is_answered_and_the_terminal_is_given_back(program):
    with Terminal(program(PLAIN, "chat", "-s", "direct")) as terminal:
        terminal.wait_for(re.escape(ALTERNATE))
        terminal.wait_for("Enter sends")
        terminal.type("Why?" + ENTER)
        terminal.wait_for("A plain answer")
        terminal.wait_for("first text")  # under the whole answer; the foot may be painted anew before it, or not at all
        terminal.type("\x04")
        rest, code = terminal.wait_for_end()
    assert code == 0
    assert BACK in rest
    (kept,) = ChatFolder().latest()
    assert f"stretto chat --resume {kept.id}" in rest
    assert kept.title == "Why?"


@pytest.mark.thorough
def test_ctrl_c_stops_the_answer_and_not_the_program(program):
    with Terminal(program(NEVER_ENDING, "chat", "-s", "direct", "--no-history")) as terminal:
        terminal.wait_for("Enter sends")
        terminal.type("Why?" + ENTER)
        terminal.wait_for("First")
        terminal.type("\x03")
        terminal.wait_for("Stopped after")
        terminal.type("stop here" + ENTER)
        terminal.wait_for("Fine")
        terminal.interrupt_until("Ctrl-D ends the chat")  # as a signal, it does the same
        terminal.type("/quit" + ENTER)
        rest, code = terminal.wait_for_end()
    assert code == 0
    assert "--resume" not in rest


def test_nothing_of_a_model_reaches_the_terminal_but_characters(program):
    with Terminal(program(HOSTILE, "chat", "-s", "direct")) as terminal:
        terminal.wait_for("Enter sends")
        terminal.type("Why?" + ENTER)
        shown = terminal.wait_for("end\\.")
        terminal.type("\x04")
        rest, _ = terminal.wait_for_end()
    sent = shown + rest
    assert "blink" in sent
    for sequence in ("\x1b]0;owned", "\x1b]52", "\x1b[5m", "\x9b", "\x1b]8"):
        assert sequence not in sent


@pytest.mark.parametrize("way", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.thorough), "window"])
def test_a_program_that_is_told_to_go_keeps_what_there_is_of_an_answer(program, way):
    with Terminal(program(NEVER_ENDING, "chat", "-s", "direct"), controls=True) as terminal:
        terminal.wait_for("Enter sends")
        terminal.type("Why?" + ENTER)
        terminal.wait_for("First")
        if way == "window":
            terminal.close()
        else:
            terminal.signal(way)
        terminal.wait_for_exit()
    (turn,) = ChatFolder().find(None).read().turns
    assert turn.question == "Why?"
    assert turn.text == "First "


@pytest.mark.thorough
def test_ctrl_z_gives_the_terminal_back_until_the_program_goes_on(program):
    with Terminal(program(PLAIN, "chat", "-s", "direct", "--no-history")) as terminal:
        terminal.wait_for("Enter sends")
        terminal.type("\x1a")
        terminal.wait_for(re.escape(BACK))
        terminal.wait_until_stopped()
        terminal.signal(signal.SIGCONT)
        terminal.wait_for(re.escape(ALTERNATE))
        terminal.wait_for("Enter sends")
        terminal.type("\x04")
        assert terminal.wait_for_end()[1] == 0


def test_a_killed_program_has_kept_the_question(program):
    with Terminal(program(NEVER_ENDING, "chat", "-s", "direct")) as terminal:
        terminal.wait_for("Enter sends")
        terminal.type("Why?" + ENTER)
        terminal.wait_for("First")
        terminal.signal(signal.SIGKILL)
        terminal.wait_for_exit()
    assert [turn.question for turn in ChatFolder().find(None).read().turns] == ["Why?"]


@pytest.mark.thorough
def test_it_ends_although_its_model_cannot_be_stopped(program):
    with Terminal(program(NEVER_ENDING, "chat", "-s", "direct"), environment={"STUBBORN": "1"}) as terminal:
        terminal.wait_for("Enter sends")
        terminal.type("Why?" + ENTER)
        terminal.wait_for("First")
        terminal.type("\x11")  # Ctrl-Q
        rest, _ = terminal.wait_for_end()
    assert BACK in rest


@pytest.mark.parametrize(("arguments", "environment"), [((), {"TERM": "dumb"}), (("--plain",), {})])
def test_line_by_line_where_the_terminal_or_the_user_wants_that(program, arguments, environment):
    with Terminal(program(PLAIN, "chat", "-s", "direct", *arguments), environment=environment) as terminal:
        shown = terminal.wait_for("> ")
        terminal.type("Why?\n")
        shown += terminal.wait_for("A plain answer\\.")
        shown += terminal.wait_for("> ")
        terminal.type("\x04")
        rest, code = terminal.wait_for_end()
    assert code == 0
    assert ALTERNATE not in shown + rest


FITS = "import sys; from stretto.cli.terminal import fits; print('fits' if fits() else 'no')"


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "fits"),
        ({"NO_COLOR": "1"}, "no"),
        ({"TERM": "unknown"}, "no"),
        ({"STRETTO_LOG": "warning"}, "no"),
        ({"PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}, "no"),
    ],
)
def test_the_whole_terminal_is_taken_where_it_can_be_drawn_on(environment, said):
    with Terminal([sys.executable, "-c", FITS], environment=environment, warm=False) as terminal:
        shown, _ = terminal.wait_for_end()
    assert shown.split() == [said]


@pytest.mark.thorough
def test_without_textual_it_says_what_to_install_and_goes_line_by_line(program):
    with Terminal(without_textual(program(PLAIN, "chat", "-s", "direct")), warm=False) as terminal:
        terminal.wait_for("pip install 'stretto\\[chat\\]'")
        terminal.wait_for("> ")
        terminal.type("/quit\n")
        assert terminal.wait_for_end()[1] == 0


@pytest.mark.thorough
def test_a_pipe_imports_neither_textual_nor_torch():
    code = """
import sys
from scripted import opening
from stretto.cli.app import app
try:
    app(["chat", "-s", "direct"], obj=opening({"": "Fine."}), prog_name="stretto")
finally:
    print(sorted({name.split(".")[0] for name in sys.modules} & {"textual", "torch", "transformers"}))
"""
    folder = str(Path(__file__).parent)
    result = subprocess.run(
        [sys.executable, "-c", code],
        input="Why?\n",
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([folder, *sys.path])},
    )
    assert result.stdout == "Fine.\n[]\n", result.stderr
