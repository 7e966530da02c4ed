"""A user's files as a source of drafts: read once, tokenized and sorted.

He et al., arXiv:2311.08252 (REST), drafts from a datastore of texts. Li et al., arXiv:2405.19325 (NEST), takes longer
spans when it is surer of a match, as `Suffix` does, and mixes probabilities, which would change answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.drafting.compiled.suffixes import DEEPEST, LONGEST, SortedText
from stretto.local_engine.drafting.sources.grams import Grams
from stretto.values.errors import SettingsError

MOST_TOKENS = 4_000_000
"""Limit over all files: each token takes eight bytes, and eight to sixteen more for a fast filter."""


class FileTexts:
    """Unchanging texts that drafts are taken from.

    Args:
        texts: tokens of each.

    Attributes:
        sorted_text: all of their substrings.
        grams: a fast filter of what occurs in them.
    """

    def __init__(self, texts: Sequence[Sequence[int]]) -> None:
        ends = np.full(DEEPEST + LONGEST, -1, np.int32)
        parts = [part for text in texts for part in (np.array(text, np.int32), ends[:1])]
        tokens = np.concatenate([*parts, ends])
        self.sorted_text = SortedText(tokens, _order(tokens, len(tokens) - len(ends)))
        self.grams = Grams(len(tokens))
        for text in texts:
            self.grams.add_all(text)


def tokenized(texts: Sequence[str], tokenize: Callable[[str], Sequence[int]]) -> FileTexts:
    """Tokenize texts. Raises `SettingsError` for too many tokens."""
    made, count = list[Sequence[int]](), 0
    for text in texts:
        made.append(tokenize(text))
        count += len(made[-1])
        if count > MOST_TOKENS:
            raise SettingsError(
                f"draft_corpus holds more than {MOST_TOKENS:,} tokens. Drafts are looked for in so many at most: name "
                "fewer files."
            )
    return FileTexts(made)


def _order(tokens: NDArray[np.int32], count: int) -> NDArray[np.int32]:
    """Sort the first places by the `DEEPEST` tokens at each: by one token, then by two, by four, ..."""
    rank = np.unique(tokens, return_inverse=True)[1].astype(np.int64)
    known = 1
    while known < DEEPEST:
        shifted = np.concatenate([rank[known:], np.zeros(known, np.int64)])
        rank = np.unique(rank * (rank.max() + 1) + shifted, return_inverse=True)[1]
        known *= 2
    return np.argsort(rank[:count], kind="stable").astype(np.int32)
