"""Write `docs/cli.md` from the help texts of the program: ``python docs/make_cli.py``."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from typer.testing import CliRunner

from stretto.backends.provider_table import PROVIDERS
from stretto.cli.app import app
from stretto.cli.exits import MEANINGS
from stretto.cli.output.trace import render_timeline
from stretto.values.answer import Answer, Branch, Span, Timeline, Usage
from stretto.values.route import Route
from stretto.values.token_records import DecodingStats

COMMANDS = (
    "", "ask", "route", "chat", "chats", "chats list", "chats search", "chats show", "chats delete", "serve",
    "logs", "logs on", "logs off", "logs status", "logs search", "logs show",
    "logs delete", "prompts", "prompts list", "prompts show", "compare", "calibrate", "check", "learned",
    "learned delete", "bench", "doctor",
)  # fmt: skip

OPTION = re.compile(r"^  -.*\n(?:^ {4,}\S.*\n)*", re.MULTILINE)
"""An option in a help text, with its description."""
OPENING = """\
# The command line

Written by `python docs/make_cli.py`; a test compares it with the program.

```console
$ stretto ask "How do I look after a bicycle?"                    # no key: the demonstration model
$ stretto ask --model openai:gpt-5.4-mini --trace "..."             # and a drawing of what ran when
$ stretto ask --model openai:NAME --base-url http://localhost:8000/v1 "..."
$ git diff | stretto ask "Summarise this change" > summary.txt    # a pipe, and plain text
$ stretto ask --compare --strategy skeleton "..."                 # what it gains here
$ stretto chat                                                    # points side by side, in this terminal
$ stretto route "..."                                             # how it would be answered, and why
$ stretto serve --model openai:NAME                               # for every client of OpenAI's API
$ stretto check llamacpp:smollm2                                  # what a model can do, and how fast it is
$ stretto bench local:./folder                                    # which decoding method is fastest here
$ stretto doctor                                                  # what would work on this machine
```

## Outputs

The answer goes to standard output. The model's name, the reason for the strategy, warnings and figures go to standard
error; `--quiet` drops them. Colours, drawn Markdown, a progress line, and below the text the headings of the sections
that it has not come to, appear on a terminal only; `--plain` and `NO_COLOR` switch colours and Markdown off.

Stretto does not trust the text of a model. It drops control characters and characters that turn the direction of text,
so an answer cannot move the cursor or change the terminal. `--json` keeps them, escaped.

`--json` prints the complete answer with its route, branches, tokens, times and warnings. `--events` prints each event
as a line of JSON. With `--compare`, `--json` prints `{"answer", "direct", "comparison"}`.

## Input

Words after the command are the question. Text from a pipe goes below the question, or is the question. Put a question
that begins with a dash behind `--`.

## The model

`--model`, else the setting `model` (`STRETTO_MODEL` or the settings file), else the first key that is set, else the
demonstration model `local:pocket`.

{providers}

No option takes a key, because other users of the machine could read it. The providers' keys are not sent to a
`--base-url`: set `STRETTO_API_KEY`, or name a variable with `--key-variable MY_SERVER_KEY`.

A [local model](local-models.md) also has `--dtype`, `--device`, `--threads`, `--decoding`, `--no-compiled` and
`--long-context`. A model that is being loaded cannot be stopped, but Ctrl-C and `--deadline` end the program.

## The timeline

`--trace` draws one row for each branch, over the seconds since the question was asked:

```text
{timeline}
```

