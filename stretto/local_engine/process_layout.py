"""How a model is divided over processes; imports neither torch nor transformers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stretto.foundation.arguments import MOST_PROCESSES, safe_repr
from stretto.values.errors import SettingsError

__all__ = ["ProcessLayout"]

_HEADS = ("num_attention_heads", "num_key_value_heads")


@dataclass(frozen=True, slots=True)
class ProcessLayout:
    """How many processes hold a model, and what each of them holds. One of these numbers is above 1 at most.

    Attributes:
        tensor: shards of every layer (Shoeybi et al., arXiv:1909.08053).
        pipeline: stages of whole layers (Huang et al., arXiv:1811.06965).

    Raises `SettingsError` for what is no number of processes, and for two numbers above 1: transformers cannot divide
    layers that are divided into stages.
    """

    tensor: int = 1
    pipeline: int = 1

    def __post_init__(self) -> None:
        for name, value in self._named.items():
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_PROCESSES:
                raise SettingsError(
                    f"{name}={safe_repr(value)} cannot be used: give a number of processes, from 1 to {MOST_PROCESSES}."
                )
        if self.processes > max(self._named.values()):
            raise SettingsError(f"{self} cannot be used together. Leave one of them out.")
        if self.processes > 1 and sys.platform == "win32":
            raise SettingsError(f"{self} cannot be used on Windows. Use one process there, or WSL.")

    def __str__(self) -> str:
        return " and ".join(f"{name}={value}" for name, value in self._named.items() if value > 1) or "one process"

    @property
    def _named(self) -> dict[str, int]:
        return {"tensor_parallel": self.tensor, "pipeline_parallel": self.pipeline}

    @property
    def processes(self) -> int:
        """How many there are."""
        return self.tensor * self.pipeline

    @property
    def speaker(self) -> int:
        """The process that hands out the logits: the last stage, else the first one."""
        return self.pipeline - 1

    def check(self, name: str, config: Mapping[str, Any]) -> None:
        """Make sure that a model can be divided like this.

        Args:
            name: of the model.
            config: the entries of its ``config.json``, or some of them.

        Raises `SettingsError`.
        """
        if self.tensor > 1:
            counts = {key: config[key] for key in _HEADS if isinstance(config.get(key), int)}
            if indivisible := [key for key, count in counts.items() if count % self.tensor]:
                possible = [
                    count
                    for count in range(2, min(counts.values()) + 1)
                    if not any(each % count for each in counts.values())
                ]
                use = " or ".join(map(str, possible[:4])) if possible else "pipeline_parallel"
                raise SettingsError(
                    f"tensor_parallel={self.tensor} cannot be used with {name}: its {indivisible[0]}, "
                    f"{counts[indivisible[0]]}, cannot be divided by {self.tensor}. Use {use}."
                )
        layers = config.get("num_hidden_layers")
        if self.pipeline > 1 and isinstance(layers, int) and layers < self.pipeline:
            raise SettingsError(
                f"pipeline_parallel={self.pipeline} cannot be used with {name}, which has {layers} layers: each "
                "process needs one or more."
            )
