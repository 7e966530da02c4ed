"""Events that no well-behaved server sends, through both real SDKs: an answer, or one clear error."""

import json
import pickle
import re

import pytest
from raw_streams import ONCE, Anthropic, OpenAI, body, events, fail, listen, raw, talk
from talking import KEY, Heard, asking, hear

from stretto import AsyncStretto
from stretto.backends.providers.openai import OpenAIBackend
from stretto.backends.registry import open_backend
from stretto.backends.resilience.resilient import Resilience
from stretto.testing.server import HttpReply, RawResponse, ScriptedServer
from stretto.values.errors import BackendError, ServerFailedError, StreamBrokenError
from stretto.values.request import GenerationOptions

pytestmark = pytest.mark.anyio

HTML = "<!doctype html>\n<title>Sign in</title>\n<p>Please sign in to the hotel network.</p>"


@pytest.fixture(params=[OpenAI, Anthropic], ids=["openai", "anthropic"])
def api(request):
    return request.param


# Values of a wrong type


@pytest.mark.parametrize("wrong", [[5], 5, {"a": 1}, 1.5, True], ids=repr)
async def test_a_text_of_a_wrong_type_is_one_clear_error_after_the_text_before_it(api, wrong):
    error, text = await fail(
        api, raw(api.start(), api.delta("one "), api.delta(wrong), api.finish()), StreamBrokenError
    )
    assert "cannot be read" in str(error)
    assert re.search(r"not (a text|an object)", str(error))
    assert text == "one "


@pytest.mark.parametrize("wrong", [{"a": 1}, 5, "text", [5], [[]], [{"delta": "text"}], [{"delta": [1]}]], ids=repr)
async def test_choices_of_a_wrong_type_are_an_error_of_ours(wrong):
    error, text = await fail(OpenAI, raw(OpenAI.delta("one "), events({"choices": wrong})), StreamBrokenError)
    assert re.search(r"cannot be read \(.* not (a list|an object)\)", str(error))
    assert text == "one "


@pytest.mark.parametrize("odd", [b"5", b'"words"', b"[1]", b"null", b"[]", b"{}", b"1e999", b"[" * 5000, b"9" * 5000])
async def test_events_that_are_no_objects_never_raise_anything_foreign(api, odd):
    lines = b"event: content_block_delta\n" + events(odd)
    async with talk(api, raw(api.start(), api.delta("one"), lines, api.finish(), api.done)) as (backend, _):
        heard = Heard()
        try:
            await hear(backend, heard=heard)
        except BackendError:
            assert heard.finish is None
        assert heard.text == "one"


@pytest.mark.parametrize(
    "usage", [5, "much", [], [1], {"prompt_tokens": "many", "input_tokens": []}, {"output_tokens": -1}]
)
async def test_usage_of_a_wrong_type_is_missing_usage_and_no_more(api, usage):
    text, finish, warnings = await listen(api, raw(api.start(), api.delta("one"), api.finish(usage), api.done))
    assert (text, finish) == ("one", "stop")
    assert any("estimated" in warning for warning in warnings)


@pytest.mark.parametrize("start", [Anthropic.start(), Anthropic.start({}), b""], ids=["no usage", "empty", "no start"])
@pytest.mark.parametrize("finish", [Anthropic.finish(), Anthropic.finish({})], ids=["no usage", "empty"])
async def test_anthropic_may_leave_out_its_usage_anywhere(start, finish):
    text, reason, warnings = await listen(Anthropic, raw(start, Anthropic.delta("one"), finish, Anthropic.done))
    assert (text, reason) == ("one", "stop")
    assert len(warnings) == 1
    assert "estimated" in warnings[0]


async def test_a_wrong_type_in_one_branch_leaves_the_others_whole(api):
    def reply(received):
        if "Write only the outline" in received.prompt:
            return "1. Tyres\n2. Chain\n3. Brakes"
        if "text of point 2," in received.prompt or "<received>\nOil" in received.prompt:
            return raw(api.start(), api.delta("Oil"), api.delta([7]), api.finish())
        return "Some text."

    async with ScriptedServer(reply) as server:
        backend = open_backend(api.model, base_url=api.url(server), api_key=KEY, resilience=ONCE)
        async with AsyncStretto(backend) as stretto:
            answer = await stretto.ask(
                "How do I look after a bicycle?", strategy="skeleton", strategy_options={"form": "points"}
            )
    failed = [branch.id for branch in answer.branches if branch.status == "failed"]
    assert failed == ["point-2"]
    assert answer.text.count("Some text.") == 2
    answer.model_dump_json()


