"""Messages between the engine's process and those that hold the model: JSON, and tensors as they are in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import FileIO
from math import prod
from typing import Any

import torch
from torch import Tensor

__all__ = ["Message", "receive", "send"]

Message = tuple[dict[str, Any], dict[str, Tensor]]

_LENGTH = 8  # bytes of the length of the JSON
_TYPES = {
    str(kind).removeprefix("torch."): kind
    for kind in (torch.int64, torch.bool, torch.float64, torch.float32, torch.bfloat16, torch.float16)
}


def send(pipe: FileIO, said: Mapping[str, Any], tensors: Mapping[str, Tensor] | None = None) -> None:
    """Write one message. Tensors are on the CPU. Raises `OSError` where nobody reads it."""
    held = {name: tensor.contiguous() for name, tensor in (tensors or {}).items()}
    shapes = [[name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape)] for name, tensor in held.items()]
    head = json.dumps([said, shapes]).encode()
    _write(pipe, memoryview(len(head).to_bytes(_LENGTH, "little") + head))
    for tensor in held.values():
        if tensor.numel():
            _write(pipe, tensor.flatten().view(torch.uint8).numpy().data)


def receive(pipe: FileIO) -> Message:
    """Read one message. Raises `EOFError` where the other side has ended."""
    head = _read(pipe, bytearray(int.from_bytes(_read(pipe, bytearray(_LENGTH)), "little")))
    said, shapes = json.loads(head)
    tensors = {}
    for name, kind, shape in shapes:
        dtype = _TYPES[kind]
        size = prod(shape) * dtype.itemsize
        data = _read(pipe, bytearray(size))
        tensors[name] = (torch.frombuffer(data, dtype=dtype) if size else torch.empty(0, dtype=dtype)).view(shape)
    return said, tensors


def _write(pipe: FileIO, data: memoryview) -> None:
    while data:
        data = data[pipe.write(data) or 0 :]


def _read(pipe: FileIO, data: bytearray) -> bytearray:
    left = memoryview(data)
    while left:
        count = pipe.readinto(left)
        if not count:
            raise EOFError
        left = left[count:]
    return data
