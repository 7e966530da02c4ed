"""Low-rank adapters as peft saves them: ``adapter_config.json`` beside ``adapter_model.safetensors``.

A change of a weight is a product of two narrow matrices. It can be added to the weight for good, or be computed beside
it (`beside.py`).

Hu et al., arXiv:2106.09685 (LoRA); Kalajdzievski, arXiv:2312.03732 (its scale by the root of the rank); Liu et al.,
arXiv:2402.09353 (DoRA, which also sets the length of each row).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from stretto.errors import SettingsError
from stretto.local_engine.model.adapter_files import LOW_RANK_CONFIG, LOW_RANK_FILE

__all__ = ["Change", "LowRank", "read_low_rank"]

_PREFIX = "base_model.model."
_KEY = re.compile(r"(?P<module>.+)\.(?P<part>lora_A|lora_B|lora_magnitude_vector)(?:\.[\w-]+)??(?:\.weight)?")
_UNREAD = {
    "lora_bias": "biases of its own",
    "layer_replication": "repeated layers",
    "target_parameters": "changes of single parameters",
    "alora_invocation_tokens": "changes from a token on (aLoRA)",
    "use_qalora": "changes of groups (QALoRA)",
    "use_bdlora": "changes of blocks (BD-LoRA)",
}


@dataclass(frozen=True, slots=True)
class Change:
    """What is added to one weight.

    Attributes:
        down: # [rank, inner]
        up: with the scale in it # [outer, rank]
        magnitude: lengths of the rows of the changed weight (DoRA) # [outer]
    """

    down: Tensor
    up: Tensor
    magnitude: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Of the weight that it changes."""
        return self.up.shape[0], self.down.shape[1]

    def to(self, device: torch.device) -> Change:
        """The same on a device."""
        lengths = None if self.magnitude is None else self.magnitude.to(device)
        return Change(self.down.to(device), self.up.to(device), lengths)

    def factor(self, changed: Tensor) -> Tensor | None:
        """What each row of the changed weight is multiplied by # [outer]; ``None`` without lengths."""
        return None if self.magnitude is None else self.magnitude.float() / changed.float().norm(dim=1)

    def on(self, weight: Tensor) -> Tensor:
        """The changed weight, in float32 # [outer, inner]."""
        changed = weight.float() + self.up.float() @ self.down.float()
        factor = self.factor(changed)
        return changed if factor is None else changed * factor[:, None]


