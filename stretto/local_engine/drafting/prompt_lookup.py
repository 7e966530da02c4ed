"""Prompt lookup: where the end of the text occurred before, what followed it is copied."""

from __future__ import annotations

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome

__all__ = ["PromptLookup"]


class PromptLookup:
    """Copies what followed the last occurrence of the longest n-gram that the text ends with.

    Saxena, "Prompt Lookup Decoding", 2023; Yang et al., arXiv:2304.04487 (LLMA).

    Args:
        longest: tokens of the n-gram at most; shorter ones are tried when it did not occur.
        span: tokens copied at most.
    """

    name = "prompt_lookup"
    wants_top = 0

    def __init__(self, longest: int = 3, span: int = 10) -> None:
        self._longest = longest
        self._span = span
        self._behind: dict[tuple[int, ...], int] = {}  # the index of the token behind each n-gram, where it was last
        self._indexed = 0
        self.evidence = 0

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        self.read_on(context)
        tree, self.evidence = DraftTree(), 0
        for size in range(min(self._longest, len(context.tokens)), 0, -1):
            start = self._behind.get(tuple(context.tokens[-size:]))
            if start is not None:
                self.evidence = size
                copied = context.tokens[start : start + min(self._span, rows)]
                tree.add_path(copied, (size / (size + depth) for depth in range(1, len(copied) + 1)))
                break
        return tree

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        """The text is read when a draft is asked for."""

    def read_on(self, context: DraftContext) -> None:
        """Enter the n-grams of the text that have a token behind them now."""
        tokens = context.tokens
        for end in range(max(self._indexed, 1), len(tokens)):
            for size in range(1, min(self._longest, end) + 1):
                self._behind[tuple(tokens[end - size : end])] = end
        self._indexed = len(tokens)
