"""Consistency distillation of a block diffusion model: ``python -m recipes.denoise.distil``.

After CDLM (arXiv:2511.19269): the teacher writes each block one token at a time, the likeliest first. The student
learns to predict from an early state of a block what the teacher predicted later:

- of tokens that the teacher wrote between an earlier and a later state, the teacher's distribution at that moment;
- of tokens that are masked in both, what the student itself says in the later state;
- and, so that it forgets nothing, masked tokens of the texts as before.

Unlike there, the teacher is block-causal already. So its trajectories through all blocks of a text are found together,
each from the clean text before its block, in as many forwards as a block has tokens, while the student learns.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import kl_div, linear, log_softmax

from recipes.denoise.train import BlockTuning, add_block_arguments, block_run
from recipes.stacked import Change, Weights
from recipes.tuning import TuningPlan, add_tuning_arguments, tune

__all__ = ["Consistency", "Trajectory", "main", "trajectory"]

PLAN = TuningPlan(minutes=60.0, matrix_rate=0.004, other_rate=0.0004, held_out=48, rounded=1.0)
_TO_THE_END = 0.5  # of the later states, the share that are finished blocks


@dataclass(frozen=True)
class Trajectory:
    """How a teacher wrote the blocks of a batch.

    Attributes:
        tokens: that it wrote; elsewhere those of the batch # [rows, length]
        when: before how many others of its block a token was written; -1 where none was # [rows, length]
        logprobs: log-probabilities at that moment, of the tokens that were written # [written, vocabulary]
    """

    tokens: Tensor
    when: Tensor
    logprobs: Tensor


@torch.no_grad()
def trajectory(run: BlockTuning, teacher: Weights, batch: Mapping[str, Tensor], learned: Tensor) -> Trajectory:
    """Let the teacher write all blocks at once, in each the likeliest token first.

    ``learned``  # [rows, length]: the tokens to write.
    """
    clean, keys = run.read_clean(teacher, batch)
    tokens = batch["tokens"].masked_fill(learned, run.mask)
    when, slots = torch.full_like(tokens, -1), torch.zeros_like(tokens)
    count = int(learned.sum())
    slots[learned] = torch.arange(count, device=tokens.device)
    logprobs = torch.zeros(count, len(teacher.embed), dtype=torch.bfloat16, device=tokens.device)
    owners = _blocks(tokens, run.block)
    for step in range(run.block):
        waiting = learned & (when < 0)
        noisy = run.read_noisy(teacher, batch, keys, tokens)
        logits = linear(run.predicting(clean, noisy, waiting), teacher.embed).float()
        logits[:, run.mask] = -torch.inf
        rows = log_softmax(logits, -1)  # [waiting, vocabulary]
        sure, chosen = rows.max(-1)
        best = torch.full((int(owners[-1, -1]) + 1,), -torch.inf, device=rows.device)
        best = best.scatter_reduce(0, owners[waiting], sure, "amax")
        first = sure == best[owners[waiting]]  # two rows that are equally likely are written together
        where = waiting.nonzero()[first]
        tokens[where[:, 0], where[:, 1]] = chosen[first]
        when[where[:, 0], where[:, 1]] = step
        logprobs[slots[waiting][first]] = rows[first].clamp(min=-30.0).bfloat16()
    return Trajectory(tokens, when, logprobs)


class Consistency(BlockTuning):
    """One run of distillation; the teacher is the model that it starts from."""

    shares = (1.0, 0.5, 0.5)
    """How much count: what was newly written, what is still masked, masked tokens of the texts."""

    def __init__(self, *positional: Any, start: Path, **named: Any) -> None:
        super().__init__(*positional, start=start, **named)
        assert isinstance(self.learned, Change)  # noqa: S101 - for the type checker
        teacher = Change(self.model, kinds=self.learned.kinds, layers=self.changed, token=self.mask).to(self.device)
        teacher.start_from(load_file(start / "model.safetensors"))
        with torch.no_grad():
            self.teacher = teacher.weights()

    def losses(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """See `Tuning`; what is held out is measured by masked tokens of the texts only."""
        assert isinstance(self.learned, Change)  # noqa: S101 - for the type checker
        weights = self.learned.weights()
        clean, keys = self.read_clean(weights, batch)
        plain, counts = self.plain_losses(weights, batch, clean, keys, 1)
        if not torch.is_grad_enabled():
            return plain, counts
        learned = batch["weights"] > 0
        path = trajectory(self, self.teacher, batch, learned)
        earlier, later = self._moments(path.when, learned)
        new, still = learned & (path.when >= earlier) & (path.when < later), learned & (path.when >= later)
        open_ = new | still
        early = self.read_noisy(weights, batch, keys, path.tokens.masked_fill(open_, self.mask))
        own = log_softmax(linear(self.predicting(clean, early, open_), weights.embed).float(), -1)
        newly = new[open_]
        taught = _divergence(path.logprobs[new[learned]].float(), own[newly])
        with torch.no_grad():
            late = self.read_noisy(weights, batch, keys, path.tokens.masked_fill(still, self.mask))
            wiser = log_softmax(linear(self.predicting(clean, late, still), weights.embed).float(), -1)
        agreed = _divergence(wiser, own[~newly])
        shares = [torch.full_like(each, share) for each, share in zip((taught, agreed), self.shares, strict=False)]
        return torch.cat((taught, agreed, plain)), torch.cat((*shares, self.shares[2] * counts))

    def _moments(self, when: Tensor, learned: Tensor) -> tuple[Tensor, Tensor]:
        """For each token how many of its block stood earlier and later # [rows, length] each."""
        owners = _blocks(when, self.block)
        count = int(owners[-1, -1]) + 1
        sizes = torch.zeros(count, dtype=torch.long, device=when.device)
        sizes = sizes.scatter_reduce(0, owners[learned], when[learned] + 1, "amax")  # steps of each block
        drawn = torch.rand(3, count, generator=self.chance, device=when.device)
        earlier = (drawn[0] * sizes).long()
        later = earlier + 1 + (drawn[1] * (sizes - earlier)).long()
        later = torch.where(drawn[2] < _TO_THE_END, sizes, torch.minimum(later, sizes))
        return earlier[owners], later[owners]


def _blocks(like: Tensor, block: int) -> Tensor:
    """One number for each block of each row # [rows, length]."""
    rows, length = like.shape
    return torch.arange(rows * length // block, device=like.device).repeat_interleave(block).view(rows, length)


def _divergence(wanted: Tensor, own: Tensor) -> Tensor:
    """Kullback-Leibler divergence of rows of log-probabilities # [rows, vocabulary] -> [rows]."""
    return kl_div(own, wanted, reduction="none", log_target=True).sum(-1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Distil (or continue to distil) a block diffusion model, so that it writes a block in fewer forwards."""
    parser = argparse.ArgumentParser(prog="python -m recipes.denoise.distil", description=main.__doc__)
    add_tuning_arguments(parser, PLAN, folder=Path("build/distil"), out=Path("build/distilled"))
    add_block_arguments(parser)
    parser.set_defaults(start=Path("build/diffusion"))
    chosen = parser.parse_args(arguments)
    tune(chosen, PLAN, lambda plan: block_run(Consistency, chosen, plan))


if __name__ == "__main__":
    main()