# Surrogates


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["a\ud83d", "\ude00b"], "a\U0001f600b"),
        (["a\ud83d", "b"], "a\ufffdb"),
        (["\ude00"], "\ufffd"),
        (["a\ud83d"], "a\ufffd"),
    ],
    ids=["split pair", "first half", "second half", "last half"],
)
async def test_halves_of_characters_are_joined_or_replaced(api, pieces, text):
    deltas = [api.delta(piece) for piece in pieces]
    reply = raw(api.start(), *deltas, api.finish(api.usage), api.done)
    async with talk(api, reply) as (backend, _), AsyncStretto(backend) as stretto:
        answer = await stretto.ask("Why?", strategy="direct")
    assert answer.text == text
    assert json.loads(answer.model_dump_json())["text"] == text


# After the finish reason


AFTER = {
    "nothing": b"",
    "broken": b"data: {broken\n\n",
    "broken event": b"event: content_block_delta\ndata: {\n\n",
    "no text": b"\xff\xfe\n\n",
    "number": b"data: 5\n\n",
}


@pytest.mark.parametrize(
    ("after", "then"),
    [
        pytest.param("nothing", "stall", marks=pytest.mark.leaping),
        *((after, then) for after in AFTER for then in ("reset", "end")),
    ],
)
async def test_what_comes_after_the_finish_reason_cannot_spoil_an_answer(api, after, then):
    reply = raw(api.start(), api.delta("one"), api.finish(), AFTER[after], then=then)
    text, finish, _ = await listen(api, reply)
    assert (text, finish) == ("one", "stop")


async def test_an_error_or_text_after_the_finish_reason_is_not_part_of_the_answer(api):
    reply = raw(api.start(), api.delta("one"), api.finish(), api.delta("two"), api.error("late trouble"))
    assert (await listen(api, reply))[:2] == ("one", "stop")


async def test_an_answer_that_broke_after_its_finish_reason_is_asked_for_once(api):
    reply = raw(api.start(), api.delta("one"), api.finish(), then="reset")
    async with talk(api, reply, Resilience()) as (backend, server), AsyncStretto(backend) as stretto:
        answer = await stretto.ask("Why?", strategy="direct")
        assert (answer.text, answer.finish_reason, len(server.requests)) == ("one", "stop", 1)


# Two choices


async def test_only_the_choice_with_index_0_is_read():
    reply = raw(
        OpenAI.delta("one "), OpenAI.delta("uno ", 1), OpenAI.delta("two"), OpenAI.delta("dos", 1), OpenAI.finish()
    )
    assert (await listen(OpenAI, reply))[0] == "one two"


async def test_the_other_choice_does_not_end_the_answer():
    end = events({"choices": [{"index": 1, "delta": {}, "finish_reason": "length"}]})
    assert (await listen(OpenAI, raw(OpenAI.delta("one "), end, OpenAI.delta("two"), OpenAI.finish())))[:2] == (
        "one two",
        "stop",
    )


# Status 200, and no stream


async def test_a_whole_answer_that_is_not_streamed_is_the_answer(api):
    for text in (json.dumps(api.whole("one two")), json.dumps(api.whole("one two"), indent=2)):
        async with talk(api, body(text.encode())) as (backend, _):
            heard = await hear(backend)
        assert (heard.text, heard.finish) == ("one two", "stop")
        assert (heard.usage.prompt_tokens, heard.usage.completion_tokens) == (3, 2)


@pytest.mark.parametrize(
    "said",
    [
        {"error": {"message": "the disk is full", "type": "server_error"}},
        {"error": "the disk is full"},
        {"type": "error", "error": {"type": "api_error", "message": "the disk is full"}},
        {"message": "the disk is full"},
        {"object": "error", "message": "the disk is full"},
    ],
    ids=["openai", "text", "anthropic", "message", "object"],
)
async def test_an_error_with_status_200_says_what_the_server_said(api, said):
    error, _ = await fail(api, body(said), ServerFailedError)
    assert "the disk is full" in str(error)
    assert error.server_message == "the disk is full"


