"""How many tokens a text has, where nobody has counted them.

Estimates that err on purpose are elsewhere: `backends.known_models.estimate_tokens` and
`strategies.document.document_reading.estimate` rather give too many, because what they count has to fit into a window;
`strategies.runtime.limits.TOKENS_PER_WORD` leaves room for a part that is cut there, and
`router.forecast.TYPICAL_TOKENS_PER_WORD` is what was measured of whole answers.
"""

from __future__ import annotations

__all__ = ["typical_tokens"]

_CHARACTERS_PER_TOKEN = 4  # of English


def typical_tokens(characters: int) -> int:
    """Tokens of a text with so many characters, rounded up."""
    return -(-characters // _CHARACTERS_PER_TOKEN)
