"""Training a model that forks and joins by itself: ``python -m recipes.forking.train``.

The model's weights go on learning, on texts with the tags of Multiverse (arXiv:2506.09991), asked for by the template
``fork`` of the prompts. Asked as before, it answers as before. Training is seeded, and goes on from its last checkpoint
when it is started again.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from recipes.forking.lessons import Forks
from recipes.packing import causal, scores
from recipes.stacked import KINDS, Change
from recipes.tuning import Ahead, Tuning, TuningPlan, add_tuning_arguments, tune

__all__ = ["ForkTuning", "main"]

PLAN = TuningPlan(minutes=60.0, rows=4, length=1024, matrix_rate=0.006, other_rate=0.0006, held_out=24)


class ForkTuning(Tuning):
    """One run."""

    def losses(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """See `Tuning`: the cross-entropy of each learned token."""
        assert isinstance(self.learned, Change)  # noqa: S101 - for the type checker
        weights, sees = self.learned.weights(), scores(causal(batch["texts"]), self.dtype)
        found, _ = self.model.states(weights, batch["tokens"], batch["positions"], sees)
        targets, counts = batch["tokens"].roll(-1, 1), batch["weights"].roll(-1, 1)
        counts[:, -1] = 0
        wanted = counts > 0
        logits = linear(found[wanted], weights.embed).float()
        return cross_entropy(logits, targets[wanted], reduction="none"), counts[wanted]


def main(arguments: Sequence[str] | None = None) -> None:
    """Train (or continue to train) a model that forks and joins."""
    parser = argparse.ArgumentParser(prog="python -m recipes.forking.train", description=main.__doc__)
    add_tuning_arguments(parser, PLAN, folder=Path("build/forking"), out=Path("build/forking-model"))
    parser.add_argument("--topics", type=int, help="how many topics to learn, for a first look (default: all)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="of the matrices that learn")
    parser.add_argument("--layers", type=int, nargs="+", help="that learn (default: all)")
    chosen = parser.parse_args(arguments)

    def make(plan: TuningPlan) -> ForkTuning:
        forks = Forks(chosen.base, plan.rows, plan.length, plan.seed, chosen.topics)
        return ForkTuning(
            plan, chosen.base, chosen.folder, chosen.out,
            ahead=Ahead(forks, chosen.workers), held_out=replace(forks, seed=0).held_out(plan.held_out),
            settings={}, device=chosen.device, kinds=chosen.kinds, layers=chosen.layers,
        )  # fmt: skip

    tune(chosen, PLAN, make)


if __name__ == "__main__":
    main()
