"""The contents of the events of a stream, and the answers that they add up to."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from stretto.backends.base import Chunk, ModelRequest
from stretto.backends.providers.bare_thoughts import BareThoughts
from stretto.backends.providers.call_pieces import CallPiece, IncomingCalls
from stretto.backends.providers.ends import End, Finish, end_of
from stretto.backends.providers.transport.incoming import IncomingText
from stretto.markup.calls import Parts
from stretto.markup.leaked import Leaked
from stretto.values.answer import Usage
from stretto.values.content import mended
from stretto.values.token_records import TokenLogprob

_WHOLE = ("stop", "tool_calls", "unknown")


@dataclass(frozen=True, slots=True)
class Thought:
    """New text for one field of a part of a model's reasoning.

    Provisional: it may change in any release.

    Attributes:
        kind: type of the part.
        field: name of the field.
        text: the new text.
        index: index of the part.
        listed: whether its text is a list of text parts, as Mistral's servers send it and need it back.
    """

    kind: str
    field: str
    text: str
    index: int = 0
    listed: bool = False


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """What one event of a stream contains.

    Provisional: it may change in any release.

    Attributes:
        text: text of the answer.
        thinking: text that is not shown.
        usage: running totals; APIs report them once or with every event.
        finish: why the answer ended, in the server's own word.
        stopped_by: the stop text that ended it, if the server reports it.
        refused: whether the text is a refusal in the model's own words.
        logprobs: log-probabilities of the tokens of this text.
        tool_calls: pieces of tool calls.
        thoughts: pieces of the model's reasoning.
        choice: the answer that all but the usage belongs to.
        warnings: what in the event cannot be passed on.
        extra: other fields of the response.
        annotations: annotations of the text.
    """

    text: str = ""
    thinking: str = ""
    usage: Usage | None = None
    finish: str | None = None
    stopped_by: str | None = None
    refused: bool = False
    logprobs: tuple[TokenLogprob, ...] = ()
    tool_calls: tuple[CallPiece, ...] = ()
    thoughts: tuple[Thought, ...] = ()
    choice: int = 0
    warnings: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    annotations: Sequence[Any] = ()

    def added_to(self, extra: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the other fields of the response so far, with those of this piece."""
        if not self.annotations:
            return {**extra, **self.extra} if self.extra else extra
        return {**extra, **self.extra, "annotations": [*extra.get("annotations", ()), *self.annotations]}


