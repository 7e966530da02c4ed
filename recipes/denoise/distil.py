"""Consistency distillation of a block diffusion model: ``python -m recipes.denoise.distil``.

After CDLM (arXiv:2511.19269): the teacher writes each block one token at a time, the likeliest first. The student
learns to say from an early state of a block what the teacher said later:

- of tokens that the teacher wrote between an earlier and a later state, the teacher's distribution at that moment;
- of tokens that are masked in both, what the student itself says in the later state;
- and, so that it forgets nothing, masked tokens of the texts as before.

Unlike there, the teacher is block-causal already. So its trajectories through all blocks of a text are found together,
each from the clean text before its block, in as many forwards as a block has tokens, while the student learns.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from recipes.denoise.blocks import seen
from recipes.denoise.train import add_block_arguments, block_settings, lessons_of, states
from recipes.tuning import Ahead, Tuning, TuningPlan, add_tuning_arguments, read_causal_model, tune

__all__ = ["Consistency", "Trajectory", "main", "trajectory"]

PLAN = TuningPlan(minutes=60.0, matrix_rate=0.004, other_rate=0.0004, held_out=48)
_TO_THE_END = 0.5  # of the later states, the share that are finished blocks


@dataclass(frozen=True)
class Trajectory:
    """How a teacher wrote the blocks of a batch.

    Attributes:
        tokens: that it wrote; elsewhere those of the batch # [sequences, rows]
        when: before how many others of its block a token was written; -1 where none was # [sequences, rows]
        said: log-probabilities at that moment, of the rows that were written # [written, vocabulary]
    """

    tokens: Tensor
    when: Tensor
    said: Tensor


@torch.no_grad()
def trajectory(teacher: Any, batch: Mapping[str, Tensor], learned: Tensor, mask: int, block: int) -> Trajectory:
    """Let the teacher write all blocks at once, in each the likeliest token first.

    ``learned``  # [sequences, rows]: the rows to write.
    """
    sees = seen(batch)
    tokens = batch["tokens"].masked_fill(learned, mask)
    when = torch.full_like(tokens, -1)
    said: Tensor | None = None
    slots = torch.zeros_like(tokens)
    slots[learned] = torch.arange(int(learned.sum()), device=tokens.device)
    # One number for each block of each sequence; rows that are not written come last and are never looked at.
    most = int(batch["blocks"].max()) + 1
    owners = torch.arange(len(tokens), device=tokens.device)[:, None] * most + batch["blocks"].clamp(min=0)
    for step in range(block):
        waiting = learned & (when < 0)
        if not bool(waiting.any()):
            break
        logits = teacher.lm_head(states(teacher, {**batch, "tokens": tokens}, sees, waiting)).float()
        logits[:, mask] = -torch.inf
        rows = log_softmax(logits, -1)  # [waiting, vocabulary]
        if said is None:
            said = torch.zeros(int(learned.sum()), rows.shape[1], dtype=torch.bfloat16, device=rows.device)
        sure, chosen = rows.max(-1)
        best = torch.full((len(tokens) * most,), -torch.inf, device=rows.device)
        best = best.scatter_reduce(0, owners[waiting], sure, "amax")
        first = sure == best[owners[waiting]]  # two rows that are equally likely are written together
        where = waiting.nonzero()[first]
        tokens[where[:, 0], where[:, 1]] = chosen[first]
        when[where[:, 0], where[:, 1]] = step
        said[slots[waiting][first]] = rows[first].clamp(min=-30.0).bfloat16()
    if said is None:
        raise ValueError("a batch needs at least one learned token")
    return Trajectory(tokens, when, said)


class Consistency(Tuning):
    """One run of distillation; the teacher has the weights that the run began with."""

    shares = (1.0, 0.5, 0.5)
    """How much count: what was newly written, what is still masked, masked tokens of the texts."""

    def __init__(self, *positional: Any, block: int, mask: int, **named: Any) -> None:
        super().__init__(*positional, **named)
        self.block, self.mask = block, mask
        self.teacher = read_causal_model(self.base, self.device).eval().requires_grad_(False)
        self._generator = torch.Generator()
        self._measuring = False

    def step(self) -> Tensor:
        """See `Tuning`; the states that are compared follow from the step's number."""
        self._generator.manual_seed(1_000_003 * self.plan.seed + self.number)
        return super().step()

    def measured(self) -> float:
        """See `Tuning`: only the loss on masked tokens of the texts."""
        self._measuring = True
        try:
            return super().measured()
        finally:
            self._measuring = False

    def losses(self, batch: Mapping[str, Tensor]) -> Tensor:
        """See `Tuning`."""
        wanted, sees = batch["targets"] >= 0, seen(batch)
        logits = self.model.lm_head(states(self.model, batch, sees, wanted)).float()
        plain = cross_entropy(logits, batch["targets"][wanted], reduction="none") * batch["weights"][wanted]
        if self._measuring:
            return plain
        learned = batch["learned"]
        path = trajectory(self.teacher, batch, learned, self.mask, self.block)
        earlier, later = self._moments(batch, path.when, learned)
        new, still = learned & (path.when >= earlier) & (path.when < later), learned & (path.when >= later)
        open_ = new | still
        early = {**batch, "tokens": torch.where(open_, self.mask, path.tokens)}
        own = log_softmax(self.model.lm_head(states(self.model, early, sees, open_)).float(), -1)
        newly = new[open_]
        taught = _divergence(path.said[new[learned]].float(), own[newly]).sum()
        with torch.no_grad():
            late = {**batch, "tokens": torch.where(still, self.mask, path.tokens)}
            wiser = log_softmax(self.model.lm_head(states(self.model, late, sees, still)).float(), -1)
        agreed = _divergence(wiser, own[~newly]).sum()
        each = batch["weights"].sum() / open_.sum()  # so that the three have one scale
        first, second, third = self.shares
        return first * each * taught + second * each * agreed + third * plain.sum()

    def _moments(self, batch: Mapping[str, Tensor], when: Tensor, learned: Tensor) -> tuple[Tensor, Tensor]:
        """For each row how many tokens of its block stood earlier and later # [sequences, rows]."""
        most, count = int(batch["blocks"].max()) + 1, len(when)
        owners = torch.arange(count, device=when.device)[:, None] * most + batch["blocks"].clamp(min=0)
        sizes = torch.zeros(count * most, dtype=torch.long, device=when.device)
        sizes = sizes.scatter_reduce(0, owners[learned], when[learned] + 1, "amax")  # steps of each block
        drawn = torch.rand(3, count * most, generator=self._generator).to(when.device)
        earlier = (drawn[0] * sizes).long()
        later = earlier + 1 + (drawn[1] * (sizes - earlier)).long()
        later = torch.where(drawn[2] < _TO_THE_END, sizes, torch.minimum(later, sizes))
        return earlier[owners], later[owners]