async def test_a_page_with_status_200_is_shown_in_part(api):
    error, _ = await fail(api, body(HTML.encode(), "text/html"), StreamBrokenError)
    assert "not with a stream of events" in str(error)
    assert "Please sign in" in str(error)
    assert "base_url" in str(error)


@pytest.mark.parametrize(
    "lines",
    [
        b'event: error\ndata: {"message": "the disk is full"}\n\n',
        b'event: error\ndata: {"error": {"message": "the disk is full"}}\n\n',
        b"event: error\ndata: the disk is full\n\n",
        b'event: error\ndata: "the disk is full"\n\n',
        b'data: {"error": "the disk is full"}\n\n',
        b'data: {"type": "error", "error": {"message": "the disk is full"}}\n\n',
    ],
)
async def test_an_error_in_the_stream_says_what_the_server_said(api, lines):
    error, text = await fail(api, raw(api.start(), api.delta("one"), lines))
    assert "the disk is full" in str(error)
    assert text == "one"


async def test_what_a_server_says_is_bounded_printable_and_without_the_key(api):
    said = f"trouble \x1b[2J\r\n with {KEY} " + "x" * 10_000
    for reply in (
        body({"error": {"message": said}}),
        body({"error": {"message": said}}, status=500),
        body(said.encode()),
    ):
        error, _ = await fail(api, reply)
        assert "trouble [2J with [key] xxx" in str(error)
        assert str(error).isprintable()
        assert len(str(error)) < 1_000


async def test_thinking_is_no_stall():
    thought = events({"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]})
    reply = raw(thought, OpenAI.delta("one"), OpenAI.finish(OpenAI.usage))
    async with talk(OpenAI, reply) as (backend, _), backend.stream(asking(), GenerationOptions()) as chunks:
        read = [chunk async for chunk in chunks]
    assert [chunk.is_progress for chunk in read] == [False, True, True, True, False]
    assert [chunk.thinking for chunk in read] == [False, True, False, False, False]


# What is seen from outside


async def test_what_instruments_the_sdk_sees_each_call(monkeypatch):
    from openai.resources.chat.completions import AsyncCompletions  # noqa: PLC0415 - imported with the SDK only

    create, seen, events = AsyncCompletions.create, [], []

    class Traced:
        """What tracing libraries hand out: a stream around the SDK's, without its attributes."""

        def __init__(self, stream):
            self.stream = stream

        async def __aiter__(self):
            async for event in self.stream:
                events.append(type(event).__name__)
                yield event

        async def close(self):
            await self.stream.close()

    async def traced(self, **arguments):
        seen.append(arguments["model"])
        return Traced(await create(self, **arguments))

    monkeypatch.setattr(AsyncCompletions, "create", traced)
    reply = HttpReply("Hello there.", prompt_tokens=9)
    async with ScriptedServer(reply, headers={"x-ratelimit-remaining-requests": "7"}) as server:
        backend = OpenAIBackend("some-model", base_url=server.openai_url, api_key=KEY)
        heard = await hear(backend)
        await backend.aclose()
    assert seen == ["some-model"]
    assert set(events) == {"ChatCompletionChunk"}
    assert (heard.text, heard.usage.prompt_tokens) == ("Hello there.", 9)
    assert heard.headers["x-ratelimit-remaining-requests"] == "7"


async def test_a_key_in_a_response_header_is_taken_out(api):
    headers = {"x-request-id": f"req-{KEY}", "x-ratelimit-limit-requests": "key hunter2"}
    error, _ = await fail(api, RawResponse([b"{}"], status=500, headers=headers), key="hunter2")
    assert error.headers["x-request-id"] == "req-[key]"
    assert error.headers["x-ratelimit-limit-requests"] == "key [key]"
    kept = repr(vars(error)) + repr(vars(pickle.loads(pickle.dumps(error))))  # noqa: S301 - our own
    assert "hunter2" not in kept
    assert KEY not in kept
    answered = raw(api.start(), api.delta("one"), api.finish(), headers=headers)
    async with talk(api, answered, key="hunter2") as (backend, _):
        heard = await hear(backend)
    assert heard.text == "one"
    assert heard.headers["x-request-id"] == "req-[key]"
    assert heard.headers["x-ratelimit-limit-requests"] == "key [key]"
