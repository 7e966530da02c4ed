"""Low-rank adapters as saved by peft: ``adapter_config.json`` and ``adapter_model.safetensors``.

The change of a weight is a product of two narrow matrices. It can be merged into the weight, or computed separately
(`attached_lora.py`).

Hu et al., arXiv:2106.09685 (LoRA); Kalajdzievski, arXiv:2312.03732 (its scale by the root of the rank); Liu et al.,
arXiv:2402.09353 (DoRA, which also sets the length of each row).
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from stretto.foundation.arguments import safe_repr
from stretto.local_engine.model.adapters.adapter_files import LORA_CONFIG, LORA_FILE, read_lora_config
from stretto.values.errors import SettingsError

_PREFIX = "base_model.model."
_KEY = re.compile(r"(?P<module>.+)\.(?P<part>lora_A|lora_B|lora_magnitude_vector)(?:\.[\w-]+)??(?:\.weight)?")
_NAME = re.compile(r"\^?[\w.-]+")
_LAST = "lm_head.weight"
_LONGEST = 1e4  # limit for the length of a row and for numbers of whole parameters; the longest row of SmolLM2 has 50
_BASE_LAYER = ".base_layer."
"""Part of the name of a weight that peft saves unchanged with the changes of its module: that of an output layer."""

_UNREAD = {
    "lora_bias": "biases of its own",
    "layer_replication": "repeated layers",
    "target_parameters": "changes of single parameters",
    "alora_invocation_tokens": "changes from a token on (aLoRA)",
    "use_qalora": "changes of groups (QALoRA)",
    "use_bdlora": "changes of blocks (BD-LoRA)",
}


@dataclass(frozen=True, slots=True)
class LoraDelta:
    """The change of one weight.

    Attributes:
        down: # [rank, inner]
        up: with the scale applied # [outer, rank]
        magnitude: lengths of the rows of the changed weight (DoRA) # [outer]
    """

    down: Tensor
    up: Tensor
    magnitude: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the weight that it changes."""
        return self.up.shape[0], self.down.shape[1]

    @property
    def longest(self) -> float:
        """Length of the longest row that it adds to the weight, or sets (DoRA), computed without the product."""
        if self.magnitude is not None:
            return float(self.magnitude.abs().max())
        down, up = self.down.double(), self.up.double()
        return math.sqrt(abs(float(((up @ (down @ down.T)) * up).sum(1).max())))

    def to(self, device: torch.device) -> LoraDelta:
        """Return the same change on a device."""
        lengths = None if self.magnitude is None else self.magnitude.to(device)
        return LoraDelta(self.down.to(device), self.up.to(device), lengths)

    def factor(self, changed: Tensor) -> Tensor | None:
        """Return the factor of each row of the changed weight # [outer]; ``None`` without lengths."""
        return None if self.magnitude is None else self.magnitude.float() / changed.float().norm(dim=1)

    def on(self, weight: Tensor) -> Tensor:
        """Return the changed weight in float32 # [outer, inner]."""
        changed = weight.float() + self.up.float() @ self.down.float()
        factor = self.factor(changed)
        return changed if factor is None else changed * factor[:, None]


