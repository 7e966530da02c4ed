"""Prompt lookup: copy what followed an earlier occurrence of the text's end."""

from __future__ import annotations

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome


class PromptLookup:
    """Copies what followed the last occurrence of the longest repeated n-gram at the end of the text.

    Saxena, "Prompt Lookup Decoding", 2023; Yang et al., arXiv:2304.04487 (LLMA).

    Args:
        longest: maximum number of tokens of the n-gram; shorter ones are tried if it did not occur.
        span: maximum number of tokens to copy.
    """

    name = "prompt_lookup"
    wants_top = 0

    def __init__(self, longest: int = 3, span: int = 10) -> None:
        self._longest = longest
        self._span = span
        self._next_index: dict[tuple[int, ...], int] = {}  # index of the token after the last occurrence of each n-gram
        self._indexed = 0
        self.evidence = 0

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        self.read_on(context)
        tree, self.evidence = DraftTree(), 0
        for size in range(min(self._longest, len(context.tokens)), 0, -1):
            start = self._next_index.get(tuple(context.tokens[-size:]))
            if start is not None:
                self.evidence = size
                copied = context.tokens[start : start + min(self._span, rows)]
                tree.add_path(copied, (size / (size + depth) for depth in range(1, len(copied) + 1)))
                break
        return tree

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        """Do nothing: the text is read when a draft is requested."""

    def read_on(self, context: DraftContext) -> None:
        """Add the new n-grams of the text that are followed by a token."""
        tokens = context.tokens
        for end in range(max(self._indexed, 1), len(tokens)):
            for size in range(1, min(self._longest, end) + 1):
                self._next_index[tuple(tokens[end - size : end])] = end
        self._indexed = len(tokens)
