"""A backend for an API over HTTP that no SDK speaks: what `RemoteBackend` does for it, over a real connection."""

import json
import re
from pathlib import Path

import pytest
from talking import KEY, Left, asking, hear, settled

from stretto import (
    AsyncStretto,
    AuthenticationError,
    ConnectionFailedError,
    ContextOverflowError,
    InvalidRequestError,
    Message,
    RateLimitedError,
    ServerFailedError,
    StreamBrokenError,
    Usage,
)
from stretto.backends.known_models import NO_ROWS, Known
from stretto.extending import AnswerPiece, CallPiece, ModelRequest, RemoteBackend, Thought
from stretto.testing import check_backend
from stretto.testing.server import RawResponse, ScriptedServer
from stretto.values.errors import BackendError
from stretto.values.request import GenerationOptions

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
GUIDE: dict[str, object] = {"__name__": "guide"}
exec(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0], GUIDE)  # noqa: S102 - our own page
END = {"end": "stop", "read": 9, "written": 3}
pytestmark = pytest.mark.anyio


class Acme(GUIDE["Acme"]):
    """That of the guide, at the path where the scripted server takes raw responses."""

    path = "/v1/chat/completions"

    def read(self, event):
        if "thought" in event:
            thought = event["thought"]
            return [AnswerPiece(thinking=thought, thoughts=(Thought("thinking", "thinking", thought),))]
        if "call" in event:
            return [AnswerPiece(tool_calls=(CallPiece(0, "c1", event["call"], "{}"),))]
        return super().read(event)

    def read_whole(self, body):
        return [AnswerPiece(text=body["whole"], finish="stop")] if "whole" in body else ()


def events(*data):
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in data)


def at(server, **more):
    return Acme("small", base_url=server.url, api_key=KEY, **more)


async def heard(response, **asked):
    async with ScriptedServer(response, key=KEY) as server:
        backend = at(server)
        try:
            return await hear(backend, **asked), server.requests[0]
        finally:
            await backend.aclose()


async def test_what_is_sent_and_what_comes_back():
    told = RawResponse(
        [events({"text": "Yes"}, {"text": "."}, END)], headers={"acme-ratelimit-requests-remaining": "4"}
    )
    said, request = await heard(told, options=GenerationOptions(temperature=0, max_tokens=7, stop=["END"]))
    assert (said.text, said.finish) == ("Yes.", "stop")
    assert said.usage == Usage(prompt_tokens=9, completion_tokens=3, calls=1)
    assert said.headers == {"acme-ratelimit-requests-remaining": "4", "x-request-id": "req-1", "request-id": "req-1"}
    assert request.body == {
        "model": "small",
        "turns": [{"by": "user", "text": "Say hello."}],
        "temperature": 0,
        "limit": 7,
        "stop": ["END"],
    }


async def test_a_stop_text_that_the_server_does_not_know_is_cut_here():
    said, _ = await heard(
        RawResponse([events({"text": "One. EN"}, {"text": "D Two."}, END)]), options=GenerationOptions(stop=["END"])
    )
    assert said.text == "One. "


async def test_an_answer_in_one_piece_is_read_too():
    said, _ = await heard(RawResponse([b'{"whole": "Yes."}'], headers={"content-type": "application/json"}))
    assert said.text == "Yes."


