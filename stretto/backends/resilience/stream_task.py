"""One call in one task: its stream is entered, read and left there, and a queue passes the chunks to their reader."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from stretto.backends.base import Backend, Chunk, ModelRequest
from stretto.foundation.queue import Queue
from stretto.values.request import GenerationOptions

AHEAD = 64  # unread chunks before the call waits for its reader


class StreamTask(AsyncIterator[Chunk]):
    """The chunks of one call. Cancel scopes and task groups of a backend stay in the task that runs the call.

    So they are entered and left in the right order, however the reader is nested: a scope that a backend keeps open
    around its ``yield`` must not be crossed by one that a wrapper opens and closes while it reads.
    """

    def __init__(self) -> None:
        self.begun = anyio.Event()  # set by the first text or the end
        self.answers = False  # whether it was the first text, or an end without a failure
        self.failure: Exception | None = None
        self._chunks = Queue[Chunk](AHEAD)
        self._whole = anyio.CancelScope()
        self._reading = anyio.CancelScope()
        self._entered = False

    async def run(self, backend: Backend, prompt: ModelRequest, options: GenerationOptions) -> None:
        """Make the call. Its exception is kept for the reader."""
        try:
            with self._whole:
                async with backend.stream(prompt, options) as chunks:
                    self._entered = True
                    with self._reading:
                        await self._read(chunks)
        except Exception as error:  # noqa: BLE001 - raised to the reader, which is another task
            self.failure = self.failure or error
        finally:
            self.answers = self.answers or self.failure is None
            self._chunks.end()
            self.begun.set()

    def stop(self) -> None:
        """End the call. An open stream is left, not cancelled, so that it can free its resources."""
        self._chunks.end()
        (self._reading if self._entered else self._whole).cancel()

    def unread(self) -> list[Chunk]:
        """Return the chunks that nobody has read, and remove them."""
        return self._chunks.ready()

    async def __anext__(self) -> Chunk:
        try:
            return await anext(self._chunks)
        except StopAsyncIteration:
            if self.failure is None:
                raise
        raise self.failure  # not in the handler, whose exception would become its context

    async def _read(self, chunks: AsyncIterator[Chunk]) -> None:
        try:
            async for chunk in chunks:
                if self.begun.is_set():
                    await self._chunks.put(chunk)
                    continue
                self._chunks.add(chunk)  # there might be no reader yet
                if chunk.is_answer or chunk.finish_reason:
                    self.answers = True
                    self.begun.set()
        except Exception as error:  # noqa: BLE001 - as above; in here, because a task group of the backend would wrap it
            self.failure = error


@asynccontextmanager
async def stream_tasks() -> AsyncIterator[TaskGroup]:
    """Open a task group for stream tasks. On exit, it waits until each has left its stream: stop them first.

    An exception of the body is raised unchanged, not in an exception group.
    """
    raised: BaseException | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:  # noqa: BLE001 - raised again below, outside the task group that would wrap it
            raised = error
    if raised is not None:
        raise raised
