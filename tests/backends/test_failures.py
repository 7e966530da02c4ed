from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import anyio
import pytest
from talking import KEY, asking, hear, settled

from stretto.backends.providers.failures import rejected_parameter, translate
from stretto.backends.providers.transport.headers import retry_after_s
from stretto.backends.registry import open_backend
from stretto.backends.resilience.resilient import Resilience
from stretto.testing.server import Fault, HttpReply, ScriptedServer
from stretto.values.errors import BackendError, ContextOverflowError, RateLimitedError, ServerFailedError
from stretto.values.request import GenerationOptions

QUICK = Resilience(attempts=3, first_wait_s=0.001, longest_wait_s=0.001, breaker_faults=1000)


def test_retry_after_is_read_in_every_form():
    assert retry_after_s({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    assert retry_after_s({"retry-after": "9"}) == 9
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 90 < retry_after_s({"retry-after": later}) <= 100
    earlier = format_datetime(datetime.now(UTC) - timedelta(seconds=100), usegmt=True)
    assert retry_after_s({"retry-after": earlier}) == 0
    for useless in ("soon", "-3", "nan", ""):
        assert retry_after_s({"retry-after": useless}) is None
    assert retry_after_s({}) is None


@pytest.mark.parametrize(
    ("body", "said", "parameter"),
    [
        ({"param": "temperature", "code": "unsupported_value"}, "Only the default (1) is supported", "temperature"),
        ({}, "`temperature` is deprecated for this model", "temperature"),
        ({}, "temperature: Extra inputs are not permitted", "temperature"),
        ({}, "`temperature` and `top_p` cannot both be specified for this model", "temperature"),
        ({}, "This model does not support the effort parameter", "effort"),
        ({}, "[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options')}]: not permitted", "stream_options"),
        (
            {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]},
            "",
            "seed",
        ),
        ({"param": "messages", "code": "invalid_value"}, "Too many messages", None),
        ({"param": "temperature", "code": "decimal_above_max_value"}, "Invalid 'temperature': at most 2", None),
        ({}, "This kind of stop is not supported", None),
        ({}, "max_tokens: must be greater than or equal to 1", None),
    ],
)
def test_a_refused_parameter_is_found_in_the_words_of_many_servers(body, said, parameter):
    assert rejected_parameter(body, said) == parameter


class AwsError(Exception):
    """As botocore raises it."""

    def __init__(self, status, message):
        super().__init__(f"An error occurred when calling the ConverseStream operation: {message}")
        self.response = {"Error": {"Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}


class GoogleError(Exception):
    """As google-genai raises it."""

    def __init__(self, code, message):
        super().__init__(f"{code} INVALID_ARGUMENT. {message}")
        self.code = code


TOO_LONG = "The input token count (50000) exceeds the maximum number of tokens allowed (32768)."


@pytest.mark.parametrize(
    ("error", "kind", "transient"),
    [
        (AwsError(400, "Input is too long for requested model."), ContextOverflowError, False),
        (AwsError(429, "Too many tokens, please wait before trying again."), RateLimitedError, True),
        (GoogleError(400, TOO_LONG), ContextOverflowError, False),
        (GoogleError(503, "The model is overloaded."), ServerFailedError, True),
        (ValueError(f"Invalid argument provided to Gemini: {TOO_LONG}"), ContextOverflowError, False),
        (ValueError("Not this."), BackendError, False),
    ],
)
def test_errors_of_the_clients_of_other_providers_are_read(error, kind, transient):
    failure = translate(error, "langchain:model")
    assert (type(failure), failure.transient) == (kind, transient)
    assert (kind is ContextOverflowError) == ("Shorten it, or use a larger model." in str(failure))


@pytest.mark.anyio
async def test_a_server_that_says_not_to_retry_is_obeyed():
    async with ScriptedServer() as server:
        backend = open_backend("openai:m", base_url=server.openai_url, api_key=KEY, resilience=QUICK)
        server.script(Fault("status", status=500, headers={"x-should-retry": "false"}))
        with pytest.raises(ServerFailedError):
            await hear(backend)
        await backend.aclose()
    assert len(server.requests) == 1


@pytest.mark.anyio
async def test_an_empty_purse_is_no_rate_to_wait_for():
    async with ScriptedServer() as server:
        backend = open_backend("openai:m", base_url=server.openai_url, api_key=KEY, resilience=QUICK)
        server.script(Fault("status", status=402, message="No credit."))
        with pytest.raises(RateLimitedError, match="billing"):
            await hear(backend)
        await backend.aclose()
    assert len(server.requests) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("model", ["openai:gpt-5-mini", "anthropic:claude-haiku-4-5"])
@pytest.mark.leaping
async def test_under_many_faults_every_answer_is_whole_or_an_error_and_nothing_is_left(model):
    faults = [
        None,
        Fault("status", status=429, headers={"retry-after-ms": "1"}),
        Fault("reset"),
        Fault("stall"),
        Fault("reset", after=2),
        Fault("stall", after=3),
        Fault("broken", after=1),
        Fault("error", after=2, status=529),
        Fault("cut", after=4),
        Fault("status", status=503),
    ]
    policy = Resilience(
        attempts=4,
        first_wait_s=0.001,
        first_text_s=5,
        stall_s=5,
        concurrent_calls=8,
        breaker_faults=1000,
        hedge=True,
    )
    outcomes = []
    async with ScriptedServer(HttpReply("one two three four five")) as server:
        before = await settled()
        base_url = server.openai_url if model.startswith("openai") else server.url
        backend = open_backend(model, base_url=base_url, api_key=KEY, resilience=policy)
        server.script(*faults * 6)

        async def caller(number):
            text, finish = "", None
            try:
                async with backend.stream(asking(f"Question {number}"), GenerationOptions()) as chunks:
                    async for chunk in chunks:
                        text += chunk.text
                        finish = chunk.finish_reason or finish
                outcomes.append((text, finish))
            except BackendError as error:
                assert "one two three four five".startswith(text)
                outcomes.append((str(error), "error"))

        async with anyio.create_task_group() as callers:
            for number in range(40):
                callers.start_soon(caller, number)
        await backend.aclose()
        await server.wait_until(lambda server: server.open_connections == 0)
        assert await settled() == before
    assert len(outcomes) == 40
    assert {finish for _, finish in outcomes} <= {"stop", "error"}
    assert all(text == "one two three four five" for text, finish in outcomes if finish == "stop")
    assert all(model in text for text, finish in outcomes if finish == "error")
