"""Training a block diffusion model from a causal one: ``python -m recipes.denoise.train``.

The recipe of SDAR (arXiv:2510.06303) with the masks of Block Diffusion (arXiv:2503.09573): the causal model's weights
go on learning, now to fill in the masked tokens of a block when all blocks before it are known. Training is seeded, and
goes on from its last checkpoint when it is started again.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import cross_entropy

from recipes.denoise.blocks import seen
from recipes.denoise.lessons import MIX, Lessons
from recipes.pocket.tokenizer import MASK, token_id
from recipes.tuning import Ahead, Tuning, TuningPlan, add_tuning_arguments, tune

__all__ = ["BlockTuning", "add_block_arguments", "block_settings", "main", "states"]

PLAN = TuningPlan(minutes=240.0, held_out=48)


def states(model: torch.nn.Module, batch: Mapping[str, Tensor], mask: Tensor, wanted: Tensor) -> Tensor:
    """The last states of the wanted rows # [wanted, hidden]; ``wanted`` is boolean # [sequences, rows]."""
    found = model.model(  # type: ignore[operator]  # transformers leaves it untyped
        input_ids=batch["tokens"], position_ids=batch["positions"], attention_mask=mask, use_cache=False
    )
    return found.last_hidden_state[wanted]  # type: ignore[no-any-return]


class BlockTuning(Tuning):
    """One run of block diffusion."""

    def losses(self, batch: Mapping[str, Tensor]) -> Tensor:
        """See `Tuning`: the cross-entropy of each masked token # [masked]."""
        wanted = batch["targets"] >= 0
        logits = self.model.lm_head(states(self.model, batch, seen(batch), wanted))
        return cross_entropy(logits.float(), batch["targets"][wanted], reduction="none") * batch["weights"][wanted]


def block_settings(base: Path, block: int) -> dict[str, object]:
    """What ``config.json`` says of a block diffusion model."""
    return {
        "block_size": block,
        "mask_token_id": token_id(Tokenizer.from_file(str(base / "tokenizer.json")), MASK),
        "diffusion": "block-causal",
    }


def add_block_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the sizes of blocks and of the corpus."""
    parser.add_argument("--block", type=int, default=8, help="tokens of a block (default %(default)s)")
    parser.add_argument("--topics", type=int, help="how many topics to learn, for a first look (default: all)")


def lessons_of(chosen: argparse.Namespace, plan: TuningPlan) -> Lessons:
    """The lessons that the arguments describe."""
    return Lessons(chosen.base, chosen.block, plan.tokens, plan.micro, plan.seed, MIX, chosen.topics)


def main(arguments: list[str] | None = None) -> None:
    """Train (or continue to train) a block diffusion model."""
    parser = argparse.ArgumentParser(prog="python -m recipes.denoise.train", description=main.__doc__)
    add_tuning_arguments(parser, PLAN, folder=Path("build/denoise"), out=Path("build/diffusion"))
    add_block_arguments(parser)
    chosen = parser.parse_args(arguments)

    def make(plan: TuningPlan) -> BlockTuning:
        lessons = lessons_of(chosen, plan)
        ahead = Ahead(lessons, chosen.workers)
        held_out = replace(lessons, seed=0).held_out(plan.held_out)
        return BlockTuning(
            plan, chosen.base, chosen.folder, chosen.out,
            ahead=ahead, held_out=held_out, settings=block_settings(chosen.base, chosen.block), device=chosen.device,
        )  # fmt: skip

    tune(chosen, PLAN, make)


if __name__ == "__main__":
    main()
