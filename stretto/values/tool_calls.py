"""Tool calls that a model asks for: whole ones, and the fragments in which they stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from stretto.foundation.surrogates import fix_surrogates
from stretto.values.content import mended

ANTHROPIC_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
"""Types of the parts that contain the reasoning of Anthropic's models; only these models read them."""

ToolCallType = Literal["function", "custom"]


class ToolCall(BaseModel):
    """A call that the model asks its caller to make.

    Attributes:
        id: identifies the call; the message with its result repeats it.
        name: name of the tool.
        arguments: JSON exactly as the model wrote it, so not always valid; for a custom tool, its input as text.
        type: "function", or OpenAI's "custom".
        extra: other fields of the call that its server wants back unchanged, such as Gemini's thought signature.
    """

    model_config = ConfigDict(frozen=True)

    id: str = ""
    name: str = ""
    arguments: str = ""
    type: ToolCallType = "function"
    extra: Mapping[str, Any] = Field(default_factory=dict)

    def as_openai(self) -> dict[str, Any]:
        """Return the call in the format of OpenAI's protocol."""
        text = "input" if self.type == "custom" else "arguments"
        return {**self.extra, "id": self.id, "type": self.type, self.type: {"name": self.name, text: self.arguments}}


@dataclass(frozen=True, slots=True)
class ToolCallFragment:
    """The next piece of a tool call.

    Attributes:
        index: which call of its choice; in events, calls are numbered from 0 in the order in which they begin.
        id: id of the call, in its first piece.
        name: name of the tool, in the first piece.
        arguments: more of the arguments; joined, the pieces are ``ToolCall.arguments``.
        type: "function", or OpenAI's "custom".
        extra: other fields of the call; merged, those of all pieces are ``ToolCall.extra``.
    """

    index: int = 0
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    type: ToolCallType = "function"
    extra: Mapping[str, Any] = field(default_factory=dict)


def is_listed(thought: Mapping[str, Any]) -> bool:
    """Return whether a thought is a list of texts: Mistral's servers send it that way, and expect it back that way."""
    return thought.get("type") == "thinking" and isinstance(thought.get("thinking"), list)


def turn_of(text: str, calls: Sequence[ToolCall], thoughts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return an assistant turn in OpenAI's form.

    Anthropic's thoughts are parts of its content, those of OpenAI-compatible servers fields of the message.
    """
    parts = [dict(each) for each in thoughts if each.get("type") in ANTHROPIC_THOUGHTS]
    fields: dict[str, str] = {}
    for kind, thought in (reasoning_of(each) for each in thoughts if each.get("type") not in ANTHROPIC_THOUGHTS):
        fields[kind] = fields.get(kind, "") + thought
    texts = [{"type": "text", "text": text}] if text else []
    turn: dict[str, Any] = {"role": "assistant", "content": [*parts, *texts] if parts else text, **fields}
    if calls:
        turn["tool_calls"] = [call.as_openai() for call in calls]
    return turn


def reasoning_of(thought: Mapping[str, Any]) -> tuple[str, str]:
    """Return the message field and the text, possibly empty, of a thought for OpenAI-compatible servers."""
    kind = str(thought.get("type"))
    if kind in ANTHROPIC_THOUGHTS:
        thinking = thought.get("thinking", "")
        listed = thinking if isinstance(thinking, list) else [{"text": thinking}]
        return "reasoning_content", "".join(str(each.get("text", "")) for each in listed if isinstance(each, Mapping))
    return kind, str(thought.get(kind, ""))


class ToolCallsSoFar:
    """Assembles the calls of one choice from their pieces, and numbers them from 0 in the order in which they begin."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._calls: list[list[ToolCallFragment]] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, delta: ToolCallFragment) -> ToolCallFragment:
        """Add a piece, and return it with the index of its call."""
        place = self._places.get(delta.index)
        own = None if place is None else next((piece.id for piece in self._calls[place] if piece.id), None)
        if place is None or (own and delta.id and own != fix_surrogates(delta.id)):  # a new id is a new call
            place = self._places[delta.index] = len(self._calls)
            self._calls.append([])
        pieces = self._calls[place]
        delta = replace(
            delta,
            index=place,
            id=None if delta.id is None else fix_surrogates(delta.id),
            name=None if delta.name is None else fix_surrogates(delta.name),
            arguments=fix_surrogates(delta.arguments),
            extra=mended(delta.extra),
        )
        pieces.append(delta)
        return delta

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls so far."""
        return tuple(map(self.call, range(len(self))))

    def call(self, place: int) -> ToolCall:
        """Return the call with this index, as far as it has arrived."""
        pieces = self._calls[place]
        return ToolCall(
            id=next((piece.id for piece in pieces if piece.id), ""),
            name=next((piece.name for piece in pieces if piece.name), ""),
            arguments="".join(piece.arguments for piece in pieces),
            type=pieces[0].type,
            extra={name: value for piece in pieces for name, value in piece.extra.items()},
        )
