"""Completion, asked for as the shells ask: by environment variables."""

import os
import re
import subprocess
import sys

import pytest
from patience import patience

from stretto.strategies import STRATEGIES

START = [sys.executable, "-c", "import sys; sys.argv[0] = 'stretto'; from stretto.cli import main; main()"]


def stretto(*arguments, **environment):
    """What the program prints, line by line; 80 columns wide, which shells do not say."""
    environment = {**os.environ, "COLUMNS": "80", **environment}
    return subprocess.run(
        [*START, *arguments], env=environment, capture_output=True, text=True, timeout=patience(60), check=True
    ).stdout.splitlines()


def bash(words):
    return stretto(
        _STRETTO_COMPLETE="complete_bash", COMP_WORDS="\n".join(["stretto", *words]), COMP_CWORD=str(len(words))
    )


def fish(line):
    offered = stretto(
        _STRETTO_COMPLETE="complete_fish", _TYPER_COMPLETE_FISH_ACTION="get-args", _TYPER_COMPLETE_ARGS=line
    )
    return [each.partition("\t")[0] for each in offered]


def zsh(line):
    """The same from what zsh evaluates: value and description in double quotes, colons behind backslashes."""
    evaluated = stretto(_STRETTO_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=line)
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
def test_bash_takes_names_apart_at_colons(words, offered):
    assert bash(words) == offered


@pytest.mark.parametrize("shell", [bash, zsh, fish])
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
        ("prompts show skeleton_", ["skeleton_careful"]),
        ("prompts list --family p", ["pocket"]),
        ("prompts show skeleton --version v1", ["v1"]),
    ],
)
def test_the_shell_completes(shell, line, offered):
    assert shell(line.split(" ") if shell is bash else f"stretto {line}") == offered


def test_a_description_is_one_line_so_that_fish_takes_no_part_of_it_for_a_completion():
    offered = fish("stretto bench --")
    assert "--prompts" in offered
    assert all(re.fullmatch("--[a-z-]+", each) for each in offered)


def test_the_script_for_zsh_answers_the_first_tab_too():
    """zsh reads it when TAB is pressed for the first time; a script that only registers a function offers nothing."""
    script = stretto("--show-completion", "zsh", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert script[0] == "#compdef stretto"
    guard = script.index(
        "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then"
    )  # and not where a start-up file reads it
    assert script[guard + 1 :] == ['  _stretto_completion "$@"', "fi"]
