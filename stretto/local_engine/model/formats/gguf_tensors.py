"""The tensors of a GGUF file: as numbers or stored blocks, and the factors of its positions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch

from stretto.local_engine.kernels.block_layout import Numbers
from stretto.local_engine.model.formats.gguf_fields import llamacpp_offer, refused
from stretto.local_engine.model.formats.gguf_header import PLAIN_TYPES, Header, TensorEntry
from stretto.local_engine.model.loading.kept_data import key_of
from stretto.local_engine.model.loading.source import Source
from stretto.local_engine.model.quantised.quantisation import StoredBlocks
from stretto.local_engine.model.quantised.stored import FORMS, taken_apart

TABLES = frozenset({"token_embd.weight", "output.weight"})
"""Tensors with the vectors of tokens."""

_PIECE = 2**22  # numbers that are unpacked at a time
ROTARY = "rope_freqs.weight"
"""Name of the tensor with the factors of positions."""

_log = logging.getLogger(__name__)


def can_stay_stored(products: Iterable[TensorEntry]) -> bool:
    """Return whether compiled code can read the tensors of the products as they are stored."""
    forms = set(map(_form, products))
    return not forms <= PLAIN_TYPES and forms <= FORMS.keys()


def stored_blocks(
    source: Source, header: Header, products: Mapping[str, TensorEntry], in_order: Callable[[TensorEntry, Any], Any]
) -> StoredBlocks[TensorEntry] | None:
    """Return the reader of weights as stored; ``None``, with one warning, if they have to be unpacked.

    Args:
        source: the file.
        header: its header.
        products: the tensors of the products, by transformers' names.
        in_order: puts the lines of such a tensor in transformers' order, which is the same for blocks.
    """
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

    def read(tensor: TensorEntry) -> Callable[[slice], Numbers]:
        form = _form(tensor)
        if tensor.name in TABLES:  # mapped again: pages read from a map count as memory as long as it exists
            return lambda lines: taken_apart(form, np.array(_rows(header, tensor, mapped(header))[lines]))
        rows = np.ascontiguousarray(in_order(tensor, np.array(_rows(header, tensor, mapped(header)))))
        return lambda lines: taken_apart(form, rows[lines])

    return StoredBlocks(products, lambda tensor: FORMS[_form(tensor)].kind, read, key_of(header.path))


def mapped(header: Header) -> Any:
    """Map the bytes of the file."""
    return np.memmap(header.path, mode="r", dtype=np.uint8)


def numbers_of(header: Header, tensor: TensorEntry, data: Any) -> Any:
    """Return a tensor in float32."""
    return _dequantized(_rows(header, tensor, data), tensor).reshape(tensor.shape)


def unpacked_table(header: Header, tensor: TensorEntry, data: Any, dtype: torch.dtype) -> torch.Tensor:
    """Unpack a tensor into its final type, some rows at a time."""
    rows = _rows(header, tensor, data)
    done = torch.empty(tensor.shape, dtype=dtype)
    flat = done.view(len(rows), tensor.shape[-1])
    step = max(1, _PIECE // tensor.shape[-1])
    for begin in range(0, len(rows), step):
        part = _dequantized(rows[begin : begin + step], tensor)
        flat[begin : begin + step] = torch.from_numpy(np.ascontiguousarray(part))
    return done


def rotary_factors(source: Source, header: Header) -> torch.Tensor | None:
    """Return the divisors of position frequencies (Llama 3.1 and later). Raises `ModelNotFoundError` for damage."""
    tensor = next((each for each in header.tensors if each.name == ROTARY), None)
    if tensor is None:
        return None
    factors = torch.from_numpy(numbers_of(header, tensor, mapped(header)).copy())
    if not ((factors > 0) & factors.isfinite()).all():
        raise refused(
            source, f"it is damaged: its {ROTARY} holds a number that is no factor. Copy or download it again"
        )
    return factors


def _form(tensor: TensorEntry) -> str:
    from gguf import GGMLQuantizationType  # noqa: PLC0415 - an optional dependency

    return GGMLQuantizationType(tensor.kind).name


def _rows(header: Header, tensor: TensorEntry, data: Any) -> Any:
    """Return the bytes of a tensor  # [rows, bytes of a row]."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType  # noqa: PLC0415 - an optional dependency

    numbers, width = GGML_QUANT_SIZES[GGMLQuantizationType(tensor.kind)]
    bytes_of_row = tensor.shape[-1] // numbers * width
    rows = int(np.prod(tensor.shape[:-1], dtype=np.int64))
    begin = header.data_start + tensor.offset
    return data[begin : begin + rows * bytes_of_row].reshape(rows, bytes_of_row)


def _dequantized(rows: Any, tensor: TensorEntry) -> Any:
    """Return numbers in float32  # [rows, numbers of a row]."""
    from gguf import GGMLQuantizationType, dequantize  # noqa: PLC0415 - an optional dependency

    kind = GGMLQuantizationType(tensor.kind)
    plain = {GGMLQuantizationType.F32: np.float32, GGMLQuantizationType.F16: np.float16}
    stored = np.array(rows).view(plain[kind]) if kind in plain else np.array(rows)
    return dequantize(stored, kind).astype(np.float32, copy=False)
