"""A conversation as the token ids a model was trained to read: its own chat template, with ways around its refusals."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from stretto.errors import RequestRejectedError

__all__ = ["Turn", "encode_turns"]

Turn = dict[str, str]
"""One message: ``role`` and ``content``."""


def encode_turns(name: str, tokenizer: Any, turns: Sequence[Turn]) -> tuple[int, ...]:
    """Put messages into the chat template of a tokenizer; without one, their texts one after the other.

    ``name`` is that of the model. Raises `RequestRejectedError` for messages that the template refuses.
    """
    turns = list(turns)
    if getattr(tokenizer, "chat_template", None) is None:
        return tuple(tokenizer("\n\n".join(turn["content"] for turn in turns) + "\n\n", verbose=False)["input_ids"])
    try:
        return _apply(tokenizer, turns)
    except Exception as error:
        # Some templates refuse a system message; its text then stands before the first user message.
        folded = _fold_system(turns)
        if folded != turns:
            with suppress(Exception):
                return _apply(tokenizer, folded)
        raise RequestRejectedError(
            f"The chat template of {name} refuses these messages: {error}.", backend=name
        ) from error


def _apply(tokenizer: Any, turns: list[Turn]) -> tuple[int, ...]:
    # enable_thinking: models that can think before they answer are asked not to; other templates ignore it.
    # verbose: a prompt that is too long is our error to report, once.
    ids = tokenizer.apply_chat_template(
        turns,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=False,
        enable_thinking=False,
        tokenizer_kwargs={"verbose": False},
    )
    return tuple(ids)


def _fold_system(turns: list[Turn]) -> list[Turn]:
    system = "\n\n".join(turn["content"] for turn in turns if turn["role"] == "system")
    rest = [turn for turn in turns if turn["role"] != "system"]
    if not system or not rest:
        return turns
    return [{"role": rest[0]["role"], "content": f"{system}\n\n{rest[0]['content']}"}, *rest[1:]]
