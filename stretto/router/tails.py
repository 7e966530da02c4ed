"""Detects questions that need the finished list: rank it, choose from it, compare its entries, draw a conclusion.

Points that are generated in parallel cannot see each other, so such a list is generated in one piece. "Explain each"
and "each with an example" do not need the finished list. The words are in ``language/tails.toml``, by language.
"""

from __future__ import annotations

from stretto.language.folding import fold
from stretto.language.tails import tails
from stretto.router.excerpt import excerpt


def wants_finished_list(text: str) -> str | None:
    """Return the words that ask for something that needs the finished list, or ``None``."""
    known = tails()
    text = fold(excerpt(text)).strip()
    for link in known.link.finditer(text):
        if found := known.linked.match(text, link.end()):
            return found[1].strip(" ,?")
    other = known.anywhere.search(text)
    if other is None and known.other_letter.search(text):
        other = known.other_scripts.search(text)
    return other[0].strip(" ,.;:!?\n") if other else None
