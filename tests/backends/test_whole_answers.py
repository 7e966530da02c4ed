"""A finish reason ends an answer; the calls before it count, whatever became of them."""

from collections import Counter
from contextlib import asynccontextmanager

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from talking import KEY, asking, hear

from stretto import AsyncStretto, Budget, Settings
from stretto.backends.base import Capabilities, Chunk
from stretto.backends.registry import open_backend
from stretto.backends.resilience.resilient import Resilience, resilient
from stretto.testing import ScriptedBackend
from stretto.testing.dialects import AnthropicDialect, OpenAIDialect
from stretto.testing.protocols import HttpReply, turn_of
from stretto.testing.server import RawResponse, ScriptedServer
from stretto.values.answer import Usage
from stretto.values.errors import BackendError, StrettoError

pytestmark = pytest.mark.anyio

TEXT = "Hello there, world."
MODELS = {"openai:gpt-5-mini": OpenAIDialect(), "anthropic:claude-haiku-4-5": AnthropicDialect()}


def events(dialect, **body):
    """The events of a whole answer, one by one, as the API sends them."""
    turn = turn_of(HttpReply(TEXT, prompt_tokens=9), {"model": "m", "messages": [], "stream": True, **body}, 1)
    sent = dialect.opening(turn) + b"".join(dialect.token(turn, token) for token in turn.tokens) + dialect.closing(turn)
    return [event + b"\n\n" for event in sent.split(b"\n\n")[:-1]]


def up_to(mark, listed):
    """The events up to the one that holds this mark, and those after it."""
    at = next(place for place, event in enumerate(listed) if mark in event) + 1
    return listed[:at], listed[at:]


def finished(dialect):
    return b'"finish_reason": "stop"' if isinstance(dialect, OpenAIDialect) else b'"stop_reason": "end_turn"'


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("stall_s", [0.3, 20])
@pytest.mark.leaping
async def test_silence_after_the_finish_reason_ends_the_answer(model, stall_s):
    sent, unsent = up_to(finished(MODELS[model]), events(MODELS[model]))
    assert unsent
    async with ScriptedServer(RawResponse(sent, then="stall")) as server:
        url = server.openai_url if model.startswith("openai") else server.url
        limits = Settings(stall_s=stall_s, first_text_s=20)
        async with AsyncStretto(model, base_url=url, api_key=KEY, settings=limits) as stretto:
            answer = await stretto.ask("Say hello.", strategy="direct")
    assert (answer.text, answer.finish_reason) == (TEXT, "stop")
    assert answer.usage.calls == len(server.requests) == 1


@pytest.mark.leaping
async def test_a_usage_that_follows_the_finish_reason_is_waited_for():
    listed = events(OpenAIDialect(), stream_options={"include_usage": True})
    sent, rest = up_to(b'"usage"', listed)
    assert b"finish_reason" in b"".join(sent)
    assert rest == [b"data: [DONE]\n\n"]
    async with ScriptedServer(RawResponse(sent, then="stall")) as server:
        backend = open_backend("openai:m", base_url=server.openai_url, api_key=KEY)
        heard = await hear(backend)
        await backend.aclose()
    assert (heard.text, heard.usage.prompt_tokens) == (TEXT, 9)


@pytest.mark.leaping
async def test_a_backend_of_the_callers_that_hangs_after_its_finish_reason_has_answered():
    class Hanging(ScriptedBackend):
        @asynccontextmanager
        async def stream(self, prompt, options):
            async with super().stream(prompt, options) as chunks:
                yield HangingAfter(chunks)

    async with AsyncStretto(Hanging({"": TEXT})) as stretto:
        answer = await stretto.ask("Say hello.", strategy="direct")
    assert (answer.text, answer.finish_reason) == (TEXT, "stop")


class HangingAfter:
    def __init__(self, chunks):
        self._chunks = chunks

    def __aiter__(self):
        return self

    async def __anext__(self):
        try:
            return await anext(self._chunks)
        except StopAsyncIteration:
            await anyio.sleep_forever()


# What failed calls cost

ATTEMPT = st.tuples(
    st.sampled_from(["answers", "fails", "fails after its usage", "fails with its usage", "breaks off"]),
    st.integers(0, 30),
)


class Script:
    """A backend whose calls end as scripted; counts those that were sent."""

    name = "own:script"
    capabilities = Capabilities(context_window=8_000)

    def __init__(self, attempts):
        self._attempts = attempts
        self.sent = 0
        self.tokens = 0

    @asynccontextmanager
    async def stream(self, prompt, options):  # noqa: ARG002 - the protocol's arguments
        ends, tokens = self._attempts[self.sent % len(self._attempts)]
        self.sent += 1
        yield self._chunks(ends, tokens)

    async def _chunks(self, ends, tokens):
        usage = Usage(prompt_tokens=tokens, calls=1)
        error = BackendError("It failed.", backend=self.name, transient=True)
        if ends == "fails":
            raise error
        self.tokens += tokens
        if ends == "fails with its usage":
            error.usage = usage
            raise error
        if ends == "breaks off":
            yield Chunk("one ")
        if ends != "answers":
            yield Chunk(usage=usage)
            raise error
        yield Chunk("one two", usage=usage, finish_reason="stop")

    async def count_tokens(self, prompt):  # noqa: ARG002 - as above
        return 1

    async def aclose(self):
        pass


@given(
    script=st.lists(ATTEMPT, min_size=1, max_size=6),
    most=st.integers(1, 6),
    attempts=st.integers(1, 4),
    hedge=st.booleans(),
)
async def test_no_script_of_failures_exceeds_max_calls_or_loses_a_usage(script, most, attempts, hedge):
    policy = Resilience(
        attempts=attempts, first_wait_s=0, longest_wait_s=0, breaker_faults=1000, hedge=hedge, hedge_after_s=60
    )
    inner = Script(script)
    async with AsyncStretto(resilient(inner, policy)) as stretto:
        try:
            usage = (await stretto.ask("Say one.", strategy="direct", budget=Budget(max_calls=most))).usage
        except StrettoError:
            usage = None
    assert 1 <= inner.sent <= most
    if usage is not None:
        assert usage.calls == inner.sent
        assert usage.prompt_tokens >= inner.tokens


async def test_a_retry_keeps_the_usage_that_came_before_the_failure():
    backend = resilient(
        Script([("fails after its usage", 7), ("answers", 5)]), Resilience(first_wait_s=0, longest_wait_s=0)
    )
    heard = await hear(backend, asking())
    assert Counter(heard.usage.model_dump(exclude_defaults=True)) == {"prompt_tokens": 12, "calls": 2, "retries": 1}
