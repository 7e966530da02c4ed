"""Reads a model and its tokenizer from a GGUF file, one tensor after the other.

The names of weights, the fields of a configuration and the tokenizer are mapped by transformers' tables for GGUF. The
file is not read by transformers: that takes three times the memory of the weights, and the vocabulary is read three
times. Here the weights are unpacked into their final type, the large ones in pieces.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
import transformers

from stretto.local_engine.kernels.block_layout import Numbers
from stretto.local_engine.model.formats.gguf_fields import llamacpp_offer, wrong_field
from stretto.local_engine.model.formats.gguf_header import (
    PLAIN_TYPES,
    DamagedFileError,
    Header,
    TensorEntry,
    check_places,
    nextn_layers,
    read_header,
)
from stretto.local_engine.model.formats.gguf_tokenizer import read_tokenizer
from stretto.local_engine.model.forward.llama_family import is_llama_like
from stretto.local_engine.model.loading.fitting import check_room
from stretto.local_engine.model.loading.kept_data import key_of
from stretto.local_engine.model.loading.source import Source
from stretto.local_engine.model.quantised.quantisation import PRODUCTS, StoredBlocks, fill_blocks, hollow_weight
from stretto.local_engine.model.quantised.stored import FORMS, taken_apart
from stretto.values.errors import MissingDependencyError, ModelNotFoundError

__all__ = ["read_gguf", "read_numbers"]

_log = logging.getLogger(__name__)

_ARCHITECTURES = {
    **{name: name for name in ("llama", "qwen2", "qwen3", "phi3", "gemma2", "gemma3", "starcoder2", "nemotron")},
    "qwen2moe": "qwen2_moe",
    "qwen3moe": "qwen3_moe",
}
"""ggml's names, and those of transformers' tables."""

_KNOWN = "Llama, Mistral, SmolLM, Qwen2, Qwen3, Gemma 2 and 3, Phi-3, StarCoder2 and Nemotron"
_TABLES = frozenset({"token_embd.weight", "output.weight"})
_PIECE = 2**22  # numbers that are unpacked at a time
_ROTARY = "rope_freqs.weight"
_UNUSED = frozenset({_ROTARY})  # of the tensors that have no place among the weights
_LARGEST_GEMMA3 = 62  # layers; its queries are scaled by the width of a head that it does not have


def read_gguf(
    source: Source, dtype: torch.dtype, *, blocks: bool = False
) -> tuple[Any, Any, dict[str, Any], StoredBlocks[TensorEntry] | None]:
    """Read a causal language model and its tokenizer; also what of the weights did not fit, as transformers tells it.

    Without a fit there is no model: memory for the sizes that a damaged head tells would have to be taken.

    Args:
        source: the file.
        dtype: of the weights.
        blocks: leave weights that compiled code can read as they are stored in the file, and return what reads them.
            The others are in float32 then.

    Raises `ModelNotFoundError` for a file that cannot be read and `MissingDependencyError` without gguf.
    """
    assert source.file is not None  # noqa: S101 - the caller has checked; for the type checker
    if find_spec("gguf") is None:
        raise MissingDependencyError(
            f"{source.name} is a GGUF file, and reading it needs gguf. Run: pip install 'stretto[local]'"
        )
    header = _checked(source)
    config = _config(header)
    kind: Any = transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    tokenizer = read_tokenizer(header)
    with torch.device("meta"):
        hollow = kind(config)
    stored = _stored(source, header, config, hollow) if blocks else None
    if blocks and stored is None:
        check_room(source, dtype, torch.device("cpu"))
    weights = dict(_weights(header, config, hollow, torch.float32 if stored else dtype, stored))
    if any((found := _misfits(weights, hollow)).values()):
        return None, tokenizer, found, None
    if stored is None:
        model = kind.from_pretrained(None, config=config, state_dict=weights, dtype=dtype)
    else:
        model = _filled(hollow, config, weights)
        stored.belong_to(model)
    _scale_rotary(source, header, model)
    return model, tokenizer, found, stored


def read_numbers(header: Header, names: Collection[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """Read some tensors in float32, with their lines in transformers' order."""
    heads = {"num_attention_heads": "head_count", "num_key_value_heads": "head_count_kv"}
    counts = {name: header.count(f"attention.{own}") for name, own in heads.items()}
    processor, data = _processor(header, counts), np.memmap(header.path, mode="r", dtype=np.uint8)
    for tensor in header.tensors:
        if tensor.name in names:
            made = processor.process(weights=_numbers(header, tensor, data), name=tensor.name)
            yield tensor.name, torch.from_numpy(np.ascontiguousarray(made.weights))


