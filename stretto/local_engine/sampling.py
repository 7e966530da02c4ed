"""Choosing the next token of every row of a batch from its logits."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch
from torch import Tensor

from stretto.local_engine.generation import Generation

__all__ = ["Sampler", "distribution"]


def distribution(
    logits: Tensor, temperature: Tensor, top_p: Tensor, top_k: Tensor, min_p: Tensor
) -> tuple[Tensor, Tensor]:
    """Probabilities after temperature, top-k, top-p and min-p, most probable first, and their token ids.

    Top-p: Holtzman et al., arXiv:1904.09751; min-p: Nguyen et al., arXiv:2407.01082. The most probable
    token always stays. The probabilities are float64 and not normalised.

    Args:
        logits: # [batch, vocabulary]
        temperature: above 0; the others as in `Generation`; each # [batch]
        top_p: see ``temperature``.
        top_k: see ``temperature``.
        min_p: see ``temperature``.

    Returns:
        probabilities and token ids, both # [batch, vocabulary]
    """
    scaled = logits.double() / temperature[:, None]
    ordered, ids = torch.sort(scaled, dim=-1, descending=True, stable=True)
    probabilities = torch.softmax(ordered, dim=-1)  # [batch, vocabulary]
    ranks = torch.arange(logits.shape[-1], device=logits.device)
    cut = (ranks >= top_k[:, None]) & (top_k[:, None] > 0)
    probabilities = probabilities.masked_fill(cut, 0.0)
    probabilities = probabilities / probabilities.sum(dim=-1, keepdim=True)
    before = probabilities.cumsum(dim=-1) - probabilities  # mass of all more probable tokens
    cut = (before >= top_p[:, None]) | (probabilities < min_p[:, None] * probabilities[:, :1])
    cut[:, 0] = False
    return probabilities.masked_fill(cut, 0.0), ids


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
        columns = torch.tensor([self._settings[row] for row in self._sampled], dtype=torch.float64).view(-1, 4).T
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
        chosen = logits.argmax(dim=-1)
        if not self._sampled:
            return chosen
        rows = logits if len(self._sampled) == len(logits) else logits[self._rows]
        temperature, top_p, top_k, min_p = self._columns
        probabilities, ids = distribution(rows, temperature, top_p, top_k, min_p)
        drawn = [torch.rand((), generator=self._generators[row], dtype=torch.float64) for row in self._sampled]
        mass = probabilities.cumsum(dim=-1)
        target = torch.stack(drawn).to(self._device)[:, None] * mass[:, -1:]
        # The first rank whose cumulative mass exceeds the target: a rank of probability 0 is never it.
        rank = torch.searchsorted(mass, target, right=True).clamp_(max=mass.shape[-1] - 1)
        chosen[self._rows] = ids.gather(-1, rank)[:, 0]
        return chosen


def _generator(request: Generation) -> torch.Generator:
    seed = secrets.randbits(63) if request.seed is None else request.seed % 2**63
    return torch.Generator().manual_seed(seed)
