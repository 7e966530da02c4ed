"""What servers say in the bodies of their errors, in any form: it is told, obeyed, and learned from."""

import json
from dataclasses import replace

import pytest
from talking import KEY, hear

from stretto import AsyncStretto
from stretto.backends.providers.transport.error_bodies import words_of
from stretto.backends.providers.transport.requested_waits import requested_wait_s
from stretto.backends.registry import open_backend
from stretto.backends.resilience.rate_limits import asked_to_wait_s
from stretto.backends.resilience.resilient import Resilience
from stretto.testing import Reply, ScriptedBackend
from stretto.testing.server import RawResponse, ScriptedServer
from stretto.values.errors import (
    AuthenticationError,
    BackendError,
    ContextOverflowError,
    RateLimitedError,
    RequestRejectedError,
    ServerFailedError,
)
from stretto.values.request import GenerationOptions

pytestmark = [pytest.mark.anyio, pytest.mark.leaping]

JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream"}
QUICK = Resilience(attempts=3, first_wait_s=0.001, longest_wait_s=0.001, breaker_faults=1000)
RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "5s"}
QUOTA = "You exceeded your current quota, please check your plan and billing details."


def google(code, message, *details, **more):
    """How Gemini's surface for OpenAI's clients tells an error: as a list."""
    return [{"error": {"code": code, "message": message, "details": list(details), **more}}]


def refusal(status, body, **headers):
    return RawResponse([json.dumps(body).encode()], status=status, headers=JSON | headers)


@pytest.fixture(params=["openai:some-model", "anthropic:claude-haiku-4-5"])
def model(request):
    return request.param


class Refusing:
    """A server that answers with these bodies, in their order, and then as it should."""

    def __init__(self, model, *replies):
        self.model, self.replies = model, list(replies)

    def __call__(self, _):
        return self.replies.pop(0) if self.replies else "An answer."

    async def ask(self, options=None, policy=QUICK):
        """What is heard; `requests` are those that it took."""
        async with ScriptedServer(self) as server:
            url = server.openai_url if self.model.startswith("openai") else server.url
            backend = open_backend(self.model, base_url=url, api_key=KEY, resilience=policy)
            try:
                self.heard = await hear(backend, options=options)
            finally:
                self.requests = server.requests
                await backend.aclose()
        return self.heard


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (google(400, "No such field."), "No such field."),
        ([{"message": "No such field."}], "No such field."),
        (["No such field."], "No such field."),
        ({"errors": [{"message": "No such field."}, {"message": "Nor that."}]}, "No such field.; Nor that."),
        ({"error": ["No such field."]}, "No such field."),
        ({"error": {"error": {"msg": "No such field."}}}, "No such field."),
        ({"error": "Bad", "message": {"text": "x", "detail": "No such field."}}, "No such field."),
        ({"detail": [{"loc": ["body", "seed"], "msg": "No such field.", "type": "x"}]}, "seed: No such field."),
        ({"error": {"message": json.dumps(google(400, "No such field."))}}, "No such field."),
        (
            {"error": {"message": "Provider returned error", "metadata": {"raw": '{"detail": "No such field."}'}}},
            "Provider returned error: No such field.",
        ),
        ({"Message": "No such field."}, "No such field."),
        ("No such field.", "No such field."),
        ({"odd": [1, 2]}, '{"odd": [1, 2]}'),
        (7, "7"),
        (None, ""),
        ([], ""),
    ],
)
async def test_an_error_of_any_form_is_told_in_its_words(model, body, said):
    assert words_of(body) == said
    server = Refusing(model, refusal(400, body))
    with pytest.raises(RequestRejectedError) as caught:
        await server.ask()
    assert said.rstrip(".") in str(caught.value)
    assert len(server.requests) == 1


def test_a_body_that_is_nested_without_end_is_read_no_deeper():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert words_of(deep) == ""
    assert requested_wait_s(deep, "") is None


async def test_a_key_that_google_does_not_know_is_a_key_that_is_refused():
    with pytest.raises(AuthenticationError, match="API key not valid"):
        await Refusing("openai:gemini-2.5-flash", refusal(400, google(400, "API key not valid."))).ask()


async def test_a_parameter_that_is_refused_in_a_list_is_left_out_and_remembered():
    message = 'Invalid JSON payload received. Unknown name "seed": Cannot find field.'
    server = Refusing("openai:some-model", refusal(400, google(400, message, status="INVALID_ARGUMENT")))
    heard = await server.ask(GenerationOptions(seed=7))
    assert heard.text == "An answer."
    assert ["seed" in request.body for request in server.requests] == [True, False]


@pytest.mark.parametrize("event", [google(503, "The model is overloaded."), google(None, "x", status="UNAVAILABLE")])
async def test_a_list_in_the_middle_of_a_stream_is_an_error(event):
    stream = RawResponse([b"data: " + json.dumps(event).encode() + b"\n\n"], headers=EVENTS)
    server = Refusing("openai:some-model", stream, stream, stream)
    with pytest.raises(ServerFailedError, match="status 503") as caught:
        await server.ask()
    assert caught.value.attempts == 3


