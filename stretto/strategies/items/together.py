"""Detects requests that need all items at once or in sequence and must not be split.

The words are broad on purpose: a request that is refused wrongly is answered in one piece, a request that is split
wrongly is answered wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stretto.language.lists import listed

EACH = listed("each")
_TOGETHER = listed("together")
_TOGETHER_UNLESS_EACH = listed("together-unless-each")
_NO_ITEMS = listed("no-items")
_REFERS = listed("refers")
_LEANS = listed("leans")
_PRONOUN = listed("pronoun")
_ANSWERS = listed("answers")


def needs_all(instruction: str, introduction: str) -> str | None:
    """Why an instruction cannot be applied item by item; ``None`` if it can.

    ``introduction`` is the line before the list; it may show that the list does not consist of items.
    """
    if found := _TOGETHER.search(instruction):
        return f'it asks for something that needs all items together ("{_shown(found)}")'
    if EACH.search(instruction):
        match = _NO_ITEMS.search(introduction) if not EACH.search(introduction) else None
    elif found := _TOGETHER_UNLESS_EACH.search(instruction):
        return f'it asks for one result ("{_shown(found)}")'
    else:
        match = _NO_ITEMS.search(introduction)
    return f'the list is not one of items ("{_shown(match)}")' if match else None


def refer_to_each_other(instruction: str, items: Sequence[str]) -> str | None:
    """Why items cannot be understood on their own; ``None`` if they can."""
    asking = bool(_ANSWERS.search(instruction)) or sum(item.rstrip().endswith("?") for item in items) * 2 > len(items)
    supplied = _ANSWERS.search(instruction) is not None
    for item in items:
        found = _REFERS.search(item) or (_LEANS.match(item) if asking else None)
        found = found or (_PRONOUN.search(item) if supplied else None)
        if found:
            return f'items refer to each other ("{_shown(found)}")'
    return None


def _shown(found: re.Match[str]) -> str:
    words = " ".join(found[0].split())
    return words if len(words) <= 40 else words[:37] + "..."
