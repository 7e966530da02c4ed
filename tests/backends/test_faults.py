"""Every fault, through both real SDKs, against a real server: a clear outcome, and nothing left behind."""

import time
import traceback
from contextlib import asynccontextmanager

import anyio
import pytest
from talking import KEY, Heard, asking, hear, settled

from stretto.backends.providers.failures import usage_of
from stretto.backends.registry import open_backend
from stretto.backends.resilience.resilient import Resilience
from stretto.backends.resilience.stall import FirstTexts, StallGuard
from stretto.testing import Reply, ScriptedBackend
from stretto.testing.server import Fault, HttpReply, ScriptedServer
from stretto.values.errors import (
    AuthenticationError,
    BackendError,
    BreakerOpenError,
    ConnectionFailedError,
    ContextOverflowError,
    ModelNotFoundError,
    RateLimitedError,
    RequestRejectedError,
    ServerFailedError,
    StalledError,
    StreamBrokenError,
)
from stretto.values.request import GenerationOptions

pytestmark = pytest.mark.anyio

TEXT = "one two three four five"
QUICK = Resilience(attempts=3, first_wait_s=0.001, longest_wait_s=0.001, first_text_s=20, stall_s=20)
ONCE = Resilience(attempts=1, first_text_s=20, stall_s=20)
NO_PATIENCE = Resilience(attempts=1, first_text_s=0.2, stall_s=20)
LITTLE_PATIENCE = Resilience(attempts=1, first_text_s=20, stall_s=0.2)


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.leaping) for name in ("openai:gpt-5-mini", "anthropic:claude-haiku-4-5")
    ]
)
def model(request):
    return request.param


@asynccontextmanager
async def talk(model, policy=QUICK, replies=TEXT, **settings):
    """Serve a model and open it; afterwards nothing of the call may be left."""
    async with ScriptedServer(replies, key=KEY, **settings) as server:
        base_url = server.openai_url if model.startswith("openai") else server.url
        before = await settled()
        backend = open_backend(model, base_url=base_url, api_key=KEY, resilience=policy)
        yield backend, server
        await server.wait_until(lambda server: server.active_streams == 0)
        await backend.aclose()
        await server.wait_until(lambda server: server.open_connections == 0)
        assert await settled() == before


async def failing(kind, backend, **how):
    """Ask, and give the error after checking that it holds no key anywhere."""
    with pytest.raises(kind) as caught:
        await hear(backend, **how)
    error = caught.value
    written = "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
    assert KEY not in written
    assert error.__context__ is None or KEY not in repr(error.__context__.args)
    return error


async def test_a_whole_answer_leaves_nothing(model):
    async with talk(model) as (backend, server):
        heard = await hear(backend)
        assert (heard.text, heard.finish, heard.usage.calls) == (TEXT, "stop", 1)
        assert server.requests[0].outcome == "finished"


async def test_429_with_retry_after_is_tried_again(model):
    async with talk(model) as (backend, server):
        server.script(*[Fault("status", status=429, headers={"retry-after-ms": "10"})] * 2)
        heard = await hear(backend)
        assert heard.text == TEXT
        assert (heard.usage.calls, heard.usage.retries) == (3, 2)
        assert len(server.requests) == 3


async def test_a_retry_after_beyond_the_deadline_is_not_waited_for(model):
    async with talk(model) as (backend, server):
        server.script(Fault("status", status=429, headers={"retry-after": "3600"}))
        with anyio.fail_after(30):
            error = await failing(RateLimitedError, backend)
        assert "passes the deadline" in str(error)
        assert error.retry_after_s == 3600
        assert usage_of(error).calls == 1
        assert len(server.requests) == 1


async def test_a_retry_after_that_nobody_would_sit_through_is_not_waited_for(model):
    async with talk(model) as (backend, server):
        server.script(Fault("status", status=429, headers={"retry-after": "3600"}))
        error = await failing(RateLimitedError, backend)
        assert "longer than the 120 s allowed" in str(error)
        assert "longer than the 120 s allowed" in str(await failing(RateLimitedError, backend))
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [500, 503, 529])
async def test_a_failing_server_is_tried_again(model, status):
    async with talk(model) as (backend, server):
        server.script(Fault("status", status=status))
        heard = await hear(backend)
        assert heard.text == TEXT
        assert (heard.usage.calls, heard.usage.retries) == (2, 1)


