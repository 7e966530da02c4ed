"""Text made fit for a terminal: without what others may have put into it, and in the words of the command line.

What a model, a document or a server wrote may hold control characters, and with them sequences
that move the cursor, change the window's title or fill the clipboard. Newlines and tabs stay. So do the characters of
scripts from right to left, but not those that turn the direction of others.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from decimal import Decimal
from typing import Any

from stretto.cli.local_models import OF_A_LOCAL_MODEL
from stretto.cli.options import OF_A_REQUEST
from stretto.foundation.json_schema import is_deeper
from stretto.foundation.surrogates import fix_surrogates

_DIRECTIONS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # overrides and isolates: they make text read otherwise
_CONTROLS = {code: None for code in (*range(0x20), *range(0x7F, 0xA0), *_DIRECTIONS) if chr(code) not in "\n\t"}
_RAW_IN_JSON = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Drop all control characters but newline and tab, and those that turn the direction of text."""
    return text.translate(_CONTROLS)


def one_line(text: str) -> str:
    """The same on one line, runs of white space as one space."""
    return " ".join(plain(text).split())


def plain_json(text: str) -> str:
    """JSON with the controls escaped that the format would allow to stand as they are."""
    return _RAW_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def record_in(text: str) -> str:
    """An object of JSON, or a list of them, on indented lines; empty for other texts, and where anything is lost."""
    value = None
    if text.lstrip().startswith(("{", "[")):
        with suppress(ValueError, ArithmeticError, RecursionError):
            value = json.loads(text, parse_float=_exact, parse_constant=_exact, object_pairs_hook=_all_of)
    if not (isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], dict))):
        return ""
    return "" if is_deeper(value) else json_lines(value)


def _exact(number: str) -> float:
    if Decimal(number) != Decimal(repr(read := float(number))):
        raise ValueError(f"{number} has more digits than are kept")
    return read


def _all_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def json_lines(value: Any) -> str:
    """A value as JSON on indented lines."""
    return plain_json(fix_surrogates(json.dumps(value, indent=2, ensure_ascii=False)))


_OF_A_CLIENT = ("base_url", "fallback", "model", "prompt_family")
_OF_A_MODEL = [name for name in OF_A_LOCAL_MODEL if name != "compiled"]  # for which there is only --no-compiled
_OTHERWISE = {"api_key": "--key-variable", "deadline_s": "--deadline", "documents": "--document", "roles": "--role"}

OPTIONS = {name: f"--{name.replace('_', '-')}" for name in (*_OF_A_CLIENT, *_OF_A_MODEL, *OF_A_REQUEST)} | _OTHERWISE
"""Arguments of the library by name, and the options of the command line that stand for them."""

_NAMES = "|".join(OPTIONS)
_UNLIKE_WORDS = "|".join(name for name in OPTIONS if "_" in name)
_ARGUMENT = re.compile(
    rf"(?<![\w-])(?:(?P<given>{_NAMES})=(?:'(?P<single>[^'\n]*)'|\"(?P<double>[^\"\n]*)\"|(?P<value>[^\s,;:()'\"]*[^\s,;:()'\".]))?"
    rf"|(?P<bare>{_UNLIKE_WORDS}))(?!\w)"
)


def in_options(text: str) -> str:
    """A message of the library with its arguments as options: ``max_tokens=0`` becomes ``--max-tokens 0``."""
    return _ARGUMENT.sub(_option, text)


def _option(found: re.Match[str]) -> str:
    option = OPTIONS[found["given"] or found["bare"]]
    value = next((found[name] for name in ("single", "double") if found[name] is not None), found["value"])
    return option if value is None else f"{option} {value}"
