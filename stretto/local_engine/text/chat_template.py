"""Encodes a conversation as the token ids a model was trained on: by its chat template, keeping message text as text.

A chat template writes control tokens such as ``<|im_end|>``. In a message, the same characters would become the same
tokens, and the message could end its turn and begin another. So they are marked before the template is rendered, and
become tokens of ordinary text. transformers does the same (``sanitize_control_tokens``), but only in versions newer
than the oldest one that this package supports.
"""

from __future__ import annotations

import inspect
import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from typing import Any

from stretto.foundation.surrogates import fix_surrogates
from stretto.local_engine.text.rendering import RefusedError, Renderer, StoppedError, renderer_of
from stretto.values.errors import BackendError, ContextOverflowError, RequestRejectedError

Turn = dict[str, Any]
"""One message: ``role`` and ``content``; with tools also ``tool_calls`` and ``tool_call_id``."""

_CHARACTERS = 16  # characters of a long prompt to read per token of the window, before reading all of it
_Parts = tuple[list[Turn], list[Mapping[str, Any]], dict[str, Any]]
_WORDS = frozenset(
    {
        *("role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content", "thinking"),
        *("id", "type", "function", "arguments", "parameters", "description"),
        *("properties", "items", "required", "enum"),
        *("string", "number", "integer", "boolean", "object", "array", "null", "text"),
    }
)
"""Names and values that templates compare with."""
_RENDERED = frozenset({"messages", "conversations", "self"})  # names of what a template is rendered with
_CUT = 64  # excess tokens allowed at the end of a partial text, because it can end inside a word


