"""Texts laid out in rows of one length, several after one another, so that every batch has the same shape.

A text sees itself only. What is learned is given by a weight for each token; prompts have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Arrays", "Text", "causal", "pack", "same_text", "scores"]

Arrays = Mapping[str, NDArray[Any]]
"""One batch by name, as other processes hand it over # [rows, length] each."""

_MISSES = 6


@dataclass(frozen=True)
class Text:
    """One example in tokens.

    Attributes:
        tokens: of prompt and answer.
        learned: place of the answer's first token.
        weight: how much one of its tokens counts.
    """

    tokens: tuple[int, ...]
    learned: int
    weight: float = 1.0


def pack(drawn: Iterator[Text], rows: int, length: int, *, misses: int = _MISSES) -> Arrays:
    """Put texts into rows until there is no place for ``misses`` of them, or no text is left.

    Returns ``tokens``, their ``positions`` in the text, which ``text`` of the row it is (-1: none), and ``weights``.
    """
    shape = (rows, length)
    tokens, positions = np.zeros(shape, np.int16), np.zeros(shape, np.int16)
    owners, weights = np.full(shape, -1, np.int16), np.zeros(shape, np.float32)
    filled, count = [0] * rows, [0] * rows
    for each in drawn:
        size = len(each.tokens)
        row = next((row for row, used in enumerate(filled) if used + size <= length), None)
        if row is None:
            misses -= 1
            if misses <= 0:
                break
            continue
        place = slice(filled[row], filled[row] + size)
        tokens[row, place], positions[row, place], owners[row, place] = each.tokens, np.arange(size), count[row]
        weights[row, place.start + each.learned : place.stop] = each.weight
        filled[row] += size
        count[row] += 1
    return {"tokens": tokens, "positions": positions, "texts": owners, "weights": weights}


def same_text(texts: Tensor) -> Tensor:
    """Whether two places of a row belong to one text # [rows, length] -> [rows, length, length]."""
    return (texts[:, :, None] == texts[:, None, :]) & (texts >= 0)[:, :, None]


def causal(texts: Tensor) -> Tensor:
    """What each place sees of its text when it sees all before it # [rows, length, length]."""
    size = texts.shape[1]
    return same_text(texts) & torch.ones(size, size, dtype=torch.bool, device=texts.device).tril()


def scores(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added to the attention scores # [rows, queries, keys] -> [rows, 1, queries, keys].

    A place that sees nothing is given its own key, the last keys being those of the queries themselves.
    """
    queries, keys = visible.shape[1:]
    itself = torch.eye(queries, dtype=torch.bool, device=visible.device)
    visible = visible.clone()
    visible[:, :, keys - queries :] |= itself
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, -torch.inf)[:, None]
