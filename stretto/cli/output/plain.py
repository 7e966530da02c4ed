"""Sanitised text for terminals, and messages in terms of the command line.

Text from a model, a document or a server can contain control characters, and thus sequences that move the cursor,
change the window's title or fill the clipboard. Newlines and tabs are kept. So are characters of right-to-left scripts,
but not those that override the direction of others.
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

_DIRECTIONS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # overrides and isolates, which change how text reads
_CONTROLS = {code: None for code in (*range(0x20), *range(0x7F, 0xA0), *_DIRECTIONS) if chr(code) not in "\n\t"}
_RAW_IN_JSON = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Drop all control characters except newline and tab, and those that change the direction of text."""
    return text.translate(_CONTROLS)


def one_line(text: str) -> str:
    """Do the same on one line, with runs of white space collapsed."""
    return " ".join(plain(text).split())


def plain_json(text: str) -> str:
    """Escape the control characters that JSON allows unescaped."""
    return _RAW_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def record_in(text: str) -> str:
    """Indent a JSON object, or a list of objects; empty for other texts, or if anything would be lost."""
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
        raise ValueError("a name occurs twice")
    return found


def json_lines(value: Any) -> str:
    """Format a value as indented JSON."""
    return plain_json(fix_surrogates(json.dumps(value, indent=2, ensure_ascii=False)))


_OF_A_CLIENT = ("base_url", "fallback", "model", "prompt_family")
_OF_A_MODEL = [name for name in OF_A_LOCAL_MODEL if name != "compiled"]  # which only has --no-compiled
_OTHERWISE = {"api_key": "--key-variable", "deadline_s": "--deadline", "documents": "--document", "roles": "--role"}

OPTIONS = {name: f"--{name.replace('_', '-')}" for name in (*_OF_A_CLIENT, *_OF_A_MODEL, *OF_A_REQUEST)} | _OTHERWISE
"""The command-line options by the names of the library's arguments."""

_NAMES = "|".join(OPTIONS)
_UNLIKE_WORDS = "|".join(name for name in OPTIONS if "_" in name)
_ARGUMENT = re.compile(
    rf"(?<![\w-])(?:(?P<given>{_NAMES})=(?:'(?P<single>[^'\n]*)'|\"(?P<double>[^\"\n]*)\"|(?P<value>[^\s,;:()'\"]*[^\s,;:()'\".]))?"
    rf"|(?P<bare>{_UNLIKE_WORDS}))(?!\w)"
)


def in_options(text: str) -> str:
    """Rewrite the arguments in a message of the library as options: ``max_tokens=0`` becomes ``--max-tokens 0``."""
    return _ARGUMENT.sub(_option, text)


def _option(found: re.Match[str]) -> str:
    option = OPTIONS[found["given"] or found["bare"]]
    value = next((found[name] for name in ("single", "double") if found[name] is not None), found["value"])
    return option if value is None else f"{option} {value}"
