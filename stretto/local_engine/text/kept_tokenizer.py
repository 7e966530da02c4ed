"""A tokenizer restored from a cache without transformers, whose import takes half as long as that of torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer

_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class KeptTokenizer:
    """Answers common calls as the fast tokenizer of transformers does, and delegates the rest to it.

    Args:
        state: the output of `state_of` for transformers' tokenizer.
    """

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.backend_tokenizer = Tokenizer.from_str(state["tokenizer"])
        self.special_tokens_map: dict[str, Any] = state["special_tokens_map"]
        self.all_special_tokens: list[str] = state["all_special_tokens"]
        self.chat_template: str | None = state["chat_template"]
        for name in _SPECIAL:
            token = self.special_tokens_map.get(name)
            setattr(self, f"{name}_id", None if token is None else self.backend_tokenizer.token_to_id(token))

    def __call__(self, text: str, *, add_special_tokens: bool = True, **options: Any) -> Any:
        """Return the token ids of a text as ``input_ids``."""
        if not isinstance(text, str) or options.keys() - {"verbose"}:
            return self._in_transformers(text, add_special_tokens=add_special_tokens, **options)
        # As a batch, during which other threads run; encoding a single text would keep the interpreter's lock
        (found,) = self.backend_tokenizer.encode_batch([text], add_special_tokens=add_special_tokens)
        return _Encoded(input_ids=found.ids)

    def __len__(self) -> int:
        return int(self.backend_tokenizer.get_vocab_size())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._in_transformers, name)

    @cached_property
    def added_tokens_decoder(self) -> dict[int, Any]:
        return dict(self.backend_tokenizer.get_added_tokens_decoder())

    def decode(
        self, ids: Sequence[int], *, skip_special_tokens: bool = False, clean_up_tokenization_spaces: bool = False
    ) -> str:
        if clean_up_tokenization_spaces:
            return str(self._in_transformers.decode(ids, skip_special_tokens, clean_up_tokenization_spaces=True))
        return str(self.backend_tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))

    def convert_tokens_to_ids(self, token: str) -> int | None:
        """Return the id of a token, or that of the unknown token."""
        found: int | None = self.backend_tokenizer.token_to_id(token)
        return self.unk_token_id if found is None else found

    def get_vocab(self) -> dict[str, int]:
        return dict(self.backend_tokenizer.get_vocab())

    def get_chat_template(self, _chat_template: None, _tools: object) -> str | None:
        """Return the only chat template."""
        return self.chat_template

    @cached_property
    def _in_transformers(self) -> Any:
        from transformers import PreTrainedTokenizerFast  # noqa: PLC0415 - slow

        kind: Any = PreTrainedTokenizerFast  # untyped in transformers
        made = kind(
            tokenizer_object=self.backend_tokenizer,
            **{name: token for name, token in self.special_tokens_map.items() if name in _SPECIAL},
        )
        made.chat_template = self.chat_template
        return made


class _Encoded(dict[str, Any]):
    """Mimics transformers' `BatchEncoding`."""

    @property
    def input_ids(self) -> list[int]:
        return list(self["input_ids"])


def state_of(tokenizer: Any) -> dict[str, Any] | None:
    """Return the state for a `KeptTokenizer`; ``None`` if transformers' tokenizer needs more than that supports."""
    template = tokenizer.chat_template
    if not (template is None or isinstance(template, str)) or getattr(tokenizer, "clean_up_tokenization_spaces", False):
        return None
    return {
        "tokenizer": tokenizer.backend_tokenizer.to_str(),
        "special_tokens_map": dict(tokenizer.special_tokens_map),
        "all_special_tokens": tokenizer.all_special_tokens,
        "chat_template": template,
    }
