"""Puts branches together into one text, in order, while they are being written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint

from stretto.answer import Branch
from stretto.queue import Queue


class Source(Protocol):
    """A branch as the merger sees it: text that comes in pieces, and an end."""

    async def read(self) -> str:
        """Text written since the last read; waits for some; empty once it has ended."""
        ...

    async def ended(self) -> Branch:
        """Wait for the end."""
        ...


class Filter(Protocol):
    """Shapes the text of one branch as it streams; what it returns does not depend on how the text was cut."""

    def feed(self, text: str) -> str:
        """Take new text, give back what can be shown already."""
        ...

    def finish(self) -> str:
        """Give back what was held."""
        ...


Ending = Callable[[Branch], str]


class Merge:
    """One text out of fixed pieces and branches, strictly in the order in which they were added.

    The first branch that has not ended streams live; later ones wait in their own bounded buffers.
    """

    def __init__(self, emit: Callable[[str], Awaitable[None]], now_s: Callable[[], float]) -> None:
        self._emit = emit
        self._now_s = now_s
        self.first_s: float | None = None
        # Holds one closure a segment, no text: strategies bound the number of segments.
        self._segments = Queue[Callable[[], Awaitable[None]]]()
        self._done = anyio.Event()
        self._pending = 0  # segments not yet written to their end
        self._text: list[str] = []

    @property
    def finished(self) -> bool:
        """Whether all of it is with the reader."""
        return self._done.is_set()

    @property
    def text(self) -> str:
        """What has been handed to the reader so far."""
        return "".join(self._text)

    def add(self, text: str | Callable[[], str]) -> None:
        """Add a fixed piece: a label, a space between points; or one that is made when its turn comes."""

        async def segment() -> None:
            await self._write(text if isinstance(text, str) else text())

        self._queue(segment)

    async def add_at_once(self, text: str) -> None:
        """Add a fixed piece; if all before it is written, it is with the reader before anything else is begun.

        For the one task that adds: nothing else may be added until this returns.
        """
        if self._pending:
            self.add(text)
        else:
            await self._write(text)
            await checkpoint()

    def add_branch(
        self,
        source: Source,
        *,
        lead: Callable[[], str] | None = None,
        filter_: Filter | None = None,
        ending: Ending | None = None,
    ) -> None:
        """Add a branch.

        ``lead`` gives the text to put before its first text; where there is none, it is not called. ``ending`` gives
        the text to put behind it, once it is known how it ended.
        """

        async def segment() -> None:
            nonlocal lead

            async def write(text: str) -> None:
                nonlocal lead
                if text and lead is not None:
                    text, lead = lead() + text, None
                await self._write(text)

            while text := await source.read():
                await write(filter_.feed(text) if filter_ else text)
            if filter_:
                await write(filter_.finish())
            if ending:
                await write(ending(await source.ended()))

        self._queue(segment)

    async def finish(self) -> None:
        """Nothing more will be added; wait until the reader has everything."""
        self._segments.end()
        await self._done.wait()

    async def run(self) -> None:
        """Write segments until `finish`; runs beside the strategy."""
        async for segment in self._segments:
            await segment()
            self._pending -= 1
        self._done.set()

    def _queue(self, segment: Callable[[], Awaitable[None]]) -> None:
        self._pending += 1
        self._segments.add(segment)

    async def _write(self, text: str) -> None:
        if text:
            if self.first_s is None:
                self.first_s = self._now_s()
            self._text.append(text)
            await self._emit(text)
