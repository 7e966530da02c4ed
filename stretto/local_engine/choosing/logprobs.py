"""Log-probabilities of the tokens of an answer."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from stretto.local_engine.choosing.distribution import widen
from stretto.local_engine.generation import TokenLogprob

__all__ = ["score"]


def score(logits: Tensor, tokens: Sequence[int], top: int) -> list[TokenLogprob]:
    """Take log-probabilities from the model's own distribution: temperature 1, before penalties, limits and constraint.

    Args:
        logits: from which each of the tokens was chosen # [tokens, vocabulary]
        tokens: those that were chosen.
        top: number of most probable tokens to report beside each.
    """
    wide = widen(logits)
    logprobs = wide - wide.logsumexp(dim=-1, keepdim=True)
    best, ids = logprobs.topk(min(top, logits.shape[-1]), dim=-1)  # [tokens, top]
    own = [float(row[token]) for row, token in zip(logprobs, tokens, strict=True)]
    return [
        TokenLogprob(token, value, tuple(zip(beside, values, strict=True)))
        for token, value, beside, values in zip(tokens, own, ids.tolist(), best.tolist(), strict=True)
    ]