def _stored(source: Source, header: Header, config: Any, hollow: Any) -> StoredBlocks[TensorEntry] | None:
    """What reads the weights as they are stored; ``None`` where they have to be unpacked, which one warning says."""
    processor = _processor(header, config.to_dict())
    names = _names(header, processor, hollow)
    tensors = {names[tensor.name]: tensor for tensor in header.tensors if tensor.name in names}
    products = {name: tensor for name, tensor in tensors.items() if name.endswith(PRODUCTS)}
    forms = sorted({_form(tensor) for tensor in products.values()})
    if set(forms) <= PLAIN_TYPES:
        return None
    if others := [form for form in forms if form not in FORMS]:
        _log.warning(
            "%s is unpacked: compiled code has no products for these types of weights: %s. %s",
            source.name,
            ", ".join(others),
            llamacpp_offer(header.path),
        )
        return None
    if not (is_llama_like(hollow) and fill_blocks(hollow)):
        kind = type(hollow).__name__
        _log.warning(
            "%s is unpacked: compiled code does not run %s. %s", source.name, kind, llamacpp_offer(header.path)
        )
        return None

    def read(tensor: TensorEntry) -> Callable[[slice], Numbers]:
        form = _form(tensor)

        def mapped() -> Any:  # anew: what was read of it counts as memory as long as it is mapped
            return _rows(header, tensor, np.memmap(header.path, mode="r", dtype=np.uint8))

        if tensor.name in _TABLES:
            return lambda lines: taken_apart(form, np.array(mapped()[lines]))
        # Lines may have to change places, which is the same for blocks
        rows = np.ascontiguousarray(processor.process(weights=np.array(mapped()), name=tensor.name).weights)
        return lambda lines: taken_apart(form, rows[lines])

    return StoredBlocks(products, lambda tensor: FORMS[_form(tensor)].kind, read, key_of(header.path))


def _form(tensor: TensorEntry) -> str:
    from gguf import GGMLQuantizationType  # noqa: PLC0415 - an optional dependency

    return GGMLQuantizationType(tensor.kind).name


def _filled(hollow: Any, config: Any, weights: Mapping[str, torch.Tensor]) -> Any:
    """The model with these weights. What it computes when it is made is computed again: that had no memory."""
    hollow.load_state_dict(weights, strict=False, assign=True)
    if config.tie_word_embeddings:
        hollow.lm_head.weight = hollow.model.embed_tokens.weight
    hollow.model.rotary_emb = type(hollow.model.rotary_emb)(config=config)
    embedding = hollow.model.embed_tokens
    if hasattr(embedding, "scalar_embed_scale"):  # Gemma
        embedding.embed_scale = torch.tensor(embedding.scalar_embed_scale)
    return hollow


def _misfits(weights: Mapping[str, torch.Tensor], hollow: Any) -> dict[str, Any]:
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


def _checked(source: Source) -> Header:
    from gguf import GGML_QUANT_SIZES  # noqa: PLC0415 - an optional dependency

    assert source.file is not None  # noqa: S101 - for the type checker
    try:
        header = read_header(source.file)
        check_places(header, {int(kind): size for kind, size in GGML_QUANT_SIZES.items()}.get)
    except DamagedFileError as error:
        raise _refused(source, f"{error}. Copy or download it again") from None
    if (parts := header.metadata.get("split.count", 1)) != 1:
        raise _refused(
            source, f"it is one of {parts} parts of a model. Join them: llama-gguf-split --merge FIRST WHOLE"
        )
    architecture = header.architecture
    if architecture not in _ARCHITECTURES:
        raise _refused(source, f"its architecture is {architecture[:60]!r}, and known are {_KNOWN}", elsewhere=True)
    if wrong := wrong_field(header):
        raise _refused(source, wrong)
    if scaling := _unknown_scaling(header):
        raise _refused(source, f"its positions are scaled by {scaling!r}, which cannot be read", elsewhere=True)
    return header


