"""Projections trained for candidate positions, and their file, which is stored with the model's weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from stretto.local_engine.model.adapters.adapter_files import read_tensors, write_tensors
from stretto.local_engine.model.formats.differences import packed, unpacked
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.research.focus.changed_layers import LayerChange, ProjectionDelta
from stretto.values.errors import SettingsError

_PARTS = ("query_key_value", "output")


@dataclass(frozen=True, slots=True)
class FocusAdapter:
    """Additions to the frozen projections at candidate positions.

    Attributes:
        layers: one for each layer of the model.
        chunk: maximum number of tokens of a chunk that it was trained for; 0 if unknown.
        appended: maximum number of local tokens after a chunk that it was trained for; 0 if unknown.
    """

    layers: Sequence[LayerChange]
    chunk: int = 0
    appended: int = 0

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors by name."""
        found = {}
        for number, layer in enumerate(self.layers):
            for part in _PARTS:
                change: ProjectionDelta = getattr(layer, part)
                found[f"layers.{number}.{part}.outer"] = change.outer
                if change.inner is not None:
                    found[f"layers.{number}.{part}.inner"] = change.inner
        return found

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], chunk: int = 0, appended: int = 0) -> FocusAdapter:
        """Make an adapter from the result of `tensors`. Raises `KeyError` for a missing tensor."""
        count = 1 + max((int(name.split(".")[1]) for name in tensors if name.startswith("layers.")), default=-1)
        layers = [
            LayerChange(
                *(
                    ProjectionDelta(
                        tensors[f"layers.{number}.{part}.outer"], tensors.get(f"layers.{number}.{part}.inner")
                    )
                    for part in _PARTS
                )
            )
            for number in range(count)
        ]
        return cls(layers, chunk, appended)


def new_tensors(forward: LlamaForward, rank: int | None, seed: int = 1) -> dict[str, Tensor]:
    """Return the initial tensors of an adapter, which adds nothing, in float32, by the names of `FocusAdapter.tensors`.

    Args:
        forward: the model.
        rank: rank of the matrix that is added to a projection; ``None`` for a full matrix, as in the paper.
        seed: seed of the inner matrices.
    """
    generator = torch.Generator().manual_seed(seed)
    (_, hidden, layers), (heads, stored) = forward.sizes, forward.heads
    mixed = heads * forward.head_width
    sizes = {"query_key_value": ((heads + 2 * stored) * forward.head_width, hidden), "output": (hidden, mixed)}
    found = {}
    for number in range(layers):
        for part, (outputs, inputs) in sizes.items():
            name = f"layers.{number}.{part}"
            found[f"{name}.outer"] = torch.zeros(outputs, inputs if rank is None else rank)
            if rank is not None:
                found[f"{name}.inner"] = torch.randn(rank, inputs, generator=generator) / inputs**0.5
    return found


def write_focus(path: Path, adapter: FocusAdapter, base: str) -> None:
    """Write an adapter, with four bits per number and the `fingerprint` of the weights it was trained on."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in adapter.tensors().items():
        tensors[f"{name}.codes"], tensors[f"{name}.scales"] = packed(tensor)
    inner = adapter.layers[0].output.inner
    notes = {"rank": "0" if inner is None else str(len(inner)), "chunk": str(adapter.chunk)}
    write_tensors(path, tensors, base, appended=str(adapter.appended), **notes)


def read_focus(path: Path, base: str, model: str, forward: LlamaForward, device: torch.device) -> FocusAdapter:
    """Read an adapter for the weights with the fingerprint ``base``. Raises `SettingsError`."""
    command = f"python -m recipes.focus.train {model}"
    again = f"Train it again with: {command}"
    if not path.is_file():
        raise SettingsError(f"{model} has no adapter for focus reading: {path} is missing. Train one with: {command}")
    found, notes = read_tensors(path, base, model, purpose="focus reading", again=again)
    try:
        rank, chunk, appended = (int(notes.get(name, 0)) for name in ("rank", "chunk", "appended"))
    except ValueError as error:
        raise SettingsError(f"{path} is no adapter for focus reading: {error}. {again}") from error
    tensors = {}
    for name, expected in new_tensors(forward, rank or None).items():
        codes, scales = found.pop(f"{name}.codes", None), found.pop(f"{name}.scales", None)
        if codes is None or scales is None or len(codes) != len(packed(expected)[0]):
            raise SettingsError(f"{path} does not fit the sizes of {model}. {again} --fresh")
        numbers = unpacked(codes, scales)[: expected.numel()]
        tensors[name] = numbers.view(expected.shape).to(device, forward.dtype)
    if found:
        raise SettingsError(f"{path} does not fit the sizes of {model}. {again} --fresh")
    return FocusAdapter.of(tensors, chunk, appended)