def _divergence(wanted: Tensor, own: Tensor) -> Tensor:
    """Kullback-Leibler divergence of rows of log-probabilities # [rows, vocabulary] -> [rows]."""
    return kl_div(own, wanted, reduction="none", log_target=True).sum(-1)


def main(arguments: list[str] | None = None) -> None:
    """Distil (or continue to distil) a block diffusion model, so that it writes a block in fewer forwards."""
    parser = argparse.ArgumentParser(prog="python -m recipes.denoise.distil", description=main.__doc__)
    add_tuning_arguments(parser, PLAN, folder=Path("build/distil"), out=Path("build/distilled"))
    parser.set_defaults(base=Path("build/diffusion"))
    add_block_arguments(parser)
    chosen = parser.parse_args(arguments)

    def make(plan: TuningPlan) -> Consistency:
        lessons = lessons_of(chosen, plan)
        ahead = Ahead(lessons, chosen.workers)
        settings = block_settings(chosen.base, chosen.block)
        return Consistency(
            plan, chosen.base, chosen.folder, chosen.out,
            ahead=ahead, held_out=replace(lessons, seed=0).held_out(plan.held_out), settings=settings,
            device=chosen.device, block=chosen.block, mask=int(str(settings["mask_token_id"])),
        )  # fmt: skip

    tune(chosen, PLAN, make)


if __name__ == "__main__":
    main()
