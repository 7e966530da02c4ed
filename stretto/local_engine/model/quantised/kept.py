"""Keeps what transformers' model says of the texts of the check, so that later loadings need not run it.

It is kept beside compiled code, without code in it, for a file of this name, size and time, and for these versions.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from stretto.local_engine.kernels.store import is_private, stores, writable_store

if TYPE_CHECKING:
    from stretto.local_engine.model.acceptance import Expected

__all__ = ["keep", "kept"]

_PREFIX = "expected-"
_MOST = 32  # models; each takes 5 MB with a vocabulary of 50,000


def kept(key: str, kind: type[Expected]) -> Expected | None:
    """What is kept for a key; ``kind``: the class that it is made of."""
    for store in stores():
        if (data := store.read(_name(key))) is None:
            continue
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
    store = writable_store()
    if store is not None and not is_private(store):
        with suppress(OSError):  # a full disk
            store.write(_name(key), save(tensors))
            every = sorted(store.folder.glob(f"{_PREFIX}*"), key=lambda path: path.stat().st_mtime)
            for old in every[:-_MOST]:
                store.forget(old.name)


def _name(key: str) -> str:
    return f"{_PREFIX}{hashlib.sha256(f'{key} {_versions()}'.encode()).hexdigest()[:20]}.safetensors"


@cache
def _versions() -> str:
    """Of all that the numbers depend on."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return " ".join((digest.hexdigest(), version("torch"), version("transformers")))
