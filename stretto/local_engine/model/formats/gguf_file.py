"""Reads a model and its tokenizer from a GGUF file."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch

from stretto.local_engine.model.formats.gguf_fields import refused, wrong_field
from stretto.local_engine.model.formats.gguf_header import (
    ARCHITECTURES,
    DamagedFileError,
    Header,
    TensorEntry,
    check_places,
    read_header,
)
from stretto.local_engine.model.formats.gguf_plain import read_plain
from stretto.local_engine.model.formats.gguf_tokenizer import read_tokenizer
from stretto.local_engine.model.loading.source import Source
from stretto.local_engine.model.quantised.quantisation import StoredBlocks
from stretto.values.errors import MissingDependencyError

_KNOWN = "Llama, Mistral, SmolLM, Qwen2, Qwen3, Gemma 2 and 3, Phi-3, StarCoder2 and Nemotron"


def read_gguf(
    source: Source, dtype: torch.dtype, *, blocks: bool = False
) -> tuple[Any, Any, dict[str, Any], StoredBlocks[TensorEntry] | None]:
    """Read a causal language model and its tokenizer; also return misfits of the weights in transformers' form.

    With misfits there is no model: it would need memory for the sizes in a damaged header.

    Args:
        source: the file.
        dtype: of the weights.
        blocks: leave weights that compiled code can read as they are stored in the file, and return an object that
            reads them. The others are then in float32. Transformers' modelling code is imported only for the rarer
            architectures.

    Raises `ModelNotFoundError` for a file that cannot be read and `MissingDependencyError` without gguf.
    """
    assert source.file is not None  # noqa: S101 - the caller has checked; for the type checker
    if find_spec("gguf") is None:
        raise MissingDependencyError(
            f"{source.name} is a GGUF file, and reading it needs gguf. Run: pip install 'stretto[local]'"
        )
    header = _checked(source)
    tokenizer = read_tokenizer(header)
    if blocks and (plain := read_plain(source, header)) is not None:
        return plain.model, tokenizer, {"mismatched_keys": [], "missing_keys": [], "unexpected_keys": []}, plain.stored
    from stretto.local_engine.model.formats.gguf_tables import read_by_tables  # noqa: PLC0415 - slow

    model, found, stored = read_by_tables(source, header, dtype, blocks=blocks)
    return model, tokenizer, found, stored


def _checked(source: Source) -> Header:
    from gguf import GGML_QUANT_SIZES  # noqa: PLC0415 - an optional dependency

    assert source.file is not None  # noqa: S101 - for the type checker
    try:
        header = read_header(source.file)
        check_places(header, {int(kind): size for kind, size in GGML_QUANT_SIZES.items()}.get)
    except DamagedFileError as error:
        raise refused(source, f"{error}. Copy or download it again") from None
    if (parts := header.metadata.get("split.count", 1)) != 1:
        raise refused(source, f"it is one of {parts} parts of a model. Join them: llama-gguf-split --merge FIRST WHOLE")
    architecture = header.architecture
    if architecture not in ARCHITECTURES:
        raise refused(source, f"its architecture is {architecture[:60]!r}, and known are {_KNOWN}", elsewhere=True)
    if wrong := wrong_field(header):
        raise refused(source, wrong)
    if scaling := _unknown_scaling(header):
        raise refused(source, f"its positions are scaled by {scaling!r}, which cannot be read", elsewhere=True)
    return header


def _unknown_scaling(header: Header) -> str | None:
    """Return the scaling of positions, if it is not supported."""
    if any(tensor.name.startswith("rope_factors_") for tensor in header.tensors):
        return "longrope"
    kind = header.metadata.get(f"{header.architecture}.rope.scaling.type", "none")
    return None if kind in ("none", "linear") else str(kind)[:60]
