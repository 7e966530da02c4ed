"""Choosing the next token of every row of a batch from its logits."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch
from torch import Tensor

from stretto.local_engine.generation import Generation

__all__ = ["Sampler", "distribution"]

_CANDIDATES = 256


def distribution(logits: Tensor, temperature: Tensor, top_p: Tensor, top_k: Tensor, min_p: Tensor) -> Tensor:
    """Return the probabilities each row is sampled from; those of tokens that the limits exclude are 0.

    First temperature, then top-k, then top-p (Holtzman et al., arXiv:1904.09751) of what is left, then min-p
    (Nguyen et al., arXiv:2407.01082). The most probable token always stays.

    Args:
        logits: # [batch, vocabulary]
        temperature: above 0; the others as in `Generation`; each # [batch]
        top_p: see ``temperature``.
        top_k: see ``temperature``.
        min_p: see ``temperature``.

    Returns:
        # [batch, vocabulary], each row with the sum 1
    """
    probabilities = torch.softmax(logits.float() / temperature[:, None], dim=-1)
    limited = ((top_p < 1) | (top_k > 0)).nonzero()[:, 0]
    if len(limited):
        probabilities[limited] = _limit(probabilities[limited], top_p[limited], top_k[limited])
    probabilities = probabilities.masked_fill(
        probabilities < min_p[:, None] * probabilities.amax(-1, keepdim=True), 0.0
    )
    return probabilities / probabilities.sum(dim=-1, keepdim=True)


def _limit(probabilities: Tensor, top_p: Tensor, top_k: Tensor, candidates: int = _CANDIDATES) -> Tensor:
    """Set probabilities beyond top-k and top-p to 0 # [batch, vocabulary]."""
    vocabulary = probabilities.shape[-1]
    # Sorting a whole vocabulary takes longer than a step of a small model, and the most probable tokens nearly
    # always hold the mass that top-p asks for. Rows where they do not are done again, each for itself.
    ordered, ids = probabilities.topk(min(candidates, vocabulary), dim=-1)
    ranks = torch.arange(ordered.shape[-1], device=ordered.device)
    cut = (ranks >= top_k[:, None]) & (top_k[:, None] > 0)
    kept = ordered.masked_fill(cut, 0.0).double()
    cumulative = kept.cumsum(dim=-1)
    ends = (top_k > 0) & (top_k <= candidates)
    whole = torch.where(ends, cumulative[:, -1], 1.0)  # the mass top-p is a share of
    cut |= cumulative - kept >= (top_p * whole)[:, None]
    cut[:, 0] = False
    limited = torch.zeros_like(probabilities).scatter_(-1, ids, ordered.masked_fill(cut, 0.0))
    short = (~ends & ((top_k > 0) | (cumulative[:, -1] < top_p))).nonzero()[:, 0]
    if len(short) and candidates < vocabulary:
        limited[short] = _limit(probabilities[short], top_p[short], top_k[short], vocabulary)
    return limited


class Sampler:
    """The sampling settings of the rows of a batch.

    Each sampled row draws one number per token from its own generator, on the CPU, so what a request
    gets depends neither on its batch mates nor on the device.
    """

    def __init__(self, requests: Sequence[Generation], device: torch.device) -> None:
        self._device = device
        self._settings = [(r.temperature, r.top_p, float(r.top_k), r.min_p) for r in requests]
        self._generators = [_generator(request) for request in requests]
        self._prepare()

    def _prepare(self) -> None:
        self._sampled = [row for row, settings in enumerate(self._settings) if settings[0] > 0]
        columns = torch.tensor([self._settings[row] for row in self._sampled]).view(-1, 4).T
        self._columns = columns.to(self._device)
        self._rows = torch.tensor(self._sampled, device=self._device)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order."""
        self._settings = [self._settings[row] for row in rows]
        self._generators = [self._generators[row] for row in rows]
        self._prepare()

    def choose(self, logits: Tensor) -> Tensor:
        """Choose the next token of every row.

        Args:
            logits: # [batch, vocabulary]

        Returns:
            token ids # [batch]
        """
        chosen = logits.float().argmax(dim=-1)  # in bfloat16, argmax is five times slower on a CPU
        if not self._sampled:
            return chosen
        rows = logits if len(self._sampled) == len(logits) else logits[self._rows]
        mass = distribution(rows, *self._columns).cumsum(dim=-1, dtype=torch.float64)
        drawn = [torch.rand((), generator=self._generators[row], dtype=torch.float64) for row in self._sampled]
        target = torch.stack(drawn).to(self._device)[:, None] * mass[:, -1:]
        # The first token whose cumulative mass exceeds the target: one of probability 0 is never it.
        chosen[self._rows] = torch.searchsorted(mass, target, right=True)[:, 0].clamp_(max=mass.shape[-1] - 1)
        return chosen


def _generator(request: Generation) -> torch.Generator:
    seed = secrets.randbits(63) if request.seed is None else request.seed % 2**63
    return torch.Generator().manual_seed(seed)
