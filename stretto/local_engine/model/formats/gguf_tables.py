"""Reads the model of a GGUF file with transformers' tables, one tensor after the other.

The tables map the names of weights and the fields of a configuration. transformers does not read the file itself: that
takes three times the memory of the weights, and reads the vocabulary three times. Here the weights are unpacked into
their final type, the large ones in pieces.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import transformers

from stretto.local_engine.model.formats.gguf_fields import llamacpp_offer
from stretto.local_engine.model.formats.gguf_header import ARCHITECTURES, Header, TensorEntry, nextn_layers
from stretto.local_engine.model.formats.gguf_tensors import (
    ROTARY,
    TABLES,
    mapped,
    numbers_of,
    rotary_factors,
    stored_blocks,
    unpacked_table,
)
from stretto.local_engine.model.forward.llama_family import is_llama_like
from stretto.local_engine.model.loading.fitting import check_room
from stretto.local_engine.model.loading.source import Source
from stretto.local_engine.model.quantised.quantisation import PRODUCTS, StoredBlocks, fill_blocks, hollow_weight

_log = logging.getLogger(__name__)

_UNUSED = frozenset({ROTARY})  # tensors that are not weights
_LARGEST_GEMMA3 = 62  # layers; its queries are scaled by the width of a head that it does not have


def read_by_tables(
    source: Source, header: Header, dtype: torch.dtype, *, blocks: bool
) -> tuple[Any, dict[str, Any], StoredBlocks[TensorEntry] | None]:
    """Read a model, misfits of its weights, and the reader of its blocks; see `read_gguf` of ``gguf_file.py``."""
    config, hollow = _hollow(header)
    stored = _stored(source, header, config, hollow) if blocks else None
    if blocks and stored is None:
        check_room(source, dtype, torch.device("cpu"))
    weights = dict(_weights(header, config, hollow, torch.float32 if stored else dtype, stored))
    if any((found := misfits(weights, hollow)).values()):
        return None, found, None
    if stored is None:
        model = type(hollow).from_pretrained(None, config=config, state_dict=weights, dtype=dtype)
    else:
        model = _filled(hollow, config, weights)
        stored.belong_to(model)
    _scale_rotary(source, header, model)
    return model, found, stored


def in_transformers(source: Source, header: Header, weights: Mapping[str, torch.Tensor]) -> Any:
    """Return a model in transformers' code whose products are stored elsewhere; ``weights``: the others."""
    config, hollow = _hollow(header)
    products = {
        name: hollow_weight(place.shape, torch.float32)
        for name, place in hollow.state_dict().items()
        if name.endswith(PRODUCTS)
    }
    model = _filled(hollow, config, {**weights, **products})
    _scale_rotary(source, header, model)
    return model.eval().requires_grad_(requires_grad=False)


def _hollow(header: Header) -> tuple[Any, Any]:
    """Return the configuration, and the model without weights."""
    config = _config(header)
    kind: Any = transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    with torch.device("meta"):
        return config, kind(config)


