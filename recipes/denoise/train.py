"""Training a block diffusion model from a causal one: ``python -m recipes.denoise.train``.

The recipe of SDAR (arXiv:2510.06303) with the masks of Block Diffusion (arXiv:2503.09573): the causal model's weights
go on learning, now to fill in the masked tokens of a block when all blocks before it are known. Training is seeded, and
goes on from its last checkpoint when it is started again.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from recipes.denoise.blocks import drawn_noise, sees_clean, sees_noisy
from recipes.denoise.lessons import MIX, Lessons
from recipes.pocket.tokenizer import MASK, token_id
from recipes.stacked import Change, Keys, Weights
from recipes.tuning import Ahead, Tuning, TuningPlan, add_tuning_arguments, tune

__all__ = ["BlockTuning", "add_block_arguments", "block_settings", "main"]

PLAN = TuningPlan(minutes=240.0, held_out=48)
COPIES, WHOLLY = 2, 0.35


class BlockTuning(Tuning):
    """One run of block diffusion."""

    def __init__(
        self, *positional: Any, block: int, mask: int, shifted: bool, copies: int = COPIES, **named: Any
    ) -> None:
        super().__init__(*positional, token=mask, **named)
        self.block, self.mask, self.shifted, self.copies = block, mask, shifted, copies

    def losses(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """See `Tuning`: the cross-entropy of each masked token."""
        assert isinstance(self.learned, Change)  # noqa: S101 - for the type checker
        weights = self.learned.weights()
        clean, keys = self.read_clean(weights, batch)
        return self.plain_losses(weights, batch, clean, keys, self.copies)

    def plain_losses(
        self, weights: Weights, batch: Mapping[str, Tensor], clean: Tensor, keys: Keys, copies: int
    ) -> tuple[Tensor, Tensor]:
        """The cross-entropy of masked tokens in noisy copies, and how much each counts # [masked] each."""
        noise = drawn_noise(batch, self.block, self.mask, self.chance, copies=copies, wholly=WHOLLY)
        noisy = self.read_noisy(weights, batch, keys, noise.tokens)
        targets, counts = (each.repeat(copies, 1)[noise.masked] for each in (batch["tokens"], batch["weights"]))
        logits = linear(self.predicting(clean, noisy, noise.masked), weights.embed)
        return cross_entropy(logits.float(), targets, reduction="none"), counts

    def read_clean(self, weights: Weights, batch: Mapping[str, Tensor]) -> tuple[Tensor, Keys]:
        """States, keys and values of the clean text."""
        sees = sees_clean(batch["texts"], self.block, self.dtype)
        return self.model.states(weights, batch["tokens"], batch["positions"], sees)

    def read_noisy(self, weights: Weights, batch: Mapping[str, Tensor], clean: Keys, tokens: Tensor) -> Tensor:
        """States of noisy copies, one after the other # [copies * rows, length, hidden]."""
        copies = len(tokens) // len(batch["tokens"])
        sees = sees_noisy(batch["texts"], self.block, self.dtype).repeat(copies, 1, 1, 1)
        keys = [(key.repeat(copies, 1, 1, 1), value.repeat(copies, 1, 1, 1)) for key, value in clean]
        return self.model.states(weights, tokens, batch["positions"].repeat(copies, 1), sees, keys)[0]

    def predicting(self, clean: Tensor, noisy: Tensor, wanted: Tensor) -> Tensor:
        """The states that predict the wanted tokens # [wanted, hidden]."""
        if not self.shifted:
            return noisy[wanted]
        first = torch.arange(noisy.shape[1], device=noisy.device) % self.block == 0
        clean = clean.roll(1, 1).repeat(len(noisy) // len(clean), 1, 1)
        return torch.where(first[:, None], clean, noisy.roll(1, 1))[wanted]


def block_settings(base: Path, block: int, *, shifted: bool) -> dict[str, Any]:
    """What ``config.json`` says of a block diffusion model."""
    return {
        "block_size": block,
        "mask_token_id": token_id(Tokenizer.from_file(str(base / "tokenizer.json")), MASK),
        "diffusion": "block-causal",
        **({"shifted_logits": True} if shifted else {}),
    }


def add_block_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the sizes of blocks and of the corpus."""
    parser.add_argument("--block", type=int, default=8, help="tokens of a block (default %(default)s)")
    parser.add_argument("--topics", type=int, help="how many topics to learn, for a first look (default: all)")
    parser.add_argument("--own", action="store_true", help="rows predict their own tokens, not those after them")
    parser.add_argument("--copies", type=int, default=COPIES, help="noisy copies of a text (default %(default)s)")
    parser.add_argument("--start", type=Path, help="a model of this base to start from")


def block_run(kind: type[BlockTuning], chosen: argparse.Namespace, plan: TuningPlan, **more: Any) -> BlockTuning:
    """A run of block diffusion as the arguments say."""
    lessons = Lessons(chosen.base, chosen.block, plan.rows, plan.length, plan.seed, MIX, chosen.topics)
    settings = block_settings(chosen.base, chosen.block, shifted=not chosen.own)
    return kind(
        plan, chosen.base, chosen.folder, chosen.out,
        ahead=Ahead(lessons, chosen.workers), held_out=replace(lessons, seed=0).held_out(plan.held_out),
        settings=settings, device=chosen.device, start=chosen.start,
        block=chosen.block, mask=settings["mask_token_id"], shifted=not chosen.own, copies=chosen.copies, **more,
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Train (or continue to train) a block diffusion model."""
    parser = argparse.ArgumentParser(prog="python -m recipes.denoise.train", description=main.__doc__)
    add_tuning_arguments(parser, PLAN, folder=Path("build/denoise"), out=Path("build/diffusion"))
    add_block_arguments(parser)
    chosen = parser.parse_args(arguments)
    tune(chosen, PLAN, lambda plan: block_run(BlockTuning, chosen, plan))


if __name__ == "__main__":
    main()
