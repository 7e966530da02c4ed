"""The program as the shell starts it: outputs, pipes, signals, a terminal."""

import json
import os
import re
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest
import warm
from patience import patience
from plans import asked_for, plan
from terminal import Terminal

STRETTO = [sys.executable, "-m", "stretto.cli"]
PLAIN = json.dumps({"": "A plain answer."})
NEVER_ENDING = json.dumps({"stop here": "Fine.", "": {"chunks": ["One ", "two."], "chunk_delay_s": 3600}})
ONE_SLOW_SECTION = json.dumps(
    {
        asked_for("Milk"): {"text": "Slow words.", "delay_s": 3},
        "Write the section": "Quick words.",
        "": plan("Tea", "Milk"),
    }
)
MANY_WORDS = json.dumps({"": {"chunks": ["word "] * 5_000, "chunk_delay_s": 0.001}})
MARKDOWN = json.dumps({"": "Some *tea*, `milk`."})
TURNED = json.dumps({"": "See \u202eexe.\u202d\u2066txt\u2069 and \u05e9\u05dc\u05d5\u05dd."})
COLOUR = re.compile(r"\x1b\[(?:[0-9]+;)*(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
needs_terminal = pytest.mark.skipif(os.name != "posix", reason="pseudo terminals are a thing of POSIX")


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=patience(60), check=False, **options)


def run_warm(command, **options):
    return warm.run(command, timeout=patience(60), **options)


@pytest.mark.thorough
@pytest.mark.parametrize("command", [["doctor"], ["route", "How are you?"], ["prompts", "list"]])
def test_a_reader_that_went_away_has_its_own_exit_code_in_every_command(command):
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        result = subprocess.run(
            [*STRETTO, *command], stdout=write_end, stderr=subprocess.PIPE, timeout=patience(60), check=False
        )
    finally:
        os.close(write_end)
    assert (result.returncode, result.stderr) == (141, b"")


@pytest.mark.thorough
def test_comparing_imports_what_a_remote_backend_needs_before_the_clock_starts():
    code = """
import sys, anyio
from stretto import AsyncStretto
from stretto.cli.output.side_by_side import make_ready
from stretto.cli.output.screen import Screen
client = AsyncStretto("openai:any", base_url="http://127.0.0.1:9/v1", api_key="none")
anyio.run(make_ready, client, "How are you?", Screen(quiet=True))
assert client.backends["main"].sdk in sys.modules
"""
    result = run([sys.executable, "-c", code])
    assert (result.returncode, result.stderr) == (0, "")


def test_piped_output_is_plain(program):
    result = run_warm(program(PLAIN, "ask", "-s", "direct", "--trace", "Why?"))
    assert result.returncode == 0
    assert result.stdout == "A plain answer.\n"
    assert not ESCAPE.search(result.stderr)
    assert "\r" not in result.stderr


def test_a_pipe_gives_the_question(program):
    result = run_warm(program(PLAIN, "ask", "-q", "-s", "direct"), given="Why?\n")
    assert (result.stdout, result.stderr) == ("A plain answer.\n", "")


def test_no_question_and_no_pipe_does_not_wait(program):
    result = run_warm(program(PLAIN, "ask"))
    assert result.returncode == 2
    assert "There is no question" in result.stderr


@needs_terminal
def test_ctrl_c_ends_the_answer_with_its_line(program):
    command = program(NEVER_ENDING, "ask", "-q", "-s", "direct", "Why?")
    with warm.Piped(command, stdin=subprocess.DEVNULL) as running:
        assert running.stdout.read(4) == b"One "
        running.send_signal(signal.SIGINT)
        assert running.wait(patience(60)) == 130
        assert running.stdout.read() == b"\n"
        assert running.stderr.read() == b"interrupted\n"


@pytest.mark.thorough
@needs_terminal
def test_ctrl_c_does_not_wait_for_what_cannot_be_stopped(program):
    command = program(NEVER_ENDING, "ask", "-s", "direct", "Why?")
    with Terminal(command, environment={"STUBBORN": "1"}) as terminal:
        terminal.wait_for("One")
        terminal.interrupt()
        shown, code = terminal.wait_for_end()
    assert "interrupted" in shown
    assert code == 130


@needs_terminal
def test_a_reader_that_goes_away_ends_it_in_silence(program):
    command = program(MANY_WORDS, "ask", "-q", "-s", "direct", "Why?")
    with warm.Piped(command, stdin=subprocess.DEVNULL) as running:
        running.stdout.read(4)
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(patience(60)) == 141


@pytest.mark.thorough
@needs_terminal
def test_on_a_terminal_the_text_streams_and_progress_is_taken_back(program):
    with Terminal(program(ONE_SLOW_SECTION, "ask", "-s", "skeleton", "How do I make tea?")) as terminal:
        terminal.wait_for("Quick words.")
        shown = terminal.wait_for("writing 2 sections, 1 done")
        assert "Slow" not in shown
        rest, code = terminal.wait_for_end()
    assert code == 0
    assert re.search(r"\x1b\[K[^⠋-⠿]*Slow words\.", rest)
    assert "skeleton · " in rest


@pytest.mark.thorough
@needs_terminal
def test_on_a_terminal_without_a_movable_cursor_there_is_no_progress(program):
    command = program(ONE_SLOW_SECTION, "ask", "-s", "skeleton", "How do I make tea?")
    with Terminal(command, environment={"TERM": "dumb"}) as terminal:
        shown, code = terminal.wait_for_end()
    assert code == 0
    assert not ESCAPE.search(shown)
    assert "writing" not in shown


