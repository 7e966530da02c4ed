"""Detect the language of a text, and load the notes of each language from ``notes.toml``."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache

from stretto.language import tables_in

READ = 2_000  # characters of a text that are read
_OF_DOCUMENTS = ("nothing", "unmatched", "partly", "unread", "unable")
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Languages:
    """The tables of ``notes.toml``, by language.

    Attributes:
        notes: for a missing part, and for a part that broke off.
        documents: notes about documents that do not help: ``nothing``, ``unmatched``, ``partly``, ``unread`` and
            ``unable``.
        small: function words of languages in Latin script; ``spoken``: the languages of each of these words.
        scripts: matches a character of a language in another script.
    """

    notes: dict[str, tuple[str, str]]
    documents: dict[str, dict[str, str]]
    small: dict[str, frozenset[str]]
    spoken: dict[str, list[str]]
    scripts: dict[str, re.Pattern[str]]


@cache
def languages() -> Languages:
    """Return the tables, read once."""
    tables = tables_in("notes.toml")
    small = {name: frozenset(table["small"].split()) for name, table in tables.items() if "small" in table}
    spoken: dict[str, list[str]] = {}
    for name, words in small.items():
        for word in words:
            spoken.setdefault(word, []).append(name)
    return Languages(
        notes={name: (table["missing"], table["broken"]) for name, table in tables.items()},
        documents={name: {key: table[key] for key in _OF_DOCUMENTS} for name, table in tables.items()},
        small=small,
        spoken=spoken,
        scripts={name: re.compile(f"[{table['script']}]") for name, table in tables.items() if "script" in table},
    )


def language_of(text: str, otherwise: str = "en") -> str:
    """Return the language of a text: by its script, or else by its function words, or else ``otherwise``."""
    known, text = languages(), text[:READ]
    if not text.isascii():
        scripts = {name: len(pattern.findall(text)) for name, pattern in known.scripts.items()}
        most = max(scripts, key=scripts.__getitem__)
        if scripts[most] * 3 > len(_LETTER.findall(text)):  # words in other scripts have fewer letters than in Latin
            return "ja" if most == "zh" and scripts["ja"] else most  # Japanese mixes kana with Han
    found = Counter(dict.fromkeys(known.small, 0))
    for spoken in filter(None, map(known.spoken.get, _WORD.findall(text.casefold()))):
        for language in spoken:
            found[language] += 1
    best = max(found, key=found.__getitem__)  # the first of equals: English
    return best if found[best] else otherwise
