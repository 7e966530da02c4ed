"""The answers to the questions of one request, as a stream of events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import anyio

from stretto.client.streams import AnswerStream
from stretto.foundation.queue import Queue
from stretto.server.limits.admission_control import AdmissionControl
from stretto.server.limits.keys import Holder
from stretto.server.models import Served
from stretto.values.errors import StrettoError
from stretto.values.events import Event
from stretto.values.request import PromptLike, RequestOptions

Indexed = tuple[int, Event]


class AnswerEvents(Protocol):
    """Events as they arrive, each with the index of the answer it belongs to."""

    def __aiter__(self) -> AsyncIterator[Indexed]: ...

    async def __anext__(self) -> Indexed: ...

    def ready(self) -> list[Indexed]:
        """Return the events that have already arrived."""
        ...


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to a client; ``options`` are keyword arguments of `AsyncStretto.stream`."""

    served: Served
    prompt: PromptLike
    options: RequestOptions


@asynccontextmanager
async def answer_events(
    asks: Sequence[Ask], holder: Holder, admission: AdmissionControl
) -> AsyncGenerator[AnswerEvents]:
    """Yield the events of all answers as they arrive, each with the index of its question.

    The request occupies one place. Further questions run concurrently only in places that are free now.
    """
    if len(asks) == 1:
        ask = asks[0]
        async with ask.served.client.stream(ask.prompt, **ask.options) as events:
            yield _Numbered(events)
        return
    queue = Queue[Indexed](64)
    failure: Exception | None = None
    async with anyio.create_task_group() as answering:

        async def answer(index: int, ask: Ask) -> None:
            nonlocal failure
            try:
                async with ask.served.client.stream(ask.prompt, **ask.options) as events:
                    async for event in events:
                        await queue.put((index, event))
            except StrettoError as error:
                failure = failure or error
                answering.cancel_scope.cancel()

        left = iter(enumerate(asks))

        async def take() -> None:
            for index, ask in left:
                await answer(index, ask)

        async def take_extra() -> None:
            async with admission.extra_place(holder) as free:
                if free:
                    await take()

        async def run_all() -> None:
            async with anyio.create_task_group() as each:
                for _ in asks[1:]:
                    each.start_soon(take_extra)
                await take()
            queue.end()

        answering.start_soon(run_all)
        yield queue
        answering.cancel_scope.cancel()
    if failure is not None:
        raise failure


class _Numbered:
    # A class rather than a generator: there is nothing to close when the reader stops early.

    def __init__(self, events: AnswerStream) -> None:
        self._events = events

    def __aiter__(self) -> _Numbered:
        return self

    async def __anext__(self) -> Indexed:
        return 0, await anext(self._events)

    def ready(self) -> list[Indexed]:
        return [(0, event) for event in self._events.ready()]
