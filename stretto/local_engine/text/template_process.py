"""The process that renders one chat template: it takes requests from its standard input until that ends.

A template comes with a model's files, and can need any amount of time and memory. A thread cannot be killed; a process
can. Only Jinja is imported here, so that the process starts in a tenth of a second.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from math import ceil
from typing import IO, Any

from jinja2 import Template, TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

OUT_OF_MEMORY = 3
"""Exit status of a process whose template needs too much memory."""

_LONGEST_REASON = 500  # characters of an error message that are sent


def serve() -> None:
    """Render until there are no more requests. The first line is the template."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent, which ends this process
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    template: Template | None = None
    source = json.loads(requests.readline())
    while line := requests.readline():
        wanted = json.loads(line)
        _bound(wanted["memory"], wanted["cpu_s"])
        try:
            given = json.loads(requests.read(wanted["bytes"]))
            template = template or _Environment().from_string(source)
            _answer(answers, "text", _rendered(template, given, wanted["most"]))
        except MemoryError:
            os._exit(OUT_OF_MEMORY)  # there may be too little memory to report it
        except _TooLongError as error:
            _answer(answers, "too long", str(error))
        except Exception as error:  # noqa: BLE001 - a template raises whatever its author wrote
            _answer(answers, "refused", str(error)[:_LONGEST_REASON] or type(error).__name__)


class _TooLongError(Exception):
    """A template wrote more than allowed."""


def _rendered(template: Template, given: Mapping[str, Any], most: int) -> str:
    parts, left = [], most
    for part in template.generate(given):
        left -= len(part)
        if left < 0:
            raise _TooLongError(f"it writes more than {most:,} characters")
        parts.append(part)
    return "".join(parts)


def _answer(answers: IO[bytes], kind: str, content: str) -> None:
    data = content.encode(errors="surrogatepass")
    answers.write(json.dumps([kind, len(data)]).encode() + b"\n")
    answers.write(data)
    answers.flush()


def _bound(memory: int, cpu_s: float) -> None:
    """Limit the memory and the time of this process; where the system cannot, the parent still limits the time."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - Windows has none

    seconds = ceil(time.process_time() + cpu_s)
    for kind, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0)):
        with suppress(ValueError, OSError):  # the system may allow less, or no change
            resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))


class _Generation(Extension):
    """``{% generation %}``, which marks for training what a model writes; here its text is like any other."""

    tags = {"generation"}  # noqa: RUF012 - as in the class of Jinja

    def parse(self, parser: Parser) -> nodes.Node:
        """Read the tag up to its end."""
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class _Namespace(Namespace):
    """Jinja's namespace without names that begin with an underscore: they would reach into the interpreter."""

    def __init__(*args: Any, **fields: Any) -> None:
        self, *given = args  # positional only: fields can have any name
        values = dict(*given, **fields)
        for name in values:
            _check_name(name)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"the name {name[:60]!r} of a namespace begins with an underscore")


class _Environment(ImmutableSandboxedEnvironment):
    """The environment that chat templates expect: the settings, filters and functions of transformers."""

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, LoopControlExtension])
        functions: list[Callable[..., Any]] = [raise_exception, strftime_now]
        self.globals |= {each.__name__: each for each in functions}
        self.globals |= {"dict": _new_dict, "namespace": _Namespace}
        self.filters["tojson"] = _tojson


def raise_exception(message: str) -> None:
    """Let a template refuse its messages."""
    raise TemplateError(str(message)[:_LONGEST_REASON])


def strftime_now(form: str) -> str:
    """Return the current time in the format ``form``."""
    return datetime.now().strftime(form)


def _new_dict(*args: Any, **fields: Any) -> dict[Any, Any]:
    return dict(*args, **fields)  # a function, because the class has attributes that the sandbox need not know


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Serialise as plain JSON; Jinja's own filter escapes ``<`` and others for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
