"""Calls of a caller's tools, as a model asks for them: whole ones, and the pieces that they stream in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from stretto.foundation.surrogates import fix_surrogates
from stretto.values.content import mended

ANTHROPIC_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
"""Types of the parts that hold what Anthropic's models thought; only they read them."""

ToolCallType = Literal["function", "custom"]


class ToolCall(BaseModel):
    """A call that the model asks its caller to make.

    Attributes:
        id: names the call; the message with its result repeats it.
        name: of the tool.
        arguments: as JSON, in the model's own words, so not always valid; of a custom tool, its input as text.
        type: "function", or OpenAI's "custom".
        extra: other fields of the call, which its server wants back as they are: Gemini's signature of its thoughts.
    """

    model_config = ConfigDict(frozen=True)

    id: str = ""
    name: str = ""
    arguments: str = ""
    type: ToolCallType = "function"
    extra: Mapping[str, Any] = Field(default_factory=dict)

    def as_openai(self) -> dict[str, Any]:
        """The same as OpenAI's protocol writes it."""
        text = "input" if self.type == "custom" else "arguments"
        return {**self.extra, "id": self.id, "type": self.type, self.type: {"name": self.name, text: self.arguments}}


@dataclass(frozen=True, slots=True)
class ToolCallFragment:
    """The next piece of a tool call.

    Attributes:
        index: which call of its choice; in events, they count from 0 in the order in which they begin.
        id: of the call, with its first piece.
        name: of the tool, with its first piece.
        arguments: more of the arguments; all pieces together are ``ToolCall.arguments``.
        type: "function", or OpenAI's "custom".
        extra: other fields of the call; those of all pieces together are ``ToolCall.extra``.
    """

    index: int = 0
    id: str | None = None
    name: str | None = None
    arguments: str = ""
    type: ToolCallType = "function"
    extra: Mapping[str, Any] = field(default_factory=dict)


def is_listed(thought: Mapping[str, Any]) -> bool:
    """Whether a thought is a list of texts: Mistral's servers write it so, and want it back so."""
    return thought.get("type") == "thinking" and isinstance(thought.get("thinking"), list)


def turn_of(text: str, calls: Sequence[ToolCall], thoughts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A turn of the assistant in OpenAI's form.

    Thoughts are parts of its content in Anthropic's form, fields of the message in that of OpenAI-compatible servers.
    """
    parts = [dict(each) for each in thoughts if each.get("type") in ANTHROPIC_THOUGHTS]
    fields: dict[str, str] = {}
    for kind, thought in (reasoning_of(each) for each in thoughts if each.get("type") not in ANTHROPIC_THOUGHTS):
        fields[kind] = fields.get(kind, "") + thought
    said = [{"type": "text", "text": text}] if text else []
    turn: dict[str, Any] = {"role": "assistant", "content": [*parts, *said] if parts else text, **fields}
    if calls:
        turn["tool_calls"] = [call.as_openai() for call in calls]
    return turn


def reasoning_of(thought: Mapping[str, Any]) -> tuple[str, str]:
    """A thought as OpenAI-compatible servers write it: the field of the message and its text, which may be empty."""
    kind = str(thought.get("type"))
    if kind in ANTHROPIC_THOUGHTS:
        said = thought.get("thinking", "")
        listed = said if isinstance(said, list) else [{"text": said}]
        return "reasoning_content", "".join(str(each.get("text", "")) for each in listed if isinstance(each, Mapping))
    return kind, str(thought.get(kind, ""))


class ToolCallsSoFar:
    """Puts the calls of one choice together from their pieces, and counts them from 0 in the order of their begin."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._calls: list[list[ToolCallFragment]] = []

    def __bool__(self) -> bool:
        return bool(self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, delta: ToolCallFragment) -> ToolCallFragment:
        """Take a piece, and give it with the place of its call."""
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
        """What has come so far."""
        return tuple(map(self.call, range(len(self))))

    def call(self, place: int) -> ToolCall:
        """What has come so far of the call with this place."""
        pieces = self._calls[place]
        return ToolCall(
            id=next((piece.id for piece in pieces if piece.id), ""),
            name=next((piece.name for piece in pieces if piece.name), ""),
            arguments="".join(piece.arguments for piece in pieces),
            type=pieces[0].type,
            extra={name: value for piece in pieces for name, value in piece.extra.items()},
        )