def read_numbers(header: Header, names: Collection[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """Read some tensors in float32, with their lines in transformers' order."""
    heads = {"num_attention_heads": "head_count", "num_key_value_heads": "head_count_kv"}
    counts = {name: header.count(f"attention.{own}") for name, own in heads.items()}
    processor, data = _processor(header, counts), mapped(header)
    for tensor in header.tensors:
        if tensor.name in names:
            made = processor.process(weights=numbers_of(header, tensor, data), name=tensor.name)
            yield tensor.name, torch.from_numpy(np.ascontiguousarray(made.weights))


def _stored(source: Source, header: Header, config: Any, hollow: Any) -> StoredBlocks[TensorEntry] | None:
    """Return the reader of weights as stored; ``None``, with one warning, if they have to be unpacked."""
    processor = _processor(header, config.to_dict())
    names = _names(header, processor, hollow)
    tensors = {names[tensor.name]: tensor for tensor in header.tensors if tensor.name in names}

    def in_order(tensor: TensorEntry, rows: Any) -> Any:
        return processor.process(weights=rows, name=tensor.name).weights

    products = {name: tensor for name, tensor in tensors.items() if name.endswith(PRODUCTS)}
    stored = stored_blocks(source, header, products, in_order)
    if stored is not None and not (is_llama_like(hollow) and fill_blocks(hollow)):
        kind = type(hollow).__name__
        _log.warning(
            "%s is unpacked: compiled code does not run %s. %s", source.name, kind, llamacpp_offer(header.path)
        )
        return None
    return stored


def _filled(hollow: Any, config: Any, weights: Mapping[str, torch.Tensor]) -> Any:
    """Fill the model with these weights. Buffers computed at its creation are computed again: they had no memory."""
    hollow.load_state_dict(weights, strict=False, assign=True)
    if config.tie_word_embeddings:
        hollow.lm_head.weight = hollow.model.embed_tokens.weight
    hollow.model.rotary_emb = type(hollow.model.rotary_emb)(config=config)
    embedding = hollow.model.embed_tokens
    if hasattr(embedding, "scalar_embed_scale"):  # Gemma
        embedding.embed_scale = torch.tensor(embedding.scalar_embed_scale)
    return hollow


def misfits(weights: Mapping[str, torch.Tensor], hollow: Any) -> dict[str, Any]:
    """Return weights without a place, of another size or missing, in transformers' form."""
    places = {name: place.shape for name, place in hollow.state_dict().items()}
    if hollow.config.tie_word_embeddings:
        places.pop("lm_head.weight", None)
    return {
        "mismatched_keys": [
            (name, weight.shape, places[name])
            for name, weight in weights.items()
            if name in places and weight.shape != places[name]
        ],
        "missing_keys": places.keys() - weights.keys(),
        "unexpected_keys": weights.keys() - places.keys(),
    }


def _config(header: Header) -> Any:
    """Build the transformers configuration with its tables."""
    from transformers.integrations.ggml import (  # noqa: PLC0415 - not part of its public API; only GGUF needs it
        GGUF_CONFIG_DEFAULTS_MAPPING,
        GGUF_CONFIG_MAPPING,
    )

    name = ARCHITECTURES[header.architecture]
    table: Mapping[str, Any] = GGUF_CONFIG_MAPPING[name]  # type: ignore[assignment]  # untyped in transformers
    fields: dict[str, Any] = dict(GGUF_CONFIG_DEFAULTS_MAPPING.get(name, {}))
    for key, renamed in table.items():
        value = header.metadata.get(f"{header.architecture}.{key}")
        if renamed not in (None, -1) and value is not None:
            fields[renamed] = value
    if extra := nextn_layers(header):
        fields["num_hidden_layers"] -= extra
    if (width := header.count("attention.key_length")) is not None:
        fields["head_dim"] = width  # not in the tables of all families
    fields["tie_word_embeddings"] = all(tensor.name != "output.weight" for tensor in header.tensors)
    rows = (tensor.shape[0] for tensor in header.tensors if tensor.name == "token_embd.weight")
    fields["vocab_size"] = next(rows, 0)  # the list of tokens can be shorter
    for renamed in ("bos", "eos", "unknown", "padding"):
        token = header.metadata.get(f"tokenizer.ggml.{renamed}_token_id")
        fields[f"{ {'unknown': 'unk', 'padding': 'pad'}.get(renamed, renamed) }_token_id"] = token
    if name == "gemma3":
        _complete_gemma3(header, fields)
    elif (factor := _factor(header)) != 1:
        fields["rope_scaling"] = {"rope_type": "linear", "factor": factor}
    return transformers.AutoConfig.for_model("gemma3_text" if name == "gemma3" else name, **fields)


def _complete_gemma3(header: Header, fields: dict[str, Any]) -> None:
    """Add what transformers' table leaves out."""
    head = fields.get("head_dim", 256)
    if fields.get("num_hidden_layers") == _LARGEST_GEMMA3:
        head = fields["hidden_size"] // fields["num_attention_heads"]
    fields["query_pre_attn_scalar"] = head
    theta = fields.pop("rope_theta", 1e6)
    whole: dict[str, Any] = {"rope_type": "default", "rope_theta": theta}
    if (factor := _factor(header)) != 1:
        whole |= {"rope_type": "linear", "factor": factor}
    fields["rope_parameters"] = {
        "full_attention": whole,
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    }


def _factor(header: Header) -> float:
    if header.metadata.get(f"{header.architecture}.rope.scaling.type") != "linear":
        return 1.0
    found = header.metadata.get(f"{header.architecture}.rope.scaling.factor", 1.0)
    return float(found) or 1.0


def _processor(header: Header, config: Mapping[str, Any]) -> Any:
    """Return the processor that puts the weights of an architecture in transformers' order."""
    from transformers.modeling_gguf_pytorch_utils import (  # noqa: PLC0415 - not part of its public API
        TENSOR_PROCESSORS,
        TensorProcessor,
    )

    kind: Any = TENSOR_PROCESSORS.get(header.architecture, TensorProcessor)
    return kind(config=config)


def _weights(
    header: Header, config: Any, hollow: Any, dtype: torch.dtype, stored: StoredBlocks[TensorEntry] | None
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield weights by transformers' names, in their final type; for ``stored`` ones, only the shape.

    ``hollow``: the model without weights.
    """
    processor = _processor(header, config.to_dict())
    names = _names(header, processor, hollow)
    last, extra = header.count("block_count") or 0, nextn_layers(header)
    extra_layers = tuple(f"blk.{number}." for number in range(last - extra, last))  # a draft head may read them
    joined: dict[str, dict[str, torch.Tensor]] = {"tensors": {}}  # experts, which the processor joins
    data = mapped(header)
    for tensor in header.tensors:
        name = names.get(tensor.name)
        if name is not None and stored is not None and name in stored:
            yield name, hollow_weight(tensor.shape, dtype)
            continue
        if name is not None and tensor.name in TABLES:
            yield name, unpacked_table(header, tensor, data, dtype)
            continue
        if tensor.name in _UNUSED or tensor.name.startswith(extra_layers):
            continue
        result = processor.process(
            weights=numbers_of(header, tensor, data),
            name=tensor.name,
            tensor_key_mapping=names,
            parsed_parameters=joined,
        )
        if result.name is not None:
            # A name without a place is reported as one that the model does not have.
            yield names.get(result.name, result.name), torch.from_numpy(np.ascontiguousarray(result.weights)).to(dtype)
    for name, weight in joined["tensors"].items():
        yield name, weight.to(dtype)


def _names(header: Header, processor: Any, hollow: Any) -> Mapping[str, str]:
    """Return transformers' names of weights by ggml's; its own function rebuilds gguf's table for each module."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map  # noqa: PLC0415 - an optional dependency

    architecture = next(number for number, name in MODEL_ARCH_NAMES.items() if name == header.architecture)
    table = get_tensor_name_map(architecture, header.count("block_count") or 0)
    names: dict[str, str] = {}
    for full in hollow.state_dict():
        stem, dot, end = processor.preprocess_name(full).rpartition(".")
        stem, suffix = (stem, dot + end) if end in ("weight", "bias") else (f"{stem}{dot}{end}", "")
        if (found := table.get_name(stem)) is None:
            processor.perform_fallback_tensor_mapping(names, suffix, "", full)
        else:
            names[f"{found}{suffix}"] = full
    return names


def _scale_rotary(source: Source, header: Header, model: Any) -> None:
    """Divide the frequencies of positions by the factors in the file."""
    factors = rotary_factors(source, header)
    if factors is None:
        return
    rotary = model.model.rotary_emb
    for name in ("inv_freq", "original_inv_freq"):
        if isinstance(known := getattr(rotary, name, None), torch.Tensor):
            setattr(rotary, name, known / factors.to(known))
