"""Completion, asked for as the shells ask: by environment variables."""

import os
import re
import subprocess
import sys

import pytest
from patience import patience

from stretto.cli import completing, main
from stretto.strategies import STRATEGIES

START = [sys.executable, "-c", "import sys; sys.argv[0] = 'stretto'; from stretto.cli import main; main()"]


@pytest.fixture
def shell(monkeypatch, capsys):
    """What the program prints in this process, line by line; 80 columns wide, which shells do not say."""

    def answer(*arguments, **environment):
        monkeypatch.setattr(sys, "argv", ["stretto", *arguments])
        monkeypatch.setattr(completing, "_taken", [""])  # as in a new process
        for name, value in {"COLUMNS": "80", **environment}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capsys.readouterr().out.splitlines()

    return answer


def program(*arguments, **environment):
    """The same of the program itself."""
    environment = {**os.environ, "COLUMNS": "80", **environment}
    return subprocess.run(
        [*START, *arguments], env=environment, capture_output=True, text=True, timeout=patience(60), check=True
    ).stdout.splitlines()


def bash(ask, words):
    return ask(_STRETTO_COMPLETE="complete_bash", COMP_WORDS="\n".join(["stretto", *words]), COMP_CWORD=str(len(words)))


def fish(ask, line):
    offered = ask(_STRETTO_COMPLETE="complete_fish", _TYPER_COMPLETE_FISH_ACTION="get-args", _TYPER_COMPLETE_ARGS=line)
    return [each.partition("\t")[0] for each in offered]


def zsh(ask, line):
    """The same from what zsh evaluates: value and description in double quotes, colons behind backslashes."""
    evaluated = ask(_STRETTO_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=line)
    return [
        value.replace("\\", "")
        for value in re.findall(r'^(?:_arguments .*?)?"(.*?)"', "\n".join(evaluated), re.MULTILINE)
    ]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["chat", "--model", "local"], ["local:", "local:pocket"]),
        (["chat", "--model", "local", ":"], ["pocket"]),  # bash takes names apart at colons, and keeps what was typed
        (["chat", "--model", "local", ":", "po"], ["pocket"]),
        (["ask", "--model", "local", ":", "pocket", "--strategy", "sk"], ["skeleton"]),
    ],
)
def test_bash_takes_names_apart_at_colons(words, offered, shell):
    assert bash(shell, words) == offered


SHELLS = pytest.mark.parametrize("asked_by", [bash, zsh, fish])


@pytest.mark.thorough
@pytest.mark.parametrize("asked_by", [bash, *(pytest.param(each, marks=pytest.mark.thorough) for each in (zsh, fish))])
def test_the_program_itself_completes(asked_by):
    line = "chat --model local"
    assert asked_by(program, line.split(" ") if asked_by is bash else f"stretto {line}") == ["local:", "local:pocket"]


@SHELLS
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("do", ["doctor"]),
        ("ask --str", ["--strategy", "--strategy-options"]),
        ("ask --strategy ", ["auto", *STRATEGIES]),
        ("ask --preference ", ["fastest", "balanced", "careful"]),
        ("ask --decoding su", ["suffix"]),
        ("chat --model local", ["local:", "local:pocket"]),
        ("bench ", ["local:", "local:pocket"]),
        ("bench --draft ", ["local:", "local:pocket"]),
        ("prompts show document_m", ["document_map"]),
        ("prompts list --family p", ["pocket"]),
        ("prompts show skeleton --version v1", ["v1"]),
    ],
)
def test_the_shell_completes(asked_by, line, offered, shell):
    assert asked_by(shell, line.split(" ") if asked_by is bash else f"stretto {line}") == offered


def test_a_description_is_one_line_so_that_fish_takes_no_part_of_it_for_a_completion(shell):
    offered = fish(shell, "stretto bench --")
    assert "--prompts" in offered
    assert all(re.fullmatch("--[a-z-]+", each) for each in offered)


def test_the_script_for_zsh_answers_the_first_tab_too(shell):
    """zsh reads it when TAB is pressed for the first time; a script that only registers a function offers nothing."""
    script = shell("--show-completion", "zsh", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert script[0] == "#compdef stretto"
    guard = script.index(
        "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then"
    )  # and not where a start-up file reads it
    assert script[guard + 1 :] == ['  _stretto_completion "$@"', "fi"]
