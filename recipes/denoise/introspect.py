"""Training an I-DLM adapter of a causal model: ``python -m recipes.denoise.introspect``.

Introspective diffusion (arXiv:2604.11035), in its lossless form: the model itself stays as it is. Behind the last known
token stand masked rows, and low-rank changes that act on these rows alone let them say the tokens after the next one.
All rows are strictly causal, and a row says the token behind it, so the model's own rows check what was said before.

The clean text is read by the model as it is. Then masks stand behind many of its places at once, each group seeing the
text up to its place. The masked rows learn the model's own distribution at the place that they stand for, which is
what their acceptance, min(1, p/q), rests on.

The adapter is written as peft writes one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.functional import kl_div, linear, log_softmax

from recipes.denoise.lessons import MIX, Lessons
from recipes.denoise.strides import drawn_strides
from recipes.packing import causal, scores
from recipes.pocket.tokenizer import MASK, token_id
from recipes.stacked import KINDS, StackedLlama, Weights
from recipes.tuning import Ahead, Tuning, TuningPlan, add_tuning_arguments, tune

__all__ = ["Introspection", "LowRankChange", "main"]

PLAN = TuningPlan(minutes=60.0, matrix_rate=0.02, other_rate=0.002, held_out=32)


class LowRankChange(nn.Module):
    """Low-rank changes of all matrices # [layers, rank, inner] and [layers, outer, rank].

    Args:
        model: whose matrices they change.
        rank: of the changes.
    """

    def __init__(self, model: StackedLlama, rank: int) -> None:
        super().__init__()
        self.model, self.rank = model, rank
        for kind, whole in model.matrices.items():
            layers, outer, inner = whole.shape
            down = torch.randn(layers, rank, inner, device=whole.device) / inner**0.5
            self.register_parameter(f"{kind}_down", nn.Parameter(down))
            self.register_parameter(f"{kind}_up", nn.Parameter(torch.zeros(layers, outer, rank, device=whole.device)))

    def weights(self) -> Weights:
        """The weights of the masked rows."""
        own = {}
        for kind, whole in self.model.matrices.items():
            own[kind] = torch.baddbmm(whole, getattr(self, f"{kind}_up"), getattr(self, f"{kind}_down"))
        return self.model.weights(**own)


class Introspection(Tuning):
    """One run; see the head of the module."""

    def __init__(self, *positional: Any, rank: int, masks: int, groups: int, mask: int, **named: Any) -> None:
        self.rank, self.masks, self.groups, self.mask = rank, masks, groups, mask
        super().__init__(*positional, **named)
        self._clean = self.model.weights()

    def learning(self, kinds: Sequence[str], token: int | None) -> nn.Module:  # noqa: ARG002 - all matrices, no token
        """See `Tuning`."""
        torch.manual_seed(self.plan.seed)
        return LowRankChange(self.model, self.rank)

    def losses(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """See `Tuning`: how far each masked row is from the model itself."""
        strides = drawn_strides(batch, self.masks, self.groups, self.chance, self.dtype)
        learned = strides.learned
        with torch.no_grad():
            sees = scores(causal(batch["texts"]), self.dtype)
            clean, keys = self.model.states(self._clean, batch["tokens"], batch["positions"], sees)
            wanted = clean.gather(1, strides.targets[..., None].expand(-1, -1, clean.shape[2]))[learned]
            said = log_softmax(linear(wanted, self._clean.embed).float(), -1)
        assert isinstance(self.learned, LowRankChange)  # noqa: S101 - for the type checker
        tokens = torch.full_like(strides.positions, self.mask)
        found, _ = self.model.states(self.learned.weights(), tokens, strides.positions, strides.scores, keys)
        own = log_softmax(linear(found[learned], self._clean.embed).float(), -1)
        losses = kl_div(own, said, reduction="none", log_target=True).sum(-1)
        return losses, torch.ones_like(losses)

    def export(self, target: Path) -> None:
        """Write the adapter as peft does."""
        target.mkdir(parents=True, exist_ok=True)
        own, weights = dict(self.learned.named_parameters()), {}
        for kind, name in KINDS.items():
            for part, letter in (("down", "A"), ("up", "B")):
                for layer, value in enumerate(own[f"{kind}_{part}"].detach()):
                    key = f"base_model.model.model.layers.{layer}.{name}.lora_{letter}.weight"
                    weights[key] = value.bfloat16().cpu().contiguous()
        save_file(weights, target / "adapter_model.safetensors", metadata={"format": "pt"})
        config = {
            "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": self.rank, "lora_alpha": self.rank,
            "target_modules": [name.partition(".")[2] for name in KINDS.values()], "bias": "none",
            "base_model_name_or_path": "local:pocket", "block_size": self.masks, "mask_token_id": self.mask,
        }  # fmt: skip
        (target / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train (or continue to train) an I-DLM adapter."""
    parser = argparse.ArgumentParser(prog="python -m recipes.denoise.introspect", description=main.__doc__)
    add_tuning_arguments(parser, PLAN, folder=Path("build/introspect"), out=Path("build/idlm"))
    parser.add_argument("--masks", type=int, default=3, help="behind the last known token (default %(default)s)")
    parser.add_argument("--groups", type=int, default=128, help="of masks behind a row (default %(default)s)")
    parser.add_argument("--rank", type=int, default=32, help="of the changes (default %(default)s)")
    parser.add_argument("--topics", type=int, help="how many topics to learn, for a first look (default: all)")
    chosen = parser.parse_args(arguments)

    def make(plan: TuningPlan) -> Introspection:
        lessons = Lessons(chosen.base, 1, plan.rows, plan.length, plan.seed, MIX, chosen.topics)
        mask = token_id(Tokenizer.from_file(str(chosen.base / "tokenizer.json")), MASK)
        return Introspection(
            plan, chosen.base, chosen.folder, chosen.out,
            ahead=Ahead(lessons, chosen.workers), held_out=replace(lessons, seed=0).held_out(plan.held_out),
            settings={}, device=chosen.device, rank=chosen.rank, masks=chosen.masks, groups=chosen.groups, mask=mask,
        )  # fmt: skip

    tune(chosen, PLAN, make)


if __name__ == "__main__":
    main()
