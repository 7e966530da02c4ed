"""Streams of events of an answer: `AnswerStream`, and its synchronous counterpart."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from stretto.client.answer_task import AnswerTask
from stretto.display import show_in_notebooks
from stretto.foundation.background import BackgroundLoop
from stretto.values.answer import Answer
from stretto.values.errors import StrettoError
from stretto.values.events import AnswerFinished, Event, TextDelta
from stretto.values.partial_values import PartialValue

show_in_notebooks()  # from here on, there are answers to show


class AnswerStream(AsyncIterator[Event]):
    """The events of one answer. After the last event, `answer` is the complete answer."""

    def __init__(self, writing: AnswerTask) -> None:
        self._writing = writing
        self._answer: Answer | None = None

    async def __anext__(self) -> Event:
        event = await self._writing.next()
        if isinstance(event, AnswerFinished):
            self._answer = event.answer
        return event

    def ready(self) -> list[Event]:
        """Return the events that are available without waiting, if any."""
        events = self._writing.ready()
        if events and isinstance(events[-1], AnswerFinished):
            self._answer = events[-1].answer
        return events

    async def text(self) -> AsyncIterator[str]:
        """Yield only the merged text, piece by piece."""
        async for event in self:
            if isinstance(event, TextDelta):
                yield event.text

    async def partial(self) -> AsyncIterator[Any]:
        """Yield the value of an answer with a ``response_format`` as it grows, the complete one last.

        Each is a new instance of the pydantic class; fields that have not arrived yet are ``None``, and a text can be
        incomplete. Validators do not run on it: only the last value, which is `Answer.parsed`, is validated. For a JSON
        schema, it is the decoded JSON.
        """
        value = PartialValue(self._writing.form)
        async for event in self:
            changed = [value.feed(each) for each in (event, *self.ready())]
            if any(changed) and self._answer is None:
                yield value.value
        if self.answer.parsed is not None:
            yield self.answer.parsed

    async def rest(self) -> Answer:
        """Read to the end and return the answer."""
        async for _ in self:
            pass
        return self.answer

    @property
    def answer(self) -> Answer:
        """The answer, once the stream has been read to its end."""
        if self._answer is None:
            raise StrettoError("The answer is not complete. Read the stream to its end first, or call rest().")
        return self._answer


class _Unopened:
    """Raises an error with instructions if a stream is read before it is opened."""

    _opens = "with"

    if not TYPE_CHECKING:  # type checkers know that it is not iterable

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(self._why_not(f"has no attribute {name!r}"), name=name, obj=self)

        def __iter__(self) -> NoReturn:
            raise TypeError(self._why_not("is not iterable"))

        __aiter__ = __iter__

    def _why_not(self, what: str) -> str:
        return f"{type(self).__name__!r} object {what}. Open the stream: {self._opens} stretto.stream(...) as stream:"


class StreamContext(_Unopened, AbstractAsyncContextManager[AnswerStream]):
    """Opens an `AnswerStream`, and cancels its answer on leaving.

    It is a class because an event loop that shuts down closes all asynchronous generators concurrently, which fails for
    generators that close each other.
    """

    _opens = "async with"

    def __init__(self, begin: Callable[[], Awaitable[AnswerTask]]) -> None:
        self._begin = begin
        self._writing: AnswerTask | None = None

    async def __aenter__(self) -> AnswerStream:
        self._writing = await self._begin()
        self._stream = AnswerStream(self._writing)
        self._dropped = weakref.finalize(self._stream, _dropped, self._writing)
        self._dropped.atexit = False
        return self._stream

    async def __aexit__(self, *_: object) -> None:
        if self._writing is not None:
            self._dropped.detach()
            await self._writing.aclose()


def _dropped(writing: AnswerTask) -> None:
    """End an answer whose stream was entered by hand and garbage-collected before its end."""
    if writing.runs:
        writing.abandon()
        _warn_of_dropping()


def _warn_of_dropping() -> None:
    warnings.warn(
        "A stream of Stretto was dropped before its end, which ended its answer. Open it in a with block.",
        ResourceWarning,
        stacklevel=2,
    )


class SyncAnswerStream(Iterator[Event]):
    """The events of one answer, for synchronous code. After the last event, `answer` is the complete answer."""

    def __init__(self, stream: AnswerStream, loop: BackgroundLoop) -> None:
        self._stream = stream
        self._loop = loop

    def __next__(self) -> Event:
        event = self._loop.call(self._next)
        if event is None:
            raise StopIteration
        return event

    def text(self) -> Iterator[str]:
        """Yield only the merged text, piece by piece."""
        for event in self:
            if isinstance(event, TextDelta):
                yield event.text

    def partial(self) -> Iterator[Any]:
        """Yield the value of an answer with a ``response_format`` as it grows; see `AnswerStream.partial`."""
        values = self._stream.partial()

        async def following() -> tuple[Any] | None:
            try:
                return (await anext(values),)
            except StopAsyncIteration:
                return None

        while (found := self._loop.call(following)) is not None:
            yield found[0]

    def rest(self) -> Answer:
        """Read to the end and return the answer."""
        return self._loop.call(self._stream.rest)

    @property
    def answer(self) -> Answer:
        """The answer, once the stream has been read to its end."""
        return self._stream.answer

    async def _next(self) -> Event | None:
        return await anext(self._stream, None)


Start = Callable[[], Awaitable[None]]


class SyncStreamContext(_Unopened, AbstractContextManager[SyncAnswerStream]):
    """Opens a `SyncAnswerStream`, and cancels its answer on leaving or when it is garbage-collected.

    It is a class because open generators are closed while the interpreter exits, when hardly anything can be called; a
    finalizer runs earlier.

    Args:
        begin: creates the task that writes the answer, and the function that starts it in the event loop.
        loop: the event loop that runs it.
    """

    def __init__(self, begin: Callable[[], tuple[AnswerTask, Start]], loop: BackgroundLoop) -> None:
        self._begin = begin
        self._loop = loop
        self._abandoned: weakref.finalize[..., SyncStreamContext] | None = None

    def __enter__(self) -> SyncAnswerStream:
        writing, start = self._begin()
        self._writing = writing
        self._abandoned = weakref.finalize(self, _abandon, writing, self._loop)
        self._abandoned.atexit = False
        try:
            self._loop.call(start)
        except BaseException:
            self.__exit__()
            raise
        return SyncAnswerStream(AnswerStream(writing), self._loop)

    def __exit__(self, *_: object) -> None:
        if self._abandoned is not None and self._abandoned.detach():
            _leave(self._writing, self._loop)


def _abandon(writing: AnswerTask, loop: BackgroundLoop) -> None:
    early = writing.runs
    _leave(writing, loop)
    if early:
        _warn_of_dropping()


def _leave(writing: AnswerTask, loop: BackgroundLoop) -> None:
    """Notify the loop that the reader has left; the reader's exception stays in this thread."""
    if loop.is_here:  # an abandoned stream was garbage-collected here; the loop's thread cannot wait for itself
        writing.stop()
    else:
        with suppress(StrettoError):  # already closed, which ended the answer
            loop.call(writing.aclose)
