"""Training runs that go on from their last checkpoint and can be stopped between two steps."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from recipes.pocket.optimiser import Optimiser
from stretto.values.errors import SettingsError

if TYPE_CHECKING:
    from stretto.local_engine.model.forward.llama import LlamaForward
    from stretto.local_engine.model.loading.load import LoadedModel

__all__ = ["AdapterTraining", "Length", "MuonTraining", "Training", "llama_forward", "read_state"]

Step = TypeVar("Step")
"""What one step came to."""


class Length(Protocol):
    """How long a run is."""

    @property
    def minutes(self) -> float:
        """By the clock."""
        ...

    @property
    def steps(self) -> int | None:
        """Instead of minutes."""
        ...

    @property
    def save_every(self) -> float:
        """Seconds between two checkpoints."""
        ...


class Training(ABC, Generic[Step]):
    """One training run, continued from ``folder`` if it holds a checkpoint.

    Args:
        length: of the run.
        folder: where the run is kept.

    Attributes:
        number: of the next step.
        seconds: spent in steps.
        stopping: set to save and leave `run` after the step at hand.
    """

    every = 25
    """Steps between two reports."""

    def __init__(self, length: Length, folder: Path) -> None:
        self.folder = folder
        self.number, self.seconds, self.stopping = 0, 0.0, False
        self._length, self._saved = length, time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def checkpoint(self) -> Path:
        """The file of the run."""
        return self.folder / "checkpoint.safetensors"

    @property
    def progress(self) -> float:
        """How much of the run is done, from 0 to 1."""
        if self._length.steps is not None:
            return min(1.0, self.number / self._length.steps)
        return min(1.0, self.seconds / (60 * self._length.minutes))

    @abstractmethod
    def step(self) -> Step:
        """Train one step."""

    @abstractmethod
    def note(self, step: Step) -> None:
        """Add what a step came to to the next report."""

    @abstractmethod
    def report(self) -> str:
        """How the steps since the last report went, for a person."""

    @abstractmethod
    def kept(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What a checkpoint holds: tensors by name, and other values."""

    def run(self, console: Console) -> None:
        """Train to the end of the run, with reports and checkpoints."""
        columns = (TextColumn("training"), BarColumn(), TextColumn("{task.percentage:.1f}%"), TimeRemainingColumn())
        with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
            shown = bar.add_task("training", total=1.0)
            while self.progress < 1:
                self.note(self.step())
                bar.update(shown, completed=self.progress)
                if self.number % self.every == 0 or self.progress >= 1:
                    console.print(self.report(), highlight=False, soft_wrap=True)
                if self.stopping or time.monotonic() - self._saved > self._length.save_every:
                    self.save()
                if self.stopping:
                    console.print(f"stopped at step {self.number}; start again to go on", highlight=False)
                    return
        self.save()

    def save(self) -> None:
        """Write the checkpoint. A run that is stopped while it writes keeps the one before."""
        tensors, state = self.kept()
        new = self.folder / "checkpoint.new"
        save_file(tensors, new, metadata={"state": json.dumps(state)})
        new.replace(self.checkpoint)
        self._saved = time.monotonic()


