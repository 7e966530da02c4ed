"""Proposes a token for each masked position, with how sure the model is of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from stretto.local_engine.choosing.distribution import widen
from stretto.local_engine.choosing.sampling import Sampler, most_probable, score_adjusted

__all__ = ["propose"]


def propose(
    logits: Tensor,
    mask: int,
    samplers: Sequence[Sampler],
    ahead: Sequence[int],
    known: Sequence[Sequence[int]],
    *,
    entropy: bool,
) -> tuple[list[int], list[float], list[float]]:
    """Propose a token for each row: the most probable one, or with sampling one drawn from the row's distribution.

    The random numbers of a position are the same in each forward, so a proposal changes only if the distribution does.
    The mask token itself is never proposed.

    Args:
        logits: one row for each position # [rows, vocabulary]
        mask: the mask token.
        samplers: of the request that each row belongs to.
        ahead: positions between the request's last committed token and each row's.
        known: tokens that stand in between, for penalties.
        entropy: compute it.

    Returns:
        tokens; their probabilities at temperature 1, after penalties and bias; entropies, or nothing # [rows] each
    """
    logits = widen(logits).clone()
    logits[:, mask] = -torch.inf
    for row, (sampler, distance, path) in enumerate(zip(samplers, ahead, known, strict=True)):
        if sampler.adjusts:
            # A path tells that this is not the answer's first token; one of the prompt does, where none stands before.
            sampler.adjust(logits[row], path or ([sampler.repeated or 0] if distance else []))
    chosen = most_probable(score_adjusted(logits, samplers, ahead))  # [rows]
    probabilities = logits.softmax(-1)
    confidence = probabilities.gather(1, chosen.to(logits.device)[:, None])[:, 0]
    sure: list[float] = confidence.tolist()
    for sampler, own in zip(samplers, sure, strict=True):
        if not own <= 1:
            sampler.found_no_number()
    entropies = torch.special.entr(probabilities).sum(-1).tolist() if entropy else []
    return chosen.tolist(), sure, entropies
