"""Llama-family models in a GGUF file whose products stay in blocks, without transformers' modelling code.

Importing that takes longer than importing torch. It would only be needed for the sizes, the names of the weights and
the frequencies of the positions. A file with anything else is left to transformers' tables, and so is the model that a
forward is compared with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module, ModuleList, Parameter

from stretto.local_engine.model.formats.gguf_header import Header, TensorEntry, nextn_layers
from stretto.local_engine.model.formats.gguf_tensors import (
    ROTARY,
    can_stay_stored,
    mapped,
    numbers_of,
    rotary_factors,
    stored_blocks,
)
from stretto.local_engine.model.loading.source import Source
from stretto.local_engine.model.quantised.quantisation import PRODUCTS, StoredBlocks, fill_blocks, hollow_weight

_TURNED = "llama"  # llama.cpp's converter reorders the lines of its queries and keys
_BIASED, _NORMED = "qwen2", "qwen3"
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
"""Transformers' names of modules by ggml's."""

_NUMBERED = re.compile(r"blk\.(\d+)\.(.+)")


class Plain(NamedTuple):
    """A model, and the reader of its blocks."""

    model: PlainModel
    stored: StoredBlocks[TensorEntry]


@dataclass(frozen=True, slots=True)
class _Config:
    """The configuration of these models, with the field names of transformers."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float
    eos_token_id: int | None
    tie_word_embeddings: bool

    def get_text_config(self, *, decoder: bool) -> _Config:  # noqa: ARG002 - it is both
        """Return the configuration of the decoder."""
        return self

    def shapes(self, architecture: str) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the weights by name."""
        heads, stored = (count * self.head_dim for count in (self.num_attention_heads, self.num_key_value_heads))
        hidden, inner = self.hidden_size, self.intermediate_size
        layer: dict[str, tuple[int, ...]] = {
            "input_layernorm.weight": (hidden,),
            "self_attn.q_proj.weight": (heads, hidden),
            "self_attn.k_proj.weight": (stored, hidden),
            "self_attn.v_proj.weight": (stored, hidden),
            "self_attn.o_proj.weight": (hidden, heads),
            "post_attention_layernorm.weight": (hidden,),
            "mlp.gate_proj.weight": (inner, hidden),
            "mlp.up_proj.weight": (inner, hidden),
            "mlp.down_proj.weight": (hidden, inner),
        }
        if architecture == _BIASED:
            layer |= {
                f"self_attn.{name}_proj.bias": (size,)
                for name, size in zip("qkv", (heads, stored, stored), strict=True)
            }
        if architecture == _NORMED:
            layer |= {f"self_attn.{name}_norm.weight": (self.head_dim,) for name in "qk"}
        whole: dict[str, tuple[int, ...]] = {
            "model.embed_tokens.weight": (self.vocab_size, hidden),
            "model.norm.weight": (hidden,),
        }
        if not self.tie_word_embeddings:
            whole["lm_head.weight"] = (self.vocab_size, hidden)
        layers = range(self.num_hidden_layers)
        return whole | {f"model.layers.{number}.{name}": shape for number in layers for name, shape in layer.items()}


class PlainModel(Module):
    """The weights of a model under transformers' names, except those stored in blocks. It cannot run.

    Args:
        source: its file.
        header: the header of the file.
        config: its sizes.
        weights: by name; those of products are hollow.
    """

    model: Any
    lm_head: Any

    def __init__(self, source: Source, header: Header, config: _Config, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.config, self.generation_config = config, SimpleNamespace()
        self._source, self._header = source, header
        width = config.head_dim
        inner: Any = Module()
        inner.layers = ModuleList(Module() for _ in range(config.num_hidden_layers))
        self.model = inner
        for name, weight in weights.items():
            _put(self, name, weight)
        if config.tie_word_embeddings:
            self.lm_head = Module()
            self.lm_head.weight = inner.embed_tokens.weight
        for layer in inner.layers:
            layer.self_attn.head_dim, layer.self_attn.scaling = width, width**-0.5
            for module in (*layer.self_attn.children(), *layer.mlp.children()):
                module.out_features = len(module.weight)
                if not hasattr(module, "bias"):
                    module.bias = None
        frequencies = 1.0 / (config.rope_theta ** (torch.arange(0, width, 2, dtype=torch.float) / width))
        if (factors := rotary_factors(source, header)) is not None:
            frequencies = frequencies / factors
        inner.rotary_emb = Module()
        inner.rotary_emb.inv_freq, inner.rotary_emb.attention_scaling = frequencies, 1.0

    @property
    def device(self) -> torch.device:
        return torch.device(self.model.norm.weight.device)

    @property
    def dtype(self) -> torch.dtype:
        own: torch.dtype = self.model.norm.weight.dtype
        return own

    def in_transformers(self) -> Any:
        """Return the same model in transformers' code, which can run once its products are provided."""
        from stretto.local_engine.model.formats.gguf_tables import in_transformers  # noqa: PLC0415 - slow

        own = {name: each.detach() for name, each in self.named_parameters() if not name.endswith(PRODUCTS)}
        return in_transformers(self._source, self._header, own)


