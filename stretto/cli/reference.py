"""Writes ``docs/cli.md``: ``python -m stretto.cli.reference > docs/cli.md``."""

from __future__ import annotations

import sys

from stretto.cli.exits import MEANINGS

COMMANDS = (
    "", "ask", "route", "chat", "chats", "chats list", "chats search", "chats show", "chats delete", "serve",
    "logs", "logs on", "logs off", "logs status", "logs search", "logs show",
    "logs delete", "prompts", "prompts list", "prompts show", "compare", "check", "bench", "doctor",
)  # fmt: skip

OPENING = """\
# The command line

Written by `python -m stretto.cli.reference`; a test compares it with the program.

```console
$ stretto ask "How do I look after a bicycle?"                    # no key: the demonstration model
$ stretto ask --model openai:gpt-5.4-mini --trace "..."             # and a drawing of what ran when
$ stretto ask --model openai:NAME --base-url http://localhost:8000/v1 "..."
$ git diff | stretto ask "Summarise this change" > summary.txt    # a pipe, and plain text
$ stretto ask --compare --strategy skeleton "..."                 # what it gains here
$ stretto chat                                                    # points side by side, in this terminal
$ stretto route "..."                                             # how it would be answered, and why
$ stretto serve --model openai:NAME                               # for every client of OpenAI's API
$ stretto check llamacpp:smollm2                                  # what a model holds, and how fast it is
$ stretto bench local:./folder                                    # which decoding method is fastest here
$ stretto doctor                                                  # what would work on this machine
```

## Outputs

The answer goes to standard output; the model's name, the reason for the strategy, warnings, the status
line, the timeline and the comparison go to standard error. `--quiet` drops what was not asked for.
A progress line, colours and moving of the cursor appear on a terminal only. With `NO_COLOR` nothing is coloured; bold
and dim text stay.

On a terminal the Markdown of an answer is drawn while it is written, with the address of each link. In a pipe, with
`--plain` and with `NO_COLOR` the text stays as the model wrote it.

The text of a model is not trusted: control characters other than newline and tab, and characters that turn the
direction of text, are dropped from it, so an answer cannot move the cursor, change the terminal or show something in
another order. `--json` keeps them, escaped.

An answer that is cut has a warning for each part: what happened, and which option to change. A part that is missing
has a short note in its place; `--on-missing omit` leaves it out, `--on-missing raise` makes it an error.

`--json` prints the answer with its route, branches, tokens, times and warnings, when it is complete. With
`--compare` it prints `{"answer", "direct", "comparison"}`. `--events` prints each event as a line of JSON as it comes.

## Input

Words after the command are the question. Text from a pipe or a file on standard input is read to its end
and put below the question; alone, it is the question. A question that begins with a dash goes behind `--`.

## The model

`--model`, else the setting `model` (`STRETTO_MODEL` or the settings file), else `OPENAI_API_KEY`, else
`ANTHROPIC_API_KEY`, else `local:pocket`, the demonstration model. It knows 100 everyday topics and 200 short
facts, and its answers may be wrong; the program says so before each answer and in the status line.

A key is never taken from an option, which other users of the machine could see. The providers' keys are not sent to
a `--base-url`; for a server that wants one, set `STRETTO_API_KEY`, or name a variable: `--key-variable MY_SERVER_KEY`.

## The decoding of a local model

Every method finds the same answer, at another speed. `--decoding METHOD` names one; without it the router does, by the
shape of the answer and the temperature, and `stretto route` says which and why. A backend
behind an API takes none: the option is left out, with a warning.

`stretto bench MODEL` measures every method that the model can be run with, on a Python file and an essay to continue, a
text to copy with changes and a question, or on `--prompts FILE`. It shows the losing ones too, and ends with which to
use for what, and why.

## How a local model runs

`--dtype`, `--device` and `--threads` choose the number type, the device and the most threads of a forward. The settings
`dtype`, `device`, `decoding`, `threads`, `compiled` and `long_context` (`STRETTO_DTYPE`, ...) do the same for every
command and every client. On a CPU, a local model runs in code that is compiled for the processor beside the first
answers; with `--no-compiled` or `STRETTO_COMPILED=0` it runs in torch, more slowly. `STRETTO_COMPILED=1` waits for the
compiler. `--long-context` chooses how a prompt longer than the window is read.

A model that is being loaded cannot be stopped. Ctrl-C and `--deadline` end the program all the same.

## The timeline

`--trace` draws one row for each branch, over the seconds since the question was asked:

```text
{timeline}
```

"Waits for its turn" is the time until its call was sent, "waits for the first text" the time until the model began.
The critical path is the longest chain of branches that had to wait for each other.

`--trace FILE.html` writes a page with the answer, its route and the same drawing; `--trace FILE.svg` the drawing alone.

The last lines are there for a model in this process: how many forwards it took, how many tokens one gave and how many
rows it evaluated, and of each source of drafts how many drafted tokens were right. A table says how many seconds each
branch waited for what before its first text: its turn, the model, the engine's queue, its prompt. See
[where a request waits](local-models.md#where-a-request-waits).

## Kept answers and logs

`stretto logs on` keeps the questions and answers of `ask` and `chat` in an SQLite file that only you can read, until
`stretto logs off`. `stretto logs` lists them, `stretto logs search WORDS` finds them, `stretto logs show NUMBER` prints
one, `stretto logs delete` removes them. The file is named by `STRETTO_LOGS`, else it is in your data folder.

`STRETTO_LOG=info` (or `debug`) writes log records as lines of JSON to standard error, without questions and answers
unless `STRETTO_LOG_TEXT=1`. [Seeing what happened](observing.md) says more.

## Log-probabilities

`--logprobs N` shows on standard error, below the answer, how probable the model found each token, and the N most
probable in its place (0 to 20; 0 for none), before temperature and limits. In a skeleton or a list of items those are
the tokens of the parts, one after the other; labels, and the outline, have none. With `--json` and `--events` they are
in the answer, as `logprobs`. Local models have them, and those behind OpenAI's API that do not reason; from others it
is an error.

## The comparison

`--compare` asks twice, one after the other: with the chosen strategy, then with `direct`. What only the first would
pay for, such as loading a local model, is done before. A remote provider has an open connection and perhaps the
prompt in its cache for the second call, so the figures lean towards `direct`, if anywhere. The answers differ in
length, so words per second stand beside the times.

## Chat

On a terminal, `stretto chat` shows the points of an answer side by side while they are written; it needs
`stretto[chat]`. In a pipe, with `--plain`, `--quiet`, `NO_COLOR` or `TERM=dumb` it goes line by line. `/help` lists
its commands, which are the same in both. [The chat in a terminal](terminal-chat.md) says more, also about kept chats:
`stretto chats` finds them, `stretto chat --resume` goes on with one.

Line by line, the model sees questions and merged answers, nothing else: an answer that was cancelled with Ctrl-C or
failed leaves neither its text nor its question there.

## The server

`stretto serve` puts the models behind the APIs of OpenAI and Anthropic until Ctrl-C or SIGTERM. [The server](server.md)
says more. `--model` may be given several times there.

## Exit codes

{codes}

An error is one line on standard error that begins with `error:`. It names what was wrong, its value where that is no
secret, and what to do.

## Completion

`stretto --install-completion` sets it up for the shell it is called from, `stretto --show-completion` prints
it: bash, zsh, fish or PowerShell. It completes commands, options, strategies, preferences, decoding methods, providers,
prompts, their families and versions. Tried in bash 5.2, zsh 5.9 and fish 3.6; a value is completed behind a space
(`--strategy sk`), not behind `=`.

## Commands
"""


