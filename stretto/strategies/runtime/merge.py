"""Merge branches into one text, in order, while they stream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint

from stretto.foundation.queue import Queue
from stretto.values.answer import Branch


class TextSource(Protocol):
    """A branch as the merge sees it: chunks of text, and an end.

    Provisional: it may change in any release.
    """

    async def read(self) -> str:
        """Wait for new text and return it; empty once the branch has ended."""
        ...

    async def ended(self) -> Branch:
        """Wait for the end."""
        ...


class TextFilter(Protocol):
    """Changes the text of one branch while it streams; the result does not depend on how the stream was chunked.

    Provisional: it may change in any release.
    """

    def feed(self, text: str) -> str:
        """Take new text; return what can be shown already."""
        ...

    def finish(self) -> str:
        """Return what was held back."""
        ...


Ending = Callable[[Branch], str]


class Merge:
    """Merges fixed text and branches strictly in the order in which they were added.

    Provisional beyond what the guide to extending uses: it may change in any release.

    The first branch that has not ended streams live; later ones wait in bounded buffers.

    Args:
        emit: passes text to the reader.
        now_s: seconds since the request arrived.
        screen: makes the last filter for the text of a branch, when its turn comes.
    """

    def __init__(
        self,
        emit: Callable[[str], Awaitable[None]],
        now_s: Callable[[], float],
        screen: Callable[[], TextFilter | None] = lambda: None,
    ) -> None:
        self._emit = emit
        self._screen = screen
        self._now_s = now_s
        self.first_s: float | None = None
        """When the reader received the first text, in seconds since the request arrived."""
        # Holds one closure per segment and no text: strategies bound the number of segments.
        self._segments = Queue[Callable[[], Awaitable[None]]]()
        self._done = anyio.Event()
        self._pending = 0  # segments not yet written completely
        self._text: list[str] = []

    @property
    def finished(self) -> bool:
        """Whether the reader has the whole text."""
        return self._done.is_set()

    @property
    def text(self) -> str:
        """The text that the reader has so far."""
        return "".join(self._text)

    def add(self, text: str | Callable[[], str]) -> None:
        """Add fixed text, such as a label or a separator, or a function that makes it when its turn comes."""

        async def segment() -> None:
            await self._write(text if isinstance(text, str) else text())

        self._queue(segment)

    async def add_at_once(self, text: str | Callable[[], str]) -> None:
        """Add fixed text and, if everything before it is written, wait until the reader has it.

        Only for the task that adds segments: add nothing else until this returns.
        """
        if self._pending:
            self.add(text)
        else:
            await self._write(text if isinstance(text, str) else text())
            await checkpoint()

    def add_branch(
        self,
        source: TextSource,
        *,
        lead: Callable[[], str] | None = None,
        filter_: TextFilter | None = None,
        ending: Ending | None = None,
        as_it_is: bool = False,
    ) -> None:
        """Add a branch.

        ``lead`` makes the text before the first text of the branch; it is not called for a branch without text.
        ``ending`` makes the text after the branch, once it has ended.
        ``as_it_is``: its text is JSON, from which nothing can be removed.
        """

        async def segment() -> None:
            nonlocal lead
            screen = None if as_it_is else self._screen()

            def screened(text: str) -> str:
                return screen.feed(text) if screen is not None else text

            async def write(text: str) -> None:
                nonlocal lead
                if text and lead is not None:
                    text, lead = lead() + text, None
                await self._write(text)

            while text := await source.read():
                await write(screened(filter_.feed(text) if filter_ else text))
            if filter_:
                await write(screened(filter_.finish()))
            if screen is not None:
                await write(screen.finish())
            if ending:
                await write(self._whole(ending(await source.ended())))

        self._queue(segment)

    async def finish(self) -> None:
        """Accept no more segments, and wait until the reader has the whole text."""
        self._segments.end()
        await self._done.wait()

    async def run(self) -> None:
        """Write segments until `finish`; runs concurrently with the strategy."""
        async for segment in self._segments:
            await segment()
            self._pending -= 1
        self._done.set()

    def _queue(self, segment: Callable[[], Awaitable[None]]) -> None:
        self._pending += 1
        self._segments.add(segment)

    def _whole(self, text: str) -> str:
        """Return a complete text as the last filter leaves it."""
        screen = self._screen() if text else None
        return text if screen is None else screen.feed(text) + screen.finish()

    async def _write(self, text: str) -> None:
        if text:
            if self.first_s is None:
                self.first_s = self._now_s()
            self._text.append(text)
            await self._emit(text)
