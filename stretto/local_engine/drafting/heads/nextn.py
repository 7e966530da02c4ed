"""Layers for multi-token prediction in GGUF files (llama.cpp's nextn), under transformers' names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stretto.local_engine.model.formats.gguf_header import DamagedFileError, Header, nextn_layers, read_header
from stretto.values.errors import SettingsError

if TYPE_CHECKING:
    from torch import Tensor

_NAMES = {
    "nextn.eh_proj": "eh_proj",
    "nextn.enorm": "enorm",
    "nextn.hnorm": "hnorm",
    "nextn.shared_head_norm": "shared_head.norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_SIZES = {
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
    "context_length": "max_position_embeddings",
}


def holds_layer(file: Path) -> bool:
    """Return whether a GGUF file has such a layer; false for a damaged file, which loading the model reports."""
    try:
        return nextn_layers(read_header(file)) > 0
    except (DamagedFileError, OSError):
        return False


def config_of(file: Path) -> Mapping[str, Any]:
    """Return the sizes of the layer, as in a ``config.json``. Raises `SettingsError` for a damaged file."""
    header = _header(file)
    found = {own: header.metadata.get(f"{header.architecture}.{name}") for name, own in _SIZES.items()}
    return {name: value for name, value in found.items() if value is not None}


def tensors_of(file: Path) -> dict[str, Tensor]:
    """Return the tensors of the first such layer, in float32. Raises `SettingsError` if it is not dense."""
    from stretto.local_engine.model.formats.gguf_tables import read_numbers  # noqa: PLC0415 - torch and transformers

    header = _header(file)
    layer = (header.count("block_count") or 0) - nextn_layers(header)
    wanted: dict[str, str] = {}
    for tensor in header.tensors:
        stem, _, end = tensor.name.removeprefix(f"blk.{layer}.").rpartition(".")
        if not tensor.name.startswith(f"blk.{layer}."):
            continue
        if stem.endswith("_exps"):
            raise SettingsError(
                f"The layer for multi-token prediction in {str(file)!r} has experts, which a head cannot run from a "
                "GGUF file. Load the model from its safetensors, where transformers runs such a layer."
            )
        if stem in _NAMES:
            wanted[tensor.name] = f"layers.{layer}.{_NAMES[stem]}.{end}"
    return {wanted[name]: numbers for name, numbers in read_numbers(header, wanted)}


def _header(file: Path) -> Header:
    try:
        return read_header(file)
    except (DamagedFileError, OSError) as error:
        raise SettingsError(f"The head in {str(file)!r} cannot be read: {error}.") from error
