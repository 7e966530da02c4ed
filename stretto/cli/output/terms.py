"""The library's words for what to change, in those of the command line."""

from __future__ import annotations

import re

from stretto.cli.local_models import OF_A_LOCAL_MODEL
from stretto.cli.options import OF_A_REQUEST

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
