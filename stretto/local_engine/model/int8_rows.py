"""Weights that are stored as whole numbers with one scale a row, to be half as large on a disk; read as floats.

``config.json`` says ``"stored_as": "int8_rows"``. Beside a matrix NAME in int8 # [rows, columns] stands NAME.scale in
float16 # [rows]; what has no scale is stored as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

__all__ = ["STORED_AS", "read_int8_rows", "to_int8_rows"]

STORED_AS = "int8_rows"
_SCALE = ".scale"


def read_int8_rows(file: Path) -> dict[str, Tensor]:
    """The weights of a file, in single precision.

    Raises what safetensors raises, and `ValueError` for a scale that fits no matrix.
    """
    found = load_file(file)
    scales = {name.removesuffix(_SCALE): found.pop(name) for name in list(found) if name.endswith(_SCALE)}
    for name, scale in scales.items():
        matrix = found.get(name)
        if matrix is None or matrix.dtype != torch.int8 or scale.shape != matrix.shape[:1]:
            raise ValueError(f"{name}{_SCALE} fits no matrix in {file.name}")
        found[name] = matrix.float() * scale.float()[:, None]
    return {name: tensor.float() for name, tensor in found.items()}


def to_int8_rows(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same weights as they are stored; each number is off by half a step of its row at most."""
    stored: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if tensor.ndim != 2:
            stored[name] = tensor.half()
            continue
        scale = (tensor.float().abs().amax(1).clamp(min=1e-8) / 127).half()
        codes = (tensor.float() / scale.float()[:, None]).round().clamp(-127, 127)
        stored[name], stored[name + _SCALE] = codes.to(torch.int8), scale
    return stored
