"""Detects silence: a stream on which nothing arrives any more."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import anyio

from stretto.backends.base import Backend, Chunk, ModelRequest
from stretto.backends.ending import Ends
from stretto.backends.known_models import estimate_tokens
from stretto.backends.providers.failures import charge
from stretto.backends.resilience.stream_task import StreamTask, stream_tasks
from stretto.backends.resilience.wrapper import Wrapper
from stretto.values.answer import Usage
from stretto.values.errors import StalledError
from stretto.values.request import GenerationOptions

ON_TIME_S = 0.02
"""A timeout that fires later than this, in seconds, was noticed late because something blocked the event loop."""


class StallGuard(Wrapper):
    """A wrapper that ends a stream with `StalledError` if the answer makes no progress for too long.

    What counts is `Chunk.is_progress`: text, thinking and the end of the answer. Other events, which only
    keep a connection open, can be endless. Silence after the finish reason is not a stall.

    A call with a late first text is not repeated: a slow server would have to read the prompt from the beginning
    again. It is repeated, as one that hangs, only if a call that began later was answered first.

    Args:
        backend: the backend to watch.
        first_text_s: the limit in seconds until the first text of a short prompt; longer ones get more (`FirstTexts`).
        stall_s: the limit after it.
    """

    def __init__(self, backend: Backend, *, first_text_s: float = 120.0, stall_s: float = 30.0) -> None:
        super().__init__(backend)
        self.first_texts = FirstTexts(first_text_s, at_provider=getattr(backend, "at_provider", False))
        self.stall_s = stall_s

    @asynccontextmanager
    async def stream(self, prompt: ModelRequest, options: GenerationOptions) -> AsyncGenerator[AsyncIterator[Chunk]]:
        """Start one generation. All its errors are raised while iterating, even those from its start."""
        call_task = StreamTask()
        async with stream_tasks() as tasks:
            tasks.start_soon(call_task.run, self.inner, prompt, options, name=f"stretto call {self.name}")
            try:
                yield _Watched(call_task, self, prompt)
            finally:
                call_task.stop()


class _Watched(AsyncIterator[Chunk]):
    def __init__(self, chunks: StreamTask, guard: StallGuard, prompt: ModelRequest) -> None:
        self._chunks = chunks
        self._guard = guard
        self._tokens = estimate_tokens(prompt)
        self._began_s = anyio.current_time()
        self._silent = self._mute = True  # no sign of an answer yet; no text of it
        self._limit_s = guard.first_texts.limit_s(self._tokens)
        self._waited_s = 0.0  # since the last progress
        self._calls = 1  # calls whose usage was not reported yet
        self._ends = Ends(prompt.n)

    async def __anext__(self) -> Chunk:
        if self._ends.whole:
            if (chunk := await self._ends.next(self._chunks)) is None:
                raise StopAsyncIteration
            return chunk
        while (left_s := self._limit_s - self._waited_s) > 0:
            # The times of other calls can meanwhile shorten the wait for a first text, so check again now and then.
            wait_s = min(left_s, max(1.0, self._guard.first_texts.usual_s)) if self._mute else left_s
            began_s = anyio.current_time()
            with anyio.move_on_after(wait_s):
                chunk = await anext(self._chunks)
                # The time that the reader takes between two chunks does not count.
                self._note(chunk, anyio.current_time() - began_s)
                return chunk
            late_s = anyio.current_time() - began_s - wait_s
            # Nor does time in which the event loop was blocked: what arrived meanwhile could not be read.
            self._waited_s += wait_s - (min(late_s, wait_s) if late_s > ON_TIME_S else 0.0)
            if self._mute:
                self._limit_s = self._guard.first_texts.limit_s(self._tokens)
        error = self._late() if self._mute else self._stalled()
        charge(error, Usage(calls=self._calls))
        raise error

    def _note(self, chunk: Chunk, waited_s: float) -> None:
        if chunk.usage:
            self._calls = max(0, self._calls - chunk.usage.calls)
        if self._silent and chunk.is_progress:
            self._silent = False
            self._guard.first_texts.note(self._tokens, self._began_s, anyio.current_time() - self._began_s)
        if chunk.is_answer or chunk.held:
            self._mute = False
            self._limit_s = self._guard.stall_s
        self._ends.note(chunk)
        self._waited_s = 0.0 if chunk.is_progress else self._waited_s + waited_s

    def _late(self) -> StalledError:
        name, firsts = self._guard.name, self._guard.first_texts
        hangs = self._silent and firsts.overtook(self._began_s)
        return StalledError(
            f"{name} sent no text within {round(self._limit_s, 1):g} s, for a prompt of about {self._tokens} tokens. "
            + ("Calls that began later were answered: ask again. " if hangs else "It may be slow, not broken. ")
            + f"first_text_s={firsts.usual_s:g} sets this limit for short prompts: allow more with "
            "Settings(first_text_s=...), or ask with a shorter prompt.",
            backend=name,
            transient=hangs,
        )

    def _stalled(self) -> StalledError:
        name = self._guard.name
        return StalledError(
            f"{name} sent no more text for {self._limit_s:g} s. Ask again; if that persists, allow more with "
            "Settings(stall_s=...).",
            backend=name,
        )


SHORT = 1_000
"""Tokens of a prompt whose prefill time is negligible."""

_READ_PER_S = 50.0  # tokens: a large model on a CPU
_READ_PER_S_BY_PROVIDERS = 1_000.0
_SLACK = 4.0  # times the measured value: a server might be busier now
_SAMPLES = 50


class FirstTexts:
    """The times to first text of one backend.

    Args:
        usual_s: the limit for short prompts.
        at_provider: whether the calls go to a provider, whose machines have a fast prefill.
    """

    def __init__(self, usual_s: float, *, at_provider: bool = False) -> None:
        self.usual_s = usual_s
        self._assumed = 1 / (_READ_PER_S_BY_PROVIDERS if at_provider else _READ_PER_S)
        self._measured: deque[float] = deque(maxlen=_SAMPLES)  # seconds per token
        self._last_answered_s = float("-inf")

    def limit_s(self, tokens: int) -> float:
        """Return the seconds that the first text of a prompt of so many tokens may take."""
        per_token = _SLACK * max(self._measured) if self._measured else self._assumed
        return self.usual_s + max(0, tokens - SHORT) * per_token

    def note(self, tokens: int, began_s: float, seconds: float) -> None:
        """Record a first text: the prompt's tokens, when its call began, and how long it took."""
        self._last_answered_s = max(self._last_answered_s, began_s)
        if tokens > SHORT:
            self._measured.append(seconds / tokens)

    def overtook(self, began_s: float) -> bool:
        """Return whether a later call already has its first text: then an earlier one hangs rather than being slow."""
        return self._last_answered_s > began_s
