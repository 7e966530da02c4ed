"""The tokenizer of a GGUF file, made by transformers' tables and kept in a form that is read in a fifth of the time."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import PreTrainedTokenizerFast

from stretto.local_engine.model.formats.gguf_header import Header
from stretto.local_engine.model.loading.kept_data import key_of, recall, remember

__all__ = ["read_tokenizer"]

_KIND = "tokenizer"
_SINGLE_DIGITS = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"})
"""What llama.cpp calls the vocabularies whose texts are cut at each digit (``llama-vocab.cpp``)."""


def read_tokenizer(header: Header) -> Any:
    """Read the tokenizer of a file. Raises what transformers raises."""
    key = key_of(header.path)
    for data in recall(_KIND, key):
        with suppress(OSError, ValueError, AttributeError):  # a folder for it could not be made; damage
            return _from_texts(json.loads(data))
    made = PreTrainedTokenizerFast.from_pretrained(str(header.path.parent), gguf_file=header.path.name)
    if header.metadata.get("tokenizer.ggml.pre") in _SINGLE_DIGITS:  # transformers' table leaves this out
        digits, words = Digits(individual_digits=True), ByteLevel(add_prefix_space=False)
        made.backend_tokenizer.pre_tokenizer = Sequence([digits, words])
    with suppress(OSError):
        texts = _texts(made)
        made = _from_texts(texts)  # the first time it is what it is later
        remember(_KIND, key, json.dumps(texts).encode())
    return made


def _texts(tokenizer: Any) -> dict[str, str]:
    """The files of a tokenizer by name."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        return {path.name: path.read_text(encoding="utf-8") for path in Path(folder).iterdir()}


def _from_texts(texts: dict[str, str]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            (Path(folder) / Path(name).name).write_text(text, encoding="utf-8")
        return PreTrainedTokenizerFast.from_pretrained(folder)
