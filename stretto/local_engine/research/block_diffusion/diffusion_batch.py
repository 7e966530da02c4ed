"""Decoding loop of models that write blocks at once: one forward proposes tokens, a rule keeps some of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stretto.local_engine.choosing.distribution import widen
from stretto.local_engine.choosing.sampling import Sampler, most_probable, score_adjusted
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.adapters.lora_deltas import adapters_of
from stretto.local_engine.model.cache.kv_cache import Source
from stretto.local_engine.model.cache.prefixes import PrefixCache, best_source
from stretto.local_engine.model.forward.block_form import BlockForm
from stretto.local_engine.model.forward.forward import Forward
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.forward.segments import segments
from stretto.local_engine.research.block_diffusion.denoising import Denoising, Plan
from stretto.local_engine.research.block_diffusion.unmasking import UnmaskingPolicy
from stretto.local_engine.serving.batch_members import BatchMembers, Step
from stretto.local_engine.serving.prefill import Prefill


@dataclass(frozen=True, slots=True)
class _Member:
    """One request of the batch."""

    request: Generation
    sampler: Sampler
    denoising: Denoising

    def committed(self, tokens: Sequence[int]) -> Sequence[int]:
        """Commit tokens, and return those up to the end of the answer: a block can extend beyond it."""
        self.sampler.commit(tokens)
        text, request = self.denoising.text, self.request
        beyond = max(0, len(text) - len(request.prompt) - request.max_new_tokens)
        kept = tokens[: len(tokens) - beyond]
        end = next((place for place, token in enumerate(kept, 1) if token in request.end_ids), len(kept))
        return kept[:end]


class DiffusionBatch(BatchMembers[_Member]):
    """Requests whose blocks are refined together, one forward per call of `advance`.

    Each can be at a different block and at a different pass over it. It has the methods of `Batch`, and replaces it for
    models with a `BlockForm`.

    Args:
        forward: runs the model.
        device: device of the model.
        form: how the model writes.
    """

    def __init__(self, forward: Forward, device: torch.device, form: BlockForm) -> None:
        super().__init__()
        self._forward, self._device, self._form = forward, device, form

    def join(self, prefill: Prefill, rules: Sequence[UnmaskingPolicy]) -> list[Step]:
        """Take over requests whose prompts have been read, with the rule of each."""
        joining = []
        for state, rule in zip(prefill.sequences, rules, strict=True):
            request = state.request
            length, ends = request.max_new_tokens, request.end_ids
            denoising = Denoising(request.prompt, length, self._form, rule, ends)
            joining.append(_Member(request, Sampler(request, self._device), denoising))
        self._cache.join(prefill.cache)
        self._members += joining
        return [_begun(member, logits, self._form.mask) for member, logits in zip(joining, prefill.last, strict=True)]

    def known(self, prompt: NDArray[np.int64], known_by: Hashable = None) -> Source | None:
        """Find the request with the longest common prefix with a prompt, among those with this ``known_by``."""
        # One more token, because `best_source` treats the last one of a text as unread.
        texts = [
            member.denoising.text[: member.denoising.cached + 1] if member.request.known_by == known_by else ()
            for member in self._members
        ]
        return best_source(prompt, self._cache, texts, self._forward.switch)

    def remember(self, row: int, prefixes: PrefixCache) -> None:
        """Keep the keys and values of one request's finished blocks for later prompts, unless it failed."""
        member = self._members[row]
        if member.sampler.failure is not None:
            return
        known = member.denoising.text[: member.denoising.cached]
        prefixes.keep(known, self._cache, row, member.request.known_by, member.request.tenant)

    def advance(self) -> list[Step]:
        """Run one forward. Each request gets the tokens that are final after it, possibly none."""
        members = self._members
        plans = [member.denoising.plan() for member in members]
        rows, keep = _block_rows(plans, self._device)
        rows = replace(rows, adapters=adapters_of(member.request.adapter for member in members))
        logits = self._forward(rows, self._cache, keep)  # [batch, kept, vocabulary]
        counts = [len(plan.targets) for plan in plans]
        owners = [member for member, count in zip(members, counts, strict=True) for _ in range(count)]
        places = [place for plan in plans for place in plan.targets]
        chosen, sure, entropies = propose(
            torch.cat([own[len(keep) - count :] for own, count in zip(logits, counts, strict=True)]),
            self._form.mask,
            [member.sampler for member in owners],
            [place - len(member.denoising.text) for member, place in zip(owners, places, strict=True)],
            [member.denoising.known_before(place) for member, place in zip(owners, places, strict=True)],
            entropy=any(member.denoising.rule.wants_entropy for member in members),
        )
        steps, first = [], 0
        for member, plan, count in zip(members, plans, counts, strict=True):
            own = slice(first, first + count)
            tokens = member.denoising.take(plan, chosen[own], sure[own], entropies[own])
            steps.append(Step(member.committed(tokens), failure=member.sampler.failure, rows=len(plan.tokens)))
            first += count
        return steps


