"""Turns token ids into text, piece by piece, without incomplete characters."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Collection, Sequence
from typing import Any

_BROKEN = "\ufffd"
_PATIENCE = 16


class TextStream:
    """Decodes a growing sequence of tokens; text once returned never changes.

    A token can end inside a character, and a decoder may treat its first token differently: some drop a leading space.
    So the tokens of the previous piece are decoded again before the new ones, and text is withheld while its last
    character is incomplete.

    Args:
        decode: token ids to text; invalid bytes become U+FFFD.
        token_bytes: the bytes of a token, which distinguish an incomplete character from a U+FFFD that the model wrote.
            Without it, text never ends with a U+FFFD.
    """

    def __init__(
        self, decode: Callable[[Sequence[int]], str], token_bytes: Callable[[int], bytes] | None = None
    ) -> None:
        self._decode = decode
        self._token_bytes = token_bytes
        self._context: list[int] = []
        self._context_text = ""
        self._pending: list[int] = []

    def push(self, tokens: Sequence[int]) -> str:
        """Add tokens and return the text that is certain now; empty while a character is incomplete."""
        text = self._decode([*self._context, *self._pending, *tokens])
        if len(tokens) > 1 and text.endswith(_BROKEN):  # the characters before the last are complete
            return "".join(self.push([token]) for token in tokens)
        self._pending.extend(tokens)
        # Invalid bytes look like an incomplete character. No character takes more than four tokens, so after a few
        # more the bytes are invalid, and are shown as U+FFFD.
        if text.endswith(_BROKEN) and len(self._pending) < _PATIENCE:
            return ""
        return self._advance(text)

    def flush(self) -> str:
        """Return the rest at the end, without an incomplete last character."""
        if not self._pending:
            return ""
        pending = self._pending
        text = self._advance(self._decode(self._context + pending))
        known = text.rstrip(_BROKEN)
        return known if len(known) == len(text) else (known + self._replaced(pending))[: len(text)]

    def _replaced(self, tokens: Sequence[int]) -> str:
        """Return each U+FFFD at the end of these tokens' text that is not an incomplete character."""
        if self._token_bytes is None:
            return ""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")  # withholds the bytes of an incomplete character
        text = decoder.decode(b"".join(map(self._token_bytes, tokens)))
        return text[len(text.rstrip(_BROKEN)) :]

    def _advance(self, text: str) -> str:
        new = text[len(self._context_text) :]
        if new:
            self._context, self._pending = self._pending, []
            self._context_text = self._decode(self._context)
        return new


def decoder(tokenizer: Any, marks: Collection[str]) -> Callable[[Sequence[int]], str]:
    """Return the fastest function from ids to text: transformers' wrapper takes longer than a step of a small model.

    Control tokens are dropped, except the marks that a model puts around thoughts and calls.
    """
    # The first call may switch off truncation inside the tokenizer, so it is made before other threads use it.
    tokenizer("")
    inner = getattr(tokenizer, "backend_tokenizer", None)
    if inner is None or not hasattr(inner, "decode"):
        return lambda ids: str(tokenizer.decode(ids, skip_special_tokens=True))
    added = getattr(tokenizer, "added_tokens_decoder", {})
    kept = {token: each.content for token, each in added.items() if each.special and each.content in marks}

    def decode(ids: Sequence[int]) -> str:
        return str(inner.decode(ids, skip_special_tokens=True))

    if not kept:
        return decode

    def decode_with_marks(ids: Sequence[int]) -> str:
        if kept.keys().isdisjoint(ids):
            return decode(ids)
        text, start = "", 0
        for place, token in enumerate(ids):
            if token in kept:
                text += decode(ids[start:place]) + kept[token]
                start = place + 1
        return text + decode(ids[start:])

    return decode_with_marks