class AdapterTraining(Training[Step]):
    """Trains the tensors of an adapter of a frozen model.

    Args:
        length: of the run.
        folder: where the run is kept.
        tensors: of the adapter, by name.
        base: fingerprint of the model's weights.
        rate: learning rate.
        weight_decay: of the optimiser.
    """

    def __init__(
        self,
        length: Length,
        folder: Path,
        tensors: Mapping[str, Tensor],
        base: str,
        *,
        rate: float,
        weight_decay: float,
    ) -> None:
        super().__init__(length, folder)
        self.tensors = {name: tensor.requires_grad_() for name, tensor in tensors.items()}
        self.base = base
        self.optimiser = torch.optim.AdamW(self.tensors.values(), rate, betas=(0.9, 0.98), weight_decay=weight_decay)
        self._rate = rate

    def update(self, *, falling: float, least: float, warm_up: int = 20) -> None:
        """Take a step down the gradients.

        Args:
            falling: last part of the run in which the learning rate falls, from 0 to 1.
            least: what it falls to, as a share of its height.
            warm_up: steps in which it rises.
        """
        torch.nn.utils.clip_grad_norm_(self.tensors.values(), 1.0)
        warm, left = min(1.0, (self.number + 1) / warm_up), (1 - self.progress) / falling
        for group in self.optimiser.param_groups:
            group["lr"] = self._rate * warm * min(1.0, max(least, left))
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.number += 1

    def kept(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """See `Training`."""
        tensors = {f"weights.{name}": tensor.detach() for name, tensor in self.tensors.items()}
        for name, tensor in self.tensors.items():
            for key, value in self.optimiser.state[tensor].items():
                tensors[f"optimiser.{key}.{name}"] = value
        return tensors, {"number": self.number, "seconds": self.seconds, "base": self.base}

    def load(self) -> dict[str, Any]:
        """Go on from the checkpoint; its other values.

        Raises `SettingsError` for a checkpoint of other weights or sizes.
        """
        state, found = _go_on(self, self.tensors, self.base)
        for name, tensor in self.tensors.items():
            kept = {key.split(".", 2)[1]: value for key, value in found.items() if _is_state_of(name, key)}
            self.optimiser.state[tensor] = {
                key: value.to(tensor.device) if value.dim() else value for key, value in kept.items()
            }
        return state


def _is_state_of(name: str, key: str) -> bool:
    """Whether a tensor of a checkpoint belongs to the optimiser's state of the tensor of this name."""
    return key.startswith("optimiser.") and key.split(".", 2)[2] == name


class MuonTraining(Training[Step]):
    """Trains parameters next to or within frozen weights, by Muon and Adam.

    Args:
        length: of the run.
        folder: where the run is kept.
        learning: the parameters, by name.
        optimiser: of these.
        base: fingerprint of the frozen weights.
    """

    def __init__(
        self, length: Length, folder: Path, learning: Mapping[str, Tensor], optimiser: Optimiser, *, base: str
    ) -> None:
        super().__init__(length, folder)
        self.learning, self.optimiser, self.base = learning, optimiser, base

    def kept(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """See `Training`."""
        tensors = {f"weights.{name}": parameter.detach() for name, parameter in self.learning.items()}
        tensors |= {f"optimiser.{name}": tensor for name, tensor in self.optimiser.state.items()}
        return tensors, {"number": self.number, "seconds": self.seconds, "base": self.base}

    def load(self) -> dict[str, Any]:
        """Go on from the checkpoint; its other values.

        Raises `SettingsError` for a checkpoint of other weights or sizes.
        """
        state, found = _go_on(self, self.learning, self.base)
        self.optimiser.load({name[10:]: tensor for name, tensor in found.items() if name.startswith("optimiser.")})
        return state


def _go_on(run: Training[Any], own: Mapping[str, Tensor], base: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the checkpoint of a run into its parameters, and what else it holds.

    Raises `SettingsError` for one of other weights or sizes.
    """
    state, found = read_state(run.checkpoint), load_file(run.checkpoint)
    shapes = {name: found.get(f"weights.{name}", torch.empty(0)).shape for name in own}
    if state["base"] != base or any(shapes[name] != own[name].shape for name in own):
        raise SettingsError(
            f"{run.checkpoint} belongs to other weights, or to a run of other sizes. Start anew with --fresh, or "
            "choose another --folder."
        )
    for name, tensor in own.items():
        tensor.data.copy_(found[f"weights.{name}"])
    run.number, run.seconds = int(state["number"]), float(state["seconds"])
    return state, found


def read_state(checkpoint: Path) -> dict[str, Any]:
    """The values of a checkpoint that are not tensors."""
    with safe_open(checkpoint, framework="pt") as file:
        state: dict[str, Any] = json.loads(file.metadata()["state"])
    return state


def llama_forward(model: LoadedModel) -> LlamaForward:
    """The forward that gradients go through. Raises `SettingsError` for a model that can have no adapter."""
    from stretto.local_engine.model.forward.llama import LlamaForward  # noqa: PLC0415 - other runs need no engine

    if not (isinstance(model.forward, LlamaForward) and model.forward.family.is_llama):
        raise SettingsError(
            f"{model.name} cannot have an adapter: it is no Llama, Mistral, Qwen 2 or 3 or Phi-3. Choose another one."
        )
    return model.forward
