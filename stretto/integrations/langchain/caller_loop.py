"""One answer for a LangChain object, read in the caller's event loop or from a thread that waits."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

import anyio
from langchain_core.callbacks.manager import BaseRunManager

from stretto.client.sync_client import Stretto
from stretto.integrations.langchain.branch_runs import BranchRuns
from stretto.integrations.langchain.stream_runs import Parent
from stretto.values.answer import Answer
from stretto.values.events import AnswerFinished, Event
from stretto.values.request import PromptLike, Request


async def aevents(
    client: Stretto, prompt: PromptLike | Request, options: Mapping[str, Any], parent: Parent | BaseRunManager | None
) -> AsyncGenerator[Event, None]:
    """Yield the events of an answer; its branches are runs below ``parent``. Raises `StrettoError`.

    Closing it ends the answer. LangChain's chat models are always called in the client's loop: their connections belong
    to the loop that first used them, and synchronous calls have no other.
    """
    written = _written(client, prompt, options, parent)
    event: Event | None
    if not any(each.name.startswith("langchain:") for each in client.backends.values()):
        async with aclosing(written):
            async for event in written:
                yield event
        return
    try:
        while (event := await client._loop.acall(partial(_following, written))) is not None:
            yield event
    finally:
        with anyio.CancelScope(shield=True):
            await client._loop.acall(written.aclose)


def events(
    client: Stretto, prompt: PromptLike | Request, options: Mapping[str, Any], parent: Parent | BaseRunManager | None
) -> Generator[Event, None, None]:
    """Yield the same events in a thread that waits; the answer is written in the client's loop."""
    written = _written(client, prompt, options, parent)
    try:
        while (event := client._loop.call(partial(_following, written))) is not None:
            yield event
    finally:
        client._loop.call(written.aclose)


async def _written(
    client: Stretto, prompt: PromptLike | Request, options: Mapping[str, Any], parent: Parent | BaseRunManager | None
) -> AsyncGenerator[Event, None]:
    runs = BranchRuns(parent)
    opening = client.asynchronous.stream(prompt, **options)
    with runs.watching():
        stream = await opening.__aenter__()
    failure: Exception | None = None
    try:
        while (event := await anext(stream, None)) is not None:
            await runs.note(event)
            yield event
    except Exception as error:
        failure = error
        raise
    finally:
        await opening.__aexit__(None, None, None)
        await runs.leave(failure)


async def _following(written: AsyncGenerator[Event, None]) -> Event | None:
    return await anext(written, None)


def answer_of(event: Event) -> Answer | None:
    """Return the whole answer, which only the last event contains."""
    return event.answer if isinstance(event, AnswerFinished) else None
