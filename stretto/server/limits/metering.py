"""What a request has cost so far, known at any moment: its client can leave before any usage is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stretto.values.events import (
    AnswerFinished,
    BranchDelta,
    BranchFailed,
    BranchFinished,
    BranchStarted,
    ChoiceDelta,
    Event,
    ThoughtFinished,
    ToolCallDelta,
)
from stretto.values.request import PromptLike

_CHARACTERS = 4  # per token, roughly
_FILES = frozenset({"data", "file_data"})  # fields of a body that contain encoded files


class Meter:
    """The running total of a request's tokens: from the usage of its answers, or else estimated from their events.

    Attributes:
        passed_on: tokens of what was passed on unchanged to the model's server.
    """

    def __init__(self) -> None:
        self.passed_on = 0.0
        self._answers: dict[int, int] = {}
        self._ended: dict[tuple[int, str], int] = {}
        self._running: dict[tuple[int, str], float] = {}  # characters
        self._unassigned: dict[int, float] = {}  # characters that belong to no branch

    @property
    def tokens(self) -> float:
        """Tokens read and written so far."""
        unfinished = sum(size for (index, _), size in self._running.items() if index not in self._answers)
        unfinished += sum(size for index, size in self._unassigned.items() if index not in self._answers)
        ended = sum(tokens for (index, _), tokens in self._ended.items() if index not in self._answers)
        return self.passed_on + sum(self._answers.values()) + ended + unfinished / _CHARACTERS

    def note(self, index: int, event: Event, prompt: PromptLike) -> None:
        """Count an event of the answer with this index and this prompt."""
        match event:
            case BranchStarted():
                self._running[index, event.branch_id] = _characters(prompt)
            case BranchDelta():
                self._running[index, event.branch_id] = self._running.get((index, event.branch_id), 0) + len(event.text)
            case BranchFinished() | BranchFailed():
                self._running.pop((index, event.branch.id), None)
                self._ended[index, event.branch.id] = event.branch.usage.total_tokens
            case ChoiceDelta() if event.choice:
                self._add(index, len(event.text))
            case ToolCallDelta():
                self._add(index, len(event.delta.arguments))
            case ThoughtFinished():
                self._add(index, len(str(event.thought)))
            case AnswerFinished():
                self._answers[index] = event.answer.usage.total_tokens

    def _add(self, index: int, characters: int) -> None:
        self._unassigned[index] = self._unassigned.get(index, 0) + characters


def prompt_tokens(prompt: PromptLike) -> float:
    """Estimate the tokens of a prompt that has not been counted yet."""
    return _characters(prompt) / _CHARACTERS


def body_tokens(body: Mapping[str, Any]) -> float:
    """Estimate the tokens of a body that is passed on unread: of its texts, without images, audio and files."""
    characters, left = 0, list[Any]([body])
    while left:  # not by recursion: the sender chooses how deep it is
        match left.pop():
            case str(text) if not text.startswith("data:"):
                characters += len(text)
            case dict(fields):
                left += [value for name, value in fields.items() if name not in _FILES]
            case list(values):
                left += values
    return characters / _CHARACTERS


def _characters(prompt: PromptLike) -> int:
    if isinstance(prompt, str):
        return len(prompt)
    turns = prompt if isinstance(prompt, Sequence) else (prompt,)
    return sum(len(getattr(turn, "content", None) or "") for turn in turns)