def reference() -> str:
    """The page, as it belongs in the documentation."""
    codes = "\n".join(f"| {code.value} | {meaning} |" for code, meaning in MEANINGS.items())
    page = OPENING.replace("{codes}", f"| code | meaning |\n| --- | --- |\n{codes}").replace("{timeline}", example())
    helps = (f"### {f'stretto {command}'.strip()}\n\n```text\n{help_of(command)}\n```\n" for command in COMMANDS)
    return "\n".join((page, *helps))


def help_of(command: str) -> str:
    """What ``--help`` prints for a command, 80 columns wide."""
    from typer.testing import CliRunner  # noqa: PLC0415 - only here

    from stretto.cli.app import app  # noqa: PLC0415

    result = CliRunner().invoke(app, [*command.split(), "--help"], prog_name="stretto", terminal_width=80)
    return result.output.rstrip()


def example() -> str:
    """A timeline to look at, drawn from made-up figures."""
    from stretto.answer import Answer, Branch, Span, Timeline, Usage  # noqa: PLC0415 - only here
    from stretto.cli.timeline import render_timeline  # noqa: PLC0415
    from stretto.route import Route  # noqa: PLC0415
    from stretto.tokens import Decoding  # noqa: PLC0415

    def branch(name: str, title: str, times: tuple[float, float, float], tokens: int) -> Branch:
        needed_s, first_s, ended_s = times
        span = Span(needed_s=needed_s, started_s=needed_s, first_s=first_s, ended_s=ended_s)
        usage = Usage(completion_tokens=tokens, calls=1)
        return Branch(id=name, kind="point" if title else "outline", title=title, span=span, usage=usage)

    answer = Answer(
        text="",
        route=Route(strategy="skeleton"),
        branches=(
            branch("outline", "", (0.0, 0.4, 1.1), 31),
            branch("point-1", "Cleaning", (0.55, 0.95, 2.4), 88),
            branch("point-2", "Chain and gears", (0.75, 1.2, 2.9), 104),
            branch("point-3", "Tyres", (0.95, 1.35, 2.6), 79),
        ),
        decoding=Decoding(
            methods=("auto",),
            steps=142,
            rows=781,
            tokens=298,
            drafted={"suffix": 402, "token_recycling": 237},
            accepted={"suffix": 117, "token_recycling": 39},
        ),
        timeline=Timeline(first_text_s=0.95, total_s=2.95, critical_path_s=2.9),
    )
    return "\n".join(line.plain.rstrip() for line in render_timeline(answer, 80))


if __name__ == "__main__":
    sys.stdout.write(reference())