WAITS = [
    (google(429, "Resource exhausted.", RETRY_INFO), 5.0),
    (google(429, QUOTA, RETRY_INFO, {"violations": [{"quotaId": "GenerateRequestsPerMinutePerProject"}]}), 5.0),
    (google(429, "x", RETRY_INFO | {"retryDelay": {"seconds": "1", "nanos": 500_000_000}}), 1.5),
    ({"error": {"message": json.dumps(google(429, "x", RETRY_INFO))}}, 5.0),
    ({"error": {"message": "Rate limit reached: Limit 6000, Used 5999, Requested 9. Please try again in 5.0s."}}, 5.0),
    ({"error": {"message": "Limit 3 / 1m. Please try again in 20s. Visit us."}}, 20.0),
    ({"error": {"message": "Please try again in 7m12.48s."}}, 432.48),
    ({"error": {"message": "Please try again in 1m30s"}}, 90.0),
    ({"error": {"message": "Please try again in 120ms."}}, 0.12),
    ({"error": "Please retry after 3 seconds."}, 3.0),
    ({"error": "Please wait for 1 minute and 30 seconds."}, 90.0),
    ({"error": "Please retry in 36.5s."}, 36.5),
    ({"error": "Available again in 2 h 3 min"}, 7380.0),
    ({"error": "Try again in a minute."}, 60.0),
    ("Retry after 3.", 3.0),
    ("retry_delay {\n  seconds: 37\n}", 37.0),
    ({"retry_after": 3}, 3.0),
    ({"error": {"retry_after_ms": 250}}, 0.25),
    ({"error": "Try again later."}, None),
    ({"error": "Try again in 3 attempts."}, None),
    ({"error": "Try again with max_tokens below 4096."}, None),
    ({"error": "Try again with less than 30 minutes of sound."}, None),
    ({"retry_after": "soon", "error": {"retryDelay": -1}}, None),
    ({"retry_after": True}, None),
]


@pytest.mark.parametrize(("body", "wait_s"), WAITS)
def test_a_wait_that_is_told_in_a_body_is_read_in_every_form(body, wait_s):
    assert requested_wait_s(body, words_of(body)) == (wait_s if wait_s is None else pytest.approx(wait_s))


@pytest.mark.parametrize("body", [body for body, wait_s in WAITS if wait_s == 5])
async def test_a_wait_that_is_told_in_a_body_is_asked_of_all_calls(model, body):
    with pytest.raises(RateLimitedError) as caught:
        await Refusing(model, refusal(429, body)).ask(policy=replace(QUICK, attempts=1))
    assert caught.value.transient
    assert asked_to_wait_s(caught.value) == 5


async def test_after_a_wait_that_is_told_in_words_the_call_is_sent_again(model):
    server = Refusing(model, refusal(429, {"error": "Please try again in 20ms."}))
    assert (await server.ask()).text == "An answer."
    assert len(server.requests) == 2


async def test_a_wait_in_the_headers_comes_before_one_in_words(model):
    server = Refusing(model, refusal(429, {"error": "Try again in 50s."}, **{"retry-after": "1"}))
    with pytest.raises(RateLimitedError) as caught:
        await server.ask(policy=replace(QUICK, attempts=1))
    assert caught.value.retry_after_s == 1


@pytest.mark.parametrize(
    ("body", "remedy"),
    [
        ("Request too large for some-model on tokens per min (TPM): Limit 6000, Requested 6294.", "Shorten it"),
        ("Limit: 30,000, Used: 0, Requested: 40,000. Please try again in 2s.", "Shorten it"),
        ("The input or output tokens must be reduced in order to run successfully.", "Shorten it"),
        (QUOTA, "billing"),
        ("Insufficient balance", "billing"),
        (google(429, f"{QUOTA} * Quota exceeded for metric: free_tier, limit: 0")[0]["error"]["message"], "billing"),
        (google(429, QUOTA, RETRY_INFO, {"violations": [{"quotaId": "RequestsPerDayPerProject"}]}), "billing"),
        ({"type": "exceeded_current_quota_error", "message": "You exceeded your current quota."}, "billing"),
    ],
)
async def test_a_limit_that_no_wait_heals_is_no_rate_to_wait_for(model, body, remedy):
    server = Refusing(model, *[refusal(429, body if isinstance(body, list) else {"error": body})] * 3)
    with pytest.raises(RateLimitedError, match=remedy) as caught:
        await server.ask()
    assert not caught.value.transient
    assert len(server.requests) == 1


