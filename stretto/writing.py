"""Generates one answer in a separate task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio

from stretto.errors import StrettoError
from stretto.events import Event
from stretto.queue import Queue

Emit = Callable[[Event], Awaitable[None]]

LEFT = "This stream was left before its end, which ended the answer. Read it inside its with block."
EVENTS_AHEAD = 1024  # events that a slow reader may lag behind before the branches wait


class Writing:
    """Runs ``write`` in a task and queues its events for the reader.

    The task is not a child of the reader's cancel scopes: an abandoned asynchronous generator is finalized in another
    task, where a task group or cancel scope of the reader could not be closed. Any task may call `aclose`, which
    cancels the writing and waits for its end; the reader is never cancelled by it.

    Args:
        write: generates the answer and emits each event.
    """

    def __init__(self, write: Callable[[Emit], Awaitable[object]]) -> None:
        self._write = write
        self._events = Queue[Event](EVENTS_AHEAD)
        self._failure: Exception | None = None
        self._scope: anyio.CancelScope | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, among: set[Writing]) -> None:
        """Start the task in the running event loop and add it to ``among`` until it ends. Does nothing once stopped."""
        if not self._events.ended:
            self._scope = anyio.CancelScope()
            self._task = asyncio.create_task(self._run(self._scope), name="stretto answer")
            self._task.add_done_callback(self._ended)
            self._task.add_done_callback(lambda _: among.discard(self))
            among.add(self)

    async def next(self) -> Event:
        """The next event. Raises `StopAsyncIteration` at the end, or the exception of the writing."""
        try:
            return await anext(self._events)
        except StopAsyncIteration:
            if self._failure is not None:
                raise self._failure from None
            raise

    def ready(self) -> list[Event]:
        """The events that are there already."""
        return self._events.ready()

    def stop(self, because: Exception | None = None) -> None:
        """Cancel without waiting, from the same event loop; ``because`` is raised to the reader.

        Without a cause, the reader has left; reading on raises an error that says so.
        """
        if self._events.ended:
            return  # already complete
        self._failure = because or StrettoError(LEFT)
        self._events.end()
        if self._scope is not None:
            self._scope.cancel()

    async def aclose(self, because: Exception | None = None) -> None:
        """Cancel, and wait until the task has ended; from any event loop. Idempotent."""
        loop = None if self._task is None else self._task.get_loop()
        if loop is None or loop is asyncio.get_running_loop():
            self.stop(because)
            await self._joined()
        elif loop.is_running():  # in another thread
            ending = asyncio.run_coroutine_threadsafe(self.aclose(because), loop)
            with anyio.CancelScope(shield=True):
                await asyncio.wait((asyncio.wrap_future(ending),))  # if the loop ends meanwhile, so does this
        elif not loop.is_closed():
            loop.call_soon_threadsafe(self.stop, because)

    async def _run(self, scope: anyio.CancelScope) -> None:
        try:
            with scope:
                await self._write(self._events.put)
        except Exception as error:  # noqa: BLE001 - raised to the reader
            self._failure = self._failure or error
        finally:
            self._events.end()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():  # not by the reader or the client: the event loop is shutting down
            self._failure = self._failure or StrettoError("The answer was cancelled.")
            self._events.end()

    async def _joined(self) -> None:
        task, interrupted = self._task, None
        if task is None or task is asyncio.current_task():
            return
        with anyio.CancelScope(shield=True):
            while not task.done():
                try:
                    await asyncio.wait((task,))
                except asyncio.CancelledError as error:  # by asyncio itself, which ignores shields; raised afterwards
                    interrupted = error
        if interrupted is not None:
            raise interrupted
