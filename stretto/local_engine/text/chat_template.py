"""A conversation as the token ids a model was trained to read: its own chat template, and text that stays text.

A chat template writes control tokens such as ``<|im_end|>``. Written in a message, the same characters would become the
same tokens, and the message could end its turn and begin another. So they are marked before the template is rendered,
and become tokens of ordinary text. transformers does it likewise (``sanitize_control_tokens``), from a version on that
is newer than the oldest one this package runs with.
"""

from __future__ import annotations

import inspect
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from stretto.errors import ContextOverflowError, RequestRejectedError

__all__ = ["ChatTemplate", "Turn"]

Turn = dict[str, Any]
"""One message: ``role`` and ``content``, and where a template takes tools, ``tool_calls`` and ``tool_call_id``."""

_CHARACTERS = 16  # read of a long prompt for each token of the window, before all of it is read
_RENDERED = frozenset({"messages", "conversations", "self"})  # names of what a template is rendered with
_CUT = 64  # tokens that the end of what is read may have too many, because it ends inside a word


class ChatTemplate:
    """Encodes messages for one model.

    Args:
        name: of the model.
        tokenizer: transformers' tokenizer; without a chat template, messages follow each other as they are.
    """

    def __init__(self, name: str, tokenizer: Any) -> None:
        self._name = name
        self._tokenizer = tokenizer
        self._template = getattr(tokenizer, "chat_template", None)
        self._control = _control_tokens(tokenizer, self._template)
        longest_first = sorted(map(re.escape, self._control), key=len, reverse=True)
        self._written = re.compile("|".join(longest_first) or "(?!)")
        secret = secrets.token_hex(8)  # no message can contain the marks, and they mean nothing to a template
        self._begin, self._end = f"qz{secret}b", f"qz{secret}e"
        token = f"{self._begin}({self._written.pattern}){self._end}"
        self._marks = re.compile(f"{token}|{self._begin}|{self._end}")

    @property
    def template(self) -> object:
        """The template itself; some models have several by name."""
        return self._template

    def encode(
        self,
        turns: Sequence[Turn],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        arguments: Mapping[str, Any] | None = None,
        closing: Callable[[str], str] | None = None,
        special_tokens_in_text: bool = False,
        window: int | None = None,
    ) -> tuple[int, ...]:
        """Put messages into the chat template, and make token ids of them.

        Args:
            turns: the messages. A turn of the assistant at the end is left open, for the model to go on with.
            tools: functions that the model may call, in OpenAI's form.
            arguments: of the template, such as ``enable_thinking``.
            closing: is shown the prompt, and says what to put behind it.
            special_tokens_in_text: let the model's control tokens that are written in messages be control tokens.
            window: tokens; a prompt that is far longer is refused without reading most of it.

        Raises `RequestRejectedError` for messages that the template refuses and for arguments that are not the
        caller's to set, `ContextOverflowError` beyond ``window``.
        """
        if arguments:
            self._check_arguments(arguments)
        marked, shown, given = list(turns), list(tools), dict(arguments or {})
        if not special_tokens_in_text:
            marked = [{**self._marked(turn), "role": turn["role"]} for turn in turns]
            shown, given = self._marked(shown), self._marked(given)
        text = self._render(marked, shown, given)
        if closing is not None:
            text += closing(text)
        if window is not None:
            self._check_length(text, window)
        if marked == list(turns) and shown == list(tools) and given == (arguments or {}):
            return tuple(self._ids(text, add_special_tokens=self._template is None))
        pieces = self._marks.split(text)  # text, a marked token or None for a mark that was left alone, text, ...
        found = [
            token
            for number, piece in enumerate(pieces)
            if piece
            for token in (self._plain_ids(piece) if number % 2 else self._ids_between(piece, first=not number))
        ]
        return tuple(found if self._template is not None else self._framed(found))

    def _check_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Refuse what would replace the template or the messages, or what transformers does with them."""
        own = inspect.signature(self._tokenizer.apply_chat_template).parameters.keys() - {"documents"}
        for name in arguments:
            if name in own | _RENDERED or name.endswith("_token"):
                raise RequestRejectedError(
                    f"The argument {name!r} of the chat template of {self._name} cannot be set: the library sets it. "
                    "Leave it out.",
                    backend=self._name,
                )

    def _marked(self, value: Any) -> Any:
        """The same value, with marks in all its texts."""
        if isinstance(value, str):
            return self._mark(value)
        if isinstance(value, Mapping):
            return {name: self._marked(each) for name, each in value.items()}
        return [self._marked(each) for each in value] if isinstance(value, list | tuple) else value

    def _mark(self, content: str) -> str:
        """Put marks around control tokens."""
        normalizer = getattr(getattr(self._tokenizer, "backend_tokenizer", None), "normalizer", None)
        if normalizer is not None and any(self._control.values()):
            normal = normalizer.normalize_str(content)  # some control tokens are looked for in this
            if len(self._written.findall(normal)) > len(self._written.findall(content)):
                content = normal
        return self._written.sub(rf"{self._begin}\g<0>{self._end}", content)

    def _render(self, turns: list[Turn], tools: list[Mapping[str, Any]], arguments: Mapping[str, Any]) -> str:
        if self._template is None:
            return "\n\n".join(turn["content"] for turn in turns)
        try:
            return self._apply(turns, tools, arguments)
        except Exception as error:
            # Some templates refuse a system message; its text then stands before the first user message.
            folded = _fold_system(turns)
            if folded != turns:
                with suppress(Exception):
                    return self._apply(folded, tools, arguments)
            raise RequestRejectedError(
                f"The chat template of {self._name} refuses these messages: {error}.", backend=self._name
            ) from error

    def _apply(self, turns: list[Turn], tools: list[Mapping[str, Any]], arguments: Mapping[str, Any]) -> str:
        last = turns[-1]
        begun = last["role"] == "assistant" and not last.get("tool_calls") and bool(last["content"].strip())
        # enable_thinking: models that can think before they answer are asked not to, unless the caller wants it; other
        # templates ignore it.
        return str(
            self._tokenizer.apply_chat_template(
                turns,
                tools=tools or None,
                add_generation_prompt=not begun,
                continue_final_message=begun,
                tokenize=False,
                **{"enable_thinking": False, **arguments},
            )
        )

    def _check_length(self, text: str, window: int) -> None:
        """Refuse a prompt as soon as its beginning is too long. Each try reads four times as much as the last."""
        length = _CHARACTERS * window
        while length < len(text):
            beginning = self._marks.sub(r"\1", text[:length])
            if len(self._ids(beginning, add_special_tokens=False)) > window + _CUT:
                raise ContextOverflowError(
                    f"The prompt has more than {window} tokens, and the context window of {self._name} holds {window} "
                    "with the answer. Shorten it, or use a model with a longer window.",
                    backend=self._name,
                )
            length *= 4

    def _ids(self, text: str, *, add_special_tokens: bool) -> list[int]:
        # verbose: a prompt that is too long is our error to report, once.
        found = self._tokenizer(text, add_special_tokens=add_special_tokens, verbose=False)["input_ids"]
        return list(found)

    def _ids_between(self, piece: str, *, first: bool) -> list[int]:
        """Encode a part of the text that stands behind another one."""
        encode = partial(self._ids, add_special_tokens=False)
        return encode(piece) if first else _behind(encode, piece)

    def _plain_ids(self, token: str) -> list[int]:
        """Encode the characters of a control token as text."""
        forbidden = set(map(self._tokenizer.convert_tokens_to_ids, self._control))
        forbidden.discard(self._tokenizer.unk_token_id)  # a character that the tokenizer has not becomes this one
        found = _behind(self._plain, token)
        if forbidden.isdisjoint(found):
            return found
        # The tokenizer has the token as a word; single characters are not control tokens.
        found = [each for character in token for each in _behind(self._plain, character)]
        if forbidden.isdisjoint(found):
            return found
        raise RequestRejectedError(
            f"The text contains {token!r}, which {self._name} can only read as the control token it is. Leave it out, "
            "or let messages contain control tokens: special_tokens_in_text=True.",
            backend=self._name,
        )

    def _plain(self, text: str) -> list[int]:
        """Encode text without looking for added tokens, special or not."""
        fast = getattr(self._tokenizer, "backend_tokenizer", None)
        if fast is None or not hasattr(fast, "pre_tokenizer"):
            return list(
                self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True, verbose=False)
            )
        if fast.normalizer is not None:
            text = fast.normalizer.normalize_str(text)
        words = (
            [text] if fast.pre_tokenizer is None else [word for word, _ in fast.pre_tokenizer.pre_tokenize_str(text)]
        )
        return [token.id for word in words for token in fast.model.tokenize(word)]

    def _framed(self, ids: list[int]) -> list[int]:
        """Put the tokens around a text that the tokenizer puts there by itself."""
        bare, framed = (self._ids("a", add_special_tokens=added) for added in (False, True))
        places = range(len(framed) - len(bare) + 1)
        at = next((place for place in places if framed[place : place + len(bare)] == bare), 0)
        return [*framed[:at], *ids, *framed[at + len(bare) :]]


def _control_tokens(tokenizer: Any, template: object) -> dict[str, bool]:
    """The tokens that text must not become, and whether each is looked for in normalised text.

    All special ones, and those of the added ones that the template writes, white space aside.
    """
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    found = {
        each.content: bool(each.normalized)
        for each in added
        if each.special or (each.content in str(template) and not each.content.isspace())
    }
    return dict.fromkeys(tokenizer.all_special_tokens, False) | found


def _behind(encode: Callable[[str], list[int]], piece: str) -> list[int]:
    """Encode what stands behind other text: behind a new line, so that no space is put before it."""
    line, found = encode("\n"), encode(f"\n{piece}")
    return found[len(line) :] if line and found[: len(line)] == line else encode(piece)


def _fold_system(turns: list[Turn]) -> list[Turn]:
    system = "\n\n".join(turn["content"] for turn in turns if turn["role"] == "system")
    rest = [turn for turn in turns if turn["role"] != "system"]
    if not system or not rest:
        return turns
    return [{"role": rest[0]["role"], "content": f"{system}\n\n{rest[0]['content']}"}, *rest[1:]]
