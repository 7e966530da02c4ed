"""Where the time goes between a question and its first title, and from there to the first words below it.

Timestamps of the scripted server (`--record`), of the edge of the backend and of the reader are put together; all are
read from the same monotonic clock. The bare SDK reads the same outline from the same server, in turns.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from rich.table import Table

from stretto.backends.base import Backend, Chunk, ModelRequest
from stretto.backends.resilience.wrapper import Wrapper
from stretto.values.request import GenerationOptions

OUTLINE = "Write only the outline"
FIRST_POINT = "text of point 1,"


@dataclass
class Call:
    """One call as its caller sees it: when it began, and when text came out of it. Seconds of the monotonic clock."""

    prompt: str
    began_s: float
    texts: list[tuple[float, str]] = field(default_factory=list)

    @property
    def first_s(self) -> float:
        """When the first text came."""
        return self.texts[0][0]

    @property
    def line_s(self) -> float:
        """When the text came that ended the first line."""
        return next(at for at, text in self.texts if "\n" in text)


class Watched(Wrapper):
    """A backend that keeps the times of its calls."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.calls: list[Call] = []

    @asynccontextmanager
    async def stream(self, prompt: ModelRequest, options: GenerationOptions) -> AsyncGenerator[AsyncIterator[Chunk]]:
        """Start one generation and note when."""
        call = Call(prompt.messages[-1].content, time.perf_counter())
        self.calls.append(call)
        async with self.inner.stream(prompt, options) as chunks:
            yield _noted(chunks, call)

    def call(self, words: str) -> Call:
        """The last call whose prompt has these words."""
        return next(call for call in reversed(self.calls) if words in call.prompt)


async def _noted(chunks: AsyncIterator[Chunk], call: Call) -> AsyncIterator[Chunk]:
    async for chunk in chunks:
        if chunk.text:
            call.texts.append((time.perf_counter(), chunk.text))
        yield chunk


async def read_bare(sdk: Any) -> Call:
    """The outline, read by the SDK alone."""
    call = Call(OUTLINE, time.perf_counter())
    messages = [{"role": "user", "content": OUTLINE}]
    stream = await sdk.chat.completions.create(
        model="scripted", messages=messages, stream=True, stream_options={"include_usage": True}
    )
    async with stream:
        async for event in stream:
            if event.choices and event.choices[0].delta.content:
                call.texts.append((time.perf_counter(), event.choices[0].delta.content))
    return call


@dataclass(frozen=True)
class Served:
    """One request as the server saw it."""

    prompt: str
    arrived_s: float
    tokens_s: Sequence[float]
    ended_s: float


async def recorded(file: Path, count: int) -> list[Served]:
    """What the server has recorded, once it is that much. Raises `TimeoutError`."""
    lines: list[str] = []
    with anyio.fail_after(10):
        while len(lines) < count:
            await anyio.sleep(0.05)
            lines = (await anyio.Path(file).read_text(encoding="utf-8")).splitlines()
    return [Served(**json.loads(line)) for line in lines]


def served(requests: Sequence[Served], call: Call) -> Served:
    """The request that a call became: the first with its words that arrived after it began."""
    words = FIRST_POINT if FIRST_POINT in call.prompt else OUTLINE
    return min(
        (each for each in requests if words in each.prompt and each.arrived_s > call.began_s),
        key=lambda each: each.arrived_s,
    )


@dataclass(frozen=True)
class Pace:
    """What the server was given: seconds to the first token, tokens a second, tokens of an outline line."""

    ttft_s: float
    tokens_per_s: float
    line: int

    @property
    def line_s(self) -> float:
        """Seconds from the arrival of a request to the token that ends its first line."""
        return self.ttft_s + self.line / self.tokens_per_s


Parts = dict[str, float]


def to_title(asked_s: float, title_s: float, outline: Call, request: Served, pace: Pace) -> Parts:
    """Milliseconds between the question and the first title."""
    written = request.tokens_s[pace.line]
    return _ms(
        {
            "asked -> call begins (request, route, prompt)": outline.began_s - asked_s,
            "call begins -> server has it": request.arrived_s - outline.began_s,
            "time to first token, one line": pace.line_s,
            "server late": written - request.arrived_s - pace.line_s,
            "server writes -> chunk leaves the backend": outline.line_s - written,
            "chunk -> title with the reader (parser, merge, events)": title_s - outline.line_s,
        }
    )


def to_words(words_s: float, outline: Call, point: Call, request: Served, pace: Pace) -> Parts:
    """Milliseconds between the end of the first outline line at the backend and the first words of its point."""
    written = request.tokens_s[0]
    return _ms(
        {
            "chunk -> point's call begins (parser, title, prompt)": point.began_s - outline.line_s,
            "point's call begins -> server has it": request.arrived_s - point.began_s,
            "time to first token": pace.ttft_s,
            "server late (point)": written - request.arrived_s - pace.ttft_s,
            "server writes -> chunk leaves the backend (point)": point.first_s - written,
            "chunk -> words with the reader": words_s - point.first_s,
        }
    )


def of_bare(call: Call, request: Served, pace: Pace) -> Parts:
    """The same parts of the bare SDK, as far as it has them."""
    written = request.tokens_s[pace.line]
    return _ms(
        {
            "call begins -> server has it": request.arrived_s - call.began_s,
            "time to first token, one line": pace.line_s,
            "server late": written - request.arrived_s - pace.line_s,
            "server writes -> chunk leaves the backend": call.line_s - written,
        }
    )


def _ms(parts: Parts) -> Parts:
    return {name: seconds * 1000 for name, seconds in parts.items()}


def medians(runs: Sequence[Parts]) -> Parts:
    """Part by part."""
    return {name: round(statistics.median(run[name] for run in runs), 2) for name in runs[0]}


def table(title: Parts, words: Parts, bare: Parts) -> Table:
    """Both ways, the bare SDK next to the first."""
    drawn = Table(title="where the time goes: medians, milliseconds", title_justify="left")
    drawn.add_column("part")
    for column in ("stretto", "bare SDK"):
        drawn.add_column(column, justify="right")
    for part, spent in title.items():
        drawn.add_row(part, f"{spent:.2f}", f"{bare[part]:.2f}" if part in bare else "")
    drawn.add_section()
    for part, spent in words.items():
        drawn.add_row(part, f"{spent:.2f}", "")
    return drawn
