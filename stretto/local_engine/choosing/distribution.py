"""The distribution that a token is sampled from: temperature, top-k, top-p and min-p."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from stretto.local_engine.generation import TokenLogprob

CANDIDATES = 256
"""Number of most probable tokens to which top-k and top-p are applied first."""


def distribution(logits: Tensor, temperature: Tensor, top_p: Tensor, top_k: Tensor, min_p: Tensor) -> Tensor:
    """Return the probabilities that each row is sampled from; tokens that the limits exclude have 0.

    Temperature is applied first, then top-k, then top-p (Holtzman et al., arXiv:1904.09751) of what is left, then min-p
    (Nguyen et al., arXiv:2407.01082). The most probable token always stays.

    Args:
        logits: # [rows, vocabulary]
        temperature: above 0 # [rows]; the other settings are as in `Generation`, each # [rows]
        top_p: see ``temperature``.
        top_k: see ``temperature``.
        min_p: see ``temperature``.

    Returns:
        # [rows, vocabulary], each row sums to 1
    """
    probabilities = torch.softmax(widen(logits) / temperature[:, None], dim=-1)
    limited = ((top_p < 1) | (top_k > 0)).nonzero()[:, 0]
    if len(limited):
        probabilities[limited] = _limit(probabilities[limited], top_p[limited], top_k[limited])
    return drop_unlikely(probabilities, min_p)


def drop_unlikely(probabilities: Tensor, min_p: Tensor) -> Tensor:
    """Set probabilities below ``min_p`` # [rows] times the largest to 0, and rescale the rest to sum to 1."""
    kept = probabilities.masked_fill(probabilities < min_p[:, None] * probabilities.amax(-1, keepdim=True), 0.0)
    return kept / kept.sum(dim=-1, keepdim=True)


def _limit(probabilities: Tensor, top_p: Tensor, top_k: Tensor) -> Tensor:
    """Set probabilities beyond top-k and top-p to 0 # [rows, vocabulary]."""
    # Sorting a whole vocabulary takes longer than a step of a small model, and the most probable tokens nearly
    # always cover the mass that top-p asks for. Rows where they do not are computed again.
    limited, missing = cut_tail(probabilities, top_p, top_k, CANDIDATES)
    short = missing.nonzero()[:, 0]
    if len(short):
        vocabulary = probabilities.shape[-1]
        limited[short], _ = cut_tail(probabilities[short], top_p[short], top_k[short], vocabulary)
    return limited


def cut_tail(probabilities: Tensor, top_p: Tensor, top_k: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Set probabilities beyond top-k and top-p to 0, and all but the ``most`` probable.

    Args:
        probabilities: # [rows, vocabulary]
        top_p: see `Generation` # [rows]
        top_k: see `Generation` # [rows]
        most: tokens of a row to look at.

    Returns:
        # [rows, vocabulary], and for each row whether more than ``most`` tokens should have been looked at # [rows]
    """
    vocabulary = probabilities.shape[-1]
    ordered, ids = probabilities.topk(min(most, vocabulary), dim=-1)
    ranks = torch.arange(ordered.shape[-1], device=ordered.device)
    cut = (ranks >= top_k[:, None]) & (top_k[:, None] > 0)
    kept = ordered.masked_fill(cut, 0.0).double()
    cumulative = kept.cumsum(dim=-1)
    ends = (top_k > 0) & (top_k <= most)
    whole = torch.where(ends, cumulative[:, -1], 1.0)  # the mass that top-p is a fraction of
    cut |= cumulative - kept >= (top_p * whole)[:, None]
    cut[:, 0] = False
    limited = torch.zeros_like(probabilities).scatter_(-1, ids, ordered.masked_fill(cut, 0.0))
    short = ~ends & ((top_k > 0) | (cumulative[:, -1] < top_p))
    return limited, short if most < vocabulary else torch.zeros_like(short)


def widen(logits: Tensor) -> Tensor:
    """Return the logits in float32, or in float64 if that is their type."""
    return logits if logits.dtype == torch.float64 else logits.float()


def score(logits: Tensor, tokens: Sequence[int], top: int) -> list[TokenLogprob]:
    """Return log-probabilities under the model's own distribution: temperature 1, no penalties, limits or constraint.

    Args:
        logits: the row that each token was chosen from # [tokens, vocabulary]
        tokens: the chosen tokens.
        top: number of most probable tokens to report with each.
    """
    wide = widen(logits)
    logprobs = wide - wide.logsumexp(dim=-1, keepdim=True)
    best, ids = logprobs.topk(min(top, logits.shape[-1]), dim=-1)  # [tokens, top]
    own = [float(row[token]) for row, token in zip(logprobs, tokens, strict=True)]
    return [
        TokenLogprob(token, value, tuple(zip(others, values, strict=True)))
        for token, value, others, values in zip(tokens, own, ids.tolist(), best.tolist(), strict=True)
    ]
