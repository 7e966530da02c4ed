"""Training an I-DLM adapter of a causal model: ``python -m recipes.denoise.introspect``.

Introspective diffusion (arXiv:2604.11035), in its lossless form: the model itself stays as it is. Behind the last known
token stand masked rows, and low-rank changes that act on these rows alone let them say the tokens after the next one.
All rows are strictly causal, and a row says the token behind it, so the model's own rows check what was said before.

The input is ``[masks, clean text]`` as there. Here masks stand behind many places of a text at once, each group seeing
the text up to its place. The masked rows learn the model's own distribution at the place that they stand for, which is
what their acceptance, min(1, p/q), rests on.

The adapter is written as peft writes one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.functional import kl_div, log_softmax

from recipes.denoise.lessons import MIX
from recipes.denoise.strides import Strides, strides_seen
from recipes.denoise.train import states
from recipes.pocket.tokenizer import MASK, token_id
from recipes.tuning import Ahead, Tuning, TuningPlan, add_tuning_arguments, tune

__all__ = ["Introspection", "RowLora", "main"]

PLAN = TuningPlan(minutes=60.0, matrix_rate=0.02, other_rate=0.002, held_out=32)
_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class RowLora(nn.Module):
    """A linear layer with a low-rank change that acts on some rows only.

    Args:
        base: the layer; it does not learn.
        rank: of the change.
        rows: says which rows it acts on, as ones and zeros # [sequences, rows, 1]
    """

    def __init__(self, base: nn.Linear, rank: int, rows: Callable[[], Tensor]) -> None:
        super().__init__()
        self.base, self.rows = base, rows
        self.lora_A = nn.Parameter(torch.randn(rank, base.in_features, device=base.weight.device) / rank)
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank, device=base.weight.device))

    def forward(self, hidden: Tensor) -> Tensor:
        """The layer, and its change where a row has one # [sequences, rows, inner] -> [sequences, rows, outer]."""
        change = hidden @ self.lora_A.to(hidden.dtype).T @ self.lora_B.to(hidden.dtype).T
        return self.base(hidden) + change * self.rows().to(hidden.dtype)  # type: ignore[no-any-return]


class _Changes(nn.Module):
    """The changes of all layers, by the names of the layers."""

    def __init__(self, changes: Mapping[str, RowLora]) -> None:
        super().__init__()
        for name, change in changes.items():
            for part in ("lora_A", "lora_B"):
                self.register_parameter(f"{name}|{part}".replace(".", "/"), getattr(change, part))


class Introspection(Tuning):
    """One run; see the head of the module."""

    def __init__(self, *positional: Any, rank: int, masks: int, mask: int, **named: Any) -> None:
        self.rank, self.masks, self.mask = rank, masks, mask
        self._rows = torch.zeros(1, 1, 1)
        self._changes: _Changes | None = None
        super().__init__(*positional, **named)

    def trained(self) -> nn.Module:
        """See `Tuning`; the changes are put into the model when they are first asked for."""
        if self._changes is None:
            self.model.requires_grad_(requires_grad=False)
            changes: dict[str, RowLora] = {}
            torch.manual_seed(self.plan.seed)
            for name, module in list(self.model.named_modules()):
                for projection in _PROJECTIONS:
                    if isinstance(getattr(module, projection, None), nn.Linear):
                        change = RowLora(getattr(module, projection), self.rank, lambda: self._rows)
                        setattr(module, projection, change)
                        changes[f"{name}.{projection}"] = change
            self._changes = _Changes(changes)
        return self._changes

    def losses(self, batch: Mapping[str, Tensor]) -> Tensor:
        """See `Tuning`: how far each masked row is from the model itself."""
        wanted = batch["targets"] >= 0
        self._rows = batch["noisy"][:, :, None].float()
        everywhere = torch.ones_like(wanted)
        found = states(self.model, batch, strides_seen(batch), everywhere).view(*wanted.shape, -1)
        own = log_softmax(self.model.lm_head(found[wanted]).float(), -1)
        with torch.no_grad():
            clean = found[wanted.nonzero()[:, 0], batch["targets"][wanted]]
            said = log_softmax(self.model.lm_head(clean).float(), -1)
        return kl_div(own, said, reduction="none", log_target=True).sum(-1) * batch["weights"][wanted]

    def export(self, target: Path) -> None:
        """Write the adapter as peft does."""
        target.mkdir(parents=True, exist_ok=True)
        weights = {}
        for name, value in self.own_state().items():
            module, _, part = name.replace("/", ".").partition("|")
            weights[f"base_model.model.{module}.{part}.weight"] = value.detach().bfloat16().contiguous()
        save_file(weights, target / "adapter_model.safetensors", metadata={"format": "pt"})
        config = {
            "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": self.rank, "lora_alpha": self.rank,
            "target_modules": list(_PROJECTIONS), "bias": "none", "base_model_name_or_path": "local:pocket",
            "block_size": self.masks, "mask_token_id": self.mask,
        }  # fmt: skip
        (target / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Train (or continue to train) an I-DLM adapter."""
    parser = argparse.ArgumentParser(prog="python -m recipes.denoise.introspect", description=main.__doc__)
    add_tuning_arguments(parser, PLAN, folder=Path("build/introspect"), out=Path("build/idlm"))
    parser.add_argument("--masks", type=int, default=3, help="behind the last known token (default %(default)s)")
    parser.add_argument("--rank", type=int, default=32, help="of the changes (default %(default)s)")
    parser.add_argument("--topics", type=int, help="how many topics to learn, for a first look (default: all)")
    chosen = parser.parse_args(arguments)

    def make(plan: TuningPlan) -> Introspection:
        lessons = Strides(chosen.base, 1, plan.tokens, plan.micro, plan.seed, MIX, chosen.topics, chosen.masks)
        ahead = Ahead(lessons, chosen.workers)
        mask = token_id(Tokenizer.from_file(str(chosen.base / "tokenizer.json")), MASK)
        return Introspection(
            plan, chosen.base, chosen.folder, chosen.out,
            ahead=ahead, held_out=replace(lessons, seed=0).held_out(plan.held_out), settings={},
            device=chosen.device, rank=chosen.rank, masks=chosen.masks, mask=mask,
        )  # fmt: skip

    tune(chosen, PLAN, make)


if __name__ == "__main__":
    main()
