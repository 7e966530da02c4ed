"""The contents of the events of a stream, and the answers that they add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from stretto.answer import Usage
from stretto.backends.base import Chunk
from stretto.backends.providers.incoming import IncomingText
from stretto.content import mended
from stretto.markup.forms import Form
from stretto.markup.parts import Parts
from stretto.markup.reading import reader_of
from stretto.token_records import TokenLogprob
from stretto.tool_calls import ToolCallFragment

__all__ = ["Finish", "IncomingAnswer", "Piece", "Thought"]

_TAGGED = Form(("<think>", "</think>"))

Finish = Literal["stop", "length", "tool_calls", "refusal", "content_filter"]


@dataclass(frozen=True, slots=True)
class Thought:
    """New text for one field of a part of a model's reasoning.

    Attributes:
        kind: type of the part.
        field: of the part.
        text: what is new of it.
        index: which part.
    """

    kind: str
    field: str
    text: str
    index: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """What one event of a stream contains.

    Attributes:
        text: of the answer.
        thinking: text that is not shown.
        usage: running totals; APIs report them once or with every event.
        finish: why the answer has ended.
        stopped_by: the stop text that ended it, where the server tells.
        refused: the text is a refusal in the model's own words.
        logprobs: of the tokens of this text.
        tool_calls: pieces of tool calls.
        thoughts: pieces of what it thinks.
        choice: which answer all but the usage belongs to.
        warnings: what of the event cannot be passed on.
        extra: other fields of the response.
        annotations: of the text.
    """

    text: str = ""
    thinking: str = ""
    usage: Usage | None = None
    finish: Finish | None = None
    stopped_by: str | None = None
    refused: bool = False
    logprobs: tuple[TokenLogprob, ...] = ()
    tool_calls: tuple[ToolCallFragment, ...] = ()
    thoughts: tuple[Thought, ...] = ()
    choice: int = 0
    warnings: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    annotations: Sequence[Any] = ()

    def added_to(self, extra: Mapping[str, Any]) -> Mapping[str, Any]:
        """The other fields of the response so far, with those of this piece."""
        if not self.annotations:
            return {**extra, **self.extra} if self.extra else extra
        return {**extra, **self.extra, "annotations": [*extra.get("annotations", ()), *self.annotations]}


class IncomingAnswer:
    """One answer of a call, as it comes.

    ``tagged``: its server may leave what an open model thinks in the text, between ``<think>`` and ``</think>``.
    """

    def __init__(self, stop: Sequence[str], choice: int, *, tagged: bool = False) -> None:
        self.text = IncomingText(stop)
        self._reader = reader_of(_TAGGED) if tagged else None
        self.length = 0  # characters given, arguments of tool calls included
        self.finish: Finish | None = None
        self.stopped_by: str | None = None
        self._choice = choice
        self._refused = False
        self._arguments: dict[int, bool] = {}  # of each tool call begun, whether any have come
        self._thoughts: dict[int, dict[str, str]] = {}

    @property
    def reason(self) -> Finish | None:
        """Why it has ended."""
        return "refusal" if self._refused and self.finish else self.finish

    def take(self, piece: Piece) -> Chunk | None:
        """Take in a piece; ``None``: it has nothing to pass on."""
        self.text.count(piece.thinking)
        text, thinking = piece.text, bool(piece.thinking)
        if self._reader is not None:
            parts = self._reader.feed(text)
            text, thinking = parts.text, thinking or parts.thinking
            self._think(_thought(parts))
        self._think(piece.thoughts)
        certain = self.text.push(text)
        calls = tuple(call for call in piece.tool_calls if self._belongs(call))
        self.length += len(certain) + sum(len(call.arguments) for call in calls)
        self._refused = self._refused or piece.refused
        self.finish = self.text.ended or piece.finish
        self.stopped_by = self.text.stopped_by or piece.stopped_by
        if not (certain or thinking or piece.logprobs or calls or piece.warnings):
            return None
        thoughts = self._thought() if certain or calls else ()
        return Chunk(
            text=certain,
            logprobs=piece.logprobs,
            thinking=thinking,
            tool_calls=calls,
            thoughts=thoughts,
            refused=self._refused,
            choice=self._choice,
            warnings=piece.warnings,
        )

    def rest(self) -> Chunk | None:
        """Give what was withheld. A tool call without arguments has an empty object of them."""
        withheld = ""
        if self._reader is not None and self.text.ended is None:
            parts = self._reader.finish()
            self._think(_thought(parts))
            withheld = self.text.push(parts.text)
        withheld += self.text.flush()
        self.length += len(withheld)
        empty = [index for index, some in self._arguments.items() if not some] if self.finish else []
        calls = tuple(ToolCallFragment(index, arguments="{}") for index in empty)
        thoughts = self._thought()
        if not (withheld or calls or thoughts):
            return None
        return Chunk(text=withheld, tool_calls=calls, thoughts=thoughts, refused=self._refused, choice=self._choice)

    def _think(self, thoughts: Sequence[Thought]) -> None:
        for thought in thoughts:
            part = self._thoughts.setdefault(thought.index, {"type": thought.kind})
            part[thought.field] = part.get(thought.field, "") + thought.text

    def _thought(self) -> tuple[Mapping[str, Any], ...]:
        """Give what was thought since this was asked last. What follows a thought is the sign that it is whole."""
        thoughts = tuple(map(mended, self._thoughts.values()))
        self._thoughts.clear()
        return thoughts

    def _belongs(self, call: ToolCallFragment) -> bool:
        """Whether it says something of a call that has begun: others are of tools that the server calls itself."""
        if call.name is None and call.index not in self._arguments:
            return False
        self.text.count(call.arguments)
        self._arguments[call.index] = self._arguments.get(call.index, call.type == "custom") or bool(call.arguments)
        return bool(call.id or call.name or call.arguments or call.extra)


def _thought(parts: Parts) -> tuple[Thought, ...]:
    return (Thought("reasoning_content", "reasoning_content", parts.thought),) if parts.thought else ()