async def test_a_server_that_stays_failing_is_given_up(model):
    async with talk(model) as (backend, server):
        server.script(*[Fault("status", status=500)] * 3)
        error = await failing(ServerFailedError, backend)
        assert backend.name in str(error)
        assert "500" in str(error)
        assert "Tried 3 times" in str(error)
        assert (usage_of(error).calls, usage_of(error).retries) == (3, 2)
        assert error.headers["request-id"] == "req-3"


async def test_a_reset_before_the_answer_is_tried_again(model):
    async with talk(model) as (backend, server):
        server.script(Fault("reset"))
        assert (await hear(backend)).text == TEXT
        assert [request.outcome for request in server.requests] == ["reset", "finished"]


async def test_a_reset_in_the_middle_goes_up_with_what_was_read(model):
    async with talk(model) as (backend, server):
        server.script(Fault("reset", after=2))
        heard = Heard()
        error = await failing(StreamBrokenError, backend, heard=heard)
        assert heard.text == "one two"
        assert usage_of(error).calls == 1
        assert len(server.requests) == 1


async def test_a_stall_before_the_answer(model):
    async with talk(model, NO_PATIENCE) as (backend, server):
        server.script(Fault("stall"))
        error = await failing(StalledError, backend)
        assert "0.2 s" in str(error)
        assert usage_of(error).calls == 1
        await server.wait_until(lambda server: server.requests[0].ended_s is not None)


async def test_a_stall_in_the_middle(model):
    async with talk(model, LITTLE_PATIENCE) as (backend, server):
        server.script(Fault("stall", after=2))
        heard = Heard()
        await failing(StalledError, backend, heard=heard)
        assert heard.text == "one two"
        await server.wait_until(lambda server: server.requests[0].ended_s is not None)


async def test_a_first_text_that_is_late_is_not_asked_for_again(model):
    policy = Resilience(attempts=4, first_wait_s=0.001, first_text_s=0.2)
    async with talk(model, policy) as (backend, server):
        server.script(Fault("stall", after=0))
        error = await failing(StalledError, backend)
        assert "first_text_s" in str(error)
        assert "Tried" not in str(error)
        assert len(server.requests) == 1


async def test_late_first_texts_do_not_open_the_breaker(model):
    policy = Resilience(attempts=1, first_text_s=0.2, breaker_faults=1, breaker_over_s=0, breaker_rest_s=600)
    async with talk(model, policy) as (backend, server):
        server.script(*[Fault("stall", after=0)] * 2)
        for _ in range(2):
            await failing(StalledError, backend)
        assert (await hear(backend)).text == TEXT


async def test_a_call_that_later_ones_overtook_hangs_and_is_asked_again(model):
    policy = Resilience(attempts=2, first_wait_s=0.001, first_text_s=5)
    async with talk(model, policy) as (backend, server):
        server.script(Fault("stall", after=0))
        heard = []

        async def late():
            heard.append(await hear(backend))

        async with anyio.create_task_group() as callers:
            callers.start_soon(late)
            await server.wait_until(lambda server: server.requests and server.requests[0].outcome == "stall")
            await anyio.sleep(0.1)  # or both began at the same time
            assert (await hear(backend)).text == TEXT
        assert heard[0].text == TEXT
        assert heard[0].usage.retries == 1


async def test_what_another_call_took_shortens_a_wait_that_has_begun(model):
    policy = Resilience(attempts=2, first_wait_s=0.001, first_text_s=5)
    long = asking("word " * 20_000)  # hundreds of seconds where nothing is measured yet
    async with talk(model, policy) as (backend, server):
        server.script(Fault("stall", after=0))
        heard = []

        async def late():
            heard.append(await hear(backend, long))

        async with anyio.create_task_group() as callers:
            callers.start_soon(late)
            await server.wait_until(lambda server: server.requests and server.requests[0].outcome == "stall")
            await anyio.sleep(0.1)  # or both began at the same time
            assert (await hear(backend, long)).text == TEXT
        assert heard[0].text == TEXT
        assert heard[0].usage.retries == 1


def test_long_prompts_may_take_longer_by_what_was_measured():
    texts = FirstTexts(120)
    assert texts.limit_s(500) == 120
    assert texts.limit_s(16_000) > 120 + 200  # a large model on a processor
    assert texts.limit_s(16_000) > FirstTexts(120, at_provider=True).limit_s(16_000)
    texts.note(10_000, began_s=0, seconds=1_000)
    assert texts.limit_s(16_000) > 1_600
    fast = FirstTexts(120)
    fast.note(10_000, began_s=0, seconds=1)
    assert fast.limit_s(16_000) < 130


