"""The bytes of a model's tokens, and its tokenizer for llguidance.

llguidance itself copies the tokenizer, serialises it as JSON and parses that again, keeping the interpreter's lock for
most of this: with a large vocabulary all other threads wait for more than a second. Most large vocabularies use the
alphabet of byte-level BPE. Their bytes are read here instead, and the existing tokenizer encodes text.
`benchmarks/formats.py` measures both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llguidance import LLTokenizer

_BYTE = re.compile("<0x([0-9A-F]{2})>")


def vocabulary(tokenizer: Any, ends: Iterable[int]) -> LLTokenizer:
    """Build the llguidance tokenizer of a transformers tokenizer whose answers end with ``ends``.

    Raises `ValueError` for a tokenizer that is not a fast one, or that llguidance cannot read.
    """
    from llguidance import LLTokenizer, TokenizerWrapper  # noqa: PLC0415 - only for requests that need it

    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is None:
        raise ValueError("only fast tokenizers are supported")
    ends = sorted(ends)
    if fast.padding or fast.truncation:  # a grammar must not use either
        from llguidance.hf import from_tokenizer  # noqa: PLC0415

        return from_tokenizer(tokenizer, eos_token=ends)
    try:
        source = TokenizerWrapper(_Tokens(fast, ends[0])) if _decoders(fast) == ["ByteLevel"] else fast.to_str()
    except UnicodeEncodeError:  # a token outside the alphabet of bytes
        source = fast.to_str()
    known = LLTokenizer(source, eos_token=ends, slices=[])
    return known.with_slices(LLTokenizer.general_slices())  # a separate call, so that other threads can run in between


def token_bytes(tokenizer: Any) -> Callable[[int], bytes] | None:
    """Return a function from a token to its bytes, empty for special tokens; ``None`` for a slow tokenizer.

    Spaces that a tokenizer writes as another character stay so: the bytes only show where characters end.
    """
    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is None or not hasattr(fast, "id_to_token"):
        return None
    added = fast.get_added_tokens_decoder()
    byte_of = byte_alphabet() if "ByteLevel" in _decoders(fast) else None
    falls_back = "ByteFallback" in _decoders(fast)

    def find(token: int) -> bytes:
        if token in added:
            return b"" if added[token].special else bytes(added[token].content, "utf-8")
        text = fast.id_to_token(token) or ""
        if falls_back and (found := _BYTE.fullmatch(text)):
            return bytes.fromhex(found[1])
        with suppress(UnicodeEncodeError):  # a token outside the alphabet of bytes
            if byte_of is not None:
                return text.translate(byte_of).encode("latin-1")
        return text.encode()

    return find


class _Tokens:
    """The interface that llguidance expects of a tokenizer, with its rules for special tokens."""

    def __init__(self, fast: Any, end: int) -> None:
        added = {token: each.content for token, each in fast.get_added_tokens_decoder().items()}
        special = {token for token, each in fast.get_added_tokens_decoder().items() if each.special}
        written = fast.get_vocab(with_added_tokens=False)
        byte_of = byte_alphabet()
        self.eos_token_id = end
        self.bos_token_id = None
        tags = {token for token, text in added.items() if text.startswith("<") and text.endswith(">")}
        self.special_token_ids = sorted(special | tags)
        self.tokens = [b""] * (max([*written.values(), *added]) + 1)
        for text, token in written.items():
            if token not in added:
                self.tokens[token] = text.translate(byte_of).encode("latin-1")
        for token, text in added.items():
            self.tokens[token] = text.encode()
        self._encode: Callable[..., Any] = fast.encode

    def __call__(self, text: str) -> list[int]:
        return list(self._encode(text, add_special_tokens=False).ids)


def _decoders(fast: Any) -> list[str]:
    """Return the types of the decoder's steps."""
    if not fast.decoder:
        return []
    state = json.loads(fast.decoder.__getstate__())
    return [step["type"] for step in state.get("decoders", [state])]


def byte_alphabet() -> dict[int, int]:
    """Return the byte of each character of byte-level BPE: printable bytes are themselves, the others begin at 256."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {code: code for code in printable} | {0x100 + place: byte for place, byte in enumerate(others)}