The critical path is the longest chain of branches that had to wait for each other. The last lines are those of a model
in this process: forwards, tokens and rows a forward, and how many drafted tokens of each source were right. Its table
is explained in [where a request waits](local-models.md#where-a-request-waits). `--trace FILE.html` writes a page,
`--trace FILE.svg` the drawing alone.

## Kept answers and logs

`stretto logs on` keeps the questions and answers of `ask` and `chat` in an SQLite file that only you can read, until
`stretto logs off`. `STRETTO_LOGS` names another file. `STRETTO_LOG=info` (or `debug`) writes log records as lines of
JSON to standard error, without questions and answers unless `STRETTO_LOG_TEXT=1`.

## Log-probabilities

`--logprobs N` shows how probable the model found each token, and the N most probable tokens in its place (0 to 20),
before temperature and limits. Labels and the outline have none. Local models have them, and those behind OpenAI's API
that do not reason; from others it is an error.

## The comparison

`--compare` asks twice, one after the other: in the chosen way, then with `direct`. Loading a local model is not
counted. A remote provider may have the prompt in its cache for the second call, so the figures lean towards `direct`.

## Exit codes

{codes}

An error is one line on standard error that begins with `error:`.

## Completion

`stretto --install-completion` sets it up for your shell (bash, zsh, fish, PowerShell); `--show-completion` prints it. A
value is completed behind a space (`--strategy sk`), not behind `=`.

## Commands
"""


def reference() -> str:
    """The page, as it belongs in the documentation."""
    codes = "\n".join(f"| {code.value} | {meaning} |" for code, meaning in MEANINGS.items())
    page = OPENING.replace("{codes}", f"| code | meaning |\n| --- | --- |\n{codes}")
    page = page.replace("{timeline}", example()).replace("{providers}", providers())
    explained = dict[str, str]()
    helps = (
        f"### {f'stretto {command}'.strip()}\n\n```text\n{_once(command, explained)}\n```\n" for command in COMMANDS
    )
    return "\n".join((page, *helps))


def providers() -> str:
    """The table of providers: what is read from the environment, and where each is."""
    rows = ["| models | key | address | a model, where none is named |", "|---|---|---|---|"]
    for name, each in PROVIDERS.items():
        backend = each.load()
        key = "" if each.on_this_machine else f"`{backend.key_variable}`"
        address = backend.default_url + ("" if each.on_this_machine else f", or `{backend.url_variable}`")
        rows.append(f"| `{name}:NAME` | {key} | {address} | {f'`{each.default}`' if each.default else ''} |")
    return "\n".join(rows)


def _once(command: str, explained: dict[str, str]) -> str:
    """The help of a command; of options that an earlier one has described, the names alone."""
    again = dict[str, list[str]]()

    def first(found: re.Match[str]) -> str:
        words = " ".join(found[0].split())
        if words.startswith("-h, --help"):
            return ""
        if words in explained:
            again.setdefault(explained[words], []).append(re.findall(r"--[\w-]+", words)[0])
            return ""
        explained[words] = f"stretto {command}".strip()
        return found[0]

    text = OPTION.sub(first, f"{help_of(command)}\n").replace("  Exit codes: see stretto --help.\n", "")
    text = re.sub(r"Options:\n(?=\n|\Z)", "", text).rstrip()
    for earlier, names in again.items():
        text += f"\n\nAs in {earlier}:\n" + "\n".join(
            textwrap.wrap(" ".join(names), 76, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
        )
    return re.sub(r"\n{3,}", "\n\n", text)


def help_of(command: str) -> str:
    """What ``--help`` prints for a command, 80 columns wide."""
    result = CliRunner().invoke(app, [*command.split(), "--help"], prog_name="stretto", terminal_width=80)
    return result.output.rstrip()


def example() -> str:
    """A timeline to look at, drawn from made-up figures."""

    def branch(name: str, title: str, times: tuple[float, float, float], tokens: int) -> Branch:
        needed_s, first_s, ended_s = times
        span = Span(needed_s=needed_s, started_s=needed_s, first_s=first_s, ended_s=ended_s)
        usage = Usage(completion_tokens=tokens, calls=1)
        return Branch(id=name, kind="section" if title else "outline", heading=title, span=span, usage=usage)

    answer = Answer(
        text="",
        route=Route(strategy="skeleton"),
        branches=(
            branch("outline", "", (0.0, 0.4, 1.1), 31),
            branch("point-1", "Cleaning", (0.55, 0.95, 2.4), 88),
            branch("point-2", "Chain and gears", (0.75, 1.2, 2.9), 104),
            branch("point-3", "Tyres", (0.95, 1.35, 2.6), 79),
        ),
        decoding=DecodingStats(
            methods=("auto",),
            steps=142,
            rows=781,
            tokens=298,
            drafted={"suffix": 402, "aggressive": 237},
            accepted={"suffix": 117, "aggressive": 39},
        ),
        timeline=Timeline(first_text_s=0.95, total_s=2.95, critical_path_s=2.9),
    )
    return "\n".join(line.plain.rstrip() for line in render_timeline(answer, 80))


if __name__ == "__main__":
    Path(__file__).with_name("cli.md").write_text(reference(), encoding="utf-8")
