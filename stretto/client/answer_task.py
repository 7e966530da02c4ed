"""Generation of one answer in a separate task."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from stretto.foundation.queue import Queue
from stretto.values.errors import DeadlineExceededError, StrettoError
from stretto.values.events import Event

Emit = Callable[[Event], Awaitable[None]]

LEFT = "This stream was left before its end, which ended the answer. Read it inside its with block."
_LEAVING_S = 10.0
_log = logging.getLogger(__name__)
EVENTS_AHEAD = 1024  # events by which a slow reader can lag before the branches wait


class AnswerTask:
    """Runs ``write`` in a task and queues its events for the reader.

    The task is not a child of the reader's cancel scopes: an abandoned asynchronous generator is finalized in another
    task, where a task group or cancel scope of the reader could not be closed. Any task can call `aclose`, which
    cancels the writing and waits for it to end; it never cancels the reader.

    Args:
        write: generates the answer and emits each event.
        form: the ``response_format`` of the answer, as given.
        within_s: seconds after which the reader stops waiting, if the answer has a deadline; writing should have ended
            by then, but some backends cannot be cancelled.
    """

    def __init__(
        self,
        write: Callable[[Emit], Awaitable[object]],
        within_s: float = math.inf,
        form: Any = None,
    ) -> None:
        self.form = form
        self._write = write
        self._within_s = within_s
        self._until = math.inf
        self._events = Queue[Event](EVENTS_AHEAD)
        self._failure: Exception | None = None
        self._scope: anyio.CancelScope | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, among: set[AnswerTask]) -> None:
        """Start the task in the running loop and keep it in ``among`` until it ends. Does nothing once stopped."""
        if not self._events.ended:
            self._until = anyio.current_time() + self._within_s
            self._scope = anyio.CancelScope()
            self._task = asyncio.create_task(self._run(self._scope), name="stretto answer")
            self._task.add_done_callback(self._ended)
            self._task.add_done_callback(lambda _: among.discard(self))
            among.add(self)

    async def next(self) -> Event:
        """Return the next event. Raises `StopAsyncIteration` at the end, or the exception that ended it."""
        try:
            if self._until == math.inf:
                return await anext(self._events)
            with anyio.CancelScope(deadline=self._until):
                return await anext(self._events)
        except StopAsyncIteration:
            if self._failure is not None:
                raise self._failure from None
            raise
        self.stop(
            DeadlineExceededError(
                "The deadline passed, and the answer did not end: the backend holds on to its call. "
                "Its task was cancelled and is waited for no longer."
            )
        )
        return await self.next()

    def ready(self) -> list[Event]:
        """Return the events that are available now."""
        return self._events.ready()

    @property
    def runs(self) -> bool:
        """Whether the task is still writing."""
        return self._task is not None and not self._events.ended

    def abandon(self) -> None:
        """Cancel without waiting, from any thread."""
        loop = None if self._task is None else self._task.get_loop()
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.stop)

    def stop(self, because: Exception | None = None) -> None:
        """Cancel without waiting, from the same event loop; ``because`` is raised to the reader.

        Without a cause, the reader has left; further reads raise an error that says so.
        """
        if self._events.ended:
            return  # already complete
        self._failure = because or StrettoError(LEFT)
        self._events.end()
        if self._scope is not None:
            self._scope.cancel()

    async def aclose(self, because: Exception | None = None) -> None:
        """Cancel, and wait up to 10 s for the task to end; from any event loop. Idempotent."""
        loop = None if self._task is None else self._task.get_loop()
        if loop is None or loop is asyncio.get_running_loop():
            self.stop(because)
            await self._joined()
        elif loop.is_running():  # in another thread
            ending = asyncio.run_coroutine_threadsafe(self.aclose(because), loop)
            with anyio.CancelScope(shield=True):
                await asyncio.wait((asyncio.wrap_future(ending),))  # ends with the loop
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
        until = anyio.current_time() + _LEAVING_S
        with anyio.CancelScope(shield=True):
            while not task.done() and (left_s := until - anyio.current_time()) > 0:
                try:
                    await asyncio.wait((task,), timeout=left_s)
                except asyncio.CancelledError as error:  # by asyncio itself, which ignores shields; raised afterwards
                    interrupted = error
        if not task.done():
            _log.warning("an answer that was left has not ended after %g s: its backend holds on to a call", _LEAVING_S)
        if interrupted is not None:
            raise interrupted