class ChatTemplate:
    """Encodes messages for one model.

    Args:
        name: of the model.
        tokenizer: transformers' tokenizer; without a chat template, messages are concatenated.
    """

    def __init__(self, name: str, tokenizer: Any) -> None:
        self._name = name
        self._tokenizer = tokenizer
        self.template: object = getattr(tokenizer, "chat_template", None)
        """The template itself; some models have multiple named ones."""
        self._control = _control_tokens(tokenizer, self.template)
        longest_first = sorted(map(re.escape, self._control), key=len, reverse=True)
        self._written = re.compile("|".join(longest_first) or "(?!)")
        secret = secrets.token_hex(8)  # no message can contain the marks, and they mean nothing to a template
        self._begin, self._end = f"qz{secret}b", f"qz{secret}e"
        token = f"{self._begin}({self._written.pattern}){self._end}"
        self._marks = re.compile(f"{token}|{self._begin}|{self._end}")
        self._edges = _fragments(self._control)
        self._last = f"qz{secret}l"  # marks the end of the last turn, where the model continues it
        self._renderers: dict[str, Renderer] = {}  # cached, to keep their processes alive
        self._stopped: StoppedError | None = None  # set if not even two short turns can be rendered

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
        """Render messages with the chat template, and return the token ids.

        Args:
            turns: the messages. An assistant turn at the end is left open for the model to continue.
            tools: functions that the model may call, in OpenAI's form.
            arguments: template arguments, such as ``enable_thinking``.
            closing: takes the prompt and returns what to append to it.
            special_tokens_in_text: read the model's control tokens in messages as control tokens.
            window: tokens; a prompt that is far longer is refused without reading most of it.

        Blocks while another process renders the template.

        Raises `RequestRejectedError` for messages that the template refuses and for arguments that the caller must not
        set, `ContextOverflowError` beyond ``window``, and `BackendError` for a template that needs too much time,
        memory or text.
        """
        if arguments:
            self._check_arguments(arguments)
        parts = (list(turns), list(tools), dict(arguments or {}))
        mark = cache(self._mark)
        marked = parts if special_tokens_in_text else self._all_marked(parts, mark)
        text = self._render(*marked)
        if not special_tokens_in_text and (edged := self._all_marked(parts, partial(self._mark_edges, mark))) != marked:
            # The template may assemble a control token from parts, as '<' ~ name ~ '>' does.
            apart = self._render(*edged)
            text, marked = (text, marked) if self._count(apart) == self._count(text) else (apart, edged)
        if closing is not None:
            text += closing(text)
        if window is not None:
            self._check_length(text, window)
        if marked == parts:
            return tuple(self._ids(text, add_special_tokens=self.template is None))
        pieces = self._marks.split(text)  # text, a marked token or None for a mark that was left alone, text, ...
        found = [
            token
            for number, piece in enumerate(pieces)
            if piece
            for token in (self._plain_ids(piece) if number % 2 else self._ids_between(piece, first=not number))
        ]
        return tuple(found if self.template is not None else self._framed(found))

    def _check_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Reject arguments that would replace the template, the messages, or options of transformers."""
        own = inspect.signature(self._tokenizer.apply_chat_template).parameters.keys() - {"documents"}
        for name in arguments:
            if name in own | _RENDERED or name.endswith("_token"):
                raise RequestRejectedError(
                    f"The argument {name!r} of the chat template of {self._name} cannot be set: the library sets it. "
                    "Leave it out.",
                    backend=self._name,
                )

    def _all_marked(self, parts: _Parts, mark: Callable[[str], str]) -> _Parts:
        turns, tools, arguments = parts
        marked = [{**_changed(turn, mark), "role": turn["role"]} for turn in turns]
        return marked, _changed(tools, mark), _changed(arguments, mark)

    def _mark(self, content: str) -> str:
        """Put marks around control tokens."""
        normal = self._normal(content)  # some control tokens are matched in the normalised text
        if normal != content and len(self._written.findall(normal)) > len(self._written.findall(content)):
            content = normal
        return self._written.sub(rf"{self._begin}\g<0>{self._end}", content)

    def _normal(self, text: str) -> str:
        """Normalise a text as the tokenizer does, if it matches control tokens in normalised text."""
        normalizer = getattr(getattr(self._tokenizer, "backend_tokenizer", None), "normalizer", None)
        if normalizer is None or not any(self._control.values()):
            return text
        return str(normalizer.normalize_str(text))

    def _mark_edges(self, mark: Callable[[str], str], content: str) -> str:
        """Also mark the edges of a text that can form a control token with what the template puts next to it."""
        marked = mark(content)
        if not content or content in _WORDS:
            return marked
        heads, tails, inner = self._edges
        longest = range(1, 1 + min(len(content), max(map(len, heads), default=0)))
        before = content in inner or any(content[:length] in tails for length in longest)
        after = any(content[-length:] in heads for length in longest)
        return f"{self._begin if before else ''}{marked}{self._begin if after else ''}"

    def _count(self, text: str) -> int:
        """Count control tokens in a rendered text that were not marked."""
        return sum(len(self._written.findall(self._normal(piece))) for piece in self._marks.split(text)[::2])

    def end_of_turn(self) -> set[int]:
        """Return the control token that the template writes after an assistant turn, if any.

        If the template hits a limit here, it is not rendered again; `encode` then raises.
        """
        if self.template is None:
            return set()
        turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": self._last}]
        try:
            text = self._shown(turns, [], {}, begins=False)
        except StoppedError as error:
            self._stopped = error
            return set()
        except Exception:  # noqa: BLE001 - a template that refuses these turns may accept those of a request
            return set()
        _, found, after = text.rpartition(self._last)
        special: Mapping[int, Any] = self._tokenizer.added_tokens_decoder
        return {
            token
            for token, each in special.items()
            if found and each.special and after.lstrip().startswith(each.content)
        }

    def _render(self, turns: list[Turn], tools: list[Mapping[str, Any]], arguments: Mapping[str, Any]) -> str:
        if self.template is None:
            return "\n\n".join(turn["content"] for turn in turns)
        if self._stopped is not None:
            raise self._was_stopped(self._stopped)
        refusal: Exception | None = None
        # Some templates refuse a system message; its text then precedes the first user message.
        for shown in (turns,) if (folded := _fold_system(turns)) == turns else (turns, folded):
            try:
                return self._apply(shown, tools, arguments)
            except StoppedError as error:
                raise self._was_stopped(error) from error
            except Exception as error:  # noqa: BLE001 - the template's author decides what it raises
                refusal = refusal or error
        raise RequestRejectedError(
            f"The chat template of {self._name} refuses these messages: {refusal}.", backend=self._name
        ) from refusal

    def _was_stopped(self, error: StoppedError) -> BackendError:
        return BackendError(
            f"The chat template of {self._name} was stopped: {error}. It may be damaged, or made to do harm. Use "
            "another file of this model.",
            backend=self._name,
        )

    def _apply(self, turns: list[Turn], tools: list[Mapping[str, Any]], arguments: Mapping[str, Any]) -> str:
        last = turns[-1]
        begun = last["role"] == "assistant" and not last.get("tool_calls") and bool(last["content"].strip())
        # enable_thinking: models that can think before they answer are asked not to, unless the caller wants it; other
        # templates ignore it.
        given = {"enable_thinking": False, **arguments}
        if begun:
            turns = [*turns[:-1], {**last, "content": f"{last['content']}{self._last} "}]
        text = self._shown(turns, tools, given, begins=not begun)
        return self._up_to_the_last(text, last["content"]) if begun else text

    def _shown(
        self, turns: list[Turn], tools: list[Mapping[str, Any]], arguments: Mapping[str, Any], *, begins: bool
    ) -> str:
        """Render messages; ``begins``: followed by the beginning of an answer."""
        template = self._tokenizer.get_chat_template(None, tools or None)
        renderer = self._renderers.get(template)
        if renderer is None:
            renderer = self._renderers[template] = renderer_of(template)
        text = renderer.render(
            {
                **self._tokenizer.special_tokens_map,
                "documents": None,
                **arguments,
                "messages": turns,
                "tools": tools or None,
                "add_generation_prompt": begins,
            }
        )
        return fix_surrogates(text)  # a template can cut a character in two, and no tokenizer takes halves

    def _up_to_the_last(self, text: str, content: str) -> str:
        """Return the rendered text up to the end of the last turn's content, without the end-of-turn mark."""
        before, found, after = text.rpartition(self._last)
        if not found or content.strip() not in before:
            raise RefusedError("it does not show the last message, which was to be continued")
        return before if after.startswith(" ") else before.rstrip()  # the template may strip its input

    def _check_length(self, text: str, window: int) -> None:
        """Reject a prompt as soon as its beginning is too long. Each try reads four times as much as the last."""
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
        """Encode a part of the text that follows another one."""
        encode = partial(self._ids, add_special_tokens=False)
        return encode(piece) if first else _encoded_after(encode, piece)

    def _plain_ids(self, token: str) -> list[int]:
        """Encode the characters of a control token as text."""
        forbidden = set(map(self._tokenizer.convert_tokens_to_ids, self._control))
        forbidden.discard(self._tokenizer.unk_token_id)  # the id of any character unknown to the tokenizer
        found = _encoded_after(self._plain, token)
        if forbidden.isdisjoint(found):
            return found
        # The vocabulary contains the token as a word; single characters are not control tokens.
        found = [each for character in token for each in _encoded_after(self._plain, character)]
        if forbidden.isdisjoint(found):
            return found
        raise RequestRejectedError(
            f"The text contains {token!r}, which {self._name} can only read as the control token it is. Leave it out, "
            "or let messages contain control tokens: special_tokens_in_text=True.",
            backend=self._name,
        )

    def _plain(self, text: str) -> list[int]:
        """Encode text without matching added tokens, special or not."""
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
        """Add the tokens that the tokenizer itself puts around a text."""
        bare, framed = (self._ids("a", add_special_tokens=added) for added in (False, True))
        places = range(len(framed) - len(bare) + 1)
        at = next((place for place in places if framed[place : place + len(bare)] == bare), 0)
        return [*framed[:at], *ids, *framed[at + len(bare) :]]


