"""The tables of ``lists.toml``: words that request many things at once, by language."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from stretto.language import tables_in

_NOTHING = "(?!)"
_GROUP = r"\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*+\))*+\)"
_ALWAYS = rf"(?![?*+{{])[^|()]*+(?:{_GROUP}[^|()]*+)*+$"  # what precedes is mandatory; no `|` at the top level
_PLAIN_START = re.compile(rf"[^\W\d_]{_ALWAYS}")
_BEYOND_ASCII = re.compile(rf"(?:[^\x00-\x7f]|\[[^\x00-\x7f]+\]){_ALWAYS}")
_CASES = {"i": "iIıİ", "k": "kK\u212a", "s": "sSſ"}  # as `re` folds letters when ignoring case


def listed(key: str, language: str | None = None) -> re.Pattern[str]:
    """Return a search pattern for any word that all languages, or one of them, list under a key."""
    words = _either(key, language, whole_words=True, any_case=True)
    parts = anywhere(_patterns(key, language, whole_words=False), any_case=True) or _NOTHING
    return re.compile(rf"\b{words}(?!\w)|{parts}", re.IGNORECASE)


def spaced(key: str, language: str | None = None) -> str:
    """Return a pattern for one of these words in languages with spaces; the caller adds the word boundaries."""
    return _either(key, language, whole_words=True)


def unspaced(key: str, language: str | None = None) -> str:
    """Return a pattern for one of these words in languages without spaces between words."""
    return _either(key, language, whole_words=False)


def languages(key: str) -> list[str]:
    """Return the languages that list words under a key."""
    return [name for name, table in _tables().items() if key in table]


@cache
def _tables() -> dict[str, dict[str, Any]]:
    return tables_in("lists.toml")


def first_letter_first(patterns: Iterable[str], *, any_case: bool = False) -> str:
    """Combine patterns into one that matches the same as trying them in order.

    Those that begin with the same letter share a branch. ``any_case``: the pattern ignores case. The letter is then
    matched by a set of both cases, which `re` tests at once; otherwise it would enter each branch at each word.
    """
    branches: list[tuple[str, list[str]]] = []
    since = 0  # the first branch after the last pattern that can begin with any letter
    for pattern in patterns:
        if not _PLAIN_START.match(pattern):
            branches.append(("", [f"(?:{pattern})"]))
            since = len(branches)
            continue
        first = pattern[0].lower() if any_case else pattern[0]
        if (same := dict(branches[since:]).get(first)) is None:
            branches.append((first, same := []))
        same.append(pattern[1:])
    return "|".join(
        f"{_in_any_case(first) if any_case else first}(?:{'|'.join(rests)})" if first else rests[0]
        for first, rests in branches
    )


def anywhere(patterns: Sequence[str], *, any_case: bool = False) -> str:
    """Combine patterns that also match within words. Those of other scripts are tried only at letters of these."""
    either = first_letter_first(patterns, any_case=any_case)
    return rf"(?=[^\x00-\x7f])(?:{either})" if patterns and all(map(_BEYOND_ASCII.match, patterns)) else either


def in_ascii(patterns: Iterable[str]) -> str:
    """Return a pattern that tests whether any of these occurs in an ASCII text, faster than searching for each."""
    possible = [each for each in patterns if not _BEYOND_ASCII.match(each)]
    return first_letter_first(sorted(possible, key=lambda each: _PLAIN_START.match(each) is None))


def _in_any_case(letter: str) -> str:
    return f"(?-i:[{_CASES.get(letter, letter + letter.upper())}])"


def _either(key: str, language: str | None, *, whole_words: bool, any_case: bool = False) -> str:
    patterns = _patterns(key, language, whole_words=whole_words)
    return f"(?:{first_letter_first(patterns, any_case=any_case) or _NOTHING})"


def _patterns(key: str, language: str | None, *, whole_words: bool) -> list[str]:
    if not languages(key):
        raise LookupError(f"lists.toml has no {key!r} in any language")
    tables = _tables().values() if language is None else [_tables()[language]]
    of_these = [table for table in tables if table.get("whole-words", True) is whole_words]
    return list(dict.fromkeys(pattern for table in of_these for pattern in table.get(key, ())))
