"""Keeps what transformers' model says of the texts of the check, so that later loadings need not run it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from stretto.local_engine.model.kept_data import recall, remember

if TYPE_CHECKING:
    from stretto.local_engine.model.acceptance import Expected

__all__ = ["keep", "kept"]

_KIND = "expected"  # 5 MB for a vocabulary of 50,000


def kept(key: str, kind: type[Expected]) -> Expected | None:
    """What is kept for a key; ``kind``: the class that it is made of."""
    for data in recall(_KIND, key):
        with suppress(SafetensorError, KeyError):
            found = load(data)
            count = sum(name.startswith("text ") for name in found)
            return kind(
                texts=[found[f"text {number}"].tolist() for number in range(count)],
                logits=[found[f"logits {number}"] for number in range(count)],
                scale=float(found["scale"]),
                device=torch.device("cpu"),
                vocabulary=int(found["vocabulary"]),
            )
    return None


def keep(key: str, expected: Expected) -> None:
    """Keep it, where a folder can be written to."""
    tensors = {f"text {number}": torch.tensor(text) for number, text in enumerate(expected.texts)}
    tensors |= {f"logits {number}": logits.contiguous() for number, logits in enumerate(expected.logits)}
    tensors |= {
        "scale": torch.tensor(expected.scale, dtype=torch.float64),
        "vocabulary": torch.tensor(expected.vocabulary),
    }
    remember(_KIND, key, save(tensors))
