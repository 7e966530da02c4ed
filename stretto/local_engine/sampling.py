"""Choosing the token that follows a row from its logits."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence

import torch
from torch import Tensor

from stretto.local_engine.generation import Generation

__all__ = ["Sampler", "choose", "distribution", "most_probable", "widen"]

_CANDIDATES = 256


def distribution(logits: Tensor, temperature: Tensor, top_p: Tensor, top_k: Tensor, min_p: Tensor) -> Tensor:
    """Return the probabilities each row is sampled from; those of tokens that the limits exclude are 0.

    First temperature, then top-k, then top-p (Holtzman et al., arXiv:1904.09751) of what is left, then min-p
    (Nguyen et al., arXiv:2407.01082). The most probable token always stays.

    Args:
        logits: # [rows, vocabulary]
        temperature: above 0; the others as in `Generation`; each # [rows]
        top_p: see ``temperature``.
        top_k: see ``temperature``.
        min_p: see ``temperature``.

    Returns:
        # [rows, vocabulary], each row with the sum 1
    """
    probabilities = torch.softmax(widen(logits) / temperature[:, None], dim=-1)
    limited = ((top_p < 1) | (top_k > 0)).nonzero()[:, 0]
    if len(limited):
        probabilities[limited] = _limit(probabilities[limited], top_p[limited], top_k[limited])
    probabilities = probabilities.masked_fill(
        probabilities < min_p[:, None] * probabilities.amax(-1, keepdim=True), 0.0
    )
    return probabilities / probabilities.sum(dim=-1, keepdim=True)


def _limit(probabilities: Tensor, top_p: Tensor, top_k: Tensor, candidates: int = _CANDIDATES) -> Tensor:
    """Set probabilities beyond top-k and top-p to 0 # [rows, vocabulary]."""
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
    """How one request chooses its tokens: settings, random numbers and the tokens it has seen.

    Each token of the answer has a random number of its own, drawn from the request's generator on the CPU: so
    what a request gets depends neither on its batch mates, nor on the device, nor on how many tokens were
    committed together.

    Args:
        request: the settings.
        device: of the logits.
    """

    def __init__(self, request: Generation, device: torch.device) -> None:
        self.settings = (request.temperature, request.top_p, float(request.top_k), request.min_p)
        self.sampled = request.temperature > 0
        self.adjusts = request.repetition_penalty != 1.0 or bool(request.logit_bias)
        self._penalty = request.repetition_penalty
        self._device = device
        self._seen = torch.empty(0, dtype=torch.long, device=device)
        if self._penalty != 1.0:
            self._seen = torch.tensor(sorted(set(request.prompt)), device=device)
        self._biased = torch.tensor(list(request.logit_bias), dtype=torch.long, device=device)
        self._bias = torch.tensor(list(request.logit_bias.values()), device=device)
        self._generator = random.Random(secrets.randbits(63) if request.seed is None else request.seed % 2**63)  # noqa: S311 - chance, not secrets
        self._drawn: list[float] = []
        self._committed = 0

    @property
    def plain(self) -> bool:
        """Whether it always takes the token with the largest logit."""
        return not self.sampled and not self.adjusts

    def draw(self, ahead: int = 0) -> float:
        """The random number, 0 to 1, of the token that comes after ``ahead`` more."""
        place = self._committed + ahead
        while len(self._drawn) <= place:
            self._drawn.append(self._generator.random())
        return self._drawn[place]

    def adjust(self, logits: Tensor, path: Sequence[int]) -> None:
        """Change a row's logits in place # [vocabulary].

        The repetition penalty (Keskar et al., arXiv:1909.05858) depends on the tokens before the row, so on its
        ``path``: the drafted tokens between the last committed token and what the row predicts.
        """
        if self._penalty != 1.0:
            seen = torch.cat((self._seen, torch.tensor(path, device=self._device))) if path else self._seen
            scores = logits[seen]
            logits[seen] = torch.where(scores > 0, scores / self._penalty, scores * self._penalty)
        if len(self._biased):
            logits[self._biased] += self._bias.to(logits.dtype)

    def commit(self, tokens: Sequence[int]) -> None:
        """Take note of tokens that now belong to the answer."""
        self._committed += len(tokens)
        if self._penalty != 1.0:
            self._seen = torch.unique(torch.cat((self._seen, torch.tensor(tokens, device=self._device))))


def choose(logits: Tensor, samplers: Sequence[Sampler], paths: Sequence[Sequence[int]]) -> list[int]:
    """Choose the token that follows each row.

    Args:
        logits: # [rows, vocabulary]
        samplers: of the request that each row belongs to.
        paths: drafted tokens between the request's last committed token and what the row predicts.
    """
    logits = widen(logits)
    if any(sampler.adjusts for sampler in samplers):
        logits = logits.clone()
        for row, (sampler, path) in enumerate(zip(samplers, paths, strict=True)):
            if sampler.adjusts:
                sampler.adjust(logits[row], path)
    sampled = [row for row, sampler in enumerate(samplers) if sampler.sampled]
    if not sampled:
        return logits.argmax(dim=-1).tolist()
    everywhere = len(sampled) == len(samplers)
    chosen: list[int] = [0] * len(samplers) if everywhere else logits.argmax(dim=-1).tolist()
    rows = logits if everywhere else logits[torch.tensor(sampled, device=logits.device)]
    columns = torch.tensor([samplers[row].settings for row in sampled], device=logits.device).unbind(1)
    mass = distribution(rows, *columns).cumsum(dim=-1, dtype=torch.float64)
    drawn = [samplers[row].draw(len(paths[row])) for row in sampled]
    target = torch.tensor(drawn, dtype=torch.float64, device=logits.device)[:, None] * mass[:, -1:]
    # The first token whose cumulative mass exceeds the target: one of probability 0 is never it.
    tokens = torch.searchsorted(mass, target, right=True)[:, 0].clamp_(max=mass.shape[-1] - 1)
    for row, token in zip(sampled, tokens.tolist(), strict=True):
        chosen[row] = token
    return chosen


def most_probable(logits: Tensor) -> Tensor:
    """Token with the largest logit of each row # [..., vocabulary] -> [...]."""
    return widen(logits).argmax(dim=-1)  # in bfloat16, argmax is five times slower on a CPU


def widen(logits: Tensor) -> Tensor:
    """Return the logits in float32, or float64 if they are."""
    return logits if logits.dtype == torch.float64 else logits.float()