@dataclass(frozen=True)
class LoraAdapter:
    """A LoRA or DoRA adapter.

    Attributes:
        folder: where it is.
        changes: by the name of the module whose weight they change.
        replaced: whole parameters that it replaces, by name.
        transposed: the weights are transposed (GPT-2).
    """

    folder: Path
    changes: Mapping[str, LoraDelta]
    replaced: Mapping[str, Tensor] = field(default_factory=dict)
    transposed: bool = False

    @torch.no_grad()
    def merge(self, weights: Mapping[str, Tensor]) -> None:
        """Change the weights in place, by their names. Raises `SettingsError` if the adapter does not fit them."""
        self.check({name: tuple(weight.shape) for name, weight in weights.items()})
        for name, whole in self.replaced.items():  # first: a replaced weight can also be changed, as an output layer is
            weights[name].copy_(whole)
        for name, change in self.changes.items():
            weight = weights[f"{name}.weight"]
            if not weight.is_floating_point():
                raise self.misfit(f"{name} is quantised, and nothing can be added to it")
            changed = change.to(weight.device).on(weight.T if self.transposed else weight)
            self.check_numbers(name, changed)
            weight.copy_((changed.T if self.transposed else changed).to(weight.dtype))

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raise `SettingsError` if parameters of these names and shapes are not those it was trained on."""
        wanted: dict[str, tuple[int, ...]] = {
            f"{name}.weight": change.shape[::-1] if self.transposed else change.shape
            for name, change in self.changes.items()
        } | {name: tuple(whole.shape) for name, whole in self.replaced.items()}
        for name, shape in wanted.items():
            if name not in shapes and name == _LAST:
                raise SettingsError(
                    f"The adapter {str(self.folder)!r} cannot be added to this model: it changes {name}, which the "
                    "model shares with its input vectors (tie_word_embeddings), and they must stay as they are. Train "
                    "one without lm_head, or save the model with a weight of its own there."
                )
            if name not in shapes:
                raise self.misfit(f"it changes {name}, which the model does not have")
            if shapes[name] != shape:
                raise self.misfit(f"it changes {name} of {_sizes(shape)}, which is {_sizes(shapes[name])} there")

    def check_numbers(self, name: str, numbers: Tensor | None) -> None:
        """Raise `SettingsError` if these numbers of a module's changed weight are not finite.

        The change alone is finite. Only DoRA can fail here, with a row that has a length but no direction.
        """
        if numbers is not None and not numbers.isfinite().all():
            raise _damaged(self.folder, f"{name}.weight would hold NaN or an infinite number with it")

    def misfit(self, cause: str) -> SettingsError:
        """Return the error for a model that the adapter does not fit."""
        return SettingsError(
            f"The adapter {str(self.folder)!r} does not fit the model: {cause}. Give the model that it was trained on."
        )


def read_lora(folder: Path) -> LoraAdapter:
    """Read an adapter. Raises `SettingsError` for unreadable files and unsupported kinds."""
    config = read_lora_config(folder)
    _check_kind(folder, config)
    try:
        tensors = load_file(folder / LORA_FILE)
    except (OSError, ValueError, SafetensorError) as error:
        raise SettingsError(
            f"The adapter {str(folder)!r} cannot be read: {error}. Give a folder that save_pretrained of peft wrote, "
            f"with {LORA_CONFIG} and {LORA_FILE}."
        ) from error
    parts: dict[str, dict[str, Tensor]] = {}
    replaced: dict[str, Tensor] = {}
    for key, tensor in tensors.items():
        name = key.removeprefix(_PREFIX)
        if not tensor.float().isfinite().all():
            raise _damaged(folder, f"{key} holds NaN or an infinite number")
        if tensor.numel() and (largest := float(tensor.float().abs().max())) > _LONGEST:
            raise _damaged(folder, f"{key} holds {largest:.2g}, and trained weights no number above 1,000")
        if (found := _KEY.fullmatch(name)) is not None:
            parts.setdefault(found["module"], {})[found["part"]] = tensor
        elif ".lora_" in name or tensor.ndim == 0:
            raise SettingsError(
                f"The adapter {str(folder)!r} holds {key}, which is not read here: only changes of linear layers are. "
                "Merge it into its model with peft (merge_and_unload), and give that folder."
            )
        else:
            replaced[name.replace(_BASE_LAYER, ".")] = tensor
    scale_of, changes = _scales(folder, config), {}
    for name, own in parts.items():
        needed = {"lora_A", "lora_B", *(["lora_magnitude_vector"] if config.get("use_dora") else [])}
        if not needed <= own.keys() or own["lora_A"].ndim != 2 or own["lora_B"].ndim != 2:
            raise SettingsError(f"The adapter {str(folder)!r} is incomplete at {name}. Copy or download it again.")
        (rank, _), outer, magnitude = own["lora_A"].shape, len(own["lora_B"]), _flat(own.get("lora_magnitude_vector"))
        if own["lora_B"].shape[1] != rank or not rank or (magnitude is not None and len(magnitude) != outer):
            raise _damaged(folder, f"the sizes at {name} do not fit each other")
        changes[name] = LoraDelta(own["lora_A"], own["lora_B"].float() * scale_of(name, rank), magnitude)
        if not (longest := changes[name].longest) <= _LONGEST:
            does, alpha = "adds" if magnitude is None else "sets", safe_repr(config.get("lora_alpha"))
            raise _damaged(
                folder,
                f"with lora_alpha={alpha}, it {does} rows of length {longest:.2g} at {name}, and those of trained "
                "weights are below 1,000",
            )
    if not changes and not replaced:
        raise SettingsError(f"The adapter {str(folder)!r} changes nothing: {LORA_FILE} holds no weights.")
    return LoraAdapter(folder, changes, replaced, transposed=bool(config.get("fan_in_fan_out")))


def _damaged(folder: Path, cause: str) -> SettingsError:
    return SettingsError(f"The adapter {str(folder)!r} is damaged: {cause}. Copy or download it again.")


def _check_kind(folder: Path, config: Mapping[str, Any]) -> None:
    kind = config.get("peft_type")
    if kind != "LORA":
        raise SettingsError(
            f"The adapter {str(folder)!r} is of the type {safe_repr(kind)}, and only LoRA and DoRA are read here. "
            "Merge it into its model with peft (merge_and_unload), and give that folder."
        )
    if unread := [words for name, words in _UNREAD.items() if config.get(name)]:
        raise SettingsError(
            f"The adapter {str(folder)!r} has {unread[0]}, which are not read here. Merge it into its model with peft "
            "(merge_and_unload), and give that folder."
        )


def _scales(folder: Path, config: Mapping[str, Any]) -> Callable[[str, int], float]:
    """Return a function from a module's name and rank to the factor of its change.

    peft matches regular expressions in ``alpha_pattern`` against the end of a name, and the first match counts. A
    regular expression from a file could run forever, so only names are read: ``q_proj``, ``layers.0.mlp.up_proj``, and
    ``^model.layers.0.mlp.up_proj`` for a full name.

    Raises `SettingsError` for a value that is not a number, and for other patterns.
    """

    def number(field: str, value: Any) -> float:
        known = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= sys.float_info.max
        if not known:
            raise _damaged(folder, f"{field}={safe_repr(value)} in its {LORA_CONFIG} is no positive number")
        return float(value)

    for each in ("r", "lora_alpha"):
        if config.get(each) is not None:
            number(each, config[each])
    usual, given = config.get("lora_alpha"), config.get("alpha_pattern") or {}
    alpha = None if usual is None else number("lora_alpha", usual)
    if not isinstance(given, dict):
        raise _damaged(folder, f"alpha_pattern={safe_repr(given)} in its {LORA_CONFIG} is no JSON object")
    known: dict[str, tuple[int, float]] = {}
    for place, (pattern, value) in enumerate(given.items()):
        name = pattern.removesuffix("$").replace("\\.", ".")
        if not _NAME.fullmatch(name):
            raise SettingsError(
                f"The adapter {str(folder)!r} has the alpha_pattern {safe_repr(pattern)}, and only names of modules "
                "are read here, such as q_proj or layers.0.mlp.up_proj. Merge it into its model with peft "
                "(merge_and_unload), and give that folder."
            )
        known.setdefault(name, (place, number(f"alpha_pattern of {safe_repr(pattern)}", value)))

    def scale_of(module: str, rank: int) -> float:
        ends = [module, *(module[at + 1 :] for at, letter in enumerate(module) if letter == ".")] if known else []
        fitting = [known[end] for end in (f"^{module}", *ends) if end in known]
        own = min(fitting)[1] if fitting else rank if alpha is None else alpha
        return own / (math.sqrt(rank) if config.get("use_rslora") else rank)

    return scale_of


def _flat(magnitude: Tensor | None) -> Tensor | None:
    return None if magnitude is None else magnitude.flatten()


def _sizes(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))
