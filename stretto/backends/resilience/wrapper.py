"""What all wrappers share: a wrapped backend, whose name and capabilities they pass on."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from stretto.backends.base import Backend, Capabilities, Chunk, ModelRequest
from stretto.backends.providers.failures import charge
from stretto.values.answer import Usage
from stretto.values.errors import BackendError
from stretto.values.request import GenerationOptions

OnChunk = Callable[[Chunk], Awaitable[None]]
OnError = Callable[[BackendError], Awaitable[None]]


class Wrapper:
    """A backend that adds behaviour to another one: subclasses change ``stream``.

    A stream is entered, read and left in one task. A wrapper that reads it under a cancel scope, or in a different task
    from the one that enters its own stream, uses a `StreamTask` for that.
    """

    def __init__(self, backend: Backend) -> None:
        self.inner = backend

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    def __getattr__(self, name: str) -> Any:
        # What a provider offers beyond the protocol (its endpoint, say) stays accessible.
        if name.startswith("_") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the wrapped backend."""
        return self.inner.capabilities

    def stream(
        self, prompt: ModelRequest, options: GenerationOptions
    ) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        return self.inner.stream(prompt, options)

    async def count_tokens(self, prompt: ModelRequest) -> int:
        """Count or estimate the tokens of the prompt."""
        return await self.inner.count_tokens(prompt)

    async def aclose(self) -> None:
        """Close the wrapped backend."""
        await self.inner.aclose()


def reported(chunks: Iterable[Chunk]) -> Usage:
    """Add up the usages in these chunks."""
    return sum((chunk.usage for chunk in chunks if chunk.usage), Usage())


class ObservedStream(AsyncIterator[Chunk]):
    """The chunks of a stream on their way through the wrappers: those already read, then the rest, observed.

    One object serves all wrappers of a stream, because each would otherwise be one more step for every chunk. It is not
    a generator, so there is nothing to close when a reader stops early.
    """

    def __init__(self, rest: AsyncIterator[Chunk]) -> None:
        self._head = deque[Chunk]()
        self._rest = rest
        self.observers: list[tuple[OnChunk, OnError]] = []

    @classmethod
    def of(cls, chunks: AsyncIterator[Chunk]) -> ObservedStream:
        """Return the stream itself if it is one; wrap it if it has buffered chunks that a new observer would miss."""
        return chunks if isinstance(chunks, cls) and not chunks._head else cls(chunks)

    def after(self, head: Sequence[Chunk]) -> ObservedStream:
        """Put these chunks first, unobserved; returns the stream itself."""
        self._head.extendleft(reversed(head))
        return self

    async def __anext__(self) -> Chunk:
        if self._head:
            return self._head.popleft()
        try:
            chunk = await anext(self._rest)
        except BackendError as error:
            for _, on_error in self.observers:
                await on_error(error)
            raise
        for on_chunk, _ in self.observers:
            await on_chunk(chunk)
        return chunk


@asynccontextmanager
async def observed(
    stream: AbstractAsyncContextManager[AsyncIterator[Chunk]], on_chunk: OnChunk, on_error: OnError
) -> AsyncGenerator[AsyncIterator[Chunk]]:
    """Open a stream and observe what passes: each chunk, and the error that ends it.

    The error is observed where it is raised, even if the reader handles it inside the context.
    """
    opened = False
    try:
        async with stream as chunks:
            opened = True
            observed_chunks = ObservedStream.of(chunks)
            observed_chunks.observers.append((on_chunk, on_error))
            yield observed_chunks
    except BackendError as error:
        if not opened:
            await on_error(error)
        raise


async def open_to_first_text(
    stack: AsyncExitStack, backend: Backend, prompt: ModelRequest, options: GenerationOptions
) -> ObservedStream:
    """Start a stream on the stack and read up to its first text, or its end if it has none.

    If reading fails, the stack is closed first: a task group in the backend's context would wrap the error.
    """
    chunks = await stack.enter_async_context(backend.stream(prompt, options))
    head: list[Chunk] = []
    failure: Exception | None = None
    try:
        async for chunk in chunks:
            head.append(chunk)
            if chunk.is_answer or chunk.finish_reason:
                break
    except Exception as error:  # noqa: BLE001 - raised below, outside the context
        failure = error
    if failure is not None:
        await stack.aclose()
        if isinstance(failure, BackendError):  # nobody else reads the chunks that reported it
            charge(failure, reported(head))
        raise failure
    return ObservedStream.of(chunks).after(head)