async def test_hundreds_of_messages_are_sent_whole():
    turns = tuple(Message(role="user" if at % 2 == 0 else "assistant", content=f"é{at}") for at in range(1_001))
    _, request = await heard(RawResponse([events({"text": "Yes."}, END)]), prompt=ModelRequest(turns))
    assert [turn["text"] for turn in request.body["turns"]] == [turn.content for turn in turns]


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (RawResponse([b'{"error": {"message": "bad key"}}'], status=401), AuthenticationError),
        (RawResponse([b"no"], status=503), ServerFailedError),
        (RawResponse([b"slow"], status=429, headers={"retry-after": "7"}), RateLimitedError),
        (RawResponse([b'{"message": "prompt is too long"}'], status=400), ContextOverflowError),
        (RawResponse([b""], status=302, headers={"location": "http://other.example/"}), BackendError),
        (RawResponse([events({"text": "Y"}, {"error": {"message": "overloaded"}})]), BackendError),
        (RawResponse([events({"text": "Y"}), b"data: {broken\n\n"]), StreamBrokenError),
        (RawResponse([events({"text": "Y"}, {"end": "stop"})]), StreamBrokenError),  # the counts are missing
        (RawResponse([events({"text": "Y"}, [1])]), StreamBrokenError),
        (RawResponse([events({"text": "Y"})]), StreamBrokenError),
        (RawResponse([events({"text": "Y"})], then="reset"), StreamBrokenError),
        (RawResponse([b"<html>a proxy</html>"], headers={"content-type": "text/html"}), StreamBrokenError),
        (RawResponse([], then="reset"), BackendError),
    ],
)
async def test_a_failure_is_one_of_ours_without_the_key(response, error):
    with pytest.raises(error) as raised:
        await heard(response)
    assert "acme:small" in str(raised.value)
    assert KEY not in str(raised.value)
    if isinstance(raised.value, RateLimitedError):
        assert raised.value.retry_after_s == 7


async def test_a_wait_is_read_from_the_header_that_the_provider_names(monkeypatch):
    monkeypatch.setattr(Acme, "retry_header", "Wait-Seconds")
    whole = {"wait-seconds": "3", "content-type": "application/json"}
    for status, body in ((429, b"slow"), (200, b'{"error": {"code": 429, "message": "slow"}}')):
        with pytest.raises(RateLimitedError) as raised:
            await heard(RawResponse([body], status=status, headers=whole))
        assert raised.value.retry_after_s == 3


async def test_it_keeps_the_contract_and_leaves_nothing_open():
    before = Left()
    async with ScriptedServer(
        RawResponse([events({"text": "one "}, {"text": "two "}, {"text": "three"}, END)])
    ) as server:
        backend = at(server)
        await check_backend(backend, failing=Acme("small", base_url="http://127.0.0.1:9"))
    after = await settled()
    assert (after.tasks, after.sockets) == (before.tasks, before.sockets)


async def test_calls_and_thoughts_reach_the_answer():
    told = RawResponse(
        [events({"thought": "Hm."}, {"text": "A moment."}, {"call": "look"}, END | {"end": "tool_calls"})]
    )
    async with ScriptedServer(told) as server, AsyncStretto(at(server)) as stretto:
        answer = await stretto.ask("Why?", strategy="direct", seed=3)
    assert answer.text == "A moment."
    assert [call.name for call in answer.tool_calls] == ["look"]
    assert [(warning.code, "seed=3" in warning) for warning in answer.warnings] == [("option", True)]


async def test_a_wrong_key_is_not_shown_although_the_server_repeats_it():
    async with ScriptedServer(RawResponse([events(END)]), key="another") as server:
        with pytest.raises(AuthenticationError) as raised:
            await hear(at(server))
    assert KEY not in str(raised.value)


async def test_without_a_key_it_says_which_variable_is_read(monkeypatch):
    monkeypatch.delenv("ACME_API_KEY", raising=False)
    with pytest.raises(AuthenticationError, match="Set ACME_API_KEY"):
        await hear(Acme("small"))


async def test_a_provider_may_name_another_variable(monkeypatch):
    class Named(Acme):
        provider, key_variable = "named", "NAMED_TOKEN"

    assert (Named.key_variable, Named.url_variable) == ("NAMED_TOKEN", "NAMED_BASE_URL")
    async with ScriptedServer(RawResponse([events({"text": "Yes."}, END)]), key=KEY) as server:
        monkeypatch.setenv("NAMED_TOKEN", KEY)
        monkeypatch.setenv("NAMED_BASE_URL", server.url)
        backend = Named("small")
        assert (await hear(backend)).text == "Yes."
        await backend.aclose()


async def test_where_nobody_listens_it_says_so():
    with pytest.raises(ConnectionFailedError, match="acme:small"):
        await hear(Acme("small", base_url="http://127.0.0.1:9"), asking())


class InLines(Acme):
    """The same API where each line of the answer is a JSON object."""

    framing = "lines"