def _refused(source: Source, cause: str, *, elsewhere: bool = False) -> ModelNotFoundError:
    instead = f" {llamacpp_offer(source.file)}" if elsewhere and source.file is not None else ""
    return ModelNotFoundError(
        f"The file {str(source.file)!r} could not be loaded: {cause}.{instead}", backend=source.name
    )


def _config(header: Header) -> Any:
    """The configuration of transformers, by its tables."""
    from transformers.integrations.ggml import (  # noqa: PLC0415 - not part of its public face; only GGUF needs it
        GGUF_CONFIG_DEFAULTS_MAPPING,
        GGUF_CONFIG_MAPPING,
    )

    name = _ARCHITECTURES[header.architecture]
    table: Mapping[str, Any] = GGUF_CONFIG_MAPPING[name]  # type: ignore[assignment]  # not typed there
    fields: dict[str, Any] = dict(GGUF_CONFIG_DEFAULTS_MAPPING.get(name, {}))
    for key, renamed in table.items():
        value = header.metadata.get(f"{header.architecture}.{key}")
        if renamed not in (None, -1) and value is not None:
            fields[renamed] = value
    if extra := nextn_layers(header):
        fields["num_hidden_layers"] -= extra
    if (width := header.count("attention.key_length")) is not None:
        fields["head_dim"] = width  # not in the table of each family
    fields["tie_word_embeddings"] = all(tensor.name != "output.weight" for tensor in header.tensors)
    fields["vocab_size"] = _vocabulary(header)
    for renamed in ("bos", "eos", "unknown", "padding"):
        token = header.metadata.get(f"tokenizer.ggml.{renamed}_token_id")
        fields[f"{ {'unknown': 'unk', 'padding': 'pad'}.get(renamed, renamed) }_token_id"] = token
    if name == "gemma3":
        _complete_gemma3(header, fields)
    elif (factor := _factor(header)) != 1:
        fields["rope_scaling"] = {"rope_type": "linear", "factor": factor}
    return transformers.AutoConfig.for_model("gemma3_text" if name == "gemma3" else name, **fields)


def _vocabulary(header: Header) -> int:
    """Rows of the embedding: the list of tokens may be shorter."""
    return next((tensor.shape[0] for tensor in header.tensors if tensor.name == "token_embd.weight"), 0)


def _complete_gemma3(header: Header, fields: dict[str, Any]) -> None:
    """What transformers' table leaves out."""
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


def _unknown_scaling(header: Header) -> str | None:
    """How positions are scaled, where that is not known here."""
    if any(tensor.name.startswith("rope_factors_") for tensor in header.tensors):
        return "longrope"
    kind = header.metadata.get(f"{header.architecture}.rope.scaling.type", "none")
    return None if kind in ("none", "linear") else str(kind)[:60]


def _factor(header: Header) -> float:
    if header.metadata.get(f"{header.architecture}.rope.scaling.type") != "linear":
        return 1.0
    found = header.metadata.get(f"{header.architecture}.rope.scaling.factor", 1.0)
    return float(found) or 1.0


def _processor(header: Header, config: Mapping[str, Any]) -> Any:
    """What puts the weights of an architecture in transformers' order."""
    from transformers.modeling_gguf_pytorch_utils import (  # noqa: PLC0415 - not part of its public face
        TENSOR_PROCESSORS,
        TensorProcessor,
    )

    kind: Any = TENSOR_PROCESSORS.get(header.architecture, TensorProcessor)
    return kind(config=config)


