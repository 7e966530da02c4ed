"""The tokenizer of a GGUF file, made by transformers' tables and kept in a form that is read in a tenth of the time."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from stretto.local_engine.model.formats.gguf_header import Header
from stretto.local_engine.model.loading.kept_data import key_of, recall, remember
from stretto.local_engine.text.kept_tokenizer import KeptTokenizer, state_of

__all__ = ["read_tokenizer"]

_KIND = "tokenizer"
_SINGLE_DIGITS = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"})
"""What llama.cpp calls the vocabularies whose texts are cut at each digit (``llama-vocab.cpp``)."""


def read_tokenizer(header: Header) -> Any:
    """Read the tokenizer of a file. Raises what transformers raises."""
    key = key_of(header.path)
    for data in recall(_KIND, key):
        with suppress(Exception):  # damage, of which tokenizers raises nothing narrower
            return KeptTokenizer(json.loads(data))
    made = _made(header)
    if (state := state_of(made)) is None:
        return made
    remember(_KIND, key, json.dumps(state).encode())
    return KeptTokenizer(state)  # the first time it is what it is later


def _made(header: Header) -> Any:
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence  # noqa: PLC0415 - as the next line
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415 - slow

    made = PreTrainedTokenizerFast.from_pretrained(str(header.path.parent), gguf_file=header.path.name)
    if header.metadata.get("tokenizer.ggml.pre") in _SINGLE_DIGITS:  # transformers' table leaves this out
        digits, words = Digits(individual_digits=True), ByteLevel(add_prefix_space=False)
        made.backend_tokenizer.pre_tokenizer = Sequence([digits, words])
    return made
