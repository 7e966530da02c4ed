"""Words that show that a text repeats a prompt, in all languages together, from ``echoes.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from stretto.language import tables_in
from stretto.language.folding import fold


@dataclass(frozen=True, slots=True)
class PromptLeakWords:
    """The words of ``echoes.toml``; its first lines explain each kind."""

    labels: frozenset[str]
    leads: frozenset[str]
    ordinals: frozenset[str]
    intros: frozenset[str]
    refusals: tuple[str, ...]
    remarks: tuple[str, ...]
    announces: tuple[str, ...]


@cache
def echoes() -> PromptLeakWords:
    """Return the words, read once."""
    tables = tables_in("echoes.toml").values()

    def words(kind: str) -> frozenset[str]:
        return frozenset(word for table in tables for word in table.get(kind, "").split())

    def begins(kind: str) -> tuple[str, ...]:
        return tuple(fold(each) for table in tables for each in table.get(kind, ()))

    return PromptLeakWords(
        labels=words("labels"),
        leads=words("leads"),
        ordinals=words("ordinals"),
        intros=words("intros"),
        refusals=tuple(each for table in tables for each in table["refusals"]),
        remarks=begins("remarks"),
        announces=begins("announces"),
    )


def refuses(text: str) -> bool:
    """Return whether a text begins like a refusal."""
    return _head(text).startswith(echoes().refusals)


def may_refuse(text: str) -> bool:
    """Return whether an unfinished text begins like a refusal, or could still turn out to."""
    head = _head(text)
    return refuses(text) or any(each.startswith(head) for each in echoes().refusals)


def _head(text: str) -> str:
    return text.lstrip(" \n\"'*_").casefold().replace("’", "'")
