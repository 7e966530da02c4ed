"""A backend that answers from a script: delays, chunks and faults per prompt, without a network or a model."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import anyio

from stretto.backends.base import Capabilities, Chunk, ModelRequest
from stretto.backends.known_models import typical_tokens
from stretto.values.answer import Usage
from stretto.values.errors import InvalidRequestError, StrettoError
from stretto.values.request import GenerationOptions
from stretto.values.tool_calls import ToolCall, ToolCallFragment


@dataclass(frozen=True)
class Reply:
    """What one call does.

    Attributes:
        text: the text to write; split into ``chunks`` if given, else word by word.
        delay_s: seconds before the first chunk.
        chunk_delay_s: seconds before each further chunk.
        chunks: the chunks of the answer, instead of the words of ``text``.
        fault: the exception to raise instead of going on.
        fault_after: chunks before the fault.
        hold: an event to wait for before the first chunk, for tests that control the order.
        finish_reason: how the answer ends.
        reasoning_tokens: tokens spent on thinking, counted in the usage.
        tool_calls: the tool calls that follow the text.
    """

    text: str = ""
    chunks: Sequence[str] | None = None
    delay_s: float = 0.0
    chunk_delay_s: float = 0.0
    fault: StrettoError | None = None
    fault_after: int = 0
    hold: anyio.Event | None = None
    finish_reason: Literal["stop", "length", "tool_calls", "refusal", "content_filter"] | None = "stop"
    reasoning_tokens: int = 0
    tool_calls: Sequence[ToolCall] = ()

    def pieces(self) -> Sequence[str]:
        """Return the chunks in order."""
        return self.chunks if self.chunks is not None else re.findall(r"\s*\S+\s*?(?=\s|$)|\s+$", self.text)


Replying = Callable[[ModelRequest], "str | Reply"]
Answering = str | Reply | Replying | Sequence["str | Reply | Replying"]


@dataclass
class ScriptedBackend:
    r"""A backend that answers each prompt by the first rule whose pattern is found in the prompt's text.

    ``script`` maps regular expressions to replies: a string, a `Reply`, a function from `ModelRequest` to one of these,
    or a list with one for each successive call (the last one repeats). It can also be such a function itself. The text
    searched is that of all messages, joined by newlines.

    Attributes:
        calls: every prompt and its options, in the order of arrival.
        script: the replies.
        name: the model name.
        capabilities: the capabilities it reports.
        running: calls under way now.
        most_running: the most calls that were under way at a time.
        closed: whether it was closed.

    >>> backend = ScriptedBackend({"Write only the outline": "1. Tea\n2. Milk", "Tea": "Hot.", "": "Yes."})
    """

    script: Mapping[str, Answering] | Replying
    name: str = "scripted:model"
    capabilities: Capabilities = field(default_factory=Capabilities)
    calls: list[tuple[ModelRequest, GenerationOptions]] = field(default_factory=list)
    running: int = 0
    most_running: int = 0
    closed: bool = False
    _used: dict[str, int] = field(default_factory=dict)

    @asynccontextmanager
    async def stream(self, prompt: ModelRequest, options: GenerationOptions) -> AsyncGenerator[AsyncGenerator[Chunk]]:
        """Run one scripted generation."""
        self.calls.append((prompt, options))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            async with aclosing(self._chunks(prompt, options, self._reply(prompt))) as chunks:
                yield chunks
        finally:
            self.running -= 1

    async def count_tokens(self, prompt: ModelRequest) -> int:
        """Estimate four characters per token."""
        return _tokens(message.content for message in prompt.messages)

    async def aclose(self) -> None:
        """Record that it was closed."""
        self.closed = True

    async def _chunks(self, prompt: ModelRequest, options: GenerationOptions, reply: Reply) -> AsyncGenerator[Chunk]:
        if reply.hold is not None:
            await reply.hold.wait()
        await anyio.sleep(reply.delay_s)
        written: list[str] = []
        reason = reply.finish_reason
        usage = Usage(prompt_tokens=_tokens(message.content for message in prompt.messages), calls=1)
        for number, piece in enumerate(reply.pieces()):
            if reply.fault is not None and number == reply.fault_after:
                yield Chunk(usage=usage)
                raise reply.fault
            if options.max_tokens is not None and _tokens([*written, piece]) > options.max_tokens:
                reason = "length"
                break
            if number:
                await anyio.sleep(reply.chunk_delay_s)
            written.append(piece)
            yield Chunk(piece)
        if reply.fault is not None and len(written) <= reply.fault_after:
            yield Chunk(usage=usage)
            raise reply.fault
        for place, call in enumerate(reply.tool_calls):
            yield Chunk(tool_calls=(ToolCallFragment(place, call.id, call.name, call.arguments, call.type),))
            reason = "tool_calls" if reason == "stop" else reason
        thought = reply.reasoning_tokens
        total = Usage(completion_tokens=_tokens(written) + thought, reasoning_tokens=thought)
        yield Chunk(usage=usage + total, finish_reason=reason)

    def _reply(self, prompt: ModelRequest) -> Reply:
        if callable(self.script):
            return _as_reply(self.script, prompt)
        text = "\n".join(message.content for message in prompt.messages)
        for pattern, answering in self.script.items():
            if re.search(pattern, text, re.DOTALL):
                if isinstance(answering, (str, Reply)) or callable(answering):
                    return _as_reply(answering, prompt)
                turn = self._used.get(pattern, 0)
                self._used[pattern] = turn + 1
                return _as_reply(answering[min(turn, len(answering) - 1)], prompt)
        raise InvalidRequestError(
            f"The script has no rule for the prompt {text[:80]!r}. Add one; the pattern '' answers everything."
        )


def _as_reply(answering: str | Reply | Replying, prompt: ModelRequest) -> Reply:
    reply = answering(prompt) if callable(answering) else answering
    return reply if isinstance(reply, Reply) else Reply(reply)


def _tokens(texts: Iterable[str]) -> int:
    return typical_tokens(sum(len(text) for text in texts))
