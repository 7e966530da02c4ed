"""Turns the events of one generation, from the engine's thread, into chunks in the event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from stretto.backends.base import Chunk, Stages
from stretto.backends.local.tools import new_call_id
from stretto.local_engine.drafting.catalogue import LOSSY
from stretto.local_engine.generation import Figures, Finished, Piece, Stage
from stretto.local_engine.generation import TokenLogprob as Score
from stretto.local_engine.research_registry import block_rules
from stretto.local_engine.serving.record import Record
from stretto.markup.calls import Parts
from stretto.markup.reading import Reader
from stretto.values.answer import Usage
from stretto.values.errors import BackendError
from stretto.values.token_records import DecodingStats, TokenLogprob
from stretto.values.tool_calls import ToolCallFragment

if TYPE_CHECKING:
    from stretto.local_engine.model.loading.load import LoadedModel

_THOUGHT = "reasoning_content"  # the field in which most servers return thoughts


class Chunks:
    """Receives events from the engine's thread and yields chunks; all events that are ready become one chunk.

    A chunk without text comes at once, and another when the engine admits the request: they carry the stages so far.
    Create it in the event loop that reads it. The figures of the generation are added to ``record``. ``warnings`` come
    with the last chunk. ``unheld``, the schema keywords that are not fully enforced, comes with the first. ``reader``
    separates thoughts and tool calls from the text.
    """

    def __init__(
        self,
        backend: str,
        loop: asyncio.AbstractEventLoop,
        record: Record,
        model: LoadedModel,
        warnings: tuple[str, ...] = (),
    ) -> None:
        self._backend = backend
        self.unheld: tuple[str, ...] = ()
        self.generated: Sequence[int] = ()  # tokens so far; the engine appends to it
        self.reader: Reader | None = None
        self._thought_tokens = self._calls = 0
        self._warnings = warnings
        self._model = model
        self._record = record
        self._loop = loop
        self._lock = threading.Lock()
        self._events: list[Piece | Finished] = []
        self._filled = asyncio.Event()
        self._finished = asyncio.Event()
        self._over = False
        self.stages = self._stages_sent = Stages()

    def put(self, event: Piece | Finished) -> None:
        """Add an event; from any thread."""
        if isinstance(event, Finished) and event.figures is not None:
            self._record.add(event.figures)
        with self._lock:
            self._events.append(event)
            first = len(self._events) == 1
        if first or isinstance(event, Finished):  # otherwise the event loop has been woken already
            self._loop.call_soon_threadsafe(self._wake, event)

    def _wake(self, event: Piece | Finished) -> None:
        self._filled.set()
        if isinstance(event, Finished):
            self._finished.set()

    def reach(self, stage: Literal["loaded", "prepared"] | Stage, at_s: float | None = None) -> None:
        """Record that the call reached a stage, now or at a time of `time.perf_counter`; from any thread."""
        at_s = time.perf_counter() if at_s is None else at_s
        with self._lock:
            self.stages = replace(self.stages, **{f"{stage}_s": at_s})
        if stage in ("submitted", "admitted"):  # the other stages come with a token
            self._loop.call_soon_threadsafe(self._filled.set)

    async def ended(self) -> None:
        """Wait until the engine has released the request."""
        await self._finished.wait()

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self

    async def __anext__(self) -> Chunk:
        if self._over:
            raise StopAsyncIteration
        events, stages = await self._news()
        pieces = [event for event in events if isinstance(event, Piece)]
        last = events[-1] if events else None
        unheld, self.unheld = self.unheld, ()
        chunk = self._chunk_of(pieces, ended=isinstance(last, Finished))
        if not isinstance(last, Finished):
            return replace(chunk, stages=stages, unheld=unheld)
        self._over = True
        if last.error is not None:
            raise last.error
        if last.reason not in ("stop", "length"):
            raise BackendError(f"{self._backend} was closed while it generated.", backend=self._backend)
        cut = last.reason == "length" and self.generated
        if cut and min(self.generated) >= (known := len(self._model.tokenizer)):
            raise BackendError(
                f"{self._backend} wrote nothing but tokens without a text: its weights are for "
                f"{self._model.vocabulary:,} tokens, and its tokenizer knows {known:,}. Give it the tokenizer that it "
                "was trained with.",
                backend=self._backend,
            )
        usage = Usage(
            prompt_tokens=last.prompt_tokens,
            completion_tokens=last.completion_tokens,
            cached_tokens=last.cached_tokens,
            reasoning_tokens=self._thought_tokens,
            calls=1,
        )
        decoding = None if last.figures is None else decoding_of(last.figures)
        noted = () if last.figures is None else last.figures.warnings
        return replace(
            chunk,
            usage=usage,
            finish_reason="tool_calls" if self._calls and last.reason == "stop" else last.reason,
            stop_text=last.stop_text,
            decoding=decoding,
            stages=stages,
            unheld=unheld,
            warnings=(*self._warnings, *(f"{self._backend}: {warning}." for warning in noted)),
        )

    def _chunk_of(self, pieces: Sequence[Piece], *, ended: bool) -> Chunk:
        """Return the text of some pieces, its tool calls and thoughts, and log-probabilities of all but thoughts."""
        if self.reader is None:
            scores = tuple(self._logprob(each) for piece in pieces for each in piece.logprobs)
            return Chunk(text="".join(piece.text for piece in pieces), logprobs=scores)
        parts: list[Parts] = []
        logprobs: list[TokenLogprob] = []
        for piece in pieces:
            parts.append(self.reader.feed(piece.text))
            if parts[-1].thinking:
                self._thought_tokens += len(piece.tokens)
            else:
                logprobs += map(self._logprob, piece.logprobs)
        if ended:
            parts.append(self.reader.finish())
        calls = [call for part in parts for call in part.calls]
        thoughts = [{"type": _THOUGHT, _THOUGHT: part.thought} for part in parts if part.thought]
        self._calls += len(calls)
        return Chunk(
            text="".join(part.text for part in parts),
            logprobs=tuple(logprobs),
            thinking=any(part.thinking for part in parts),
            thoughts=tuple(thoughts),
            tool_calls=tuple(
                ToolCallFragment(place, new_call_id(self._model.form), call.name, call.arguments)
                for place, call in enumerate(calls, self._calls - len(calls))
            ),
        )

    async def _news(self) -> tuple[list[Piece | Finished], Stages | None]:
        """Wait for events or a stage. Return all new events, and the stages if they have changed."""
        while True:
            await self._filled.wait()
            with self._lock:
                events, self._events = self._events, []
                stages = None if self.stages == self._stages_sent else self.stages
                self._stages_sent = self.stages
                self._filled.clear()
            if events or stages:  # a stage can arrive together with the events before it
                return events, stages

    def _logprob(self, score: Score) -> TokenLogprob:
        word = self._model.word
        top = tuple((word(token), logprob) for token, logprob in score.top)
        return TokenLogprob.model_construct(token=word(score.token), logprob=score.logprob, top=top)


def decoding_of(figures: Figures) -> DecodingStats:
    """Convert the figures of one generation, or the sum of those of one method, into the statistics of an answer."""
    return DecodingStats(
        methods=(figures.decoding,),
        steps=figures.steps,
        rows=figures.rows,
        tokens=figures.tokens,
        drafted=figures.drafted,
        accepted=figures.accepted,
        changed=figures.changed,
        lossy=figures.decoding in LOSSY or figures.decoding in block_rules(),
    )
