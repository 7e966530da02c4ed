"""The tables of ``lists.toml``: words of requests for many things at once, by language."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

_NOTHING = "(?!)"


def listed(key: str, language: str | None = None) -> re.Pattern[str]:
    """Any of the words that all languages, or one of them, list under a key, to be searched for."""
    return re.compile(rf"\b{spaced(key, language)}(?!\w)|{unspaced(key, language)}", re.IGNORECASE)


def spaced(key: str, language: str | None = None) -> str:
    """A pattern for one of these words in languages with blanks between words; the caller asks for their edges."""
    return _either(key, language, whole_words=True)


def unspaced(key: str, language: str | None = None) -> str:
    """A pattern for one of these words in languages without blanks between words."""
    return _either(key, language, whole_words=False)


def languages(key: str) -> list[str]:
    """The languages that list words under a key."""
    return [name for name, table in _tables().items() if key in table]


@cache
def _tables() -> dict[str, dict[str, Any]]:
    return tomllib.loads(files("stretto.language").joinpath("lists.toml").read_text("utf-8"))


def _either(key: str, language: str | None, *, whole_words: bool) -> str:
    if not languages(key):
        raise LookupError(f"lists.toml has no {key!r} in any language")
    tables = _tables().values() if language is None else [_tables()[language]]
    tables = [table for table in tables if table.get("whole-words", True) is whole_words]
    return f"(?:{'|'.join(dict.fromkeys(each for table in tables for each in table.get(key, ()))) or _NOTHING})"