def read_plain(source: Source, header: Header) -> Plain | None:
    """Read a model; ``None`` if transformers' tables are needed."""
    config = _config(header)
    if config is None or nextn_layers(header):
        return None
    tensors = {name: each for each in header.tensors if (name := _name(each.name)) is not None}
    others = {each.name for each in header.tensors} - {each.name for each in tensors.values()} - {ROTARY}
    shapes = config.shapes(header.architecture)
    if others or {name: each.shape for name, each in tensors.items()} != shapes:
        return None
    counts = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}

    def in_order(tensor: TensorEntry, rows: Any) -> Any:
        heads = counts.get(tensor.name.split(".")[-2]) if header.architecture == _TURNED else None
        return rows if heads is None else _turned_back(rows, heads)

    products = {name: each for name, each in tensors.items() if name.endswith(PRODUCTS)}
    if not can_stay_stored(products.values()):
        return None
    stored = stored_blocks(source, header, products, in_order)
    if stored is None:
        return None
    weights = dict(_weights(header, tensors, stored))
    model = PlainModel(source, header, config, weights)
    if not fill_blocks(model):
        return None
    stored.belong_to(model)
    return Plain(model, stored)


def _weights(
    header: Header, tensors: Mapping[str, TensorEntry], stored: StoredBlocks[TensorEntry]
) -> Iterator[tuple[str, Tensor]]:
    data = mapped(header)
    for name, tensor in tensors.items():
        if name in stored:
            yield name, hollow_weight(tensor.shape, torch.float32)
        else:
            yield name, torch.from_numpy(numbers_of(header, tensor, data))


def _put(root: Module, name: str, weight: Tensor) -> None:
    """Set a weight at the place given by its name."""
    *modules, last = name.split(".")
    at = root
    for each in modules:
        if not hasattr(at, each):
            setattr(at, each, Module())
        at = getattr(at, each)
    setattr(at, last, Parameter(weight, requires_grad=False))


def _turned_back(rows: Any, heads: int) -> Any:
    """Restore transformers' order of lines: llama.cpp rotates neighbouring pairs, transformers the halves of a head."""
    pairs = rows.reshape(heads, len(rows) // heads // 2, 2, *rows.shape[1:])
    return pairs.swapaxes(2, 1).reshape(rows.shape)


def _name(name: str) -> str | None:
    """Return transformers' name of a tensor; ``None`` for one that these models do not have."""
    stem, _, end = name.rpartition(".")
    if (found := _NUMBERED.fullmatch(stem)) is not None:
        module = _LAYER.get(found[2])
        return None if module is None else f"model.layers.{found[1]}.{module}.{end}"
    return f"{_WHOLE[stem]}.{end}" if stem in _WHOLE else None


def _config(header: Header) -> _Config | None:
    """Return the sizes; ``None`` if the file lacks some, or has settings that these models do not have."""
    if header.architecture not in (_TURNED, _BIASED, _NORMED):
        return None
    metadata = header.metadata.get
    heads, hidden = header.count("attention.head_count"), header.count("embedding_length")
    head = header.count("attention.key_length")
    if head is None and header.architecture == _TURNED:
        head = header.count("rope.dimension_count")
    if head is None and header.architecture != _NORMED and heads and hidden:
        head = hidden // heads
    found = {
        "hidden_size": hidden,
        "num_hidden_layers": header.count("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": header.count("attention.head_count_kv"),
        "head_dim": head,
        "intermediate_size": header.count("feed_forward_length"),
        "vocab_size": next((each.shape[0] for each in header.tensors if each.name == "token_embd.weight"), None),
        "max_position_embeddings": header.context_window,
        "rms_norm_eps": metadata(f"{header.architecture}.attention.layer_norm_rms_epsilon"),
        "rope_theta": metadata(f"{header.architecture}.rope.freq_base"),
    }
    if metadata(f"{header.architecture}.rope.scaling.type", "none") != "none" or None in found.values():
        return None
    tied = all(tensor.name != "output.weight" for tensor in header.tensors)
    sizes: dict[str, Any] = found
    return _Config(**sizes, eos_token_id=metadata("tokenizer.ggml.eos_token_id"), tie_word_embeddings=tied)