class IncomingAnswer:
    """One answer of a call as it arrives: the one place that defines how the pieces of all servers add up.

    ``prompt``: that of an open model, whose server might leave thoughts in the text, between tags. ``bare``: whether
    the opening tag can be missing, see `BareThoughts.expected`.

    Attributes:
        text: the text that is certain.
        length: characters returned, including arguments of tool calls.
        end: the meaning of the server's finish reason; ``None`` while the answer continues.
        stopped_by: the stop text that ended it.
        word: the server's finish reason.
    """

    def __init__(
        self, stop: Sequence[str], choice: int = 0, *, prompt: ModelRequest | None = None, bare: bool | None = False
    ) -> None:
        self.text = IncomingText(stop)
        self._reader = None if prompt is None else Leaked(prompt.tools, partial(_holds, prompt))
        self._bare = BareThoughts(bare)
        self._scores: list[TokenLogprob] = []  # of text that is withheld
        self.length = 0
        self.end: End | None = None
        self.word = ""
        self.stopped_by: str | None = None
        self._choice = choice
        self._refused = False
        self._calls = IncomingCalls()
        self._thoughts: dict[tuple[int, str], dict[str, Any]] = {}  # by index and kind
        self._listed: set[tuple[int, str]] = set()

    @property
    def finish(self) -> Finish | None:
        """The library's finish reason; ``None`` if the answer continues, or has failed."""
        match self.end:
            case None | "failed":
                return None
            case "paused":
                return "length"
            case "stop" | "unknown" | "tool_calls" if not self.text.ended:
                # Some servers say "stop" after calls, and "tool_calls" after text.
                return "refusal" if self._refused else "tool_calls" if self._calls else "stop"
            case "unknown":
                return "stop"
        return "refusal" if self._refused else self.end

    @property
    def bare(self) -> bool | None:
        """Whether it began within a thought whose opening tag was missing; ``None``: not known."""
        return self._bare.found

    def remarks(self, name: str) -> tuple[str, ...]:
        """Return what the caller has to know about its end; ``name``: the model's."""
        remarks: list[str] = []
        if self._bare.late:
            remarks.append(
                f"{name} wrote its thoughts into the answer, up to </think>. From now on they are taken off; with a "
                "reasoning parser, its server separates them itself."
            )
        if self.end == "unknown":
            remarks.append(
                f"{name} ended its answer with {self.word[:60]!r}, which is not known: it is taken as complete."
            )
        elif self.end == "paused":
            remarks.append(f"{name} paused its turn ({self.word[:60]!r}): the answer is not complete. Ask it to go on.")
        return tuple(remarks)

    def take(self, piece: AnswerPiece) -> Chunk | None:
        """Add a piece; returns ``None`` if it has nothing to pass on."""
        self.text.count(piece.thinking + piece.text)
        text, logprobs = self._split_thought(piece)
        thinking, withheld = bool(piece.thinking), bool(piece.text) and self._bare.holds
        written: tuple[CallPiece, ...] = ()
        if self._reader is not None:
            parts = self._reader.feed(text)
            text, thinking, written = parts.text, thinking or parts.thinking, _written(parts)
            self._think(_thought(parts.thought))
        self._think(piece.thoughts)
        certain = self.text.push(text)
        for call in piece.tool_calls:
            self.text.count(call.arguments)
        calls = tuple(self._calls.take((*piece.tool_calls, *written)))
        self.length += len(certain) + sum(len(call.arguments) for call in calls)
        self._refused = self._refused or piece.refused
        self._note_end(piece)
        if not (certain or thinking or withheld or logprobs or calls or piece.warnings):
            return None
        thoughts = self._thought() if certain or calls else ()
        return Chunk(
            text=certain,
            logprobs=logprobs,
            thinking=thinking,
            held=withheld,
            tool_calls=calls,
            thoughts=thoughts,
            refused=self._refused,
            choice=self._choice,
            warnings=piece.warnings,
        )

    def _split_thought(self, piece: AnswerPiece) -> tuple[str, tuple[TokenLogprob, ...]]:
        """Return the text of a piece without a bare thought, once it is known to be text, and its log-probabilities."""
        split = self._bare.feed(piece.text)
        text = split.text
        if self._bare.found is None and (piece.thinking or piece.tool_calls):
            text += self._bare.none().text
        self._think(_thought(split.thought))
        self._scores += piece.logprobs
        if self._bare.holds:
            return text, ()
        scores, self._scores = () if split.thought else tuple(self._scores), []
        return text, scores

    def _note_end(self, piece: AnswerPiece) -> None:
        if self.text.ended:
            self.end, self.word, self.stopped_by = self.text.ended, "", self.text.stopped_by
        elif piece.finish:
            self.end, self.word, self.stopped_by = end_of(piece.finish), piece.finish, piece.stopped_by

    def rest(self) -> Chunk | None:
        """Return what was withheld."""
        withheld, scores = "", self._scores
        written: tuple[CallPiece, ...] = ()
        if self.text.ended != "stop":
            split = self._bare.finish(cut=self.end not in _WHOLE)
            withheld, scores = split.text, [] if split.thought else scores
            self._think(_thought(split.thought))
            if self._reader is not None:
                fed, last = self._reader.feed(withheld), self._reader.finish()
                self._think(_thought(fed.thought))
                self._think(_thought(last.thought))
                withheld, written = fed.text + last.text, (*_written(fed), *_written(last))
            withheld = self.text.push(withheld)
            self._note_end(AnswerPiece())
        withheld += self.text.flush()
        self.length += len(withheld)
        calls = (*self._calls.take(written), *(self._calls.rest() if self.finish else ()))
        thoughts = self._thought()
        if not (withheld or calls or thoughts):
            return None
        return Chunk(
            text=withheld,
            logprobs=tuple(scores),
            tool_calls=calls,
            thoughts=thoughts,
            refused=self._refused,
            choice=self._choice,
        )

    def _think(self, thoughts: Sequence[Thought]) -> None:
        for thought in thoughts:
            place = thought.index, thought.kind
            part = self._thoughts.setdefault(place, {"type": thought.kind})
            part[thought.field] = part.get(thought.field, "") + thought.text
            if thought.listed:
                self._listed.add(place)

    def _thought(self) -> tuple[Mapping[str, Any], ...]:
        """Return the thoughts since the last call. They are complete because something else followed."""
        for place in self._listed & self._thoughts.keys():
            part = self._thoughts[place]
            part["thinking"] = [{"type": "text", "text": part["thinking"]}]
        thoughts = tuple(map(mended, self._thoughts.values()))
        self._thoughts.clear()
        return thoughts


def _holds(prompt: ModelRequest, text: str) -> bool:
    return any(text in message.content for message in prompt.messages)


def _written(parts: Parts) -> tuple[CallPiece, ...]:
    """Return the calls in a text."""
    return tuple(CallPiece(None, secrets.token_hex(5)[:9], *call) for call in parts.calls)


def _thought(text: str) -> tuple[Thought, ...]:
    return (Thought("reasoning_content", "reasoning_content", text),) if text else ()