def lines(*data, ends="\n"):
    return "".join(f"{json.dumps(each)}{ends}" for each in data).encode()


LINES = lines({"text": "one "}, {"text": "two "}, {"text": "three"}, END)


async def in_lines(*pieces):
    async with ScriptedServer(RawResponse([*pieces], headers={"content-type": "application/x-ndjson"})) as server:
        backend = InLines("small", base_url=server.url, api_key=KEY)
        try:
            return await hear(backend)
        finally:
            await backend.aclose()


@pytest.mark.parametrize(
    "pieces",
    [
        [LINES],
        [LINES[at : at + 7] for at in range(0, len(LINES), 7)],
        [b"\xef\xbb\xbf" + LINES],
        [lines({"text": "one "}, {"text": "two three"}, END, ends="\r\n\r\n").rstrip()],
    ],
)
async def test_lines_of_json_are_read_where_a_backend_says_so(pieces):
    said = await in_lines(*pieces)
    assert (said.text, said.usage) == ("one two three", Usage(prompt_tokens=9, completion_tokens=3, calls=1))


@pytest.mark.parametrize(
    "body",
    [
        lines({"text": "one"}),
        lines({"text": "one"}) + b"{broken\n" + lines(END),
        lines({"text": "one"}) + b"broken\n" + lines(END),
        lines({"text": "one"}, {"error": {"message": "overloaded"}}),
        b"<html>a proxy</html>",
        b"",
    ],
)
async def test_lines_that_are_no_whole_answer_are_one_of_our_errors(body):
    with pytest.raises(BackendError, match="acme:small"):
        await in_lines(body)


async def test_a_body_of_several_lines_is_told_where_lines_are_expected():
    body = json.dumps({"error": {"message": "the quota is used up", "codes": [{"a": 1}]}}, indent=1)
    with pytest.raises(BackendError, match="the quota is used up"):
        await in_lines(body.encode())


async def test_lines_of_json_keep_the_contract():
    async with ScriptedServer(RawResponse([LINES])) as server:
        nobody = InLines("small", base_url="http://127.0.0.1:9")
        await check_backend(InLines("small", base_url=server.url, api_key=KEY), failing=nobody)


class Unsaid(Acme):
    """Says nothing of what its models can do, as a provider of the table does."""

    capabilities = RemoteBackend.capabilities


class TakesTools(Unsaid):
    takes = frozenset({"tools"})


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
PICTURE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}


@pytest.mark.parametrize("rows", [NO_ROWS, {"acme": {"small": Known(window=9_000, output=100)}}])
async def test_what_a_provider_does_not_say_it_sends_is_refused(rows):
    backend = Unsaid("small", base_url="http://127.0.0.1:9", own_rows=rows)
    async with AsyncStretto(backend) as stretto:
        with pytest.raises(InvalidRequestError, match="acme:small takes no tools"):
            await stretto.ask("Look.", tools=[TOOL])
        with pytest.raises(InvalidRequestError, match="'image_url', and acme:small reads text only"):
            await stretto.ask([PICTURE])
    assert not backend.capabilities.json_schema


async def test_a_provider_says_what_it_sends():
    assert TakesTools("small", base_url="http://127.0.0.1:9").capabilities.tools
    assert not TakesTools("small", base_url="http://127.0.0.1:9").capabilities.media


async def test_a_schema_that_a_provider_does_not_send_is_told_in_words():
    told = RawResponse([events({"text": '{"name": "Bern"}'}, END)])
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    rows = {"acme": {"small": Known(window=9_000, output=100)}}
    async with ScriptedServer(told) as server:
        backend = Unsaid("small", base_url=server.url, api_key=KEY, own_rows=rows)
        async with AsyncStretto(backend) as stretto:
            answer = await stretto.ask("Name a city.", response_format=schema, strategy="direct")
        assert answer.parsed == {"name": "Bern"}
        assert '"name"' in str(server.requests[0].body["turns"])


def test_a_form_of_streams_that_is_not_known_is_refused_where_the_class_is_made():
    with pytest.raises(TypeError, match=r"framing='line' cannot be used\. Use \"events\" or \"lines\"\."):
        type("Acme", (RemoteBackend,), {"framing": "line"})
