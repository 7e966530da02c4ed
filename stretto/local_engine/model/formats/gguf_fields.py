"""Finds invalid fields in the header of a GGUF file, by themselves or compared with the file's tensors."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from math import inf, isfinite
from pathlib import Path
from typing import Any

from stretto.foundation.arguments import safe_repr
from stretto.local_engine.model.formats.gguf_header import Header, nextn_layers
from stretto.local_engine.model.loading.source import Source
from stretto.values.errors import ModelNotFoundError

_NEEDED = ("block_count", "embedding_length", "attention.head_count")
_WHOLE = (
    *_NEEDED,
    *("feed_forward_length", "context_length", "attention.head_count_kv", "attention.key_length"),
    *("attention.value_length", "rope.dimension_count"),
)
_LEAST = {"context_length": 2, "rope.freq_base": 1, "attention.layer_norm_rms_epsilon": 0}
"""Minimum values of an architecture's fields, where a smaller one would only show as an error in its arithmetic."""
_TURNS_A_PART = ("nemotron",)
"""Architectures that are known to rotate only some dimensions of a head."""


_XLLAMACPP = (
    "import sys, xllamacpp; given = xllamacpp.CommonParams(); given.model.path = sys.argv[1]; "
    'given.hostnames, given.port = ["127.0.0.1"], 8080; server = xllamacpp.Server(given); sys.stdin.read()'
)


def wrong_field(header: Header) -> str:
    """Return the first wrong field, as a sentence with the remedy and without its full stop; empty if none is found."""
    if damage := next(_damage(header), ""):
        return f"it is damaged: {damage}. Copy or download it again"
    return next(_misfits(header), "")


def _damage(header: Header) -> Iterator[str]:
    prefix = f"{header.architecture}."
    for key, value in header.metadata.items():
        numbers = value if isinstance(value, tuple) else (value,)
        least = _LEAST.get(key.removeprefix(prefix), -inf)
        if any(isinstance(number, float) and not isfinite(number) for number in numbers) or (
            isinstance(value, int | float) and value < least
        ):
            yield f"its {key} is {value}"
    for name in _WHOLE:
        value = header.metadata.get(prefix + name)
        if value is None and name in _NEEDED:
            yield f"its {prefix}{name} is missing"
        elif value is not None and not _is_count(value):
            yield f"its {prefix}{name} is {safe_repr(value)}, and a whole number from 1 is needed"


def _misfits(header: Header) -> Iterator[str]:
    layers, extra = header.count("block_count") or 0, nextn_layers(header)
    if layers > len(header.tensors):
        yield f"it promises {layers} layers and has {len(header.tensors)} tensors"
    if extra >= layers:
        yield f"its nextn_predict_layers, {extra}, are not fewer than its layers (block_count), {layers}"
    heads = header.count("attention.head_count") or 1
    stored = header.count("attention.head_count_kv") or heads
    if heads % stored:
        yield f"its head_count_kv, {stored}, does not divide its head_count, {heads}. Copy or download it again"
    width, turned = _width(header, heads), header.count("rope.dimension_count")
    hidden = header.count("embedding_length")
    for tensor in header.tensors:
        if tensor.name == "token_embd.weight" and tensor.shape[-1] != hidden:
            yield (
                f"its {tensor.name} has rows of {tensor.shape[-1]} numbers, and its embedding_length is {hidden}. Copy "
                "or download it again"
            )
        for name, count in (("attn_q.weight", heads), ("attn_k.weight", stored)):
            if tensor.name.endswith(f".{name}") and tensor.shape[0] != count * width:
                yield (
                    f"its {tensor.name} has {tensor.shape[0]} rows, and {count} heads of {width} numbers need "
                    f"{count * width}, by its head_count, head_count_kv, key_length and embedding_length. Copy or "
                    "download it again"
                )
    if turned is not None and turned < width and header.architecture not in _TURNS_A_PART:
        yield (
            f"its positions turn {turned} of the {width} numbers of a head (rope.dimension_count), which is not read. "
            f"{llamacpp_offer(header.path).rstrip('.')}"
        )


def _width(header: Header, heads: int) -> int:
    """Return the number of dimensions of a head."""
    named = header.count("attention.key_length")
    if named is None and header.architecture == "llama":  # as transformers reads it
        named = header.count("rope.dimension_count")
    return named or (header.count("embedding_length") or 0) // heads


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def llamacpp_offer(file: Path) -> str:
    """Return a sentence with the command that starts a server for this file, and the model name for it."""
    where = shlex.quote(str(file))
    if find_spec("llama_cpp") is not None:
        start = f"llama-cpp-python is installed: python -m llama_cpp.server --port 8080 --model {where}"
    elif find_spec("xllamacpp") is not None:
        start = f"xllamacpp is installed: python -c {shlex.quote(_XLLAMACPP)} {where}"
    else:
        start = f"llama.cpp's server may run it: llama-server --model {where}"
    return f"{start} and, in another program, the model llamacpp:NAME."


def refused(source: Source, cause: str, *, elsewhere: bool = False) -> ModelNotFoundError:
    """Return the error for a file that cannot be read; ``elsewhere``: llama.cpp may run it."""
    instead = f" {llamacpp_offer(source.file)}" if elsewhere and source.file is not None else ""
    return ModelNotFoundError(
        f"The file {str(source.file)!r} could not be loaded: {cause}.{instead}", backend=source.name
    )
