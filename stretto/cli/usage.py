"""Parsing of the command line: options with optional values, and usage errors in one line.

Like other errors, that line has the value and a remedy. ``--trace`` draws on the terminal, ``--trace FILE.html`` writes
a page. ``--resume`` continues the last chat, ``--resume ID`` that one.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import typer
from typer.core import TyperGroup

from stretto.cli.exits import Exit, complain
from stretto.foundation.arguments import looks_like_key, safe_repr

TRACE_TO = "--trace-to"  # receives the value; typer has no options with optional values
RESUMED = "--resumed"
DRAWN = (".html", ".svg")  # extensions of files that --trace writes
_FILES = (*DRAWN, ".htm", ".pdf", ".png", ".jpg", ".jpeg", ".json")  # and others that users may try


def spelled_out(words: Sequence[str]) -> list[str]:
    """Rewrite ``ask --trace FILE`` as ``--trace-to FILE``, and ``chat --resume ID`` as ``--resumed ID``.

    A word that does not end like a file is no value of ``--trace``, nor one that begins with a dash of ``--resume``.
    """
    match list(words[:1]):
        case ["ask"]:
            return _spelled(words, "--trace", TRACE_TO, lambda word: word.lower().endswith(_FILES))
        case ["chat"]:
            return _spelled(words, "--resume", RESUMED, lambda word: not word.startswith("-"))
    return list(words)


def _spelled(words: Sequence[str], option: str, with_value: str, is_value: Callable[[str], bool]) -> list[str]:
    spelled: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            return [*spelled, word, *rest]
        if word.startswith(f"{option}="):
            spelled += [with_value, word.removeprefix(f"{option}=")]
        elif spelled and spelled[-1] == option and is_value(word):
            spelled[-1:] = [with_value, word]
        else:
            spelled.append(word)
    return spelled


UsageError: Any = typer.BadParameter.__base__  # typer imports it from click, or has a copy
_HIDDEN = {TRACE_TO: "--trace", RESUMED: "--resume"}
_INVALID = re.compile(
    r"^Invalid value for (?P<what>'[^']*'(?: / '[^']*')*)(?: \(env var: '[^']*'\))?: (?:Value error, )?(?P<reason>.*)$",
    re.DOTALL,
)
_HOW_IT_WAS_READ = re.compile(r", unable to parse .*$")


class Program(TyperGroup):
    """The group of all commands. Usage errors end it in the same way as errors of commands."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the given command line, ``sys.argv`` by default."""
        words = list(sys.argv[1:] if args is None else args)
        run = partial(super().main, words, prog_name, complete_var, windows_expand_args=windows_expand_args, **extra)
        if not standalone_mode:
            return run(standalone_mode=False)
        try:
            code = run(standalone_mode=False)  # the code of `typer.Exit`: commands return nothing
        except UsageError as error:
            if type(error).__name__ == "NoArgsIsHelpError":  # the help was requested
                error.show()
            else:
                complain(_sentence(error, words))
            sys.exit(error.exit_code)
        except typer.Abort:
            complain("aborted")
            sys.exit(Exit.FAILED)
        sys.exit(code)

    def invoke(self, ctx: Any) -> None:
        """Run a command. Its return value is not used as an exit code; input that ends too early aborts it."""
        try:
            super().invoke(ctx)
        except EOFError:
            raise typer.Abort from None


def _sentence(error: Any, words: Sequence[str]) -> str:
    """Describe the error and the remedy, without API keys."""
    message = error.format_message().strip().rstrip(".")
    if invalid := _INVALID.match(message):
        parameter = getattr(error, "param", None)
        names = list(parameter.opts) if parameter is not None else []
        what = next((_HIDDEN.get(name, name) for name in names if name.startswith("--")), invalid["what"].strip("'"))
        given = _given(error, words)
        reason = _HOW_IT_WAS_READ.sub("", invalid["reason"])
        if reason.startswith(f"{given!r} is"):
            reason = f"it{reason.removeprefix(repr(given))}"
        value = "" if given is None else f" {shlex.quote(given)}"
        message = f"{what}{value} cannot be used: {reason[:1].lower()}{reason[1:]}"
    command = error.ctx.command_path if error.ctx is not None else " ".join(("stretto", *words[:1]))
    for word in words:
        for value in (word, word.partition("=")[2]):
            message = message.replace(value, safe_repr(value)) if looks_like_key(value) else message
    return f"{message}{'' if message.endswith('?') else '.'} See {command} --help."


def _given(error: Any, words: Sequence[str]) -> str | None:
    """Return the value given to the option or argument; ``None`` if there is none or more than one."""
    if error.ctx is None or error.param is None:
        return None
    own = list(words)
    for name in error.ctx.command_path.split()[1:]:
        own = own[own.index(name) + 1 :] if name in own else own
    values = error.ctx.command.make_parser(error.ctx).parse_args(own)[0].get(error.param.name)
    if isinstance(values, list | tuple):
        values = values[0] if len(values) == 1 else None
    return values if isinstance(values, str) else None
