"""Training a model that forks and joins by itself: ``python -m recipes.forking.train``.

The model's weights go on learning, on texts with the tags of Multiverse (arXiv:2506.09991), asked for by the template
``fork`` of the prompts. Asked as before, it answers as before. Training is seeded, and goes on from its last checkpoint
when it is started again.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor
from torch.nn.functional import cross_entropy

from recipes.forking.lessons import Forks
from recipes.tuning import Ahead, Tuning, TuningPlan, add_tuning_arguments, tune

__all__ = ["ForkTuning", "main"]

PLAN = TuningPlan(minutes=60.0, matrix_rate=0.006, other_rate=0.0006, held_out=24)


class ForkTuning(Tuning):
    """One run."""

    def losses(self, batch: Mapping[str, Tensor]) -> Tensor:
        """See `Tuning`: the cross-entropy of each learned token # [learned]."""
        wanted = batch["targets"] >= 0
        found = self.model.model(input_ids=batch["tokens"], use_cache=False).last_hidden_state[wanted]
        logits = self.model.lm_head(found)
        return cross_entropy(logits.float(), batch["targets"][wanted], reduction="none") * batch["weights"][wanted]


def main(arguments: list[str] | None = None) -> None:
    """Train (or continue to train) a model that forks and joins."""
    parser = argparse.ArgumentParser(prog="python -m recipes.forking.train", description=main.__doc__)
    add_tuning_arguments(parser, PLAN, folder=Path("build/forking"), out=Path("build/forking-model"))
    parser.add_argument("--topics", type=int, help="how many topics to learn, for a first look (default: all)")
    chosen = parser.parse_args(arguments)

    def make(plan: TuningPlan) -> ForkTuning:
        forks = Forks(chosen.base, plan.tokens, plan.micro, plan.seed, chosen.topics)
        ahead = Ahead(forks, chosen.workers)
        held_out = replace(forks, seed=0).held_out(plan.held_out)
        return ForkTuning(
            plan, chosen.base, chosen.folder, chosen.out,
            ahead=ahead, held_out=held_out, settings={}, device=chosen.device,
        )  # fmt: skip

    tune(chosen, PLAN, make)


if __name__ == "__main__":
    main()