def _begun(member: _Member, logits: Tensor | None, mask: int) -> Step:
    """Return the first step of a request; ``logits`` of the prompt's last row can predict a token # [vocabulary]."""
    denoising = member.denoising
    if not denoising.wants_beginning or logits is None:
        return Step(())
    (token,), _, _ = propose(logits[None], mask, [member.sampler], [0], [()], entropy=False)
    return Step(member.committed(denoising.begin(token)), failure=member.sampler.failure)


def _block_rows(plans: Sequence[Plan], device: torch.device) -> tuple[Rows, Tensor]:
    """Lay out the rows of each request so that they end together.

    Padding comes first; it is written to the slot after everything that its request sees.

    Returns:
        the rows, and the indices of those that predict a target of any request: the last ones # [kept]
    """
    wanted = tuple(len(plan.targets) for plan in plans)
    width, most = max(len(plan.tokens) for plan in plans), max(wanted)
    padding = [width - len(plan.tokens) for plan in plans]
    real = [number * width + row for number, first in enumerate(padding) for row in range(first, width)]
    padded = any(padding)
    lines, ends = [slice(first, width) for first in padding], [plan.end for plan in plans]
    rows = Rows(
        _tensor([[0] * first + plan.tokens for first, plan in zip(padding, plans, strict=True)], device),
        _tensor([[plan.end] * first + plan.positions for first, plan in zip(padding, plans, strict=True)], device),
        max(ends) + padded,
        sees=_tensor([[1] * first + plan.sees for first, plan in zip(padding, plans, strict=True)], device),
        real=_tensor(real, device) if padded else None,
        wanted=wanted if min(wanted) < most else None,
        segments=segments(lines, ends) if len(plans) > 1 and device.type == "cpu" else None,
    )
    return rows, torch.arange(width - most, width, device=device)


def _tensor(numbers: Sequence[object], device: torch.device) -> Tensor:
    return torch.tensor(numbers, dtype=torch.long, device=device)


def propose(
    logits: Tensor,
    mask: int,
    samplers: Sequence[Sampler],
    ahead: Sequence[int],
    known: Sequence[Sequence[int]],
    *,
    entropy: bool,
) -> tuple[list[int], list[float], list[float]]:
    """Propose a token for each row: the most probable one, or if sampled, one drawn from the row's distribution.

    The random numbers of a position are the same in each forward, so a proposal changes only if the distribution does.
    The mask token itself is never proposed.

    Args:
        logits: one row for each position # [rows, vocabulary]
        mask: the mask token.
        samplers: for each row, that of its request.
        ahead: number of positions between the request's last committed token and each row's.
        known: known tokens in between, for penalties.
        entropy: whether to compute entropies.

    Returns:
        tokens; their probabilities at temperature 1, after penalties and bias; entropies, or none # [rows] each
    """
    logits = widen(logits).clone()
    logits[:, mask] = -torch.inf
    for row, (sampler, distance, path) in enumerate(zip(samplers, ahead, known, strict=True)):
        if sampler.adjusts:
            # A path shows that this is not the answer's first token; without one, a token of the prompt does.
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
