"""One client's bad request is its own: it closes the endpoint for nobody else, and nobody else reads of it."""

import logging
from contextlib import asynccontextmanager

import anyio
import pytest
from engines import llamacpp
from talking import KEY, asking, hear

from stretto import AsyncStretto
from stretto.backends.providers.failures import usage_of
from stretto.backends.registry import open_backend
from stretto.backends.resilience.resilient import Resilience
from stretto.testing.server import Fault, HttpReply, ScriptedServer
from stretto.values.errors import BreakerOpenError, InvalidRequestError, RequestRejectedError, ServerFailedError

pytestmark = pytest.mark.anyio

POLICY = Resilience(first_wait_s=0.001, longest_wait_s=0.001, breaker_faults=5, breaker_over_s=0, breaker_rest_s=600)
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
SOUND = {"type": "input_audio", "input_audio": {"data": "aaaa", "format": "wav"}}


def poisoned(received):
    if "poison" in received.prompt:
        return HttpReply("", fault=Fault("status", status=500, message=f"It broke at {received.prompt!r}."))
    return "Fine."


@asynccontextmanager
async def talk(replies=poisoned, policy=POLICY):
    async with ScriptedServer(replies) as server:
        backend = open_backend("openai:m", base_url=server.openai_url, api_key=KEY, resilience=policy)
        yield backend, server
        await backend.aclose()


@pytest.mark.parametrize("different", [1, 2, 12])
async def test_requests_that_fail_close_the_endpoint_for_nobody_else(different):
    async with talk() as (backend, _):
        for number in range(different):
            for _ in range(3):  # the client's own repetitions
                with pytest.raises((ServerFailedError, BreakerOpenError)):
                    await hear(backend, asking(f"poison {number}"))
        for number in range(5):
            assert (await hear(backend, asking(f"innocent {number}"))).text == "Fine."


async def test_good_clients_beside_poisoned_requests_are_all_answered():
    async with talk() as (backend, _):
        answered = []

        async def good(number):
            answered.extend([(await hear(backend, asking(f"good {number} {turn}"))).text for turn in range(3)])

        async def bad(number):
            for _ in range(2):
                with pytest.raises((ServerFailedError, BreakerOpenError)):
                    await hear(backend, asking(f"poison {number}"))

        async with anyio.create_task_group() as clients:
            for number in range(20):
                clients.start_soon(good, number)
                if number % 2:
                    clients.start_soon(bad, number)
    assert answered == ["Fine."] * 60


async def test_a_request_that_failed_twice_is_not_repeated_once_others_were_answered():
    async with talk() as (backend, server):
        with pytest.raises(ServerFailedError):
            await hear(backend, asking("poison"))
        before = len(server.requests)
        await hear(backend, asking("innocent"))
        with pytest.raises(ServerFailedError, match="the failure follows this request") as caught:
            await hear(backend, asking("poison"))
        assert len(server.requests) == before + 2
        assert usage_of(caught.value).retries == 0


async def test_a_server_that_fails_at_every_request_is_still_left_alone():
    everything = HttpReply("", fault=Fault("status", status=500))
    async with talk(everything) as (backend, server):
        for number in range(30):
            with pytest.raises((ServerFailedError, BreakerOpenError)):
                await hear(backend, asking(f"question {number}"))
        with pytest.raises(BreakerOpenError, match="the last with HTTP 500"):
            await hear(backend, asking("one more"))
        assert len(server.requests) < 40


@pytest.mark.parametrize("status", [502, 503, 529])
async def test_what_is_said_of_the_endpoint_opens_the_breaker_for_all(status):
    async with talk(HttpReply("", fault=Fault("status", status=status))) as (backend, _):
        with pytest.raises(ServerFailedError):
            await hear(backend, asking("one"))
        with pytest.raises((ServerFailedError, BreakerOpenError)):
            await hear(backend, asking("two"))
        with pytest.raises(BreakerOpenError):
            await hear(backend, asking("three"))


@pytest.mark.parametrize(
    "said",
    [
        'Failed to parse tools: Unsupported tool type: {"type":"bash"}',
        "Failed to parse messages: Missing tool call type",
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
    ],
)
async def test_a_500_that_names_the_request_is_a_refusal(said):
    async with talk(HttpReply("", fault=Fault("status", status=500, message=said))) as (backend, server):
        with pytest.raises(RequestRejectedError) as caught:
            await hear(backend)
    assert caught.value.server_message == said
    assert len(server.requests) == 1


async def test_a_request_whose_repetition_is_refused_keeps_its_own_failure():
    policy = Resilience(first_wait_s=0.001, longest_wait_s=0.001, breaker_faults=2, breaker_over_s=0)
    broken = HttpReply("", fault=Fault("status", status=502, message="The grammar has no root."))
    async with talk(broken, policy) as (backend, server):
        with pytest.raises(
            ServerFailedError, match=r"no root.*Not tried again: openai:m is not called for now"
        ) as caught:
            await hear(backend)
        assert usage_of(caught.value).calls == len(server.requests) == 2


async def test_an_answer_whose_second_way_is_refused_fails_as_its_first_did():
    policy = Resilience(first_wait_s=0.001, longest_wait_s=0.001, breaker_faults=1, breaker_over_s=0)
    broken = HttpReply("", fault=Fault("status", status=502, message="The grammar has no root."))
    async with talk(broken, policy) as (backend, _), AsyncStretto(backend) as stretto:
        with pytest.raises(ServerFailedError, match="no root"):
            await stretto.ask("Why?", strategy="direct")


async def test_the_errors_and_logs_of_others_quote_nothing_of_a_request(caplog):
    caplog.set_level(logging.DEBUG, logger="stretto")
    policy = Resilience(first_wait_s=0.001, longest_wait_s=0.001, breaker_faults=1, breaker_over_s=0)

    def reply(received):
        status = 502 if "SECRET" in received.prompt else 500
        return HttpReply("", fault=Fault("status", status=status, message=f"It broke at {received.prompt!r}."))

    async with talk(reply, policy) as (backend, _):
        with pytest.raises(
            ServerFailedError, match=r"SECRET-of-anna'.*Not tried again: openai:m is not called for now"
        ):
            await hear(backend, asking("SECRET-of-anna"))
        with pytest.raises(BreakerOpenError) as caught:
            await hear(backend, asking("by B"))
    assert "HTTP 502" in str(caught.value)
    assert "SECRET" not in str(caught.value) + repr(vars(caught.value)) + caplog.text
    assert "attempt 1 failed" in caplog.text


@pytest.mark.parametrize(("part", "taken"), [(IMAGE, False), (SOUND, True)])
async def test_media_that_a_server_does_not_take_are_refused_before_anything_is_sent(part, taken):
    turn = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, part]}
    async with llamacpp("A sound.") as server, AsyncStretto("llamacpp:model.gguf", base_url=server.openai_url) as asked:
        if taken:
            assert (await asked.ask([turn])).text == "A sound."
            return
        with pytest.raises(InvalidRequestError, match=r"'image_url', and llamacpp:model\.gguf does not take it"):
            await asked.ask([turn])
    assert server.requests == []
