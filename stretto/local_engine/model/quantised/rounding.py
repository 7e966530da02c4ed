"""Rounds weights to 8 or 4 bits, in groups of 32 inputs with a scale each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stretto.local_engine.kernels.block_kinds import GROUP, block_kind
from stretto.local_engine.kernels.block_layout import Numbers

WIDTHS = {"int8": 8, "int4": 4}
"""Bits of a code, by the option's value."""

_TRIED = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75)  # fractions of the largest scale, of which the best is taken
_PIECE = 2**20  # numbers that are rounded together


def rounded_to(how: str, weight: NDArray[np.float32]) -> Numbers:
    """Round a weight # [outer, inner]; raises ValueError if groups do not fill the inputs."""
    outer, inner = weight.shape
    if inner % GROUP:
        raise ValueError(f"{inner} inputs are not groups of {GROUP}")
    kind = block_kind(WIDTHS[how])
    codes, scales = np.empty((outer, inner), np.uint8), np.empty((outer, inner // GROUP), np.float16)
    step = max(1, _PIECE // inner)
    for begin in range(0, outer, step):
        groups = weight[begin : begin + step].reshape(-1, GROUP)
        own, of_groups = _to_eight(groups) if how == "int8" else _to_four(groups)
        codes[begin : begin + step] = own.reshape(-1, inner)
        scales[begin : begin + step] = of_groups.reshape(-1, inner // GROUP)
    return Numbers(kind, codes, scales)


def _to_eight(groups: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    scales = (np.abs(groups).max(1, keepdims=True) / 127).astype(np.float16)
    return np.clip(np.rint(_divided(groups, scales)), -127, 127).astype(np.int8).view(np.uint8), scales


def _to_four(groups: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    """Return codes from 0 to 15, with 8 for zero, and the scale of those tried with the smallest squared error.

    The number farthest from 0 gets the code 0, which has one more step than 15: so a scale can be negative.
    """
    places = np.abs(groups).argmax(1)[:, None]
    most = np.take_along_axis(groups, places, 1) / -8
    best = np.full_like(most, np.inf)
    codes, scales = np.zeros_like(groups), most.astype(np.float16)
    for part in _TRIED:
        tried = (most * np.float32(part)).astype(np.float16)
        own = np.clip(np.rint(_divided(groups, tried)) + 8, 0, 15)
        error = np.square((own - 8) * tried.astype(np.float32) - groups).sum(1, keepdims=True)
        better = error < best
        best, codes = np.where(better, error, best), np.where(better, own, codes)
        scales = np.where(better, tried, scales)
    return codes.astype(np.uint8), scales


def _divided(groups: NDArray[np.float32], scales: NDArray[np.float16]) -> NDArray[np.float32]:
    wide = scales.astype(np.float32)
    return np.divide(groups, wide, out=np.zeros_like(groups), where=wide != 0)
