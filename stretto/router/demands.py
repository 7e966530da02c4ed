"""Explicit demands of a request (a short answer, a format, a number of items), found by patterns, not by a model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stretto.language.counting import numbers_in
from stretto.language.folding import fold
from stretto.language.forms import NEAR_AFTER, NEAR_BEFORE, forms
from stretto.router.excerpt import excerpt

if TYPE_CHECKING:
    from stretto.language.listing import Listing

_FORMAT = re.compile(
    r"\b(?:only|just|nothing but|valid|strictly|exclusively|single|must be(?: in)?|nur)\b[^.\n]{0,40}"
    r"\b(?:json|xml|yaml|csv|html|code|toml|sql)\b"
    r"|\b(?:json|xml|yaml|csv|toml)\b[^.\n]{0,20}\b(?:only|object|array|format|schema|output|response)\b"
    r"|\b(?:as|in|return|output|(?:respond|reply|answer) (?:with|in)) (?:a |an |valid |raw )?"
    r"(?:json|xml|yaml|csv|toml)\b"
)
_BULLET_BELOW = re.compile(r"\n[ \t]*(?:[-*•]|\(?\d{1,3}[.):]|\(?[a-zA-Z][.)])[ \t]*\S")
LONGEST_LINE = 80  # characters; a longer line without a list marker is text, not an item
SHORT_LINE = 4  # words; lines this short are items even if nothing separates them from the first
FEWEST_LINES = 3
BRIEF_WORDS = 100
BRIEF_SENTENCES = 3
BRIEF_CHARACTERS = 200  # Chinese, Japanese or Korean
_MANY_ITEMS = 100


def _ends(text: str) -> str:
    return fold(excerpt(text))


def wants_brevity(text: str) -> str | None:
    """Return the words that ask for a short answer as a whole, or ``None``; "50 words each" does not count."""
    text, known = _ends(text), forms()
    if found := known.brief.search(text):
        return found[0].strip()
    for found in known.brief_unless_each.finditer(text):
        if not _per_part(text, found):
            return found[0].strip()
    for found in known.length.finditer(text):
        unit = found.lastgroup
        most = BRIEF_WORDS if unit == "words" else BRIEF_CHARACTERS if unit == "characters" else BRIEF_SENTENCES
        if int(found["number"]) <= most and not _per_part(text, found):
            return found[0]
    return None


def _per_part(text: str, found: re.Match[str]) -> bool:
    """Return whether the match is about each part of the answer rather than the whole."""
    return forms().each.search(text[max(0, found.start() - NEAR_BEFORE) : found.end() + NEAR_AFTER]) is not None


def wants_format(text: str) -> str | None:
    """Return the words that ask for a machine-readable answer, or ``None``."""
    text = _ends(text)
    found = _FORMAT.search(text)
    return found[0].strip() if found else None


def items_wanted(text: str) -> int:
    """Count the items that a prompt lists or, if it lists none, the first number that it names; 0 if none."""
    from stretto.language.listing import listings  # noqa: PLC0415 - its patterns are slow to compile

    text = excerpt(text)
    clear = next((listing for listing in listings(text) if _is_clear(listing)), None)
    if clear is not None:
        return min(len(clear.items), _MANY_ITEMS)
    return next((count for count in numbers_in(fold(text)) if 2 <= count <= _MANY_ITEMS), 0)


def _is_clear(listing: Listing) -> bool:
    """Return whether the form alone shows items; lines that could be text, and commas in a sentence, do not."""
    if listing.marks == "separated":
        return listing.before.endswith((":", "："))
    return listing.marks != "lines" or max(map(len, listing.items)) <= LONGEST_LINE


def may_be_list(text: str) -> bool:
    """Return whether lines have list markers or look like items below a task; cheaper than splitting the text."""
    if text.count("\n") < FEWEST_LINES:
        return False
    text = text.lstrip()
    first, *lines = filter(str.strip, text.split("\n"))
    marked = len(_BULLET_BELOW.findall(text))
    if marked >= FEWEST_LINES:
        return 2 * marked > len(lines)
    if len(lines) < FEWEST_LINES or max(map(len, lines)) > LONGEST_LINE:
        return False
    apart = text[len(first) :].startswith("\n\n") or first.rstrip().endswith((":", "："))
    return apart or max(len(line.split()) for line in lines) <= SHORT_LINE
