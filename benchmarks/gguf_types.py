"""Writes GGUF files again with weights of another type.

`gguf` itself writes the plain types. The K types are written here: blocks of 256 numbers in groups of 16 or 32, whose
scales are held in 6 or 8 bits (ggml's ``ggml-common.h``). Each group spans its least and largest number. llama.cpp's
own program searches for better scales, so its files are a little nearer to the original.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

__all__ = ["INSTEAD", "quantised", "rewritten"]

_BLOCK, _GROUP = 256, 32
INSTEAD = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
"""What llama.cpp writes where inputs are not whole blocks of 256, as the 576 of SmolLM2 are not."""

_Floats = NDArray[np.float32]
_Bytes = NDArray[np.uint8]


def rewritten(file: Path, form: str, target: Path) -> Path:
    """Write a GGUF file whose weights are of another type, and its vectors of numbers of float32."""
    reader = gguf.GGUFReader(file)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", "general.file_type"):
            inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], sub_type=inner)
    for tensor in reader.tensors:
        numbers = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        data, kind = quantised(numbers, form if numbers.ndim > 1 else "F32")
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def quantised(numbers: _Floats, form: str) -> tuple[NDArray[Any], gguf.GGMLQuantizationType]:
    """Numbers in a type # [outer, inner] -> [outer, bytes of a row], and the type that was written, see `INSTEAD`."""
    if form in INSTEAD and numbers.shape[1] % _BLOCK:
        form = INSTEAD[form]
    kind = gguf.GGMLQuantizationType[form]
    if form not in INSTEAD:
        return gguf.quantize(numbers, kind), kind
    blocks = numbers.reshape(-1, _BLOCK)
    return (_six(blocks) if form == "Q6_K" else _four_or_five(blocks, kind)).reshape(len(numbers), -1), kind


def _four_or_five(blocks: _Floats, kind: gguf.GGMLQuantizationType) -> _Bytes:
    """Q4_K or Q5_K # [blocks, 256] -> [blocks, 144 or 176]."""
    most = 31 if kind == gguf.GGMLQuantizationType.Q5_K else 15
    groups = blocks.reshape(len(blocks), -1, _GROUP)
    least = np.minimum(groups.min(-1), 0)
    scale, scales = _in_steps((groups.max(-1) - least) / most, 63)
    shift, shifts = _in_steps(-least, 63)
    own, low = (_wide(first) * second for first, second in ((scale, scales), (shift, shifts)))
    codes = _divided(groups + low[..., None], own[..., None], 0, most).astype(np.uint8)
    packed = np.concatenate(
        (
            scales[:, :4] | (scales[:, 4:] >> 4) << 6,
            shifts[:, :4] | (shifts[:, 4:] >> 4) << 6,
            (scales[:, 4:] & 15) | (shifts[:, 4:] & 15) << 4,
        ),
        1,
    )
    pairs = codes.reshape(len(blocks), 4, 2, _GROUP)
    low_bits = ((pairs[:, :, 0] & 15) | (pairs[:, :, 1] & 15) << 4).reshape(len(blocks), -1)
    high = [np.packbits(codes >> 4, axis=1, bitorder="little")[:, 0]] if most > 15 else []
    return np.concatenate((_bytes(scale), _bytes(shift), packed, *high, low_bits), 1)


def _six(blocks: _Floats) -> _Bytes:
    """Q6_K # [blocks, 256] -> [blocks, 210]."""
    groups = blocks.reshape(len(blocks), -1, 16)
    scale, scales = _in_steps(np.abs(groups).max(-1) / 31, 127)
    codes = _divided(groups, (_wide(scale) * scales)[..., None], -32, 31)
    parts = (codes + 32).astype(np.uint8).reshape(len(blocks), 2, 4, 32)  # two halves of four times 32
    low = (parts[:, :, :2] & 15) | (parts[:, :, 2:] & 15) << 4
    moves = np.array([0, 2, 4, 6], np.uint8).reshape(4, 1)
    high = np.bitwise_or.reduce(parts >> 4 << moves, 2)
    sizes = (len(blocks), -1)
    return np.concatenate((low.reshape(sizes), high.reshape(sizes), scales, _bytes(scale)), 1)


def _in_steps(numbers: _Floats, most: int) -> tuple[NDArray[np.float16], _Bytes]:
    """Numbers from 0 on as whole multiples of a float16 # [blocks, groups] -> [blocks, 1] and [blocks, groups]."""
    step = (numbers.max(-1, keepdims=True) / most).astype(np.float16)
    return step, _divided(numbers, _wide(step), 0, most).astype(np.uint8)


def _divided(numbers: _Floats, by: _Floats, least: int, most: int) -> _Floats:
    found: _Floats = np.rint(np.divide(numbers, by, out=np.zeros_like(numbers), where=by != 0))
    return np.clip(found, least, most)


def _wide(halves: NDArray[np.float16]) -> _Floats:
    return halves.astype(np.float32)


def _bytes(halves: NDArray[np.float16]) -> _Bytes:
    return halves.view(np.uint8)