def _weights(
    header: Header, config: Any, hollow: Any, dtype: torch.dtype, stored: StoredBlocks[TensorEntry] | None
) -> Iterator[tuple[str, torch.Tensor]]:
    """Weights by transformers' names, in their final type; of those that are ``stored``, the shape only.

    ``hollow``: the model without weights.
    """
    processor = _processor(header, config.to_dict())
    names = _names(header, processor, hollow)
    last, extra = header.count("block_count") or 0, nextn_layers(header)
    behind = tuple(f"blk.{number}." for number in range(last - extra, last))  # a head may read them
    joined: dict[str, dict[str, torch.Tensor]] = {"tensors": {}}  # experts, which the processor puts together
    data = np.memmap(header.path, mode="r", dtype=np.uint8)
    for tensor in header.tensors:
        name = names.get(tensor.name)
        if name is not None and stored is not None and name in stored:
            yield name, hollow_weight(tensor.shape, dtype)
            continue
        if name is not None and tensor.name in _TABLES:
            yield name, _unpacked(header, tensor, data, dtype)
            continue
        if tensor.name in _UNUSED or tensor.name.startswith(behind):
            continue
        result = processor.process(
            weights=_numbers(header, tensor, data),
            name=tensor.name,
            tensor_key_mapping=names,
            parsed_parameters=joined,
        )
        if result.name is not None:
            # A name without a place is told as one that the model does not have.
            yield names.get(result.name, result.name), torch.from_numpy(np.ascontiguousarray(result.weights)).to(dtype)
    for name, weight in joined["tensors"].items():
        yield name, weight.to(dtype)


def _names(header: Header, processor: Any, hollow: Any) -> Mapping[str, str]:
    """Transformers' names of weights by ggml's; its own function makes gguf's table anew for each module."""
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


def _rows(header: Header, tensor: TensorEntry, data: Any) -> Any:
    """The bytes of a tensor  # [rows, bytes of a row]."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType  # noqa: PLC0415 - an optional dependency

    numbers, width = GGML_QUANT_SIZES[GGMLQuantizationType(tensor.kind)]
    bytes_of_row = tensor.shape[-1] // numbers * width
    rows = int(np.prod(tensor.shape[:-1], dtype=np.int64))
    begin = header.data_start + tensor.offset
    return data[begin : begin + rows * bytes_of_row].reshape(rows, bytes_of_row)


def _numbers(header: Header, tensor: TensorEntry, data: Any) -> Any:
    """A tensor in float32."""
    return _dequantized(_rows(header, tensor, data), tensor).reshape(tensor.shape)


def _unpacked(header: Header, tensor: TensorEntry, data: Any, dtype: torch.dtype) -> torch.Tensor:
    """A tensor in its final type, some rows at a time."""
    rows = _rows(header, tensor, data)
    done = torch.empty(tensor.shape, dtype=dtype)
    flat = done.view(len(rows), tensor.shape[-1])
    step = max(1, _PIECE // tensor.shape[-1])
    for begin in range(0, len(rows), step):
        part = _dequantized(rows[begin : begin + step], tensor)
        flat[begin : begin + step] = torch.from_numpy(np.ascontiguousarray(part))
    return done


def _dequantized(rows: Any, tensor: TensorEntry) -> Any:
    """Numbers in float32  # [rows, numbers of a row]."""
    from gguf import GGMLQuantizationType, dequantize  # noqa: PLC0415 - an optional dependency

    kind = GGMLQuantizationType(tensor.kind)
    plain = {GGMLQuantizationType.F32: np.float32, GGMLQuantizationType.F16: np.float16}
    stored = np.array(rows).view(plain[kind]) if kind in plain else np.array(rows)
    return dequantize(stored, kind).astype(np.float32, copy=False)


def _scale_rotary(source: Source, header: Header, model: Any) -> None:
    """Divide the frequencies of positions by the factors of the file (Llama 3.1 and later)."""
    tensor = next((each for each in header.tensors if each.name == _ROTARY), None)
    if tensor is None:
        return
    factors = torch.from_numpy(_numbers(header, tensor, np.memmap(header.path, mode="r", dtype=np.uint8)).copy())
    if not ((factors > 0) & factors.isfinite()).all():
        raise _refused(
            source, f"it is damaged: its {_ROTARY} holds a number that is no factor. Copy or download it again"
        )
    rotary = model.model.rotary_emb
    for name in ("inv_freq", "original_inv_freq"):
        if isinstance(known := getattr(rotary, name, None), torch.Tensor):
            setattr(rotary, name, known / factors.to(known))
