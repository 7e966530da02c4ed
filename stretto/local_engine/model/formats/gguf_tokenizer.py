"""The tokenizer of a GGUF file, cached in a form that loads in a tenth of the time.

Vocabularies of byte-level BPE are read here, if their way of splitting text is known. Transformers' tables, whose
import takes longer than that of torch, read the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from stretto.local_engine.model.formats.gguf_header import Header, read_arrays
from stretto.local_engine.model.loading.kept_data import key_of, recall, remember
from stretto.local_engine.text.kept_tokenizer import KeptTokenizer, state_of
from stretto.local_engine.text.vocabulary import byte_alphabet

_KIND = "tokenizer"
_FIELD = "tokenizer.ggml."
_ORDINARY, _CONTROL, _USERS = 1, 3, 4  # types of tokens
_ENDS = {"bos_token": "bos", "eos_token": "eos"}
_OTHERS = {"unk_token": "unknown", "pad_token": "padding"}
_END = "<|endoftext|>"  # transformers treats it as special in all these vocabularies that have it

_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
_WORDS = _BYTES | {"use_regex": True}
_DIGITS = {"type": "Digits", "individual_digits": True}
_CONTRACTIONS_AND_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS_AND_SPACES = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SINGLE_DIGITS = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"})
_LLAMA_3 = frozenset({"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"})
_WHOLE = _LLAMA_3 | {"tekken"}
"""Vocabularies in which text that is a token stays that token, whatever the merges, and BOS is added by default.

Transformers' tables do neither, llama.cpp does both.
"""


def _split(numbers: str) -> tuple[Mapping[str, Any], ...]:
    pattern = f"{_CONTRACTIONS_AND_WORDS}|{numbers}|{_SIGNS_AND_SPACES}"
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}, _BYTES


_CUTS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    **dict.fromkeys(_SINGLE_DIGITS, (_DIGITS, _WORDS)),
    **dict.fromkeys(("default", "gpt-2"), (_WORDS,)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), _split(r"\p{N}")),
    **dict.fromkeys((*_LLAMA_3, "smaug-bpe", "dbrx"), _split(r"\p{N}{1,3}")),
}
"""How text is split before BPE, by llama.cpp's name for it (``llama-vocab.cpp``)."""


def read_tokenizer(header: Header) -> Any:
    """Read the tokenizer of a file. Raises the errors of transformers."""
    key = key_of(header.path)
    for data in recall(_KIND, key):
        with suppress(Exception):  # damage, for which tokenizers raises nothing narrower
            return KeptTokenizer(json.loads(data))
    state: dict[str, Any] | None = None
    read: KeptTokenizer | None = None
    with suppress(Exception):  # damage, too: transformers reports it
        state = _state_of_bytes(header)
        read = None if state is None else KeptTokenizer(state)
    if read is None:
        made = _made(header)
        if (state := state_of(made)) is None:
            return made
        _show_ordinary(state, header)
        read = KeptTokenizer(state)  # so that the first use is the same as later ones
    remember(_KIND, key, json.dumps(state).encode())
    return read


