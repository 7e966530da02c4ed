"""When a branch came to which stage of its call, as its span tells it."""

import time
from contextlib import asynccontextmanager

import anyio
import pytest

from stretto import AsyncStretto
from stretto.backends.base import Capabilities, Chunk, Stages
from stretto.values.errors import DeadlineExceededError

pytestmark = pytest.mark.anyio


class Staged:
    """A backend whose calls come to some stages, and then answer, or wait in its queue for ever."""

    name = "own:staged"
    capabilities = Capabilities()

    def __init__(self, *, answers):
        self.answers = answers

    @asynccontextmanager
    async def stream(self, prompt, options):  # noqa: ARG002 - the protocol's arguments
        yield self._chunks()

    async def _chunks(self):
        now = time.perf_counter()
        yield Chunk(stages=Stages(loaded_s=now, prepared_s=now, submitted_s=now))
        if not self.answers:
            await anyio.sleep_forever()
        later = time.perf_counter()
        yield Chunk("Oil it.", stages=Stages(now, now, now, later, later, later))
        yield Chunk(finish_reason="stop")

    async def count_tokens(self, prompt):  # noqa: ARG002
        return 1

    async def aclose(self):
        pass


async def test_the_stages_of_a_call_stand_in_the_span_in_seconds_since_the_request_arrived():
    async with AsyncStretto(Staged(answers=True)) as stretto:
        answer = await stretto.ask("Why?", strategy="direct")
    span = answer.branches[0].span
    times = (span.started_s, span.loaded_s, span.prepared_s, span.submitted_s)
    times += (span.admitted_s, span.prompt_read_s, span.first_token_s, span.first_s, span.ended_s)
    assert list(times) == sorted(times)
    assert span.ended_s < 60


@pytest.mark.leaping
async def test_a_call_that_never_left_the_queue_says_so_in_the_span_of_its_branch():
    span = None
    async with (
        AsyncStretto(Staged(answers=False)) as stretto,
        stretto.stream("Why?", strategy="direct", deadline_s=30) as events,
    ):
        with pytest.raises(DeadlineExceededError):
            async for event in events:
                if event.type == "branch_failed":
                    span = event.branch.span
    assert span.submitted_s is not None
    assert span.admitted_s is None