@dataclass(frozen=True)
class LowRank:
    """An adapter.

    Attributes:
        folder: where it is.
        changes: by the name of the module whose weight they change.
        replaced: whole parameters that it brings, by name.
        transposed: the weights lie the other way (GPT-2).
    """

    folder: Path
    changes: Mapping[str, Change]
    replaced: Mapping[str, Tensor] = field(default_factory=dict)
    transposed: bool = False

    @torch.no_grad()
    def merge(self, weights: Mapping[str, Tensor]) -> None:
        """Change the weights in place, by their names. Raises `SettingsError` where it does not fit them."""
        self.check({name: tuple(weight.shape) for name, weight in weights.items()})
        for name, change in self.changes.items():
            weight = weights[f"{name}.weight"]
            if not weight.is_floating_point():
                raise self.misfit(f"{name} is quantised, and nothing can be added to it")
            changed = change.to(weight.device).on(weight.T if self.transposed else weight)
            weight.copy_((changed.T if self.transposed else changed).to(weight.dtype))
        for name, whole in self.replaced.items():
            weights[name].copy_(whole.to(weights[name].dtype))

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raise `SettingsError` if parameters of these names and shapes are not what it was trained on."""
        wanted: dict[str, tuple[int, ...]] = {
            f"{name}.weight": change.shape[::-1] if self.transposed else change.shape
            for name, change in self.changes.items()
        } | {name: tuple(whole.shape) for name, whole in self.replaced.items()}
        for name, shape in wanted.items():
            if name not in shapes:
                raise self.misfit(f"it changes {name}, which the model does not have")
            if shapes[name] != shape:
                raise self.misfit(f"it changes {name} of {_sizes(shape)}, which is {_sizes(shapes[name])} there")

    def misfit(self, cause: str) -> SettingsError:
        """The error for a model that it does not fit."""
        return SettingsError(
            f"The adapter {str(self.folder)!r} does not fit the model: {cause}. Give the model that it was trained on."
        )


def read_low_rank(folder: Path) -> LowRank:
    """Read an adapter. Raises `SettingsError` for what cannot be read, and for kinds that are not known here."""
    try:
        config: Any = json.loads((folder / LOW_RANK_CONFIG).read_text(encoding="utf-8"))
        tensors = load_file(folder / LOW_RANK_FILE)
    except (OSError, ValueError, SafetensorError) as error:
        raise SettingsError(
            f"The adapter {str(folder)!r} cannot be read: {error}. Give a folder that save_pretrained of peft wrote, "
            f"with {LOW_RANK_CONFIG} and {LOW_RANK_FILE}."
        ) from error
    _check_kind(folder, config)
    parts: dict[str, dict[str, Tensor]] = {}
    replaced: dict[str, Tensor] = {}
    for key, tensor in tensors.items():
        name = key.removeprefix(_PREFIX)
        if (found := _KEY.fullmatch(name)) is not None:
            parts.setdefault(found["module"], {})[found["part"]] = tensor
        elif ".lora_" in name or tensor.ndim == 0:
            raise SettingsError(
                f"The adapter {str(folder)!r} holds {key}, which is not read here: only changes of linear layers are. "
                "Merge it into its model with peft (merge_and_unload), and give that folder."
            )
        else:
            replaced[name] = tensor
    changes = {}
    for name, own in parts.items():
        if not {"lora_A", "lora_B"} <= own.keys() or own["lora_A"].ndim != 2 or own["lora_B"].ndim != 2:
            raise SettingsError(f"The adapter {str(folder)!r} is incomplete at {name}. Copy or download it again.")
        rank = own["lora_A"].shape[0]
        if own["lora_B"].shape[1] != rank:
            raise SettingsError(f"The adapter {str(folder)!r} is damaged at {name}. Copy or download it again.")
        scale = _scale(config, name, rank)
        changes[name] = Change(own["lora_A"], own["lora_B"].float() * scale, _flat(own.get("lora_magnitude_vector")))
    if not changes and not replaced:
        raise SettingsError(f"The adapter {str(folder)!r} changes nothing: {LOW_RANK_FILE} holds no weights.")
    return LowRank(folder, changes, replaced, transposed=bool(config.get("fan_in_fan_out")))


def _check_kind(folder: Path, config: Any) -> None:
    kind = config.get("peft_type") if isinstance(config, dict) else None
    if kind != "LORA":
        raise SettingsError(
            f"The adapter {str(folder)!r} is of the type {kind!r}, and only LoRA and DoRA are read here. Merge it into "
            "its model with peft (merge_and_unload), and give that folder."
        )
    if unread := [words for name, words in _UNREAD.items() if config.get(name)]:
        raise SettingsError(
            f"The adapter {str(folder)!r} has {unread[0]}, which are not read here. Merge it into its model with peft "
            "(merge_and_unload), and give that folder."
        )


def _scale(config: Mapping[str, Any], module: str, rank: int) -> float:
    alpha = config.get("lora_alpha", rank)
    for pattern, own in (config.get("alpha_pattern") or {}).items():
        if re.fullmatch(rf"(?:.*\.)?(?:{pattern.removeprefix('^')})", module):
            alpha = own
            break
    return float(alpha) / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _flat(magnitude: Tensor | None) -> Tensor | None:
    return None if magnitude is None else magnitude.flatten()


def _sizes(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))