def _state_of_bytes(header: Header) -> dict[str, Any] | None:
    """Return the state for a `KeptTokenizer`; ``None`` for other or unknown kinds of vocabularies.

    It behaves like transformers' tokenizer as corrected by `_made`. The only difference: marks with letters outside the
    alphabet of bytes, such as DeepSeek's, stay whole here.
    """
    metadata, whole = header.metadata.get, _takes_whole(header)
    cuts, template = _CUTS.get(metadata(f"{_FIELD}pre", "default")), metadata("tokenizer.chat_template")
    if metadata(f"{_FIELD}model") != "gpt2" or cuts is None or not (template is None or isinstance(template, str)):
        return None
    names = [_FIELD + name for name in ("tokens", "token_type", "merges")]
    tokens, types, merges = map(read_arrays(header, names).get, names)
    if tokens is None or merges is None:
        return None
    shown = _ordinary(header, types)
    numbers = {
        name: number
        for name, own in (_ENDS | _OTHERS).items()
        if name not in shown and (number := metadata(f"{_FIELD}{own}_token_id")) is not None
    }
    special, users = {*numbers.values()}, set[int]()
    letters = {byte: chr(code) for code, byte in byte_alphabet().items()}
    alphabet, vocabulary = {*letters.values()}, dict[str, int]()
    for number, (token, kind) in enumerate(zip(tokens, types or [1] * len(tokens), strict=True)):
        if kind == _CONTROL or token == _END:
            special.add(number)
        elif kind == _USERS:
            users.add(number)
        stays = number in special or number in users or alphabet.issuperset(token)
        vocabulary[token if stays else "".join(letters[byte] for byte in token.encode())] = number
    if len(vocabulary) < len(tokens):  # a token is there twice
        return None
    named = {name: tokens[number] for name, number in numbers.items()}
    adds = {"bos_token": whole, "eos_token": False}  # defaults for fields that the file lacks
    first, last = (named.get(name) if metadata(f"{_FIELD}add_{name}", add) else None for name, add in adds.items())
    marks = {mark: vocabulary[mark] for mark in (first, last) if mark is not None}

    def around(sequence: str, number: int) -> list[Any]:
        own: Any = {"Sequence": {"id": sequence, "type_id": number}}
        before, after = ([{"SpecialToken": {"id": mark, "type_id": number}}] if mark else [] for mark in (first, last))
        return [*before, own, *after]

    written = {
        "version": "1.0",
        "added_tokens": [
            {"id": number, "content": tokens[number], "special": number in special}
            | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
            for number in sorted(special | users)
        ],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": cuts},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": around("A", 0),
            "pair": [*around("A", 0), *around("B", 1)],
            "special_tokens": {mark: {"id": mark, "ids": [own], "tokens": [mark]} for mark, own in marks.items()},
        },
        "decoder": _WORDS | {"add_prefix_space": True},
        "model": {
            "type": "BPE",
            "vocab": vocabulary,
            "merges": [merge.split(" ") for merge in merges],
            "ignore_merges": whole,
        },
    }
    return {
        "tokenizer": json.dumps(written),
        "special_tokens_map": named,
        "all_special_tokens": list(dict.fromkeys(named.values())),
        "chat_template": template,
    }


def _takes_whole(header: Header) -> bool:
    return header.metadata.get(f"{_FIELD}model") == "gpt2" and header.metadata.get(f"{_FIELD}pre") in _WHOLE


def _ordinary(header: Header, types: tuple[Any, ...] | None) -> dict[str, int]:
    """Return ordinary tokens used for padding or unknown: as special tokens they would be missing from every text."""
    metadata = header.metadata.get
    ends = [metadata(f"{_FIELD}{own}_token_id") for own in _ENDS.values()]
    found = {name: metadata(f"{_FIELD}{own}_token_id") for name, own in _OTHERS.items()}
    return {
        name: number
        for name, number in found.items()
        if types and isinstance(number, int) and number not in ends and types[number : number + 1] == (_ORDINARY,)
    }


def _show_ordinary(state: dict[str, Any], header: Header) -> None:
    """Make tokens ordinary again that transformers made special because the file gives them a role."""
    types = f"{_FIELD}token_type"
    named, found = state["special_tokens_map"], _ordinary(header, read_arrays(header, [types]).get(types))
    if shown := {number: named.pop(name) for name, number in found.items() if named.get(name, _END) != _END}:
        written = json.loads(state["tokenizer"])
        written["added_tokens"] = [each for each in written["added_tokens"] if each["id"] not in shown]
        state["tokenizer"] = json.dumps(written)
        state["all_special_tokens"] = [each for each in state["all_special_tokens"] if each not in shown.values()]


def _made(header: Header) -> Any:
    from tokenizers import pre_tokenizers  # noqa: PLC0415 - as the next line
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415 - slow

    made = PreTrainedTokenizerFast.from_pretrained(str(header.path.parent), gguf_file=header.path.name)
    if header.metadata.get(f"{_FIELD}pre") in _SINGLE_DIGITS:  # missing in transformers' table
        digits = pre_tokenizers.Digits(individual_digits=True)
        words = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
    if _takes_whole(header):
        made.backend_tokenizer.model.ignore_merges = True
        if header.metadata.get(f"{_FIELD}add_bos_token") is None and made.bos_token is not None:
            made.add_bos_token = True
    return made