async def test_an_unreadable_event(model):
    async with talk(model, ONCE) as (backend, server):
        server.script(Fault("broken", after=2))
        heard = Heard()
        await failing(StreamBrokenError, backend, heard=heard)
        assert heard.text == "one two"


async def test_an_error_event_in_the_middle(model):
    async with talk(model, ONCE) as (backend, server):
        server.script(Fault("error", after=2, status=529, message="Overloaded, sorry"))
        heard = Heard()
        error = await failing(ServerFailedError, backend, heard=heard)
        assert heard.text == "one two"
        assert "Overloaded, sorry" in str(error)


async def test_a_stream_without_an_end_is_broken(model):
    async with talk(model, ONCE) as (backend, server):
        server.script(Fault("cut", after=2))
        heard = Heard()
        await failing(StreamBrokenError, backend, heard=heard)
        assert heard.text == "one two"
        assert heard.finish is None


async def test_a_truncated_answer_says_so(model):
    async with talk(model) as (backend, _):
        heard = await hear(backend, options=GenerationOptions(max_tokens=3))
        assert (heard.text, heard.finish) == ("one two three", "length")


@pytest.mark.parametrize("finish", ["refusal", "filtered"])
async def test_a_refusal_says_so(model, finish):
    async with talk(model, replies=HttpReply("I cannot", finish=finish)) as (backend, _):
        heard = await hear(backend)
        filtered = finish == "filtered" and model.startswith("openai")  # Anthropic has one name for both
        assert (heard.text, heard.finish) == ("I cannot", "content_filter" if filtered else "refusal")


async def test_a_wrong_key_is_named_but_not_shown(model):
    secret = "sk-wrong-abcdefghijklmnop0123"  # noqa: S105 - a key of our server
    async with ScriptedServer(key=KEY) as server:
        base_url = server.openai_url if model.startswith("openai") else server.url
        backend = open_backend(model, base_url=base_url, api_key=secret)
        error = await failing(AuthenticationError, backend)
        await backend.aclose()
    assert secret not in str(error) + repr(error) + repr(vars(error)) + "".join(traceback.format_exception(error))
    assert "401" in str(error)
    assert len(server.requests) == 1


@pytest.mark.usefixtures("clean_environment")
async def test_a_missing_key_is_said_without_a_call(model):
    with pytest.raises(AuthenticationError, match="_API_KEY"):
        await hear(open_backend(model))


@pytest.mark.parametrize("key", ["sk-\u00fcmlaut", "sk-two\nlines"])
async def test_a_key_that_cannot_be_a_header_is_said_without_a_call(model, key):
    async with ScriptedServer() as server:
        base_url = server.openai_url if model.startswith("openai") else server.url
        backend = open_backend(model, base_url=base_url, api_key=key, resilience=ONCE)
        error = await failing(AuthenticationError, backend)
        await backend.aclose()
    assert "holds a character that no key has" in str(error)
    assert key[4:] not in str(error)
    assert server.requests == []


async def test_a_server_that_is_not_there(model):
    async with ScriptedServer() as server:
        pass
    base_url = server.openai_url if model.startswith("openai") else server.url
    backend = open_backend(model, base_url=base_url, api_key=KEY, resilience=QUICK)
    error = await failing(ConnectionFailedError, backend)
    await backend.aclose()
    assert f"connection refused, nothing listens at 127.0.0.1:{server.port}" in str(error)
    assert "Start the server, or give its address as base_url" in str(error)
    assert usage_of(error).retries == 0


async def test_a_name_of_this_machine_where_nobody_listens_is_refused_at_once_too(model):
    async with ScriptedServer() as server:
        pass
    path = "/v1" if model.startswith("openai") else ""
    backend = open_backend(model, base_url=f"http://localhost:{server.port}{path}", api_key=KEY, resilience=QUICK)
    error = await failing(ConnectionFailedError, backend)
    await backend.aclose()
    assert "nothing listens" in str(error)
    assert usage_of(error).retries == 0


async def test_an_address_where_nobody_listens_is_refused_at_once_without_a_name_of_a_model():
    async with ScriptedServer() as server:
        pass
    backend = open_backend(server.url, resilience=QUICK)
    error = await failing(ConnectionFailedError, backend)
    await backend.aclose()
    assert f"nothing listens at 127.0.0.1:{server.port}" in str(error)
    assert usage_of(error).retries == 0


