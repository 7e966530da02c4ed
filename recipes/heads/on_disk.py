"""Writes a head as the engine reads it."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from recipes.heads.network import Head
from recipes.heads.target import Target

__all__ = ["write_head"]


def write_head(folder: Path, target: Target, base: str, head: Head) -> None:
    """Write weights in float16 and ``config.json``, completely or not at all.

    A small vocabulary is given by ``d2t``, what is added to a word's number in it for its token, and ``t2d``, which
    tokens are in it. The SHA-256 of the model's weights is written next to them.
    """
    tensors, config = head.exported()
    vocabulary, words = len(target.output), head.words
    tensors = {name: tensor.to(torch.float16).cpu().contiguous() for name, tensor in tensors.items()}
    if len(words) < vocabulary:
        inside = torch.zeros(vocabulary, dtype=torch.bool)
        inside[words.cpu()] = True
        tensors |= {"d2t": words.cpu() - torch.arange(len(words)), "t2d": inside}
    sizes: dict[str, object] = {
        "hidden_size": target.hidden,
        "vocab_size": vocabulary,
        "draft_vocab_size": len(words),
        "dtype": "float16",
        "verifier_sha256": base,
    }
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / "model.new"
    save_file(tensors, new, metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({**config, **sizes}, indent=1) + "\n", encoding="utf-8")
    new.replace(folder / "model.safetensors")
