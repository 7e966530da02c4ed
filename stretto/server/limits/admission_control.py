"""Admission: how many answers run at a time, who waits, who is refused, and how to shut down."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio

from stretto.server.limits.keys import Holder
from stretto.server.problems import Problem, retry_after, shutting_down
from stretto.server.server_options import ServerOptions


class AdmissionControl:
    """A queue that admits requests one after the other, as long as there is room.

    Attributes:
        running: answers that are being written.
        waiting: requests that are waiting for their turn.
        draining: whether the server is shutting down and admits nobody.
    """

    def __init__(self, options: ServerOptions) -> None:
        self.running = 0
        self.waiting = 0
        self.draining = False
        self._options = options
        self._room = anyio.Semaphore(options.concurrent_answers, fast_acquire=True)
        self._usual_s = 1.0  # the duration of a typical answer
        self._empty = anyio.Event()
        self._endings: dict[object, Callable[[Problem], None]] = {}

    def check_open(self) -> None:
        """Raise `Problem` (503) while the server shuts down."""
        if self.draining:
            raise shutting_down()

    async def _check_minute(self, holder: Holder, prompt_tokens: float) -> None:
        """Raise `Problem` (429) if the key has used up this minute, or has less left than the prompt takes."""
        if holder.tokens is not None and (wait_s := await holder.tokens.wait_s(max(1.0, prompt_tokens))) > 0:
            message = f"The key {holder.name} has too few tokens left in this minute. Wait {wait_s:.0f} s."
            raise _too_many(message, wait_s)
        if holder.requests is not None and (wait_s := await holder.requests.admit()) > 0:
            message = f"The key {holder.name} has used up its requests of this minute. Wait {wait_s:.0f} s."
            raise _too_many(message, wait_s)

    def _check_room(self, holder: Holder) -> None:
        """Raise `Problem` (429) if too many answers are under way, for this holder or in total."""
        if holder.concurrent_answers is not None and holder.running >= holder.concurrent_answers:
            raise self._too_many_of(holder)
        if self.waiting >= self._options.queue and self._room.value == 0:
            raise _too_many(
                f"{self.running} answers are being written and {self.waiting} requests wait: no more is taken in.",
                self._usual_s * (self.waiting + 1) / self._options.concurrent_answers,
            )

    def _too_many_of(self, holder: Holder) -> Problem:
        return _too_many(
            f"The key {holder.name} allows {holder.concurrent_answers} answers at a time, and as many are under way. "
            "Wait for one of them.",
            self._usual_s / (holder.concurrent_answers or 1),
        )

    @asynccontextmanager
    async def admitted(
        self, holder: Holder, end: Callable[[Problem], None], *, prompt_tokens: float = 0.0
    ) -> AsyncGenerator[float]:
        """Wait for a turn, and keep it within the block; yields the seconds waited.

        Every request with a body passes through here. ``end`` is called if the server stops before the answer is
        complete; ``prompt_tokens`` estimates what a model will read for it. Raises `Problem`: 503 while the server
        shuts down, 429 over a limit of the server or of the key.
        """
        self.check_open()
        self._check_room(holder)  # a refused request does not count towards what a key allows in a minute
        async with self._place(holder):
            await self._check_minute(holder, prompt_tokens)
            self.check_open()  # while the store was asked, others were admitted
            self._check_room(holder)
            async with self._turn(holder, end) as waited_s:
                yield waited_s

    @asynccontextmanager
    async def _place(self, holder: Holder) -> AsyncGenerator[None]:
        """Take a place among this key's answers on all servers. Raises `Problem` (429) if there is none."""
        if holder.places is None:
            yield
            return
        async with holder.places.one() as granted:
            if not granted:
                raise self._too_many_of(holder)
            yield

    @asynccontextmanager
    async def _turn(self, holder: Holder, end: Callable[[Problem], None]) -> AsyncGenerator[float]:
        token = object()
        began = time.perf_counter()
        holder.running += 1
        self._endings[token] = end
        try:
            await self._wait()
            started = time.perf_counter()
            self.running += 1
            try:
                yield started - began
            finally:
                self.running -= 1
                self._room.release()
                self._usual_s += 0.1 * (time.perf_counter() - started - self._usual_s)
        finally:
            holder.running -= 1
            del self._endings[token]
            if not self._endings:
                self._empty.set()

    @asynccontextmanager
    async def extra_place(self, holder: Holder) -> AsyncGenerator[bool]:
        """Take a further place for an admitted request, if one is free now; yields whether there was one."""
        full = holder.concurrent_answers is not None and holder.running >= holder.concurrent_answers
        if self.draining or full or self.waiting or self._room.value == 0:
            yield False
            return
        self._room.acquire_nowait()
        self.running += 1
        holder.running += 1
        try:
            if holder.places is None:
                yield True
            else:
                async with holder.places.one() as granted:
                    yield granted
        finally:
            holder.running -= 1
            self.running -= 1
            self._room.release()

    async def _wait(self) -> None:
        self.waiting += 1
        try:
            await self._room.acquire()
        finally:
            self.waiting -= 1

    async def drain(self) -> None:
        """Admit nobody any more; return when every running answer has ended, the last ones by force."""
        self.draining = True
        if self._endings:
            self._empty = anyio.Event()
            with anyio.move_on_after(self._options.drain_s):
                await self._empty.wait()
            await self.break_off(5.0)

    async def break_off(self, within_s: float) -> None:
        """End every running answer with an error; wait as long as some of them end in each ``within_s``.

        A client that does not read its last bytes is abandoned.
        """
        for end in tuple(self._endings.values()):
            end(shutting_down())
        left = len(self._endings) + 1
        while 0 < len(self._endings) < left:
            left = len(self._endings)
            with anyio.move_on_after(within_s):
                await self._empty.wait()


def _too_many(message: str, wait_s: float) -> Problem:
    return Problem(429, message, "rate_limit_error", code="rate_limit_exceeded", headers=retry_after(wait_s))
