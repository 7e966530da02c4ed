"""Unpacks the blocks of GGUF files, without changing a code.

The formats are those of ggml (``ggml-common.h``). Scales of the K formats are a product of two numbers there; here the
product is rounded to float16, with an error of at most 1 part in 2,000.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.kernels.block_kinds import BlockKind, block_kind
from stretto.local_engine.kernels.block_layout import Numbers

_Bytes = NDArray[np.uint8]


def taken_apart(form: str, rows: _Bytes) -> Numbers:
    """Return the numbers of a tensor in one of `FORMS` # [outer, bytes of a row]."""
    size, kind, take = FORMS[form]
    return take(rows.reshape(len(rows), -1, size), kind)


def _halves(blocks: _Bytes, at: int) -> NDArray[np.float16]:
    """Return the float16 at a byte of each block # [outer, blocks]."""
    return np.ascontiguousarray(blocks[..., at : at + 2]).view(np.float16)[..., 0]


def _flat(codes: NDArray[Any]) -> NDArray[Any]:
    return codes.reshape(len(codes), -1)


def _nibbles(packed: _Bytes) -> _Bytes:
    """Return the low halves of some bytes, then the high ones # [..., n] -> [..., 2, n]."""
    return np.stack((packed & 15, packed >> 4), axis=-2)


def _fifth(blocks: _Bytes, at: int) -> _Bytes:
    """Return the fifth bits of 32 codes, in place # [outer, blocks, 32]."""
    bits: _Bytes = np.unpackbits(blocks[..., at : at + 4], axis=-1, bitorder="little")
    return bits << np.uint8(4)


def _q8_0(blocks: _Bytes, kind: BlockKind) -> Numbers:
    return Numbers(kind, _flat(blocks[..., 2:]), _halves(blocks, 0))


def _q4_0(blocks: _Bytes, kind: BlockKind) -> Numbers:
    return Numbers(kind, _flat(_nibbles(blocks[..., 2:])), _halves(blocks, 0))


def _q4_1(blocks: _Bytes, kind: BlockKind) -> Numbers:
    codes = _flat(_nibbles(blocks[..., 4:]))
    return Numbers(kind, codes, _halves(blocks, 0), _halves(blocks, 2))


def _q5_0(blocks: _Bytes, kind: BlockKind) -> Numbers:
    codes = _nibbles(blocks[..., 6:]).reshape(*blocks.shape[:2], 32) | _fifth(blocks, 2)
    return Numbers(kind, _flat(codes), _halves(blocks, 0))


def _q5_1(blocks: _Bytes, kind: BlockKind) -> Numbers:
    codes = _nibbles(blocks[..., 8:]).reshape(*blocks.shape[:2], 32) | _fifth(blocks, 4)
    return Numbers(kind, _flat(codes), _halves(blocks, 0), _halves(blocks, 2))


def _scales_and_minima(blocks: _Bytes) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    """Return those of the eight groups of Q4_K and Q5_K, which are stored in 6 bits # [outer, 8 * blocks]."""
    first, second, third = (blocks[..., at : at + 4] for at in (4, 8, 12))
    scales = np.concatenate((first & 63, (third & 15) | (first >> 6 << 4)), -1)
    minima = np.concatenate((second & 63, (third >> 4) | (second >> 6 << 4)), -1)
    of_scale, of_minimum = (
        _flat(_halves(blocks, at)[..., None].astype(np.float32) * own).astype(np.float16)
        for at, own in ((0, scales), (2, minima))
    )
    return of_scale, -of_minimum


def _q4_k(blocks: _Bytes, kind: BlockKind) -> Numbers:
    codes = _nibbles(blocks[..., 16:].reshape(*blocks.shape[:2], 4, 32))
    return Numbers(kind, _flat(codes), *_scales_and_minima(blocks))


def _q5_k(blocks: _Bytes, kind: BlockKind) -> Numbers:
    codes = _nibbles(blocks[..., 48:].reshape(*blocks.shape[:2], 4, 32))  # [outer, blocks, 4, 2, 32]
    bits = np.arange(8, dtype=np.uint8).reshape(4, 2, 1)
    codes |= (blocks[..., None, None, 16:48] >> bits & 1) << 4
    return Numbers(kind, _flat(codes), *_scales_and_minima(blocks))


def _q6_k(blocks: _Bytes, kind: BlockKind) -> Numbers:
    low = _nibbles(blocks[..., :128].reshape(*blocks.shape[:2], 2, 64)).reshape(*blocks.shape[:2], 2, 4, 32)
    high = blocks[..., 128:192].reshape(*blocks.shape[:2], 2, 1, 32)
    codes = low | (high >> np.array([0, 2, 4, 6], np.uint8).reshape(4, 1) & 3) << 4
    scales = _halves(blocks, 208)[..., None].astype(np.float32) * blocks[..., 192:208].view(np.int8)
    return Numbers(kind, _flat(codes), _flat(scales).astype(np.float16))


class BlockFormat(NamedTuple):
    """A storage format of ggml.

    Attributes:
        size: bytes of a block.
        kind: the format used here.
        take: unpacks blocks.
    """

    size: int
    kind: BlockKind
    take: Callable[[_Bytes, BlockKind], Numbers]


FORMS = {
    "Q8_0": BlockFormat(34, block_kind(8), _q8_0),
    "Q4_0": BlockFormat(18, block_kind(4), _q4_0),
    "Q4_1": BlockFormat(20, block_kind(4, has_minima=True), _q4_1),
    "Q5_0": BlockFormat(22, block_kind(5), _q5_0),
    "Q5_1": BlockFormat(24, block_kind(5, has_minima=True), _q5_1),
    "Q4_K": BlockFormat(144, block_kind(4, has_minima=True), _q4_k),
    "Q5_K": BlockFormat(176, block_kind(5, has_minima=True), _q5_k),
    "Q6_K": BlockFormat(210, block_kind(6), _q6_k),
}
"""Formats by ggml's names."""
