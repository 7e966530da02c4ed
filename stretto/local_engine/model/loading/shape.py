"""What a model's shape says: its window, how many threads share a step, and what a token keeps."""

from __future__ import annotations

from typing import Any

import torch

from stretto.values.errors import ModelNotFoundError

LONGEST_WINDOW = 2**20
_SHORTEST_WINDOW = 2  # one token of a prompt and one of an answer
_WEIGHTS_PER_THREAD = 2**23


def context_window(name: str, config: Any) -> int:
    """Tokens that a model was trained to read, as its configuration tells. Raises `ModelNotFoundError` for none."""
    for key in ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"):
        if isinstance(window := getattr(config, key, None), int):
            if window < _SHORTEST_WINDOW:
                raise ModelNotFoundError(
                    f"{name} cannot be run: its config.json has {key}={window}, and a prompt with an answer needs "
                    f"{_SHORTEST_WINDOW} or more. Write the window there with which the model was trained.",
                    backend=name,
                )
            return window
    return LONGEST_WINDOW


def threads_of(model: Any) -> int | None:
    """How many threads share a step; for a small model, synchronising them takes longer than reading its weights.

    Compiled code decides for itself, see `stretto.local_engine.kernels.thread_team`.
    """
    if model.device.type != "cpu":
        return None
    weights: int = sum(parameter.numel() for parameter in model.parameters())
    return max(1, min(torch.get_num_threads(), weights // _WEIGHTS_PER_THREAD))


def bytes_per_token(config: Any, dtype: torch.dtype) -> int:
    """Of the keys and values of all layers, which may differ in their heads (Gemma 4)."""
    if getattr(config, "is_heterogeneous", False):
        layers = [config.per_layer_config[number] for number in range(config.num_hidden_layers)]
    else:
        layers = [config] * config.num_hidden_layers
    return sum(map(_width, layers)) * 2 * dtype.itemsize


def _width(layer: Any) -> int:
    """Numbers in the keys of a token in one layer."""
    heads: int = layer.num_attention_heads
    head_dim: int = getattr(layer, "head_dim", None) or layer.hidden_size // heads
    return (getattr(layer, "num_key_value_heads", None) or heads) * head_dim