OVERFLOWS = [
    (400, "The input token count (50000) exceeds the maximum number of tokens allowed (32768)."),
    (429, "The input token count (50000) exceeds the maximum number of tokens allowed (32768)."),
    (400, "Unable to submit request because the input token count is 12500 but model only supports up to 8192."),
    (400, "Request payload size exceeds the limit: 20971520 bytes."),
    (400, "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens."),
    (429, "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens."),
    (400, "Your input exceeds the context window of this model. Please adjust your input and try again."),
    (400, "Invalid 'input': string too long. Expected a string with maximum length 10485760."),
    (400, "prompt is too long: 210000 tokens > 200000 maximum"),
    (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    (400, "Input is too long for requested model."),
    (400, "Malformed input request: expected maxLength: 50000, actual: 60000, please reformat your input."),
    (400, "Too many input tokens. Max input tokens: 8192, request input token count: 9000"),
    (400, "Number of input tokens exceeds maximum length. Please update the input to try again."),
    (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    (400, "max_tokens must be at least 1, got -903."),
    (500, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens"),
    (422, "Input validation error: `inputs` must have less than 1024 tokens. Given: 5000"),
    (400, "Input length (5000 tokens) exceeds the maximum allowed length (4090 tokens). Use a shorter input."),
    (500, "input is too large to process. increase the physical batch size"),
    (500, "the input length exceeds the context length"),
    (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    (400, "Invalid request: Your request exceeded model token limit: 8192"),
    (400, "Range of input length should be [1, 6000]"),
    (400, "Please reduce the length of the messages or completion."),
]


@pytest.mark.parametrize(("status", "said"), OVERFLOWS)
async def test_a_prompt_that_is_too_long_is_sent_once_whatever_its_server_calls_that(status, said):
    server = Refusing("openai:some-model", *[refusal(status, {"error": {"message": said}})] * 3)
    with pytest.raises(ContextOverflowError, match=r"cannot hold this prompt.*Shorten it, or use a larger model"):
        await server.ask()
    assert len(server.requests) == 1


async def test_a_prompt_that_is_too_long_is_sent_once_even_if_its_server_says_to_try_again():
    too_long = refusal(400, {"type": "error", "error": {"message": OVERFLOWS[8][1]}}, **{"x-should-retry": "true"})
    server = Refusing("anthropic:claude-haiku-4-5", too_long, too_long)
    with pytest.raises(ContextOverflowError):
        await server.ask()
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (429, "Too many tokens, please wait before trying again."),
        (429, "This request would exceed your organization's rate limit of 30,000 input tokens per minute."),
        (429, "Number of request tokens has exceeded your per-minute rate limit."),
        (429, "The input token count exceeds the quota. Please try again in 20ms."),
        (503, "The context window service is loading."),
    ],
)
async def test_a_rate_of_tokens_is_no_prompt_that_is_too_long(status, said):
    assert (await Refusing("openai:some-model", refusal(status, {"error": {"message": said}})).ask()).text


@pytest.mark.parametrize(
    "said",
    [
        "Invalid request: temperature exceeds the limit of 2.",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
        "The model does not support image input.",
    ],
)
async def test_another_value_that_is_too_large_is_not_called_a_prompt_that_is_too_long(said):
    with pytest.raises(RequestRejectedError) as caught:
        await Refusing("openai:some-model", refusal(400, {"error": {"message": said}})).ask()
    assert not isinstance(caught.value, ContextOverflowError)


@pytest.mark.parametrize(
    ("status", "body", "tries"),
    [
        (429, {"error": "Slow down."}, 4),
        (429, {"error": "Request too large: Limit 6000, Requested 6294."}, 1),
        (500, {"error": "Out of order."}, 4),
        (400, {"error": "No."}, 1),
        (413, {"error": "Too long."}, 1),
    ],
)
@pytest.mark.parametrize("strategy", ["direct", "skeleton"])
async def test_an_error_tells_how_often_it_was_tried(status, body, tries, strategy):
    async with (
        ScriptedServer(lambda _: refusal(status, body)) as server,
        AsyncStretto("openai:some-model", base_url=server.openai_url) as stretto,
    ):
        with pytest.raises(BackendError, match=f"status {status}") as caught:
            await stretto.ask("How do I look after a bicycle?", strategy=strategy)
    assert caught.value.attempts * (1 if strategy == "direct" else 2) == len(server.requests)
    assert caught.value.attempts == tries
    assert (f"Tried {tries} times." in str(caught.value)) == (tries > 1)


async def test_a_point_that_was_tried_in_two_ways_tells_all_of_its_tries():
    outline, down = {"Write only the outline": "1. Tyres\n2. Chain\n3. Brakes"}, ServerFailedError("Out of order.")
    script = outline | {"Chain": Reply(fault=ServerFailedError("Out of order.")), "": "Text."}
    backend = ScriptedBackend({r"point 2,": Reply(fault=down), r"part on .Chain": script["Chain"]} | script)
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask(
            "How do I look after a bicycle?", strategy="skeleton", strategy_options={"form": "points"}
        )
    assert [(warning.part, "Tried 2 times." in warning) for warning in answer.warnings] == [("point-2", True)]
