"""A little model writes, and a big one is asked where it is unsure, and takes back what it disagrees with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.big_little.big_little_options import BigLittleOptions
from stretto.local_engine.drafting.draft_model import DraftModel
from stretto.local_engine.drafting.protocol import DraftContext

if TYPE_CHECKING:
    from stretto.local_engine.model.load import LoadedModel

__all__ = ["BigLittle"]


class BigLittle(DraftModel):
    """Big Little Decoder (Kim et al., arXiv 2302.07863): lossy.

    The little model writes token by token until the probability of its next one is below ``sure`` (the paper's
    fallback policy). Then one forward of the big model reads all that it wrote. The first token whose -log probability
    there is above ``surprise`` is taken back (the paper's rollback policy) and replaced by the big model's own; where
    none is, the big model writes the next token. So the big model is asked for every token of the answer, as for a
    verified draft, but takes what it finds likely enough instead of what it would have chosen.

    Args:
        draft: the little model.
        options: the two thresholds, and how many tokens it writes before the big model is asked.
    """

    name = "big_little"

    def __init__(self, draft: LoadedModel, options: BigLittleOptions) -> None:
        super().__init__(draft, length=options.length)
        self._options = options

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        """See `Drafter`."""
        tree = DraftTree(surprise=self._options.surprise)
        tokens, committed, parent, survival = list(context.tokens), len(context.tokens), ROOT, 1.0
        while len(tree) < min(rows, self._length) and len(tokens) < self._window:
            if len(tokens) > committed and tokens[-1] in context.ends:
                break
            token, probability = self._written(tokens, tokens[committed:], context)
            if probability < self._options.sure:
                break
            survival *= probability
            parent = tree.add(token, parent, survival, trust=True)
            tokens.append(token)
        return tree

    def _written(self, tokens: list[int], path: list[int], context: DraftContext) -> tuple[int, float]:
        """The token that the request's sampler takes from the little model, and its probability there."""
        logits = self._read(tokens, context.vocabulary)
        ranked = None if context.greedy or context.rank is None else context.rank(logits, path, 1)
        token = int(logits.argmax()) if ranked is None else ranked[0]
        return token, float(logits.softmax(-1)[token])