@needs_terminal
def test_in_a_chat_ctrl_c_cancels_the_answer_and_not_the_program(program):
    with Terminal(program(NEVER_ENDING, "chat", "--plain", "-s", "direct")) as terminal:
        terminal.wait_for("> ")
        terminal.type("Why?\n")
        terminal.wait_for("One")
        terminal.interrupt()
        terminal.wait_for("cancelled.*> ")
        terminal.type("stop here\n")
        terminal.wait_for("Fine.")
        terminal.wait_for("> ")
        terminal.type("\x04")
        _, code = terminal.wait_for_end()
    assert code == 0


@needs_terminal
def test_in_a_chat_ctrl_c_at_the_prompt_gives_a_new_prompt(program):
    with Terminal(program(PLAIN, "chat", "--plain")) as terminal:
        terminal.wait_for("> ")
        terminal.interrupt_until("\n> ")
        terminal.type("/quit\n")
        _, code = terminal.wait_for_end()
    assert code == 0


@needs_terminal
def test_a_chat_that_waits_for_a_pipe_is_ended_by_ctrl_c(program):
    command = program(PLAIN, "chat", "-s", "direct", "-q")
    with warm.Piped(command) as running:
        running.stdin.write(b"Why?\n")
        running.stdin.flush()
        assert running.stdout.readline() == b"A plain answer.\n"
        running.send_signal(signal.SIGINT)
        assert running.wait(patience(60)) == 130
        assert running.stderr.read() in (b"interrupted\n", b"cancelled\n")


@pytest.mark.thorough
@needs_terminal
@pytest.mark.parametrize(
    "module",
    [
        "stretto.cli.app",
        *(pytest.param(each, marks=pytest.mark.thorough) for each in ("stretto.values.errors", "pydantic", "typer")),
        "stretto.client.async_client",
    ],
)
def test_ctrl_c_while_the_program_starts_ends_it_without_a_traceback(module):
    code = f"""
import importlib.abc, os, signal, sys

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
sys.argv = ["stretto", "ask", "-q", "-m", "local:pocket", "Why?"]
from stretto.cli import main
main()
"""
    result = run([sys.executable, "-c", code], stdin=subprocess.DEVNULL)
    assert (result.returncode, result.stdout) == (130, "")
    assert result.stderr in ("", "interrupted\n")  # typer ends in silence what is interrupted before the command


@pytest.mark.thorough
def test_a_deadline_ends_the_program_while_a_model_that_cannot_be_stopped_is_loading(program):
    command = program(json.dumps({"": {"text": "Late.", "delay_s": 3600}}), "ask", "-q", "--deadline", "0.5", "Why?")
    result = run_warm(command, env=os.environ | {"STUBBORN": "1"})
    assert (result.returncode, result.stdout) == (3, "")
    assert result.stderr.startswith("error: The deadline passed after 0.5 s")  # on a busy machine, still importing
    assert result.stderr.endswith(". Allow more with --deadline.\n")


@pytest.mark.thorough
def test_the_version_is_that_of_the_package():
    assert run([*STRETTO, "--version"]).stdout == f"stretto {version('stretto')}\n"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "command",
    [["--help"], *(pytest.param([each, "--help"], marks=pytest.mark.thorough) for each in ("ask", "chat"))],
)
def test_help_imports_nothing_heavy(command):
    listing = (
        "import sys; sys.argv = ['stretto', *sys.argv[1:]]\n"
        "from stretto.cli import main\n"
        "try:\n    main()\n"
        "finally:\n    print(sorted(set(sys.modules) & {'torch', 'transformers', 'openai', 'anthropic', 'numpy',"
        " 'langchain_core', 'rich.console'}))"
    )
    assert run([sys.executable, "-c", listing, *command]).stdout.endswith("\n[]\n")


def test_help_tells_the_exit_codes():
    shown = run_warm([*STRETTO, "--help"]).stdout
    for code in (0, 1, 2, 3, 4, 130, 141):
        assert re.search(rf"^    {code} ", shown, re.MULTILINE)


def test_an_unknown_option_is_a_usage_error():
    assert run_warm([*STRETTO, "ask", "--nonsense"]).returncode == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")  # noqa: PTH110
def test_an_output_that_is_full_is_one_line(program):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        result = run_warm(program(PLAIN, "ask", "Why?", "--quiet"), shown=full)
    assert result.returncode == 1
    assert result.stderr.startswith("error: The output cannot be written: No space left on device.")
    assert result.stderr.count("\n") == 1


def test_a_log_level_that_does_not_exist_is_one_line():
    result = run_warm([*STRETTO, "ask", "Why?"], env=os.environ | {"STRETTO_LOG": "loud"})
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: STRETTO_LOG: ")


@needs_terminal
@pytest.mark.parametrize("command", ["ask", "route"])
def test_no_color_leaves_bold_and_dim_text_and_no_colours(program, command):
    shown = {}
    for value in ("", "1") if command == "ask" else ("1",):
        with Terminal(program(MARKDOWN, command, "Why?"), environment={"NO_COLOR": value}) as terminal:
            shown[value], _ = terminal.wait_for_end()
    assert command != "ask" or COLOUR.search(shown[""])
    assert not COLOUR.search(shown["1"])
    assert "\x1b[2m" in shown["1"]


@needs_terminal
def test_a_terminal_is_not_sent_what_turns_the_direction_of_text(program):
    for options in ((), ("--plain",)):
        with Terminal(program(TURNED, "ask", "Why?", "-s", "direct", *options)) as terminal:
            shown, _ = terminal.wait_for_end()
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", shown)
        assert "See exe.txt and \u05e9\u05dc\u05d5\u05dd." in shown