async def test_where_nobody_listens_the_next_call_tries_again_at_once(model):
    policy = Resilience(attempts=4, breaker_faults=1, breaker_over_s=0, breaker_rest_s=600)
    async with ScriptedServer() as server:
        pass
    base_url = server.openai_url if model.startswith("openai") else server.url
    backend = open_backend(model, base_url=base_url, api_key=KEY, resilience=policy)
    for _ in range(2):
        await failing(ConnectionFailedError, backend)
    async with ScriptedServer(TEXT, port=server.port):
        assert (await hear(backend)).text == TEXT
    await backend.aclose()


async def test_a_server_that_loads_its_model_is_waited_for(model):
    policy = Resilience(attempts=2, breaker_faults=1, breaker_over_s=0)
    async with talk(model, policy) as (backend, server):
        server.script(*[Fault("status", status=503, message="Loading model")] * 3)
        heard = await hear(backend)
    assert heard.text == TEXT
    assert (heard.usage.calls, heard.usage.retries) == (4, 3)


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (404, "The model does not exist.", ModelNotFoundError),
        (400, "This is a bad request.", RequestRejectedError),
        (400, "This model's maximum context length is 8192 tokens.", ContextOverflowError),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", ContextOverflowError),
        (403, "Not for you.", AuthenticationError),
        (308, "Moved.", RequestRejectedError),
    ],
)
async def test_what_will_not_pass_by_itself_is_not_tried_again(model, status, message, kind):
    async with talk(model) as (backend, server):
        server.script(Fault("status", status=status, message=message))
        error = await failing(kind, backend)
        assert error.status == status
        assert not error.transient
        assert message.rstrip(".") in str(error)
        assert len(server.requests) == 1


async def test_cancelling_ends_the_call_at_the_server(model):
    async with talk(model) as (backend, server):
        server.script(*[Fault("stall", after=1)] * 4)
        async with anyio.create_task_group() as callers:
            for _ in range(4):
                callers.start_soon(hear, backend)
            await server.wait_until(lambda server: [r.outcome for r in server.requests] == ["stall"] * 4)
            callers.cancel_scope.cancel()
        await server.wait_until(lambda server: all(request.ended_s for request in server.requests))


async def test_leaving_early_closes_the_stream(model):
    async with talk(model, replies=TEXT * 500, tokens_per_second=200) as (backend, server):
        async with backend.stream(asking(), GenerationOptions()) as chunks:
            async for chunk in chunks:
                if chunk.text:
                    break
        await server.wait_until(lambda server: server.requests[0].outcome == "left")


async def test_closing_the_client_in_mid_answer_ends_the_answer_with_an_error(model):
    async with talk(model) as (backend, server):
        server.script(Fault("stall", after=2))
        outcome = []

        async def caller():
            outcome.append(await failing(BackendError, backend))

        async with anyio.create_task_group() as callers:
            callers.start_soon(caller)
            await server.wait_until(lambda server: any(request.outcome == "stall" for request in server.requests))
            await backend.aclose()
        assert "closed" in str(outcome[0])
        assert not outcome[0].transient
        assert "closed" in str(await failing(BackendError, backend))


async def test_an_endpoint_that_keeps_failing_is_left_alone(model):
    policy = Resilience(attempts=1, breaker_faults=2, breaker_over_s=0, breaker_rest_s=600)
    async with talk(model, policy) as (backend, server):
        server.script(Fault("status", status=500), Fault("reset"))
        await failing(ServerFailedError, backend)
        await failing(ConnectionFailedError, backend)
        error = await failing(BreakerOpenError, backend)
        assert f"127.0.0.1:{server.port}" in str(error)
        assert len(server.requests) == 2


@pytest.mark.thorough
async def test_an_event_loop_that_was_held_up_is_no_silence_of_the_server():
    begun = anyio.Event()

    class HoldingUp(ScriptedBackend):
        async def _chunks(self, prompt, options, reply):
            begun.set()
            await anyio.sleep(0.01)  # what the server sends while nothing is read
            async for chunk in super()._chunks(prompt, options, reply):
                yield chunk

    async def hold_up():
        await begun.wait()
        time.sleep(0.5)  # noqa: ASYNC251 - longer than the limit, in the event loop itself

    guard = StallGuard(HoldingUp({"": Reply(chunks=["one ", "two"])}), first_text_s=0.2, stall_s=0.2)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hold_up)
        async with guard.stream(asking(), GenerationOptions()) as chunks:
            assert "".join([chunk.text async for chunk in chunks]) == "one two"