def _control_tokens(tokenizer: Any, template: object) -> dict[str, bool]:
    """Return the tokens that text must not become, and whether each is matched in normalised text.

    These are all special tokens, and the added tokens in the template except white space.
    """
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    found = {
        each.content: bool(each.normalized)
        for each in added
        if each.special or (each.content in str(template) and not each.content.isspace())
    }
    return dict.fromkeys(tokenizer.all_special_tokens, False) | found


def _fragments(tokens: Collection[str]) -> tuple[set[str], set[str], str]:
    """Return the beginnings of tokens, their ends, and all of them.

    Only tokens between marks such as ``<`` and ``>`` count: the others are words, and text is full of their letters.
    """
    marks = [token for token in tokens if len(token) > 1 and not (token[0].isalnum() or token[-1].isalnum())]
    heads = {token[:place] for token in marks for place in range(1, len(token))}
    tails = {token[place:] for token in marks for place in range(1, len(token))}
    return heads, tails, "\0".join(marks)


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    """Return the same value with all its strings and keys changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {_changed(name, change): _changed(each, change) for name, each in value.items()}
    return [_changed(each, change) for each in value] if isinstance(value, list | tuple) else value


def _encoded_after(encode: Callable[[str], list[int]], piece: str) -> list[int]:
    """Encode text that follows other text: after a new line, so that no space is put before it."""
    line, found = encode("\n"), encode(f"\n{piece}")
    return found[len(line) :] if line and found[: len(line)] == line else encode(piece)


def _fold_system(turns: list[Turn]) -> list[Turn]:
    system = "\n\n".join(turn["content"] for turn in turns if turn["role"] == "system")
    rest = [turn for turn in turns if turn["role"] != "system"]
    if not system or not rest:
        return turns
    return [{"role": rest[0]["role"], "content": f"{system}\n\n{rest[0]['content']}"}, *rest[1:]]
