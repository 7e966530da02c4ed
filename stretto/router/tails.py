"""What a question wants done with its finished list: rank it, choose from it, compare its entries, conclude from it.

Points that are written side by side do not know each other, so such a list is written straight through. "Explain each"
and "each with an example" ask for nothing of the kind. The words, by language: ``language/tails.toml``.
"""

from __future__ import annotations

from stretto.language.folding import fold
from stretto.language.tails import tails
from stretto.router.reading import excerpt


def wants_finished_list(text: str) -> str | None:
    """Return the words by which a text asks for something that only the finished points can give, or ``None``."""
    known = tails()
    text = fold(excerpt(text)).strip()
    for link in known.link.finditer(text):
        if found := known.linked.match(text, link.end()):
            return found[1].strip(" ,?")
    other = known.anywhere.search(text)
    if other is None and not text.isascii():
        other = known.other_scripts.search(text)
    return other[0].strip(" ,.;:!?\n") if other else None
