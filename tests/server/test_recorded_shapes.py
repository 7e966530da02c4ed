"""What servers send, as files in ``tests/backends/wire``, read by the client, by `stretto serve` and by `ChatStretto`.

A new server is a new file: where its shapes are from (``told``), the API that it speaks, and cases. A case has what
arrives, as ``events`` (a text is a line as it is) or as a ``whole`` body, the options that it ``asks`` with, and what
it gives: text, thoughts, calls, tokens (prompt, completion, reasoning), the finish reason (``wire``: OpenAI's word for
it), words of warnings; or the words of the error that it ``fails`` with, and the text before it. What models write that
a server passes on as text is in ``tests/markup/families``.
"""

import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from live_server import serving
from model_families import TOOLS, WRITTEN

from stretto import AsyncStretto, IncompleteAnswerError, Settings, StrettoError
from stretto.integrations.langchain import ChatStretto
from stretto.server.apis.choices import finish_of
from stretto.testing.server import RawResponse, ScriptedServer
from stretto.values.tool_calls import reasoning_of

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parents[1] / "backends" / "wire"
FILES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
for each in (each for each in WRITTEN if each.served is not None):
    pieces = [*(each.text[at : at + 7] for at in range(0, len(each.text), 7)), ""]
    events = [{"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces]
    events[-1]["choices"][0]["finish_reason"] = "stop"
    gives = each.served | ({"wire": "tool_calls"} if each.served["finish"] == "tool_calls" else {})
    FILES.setdefault(f"text-of-{each.family}", {"api": "openai", "cases": {}})["cases"][each.name] = {
        "gives": gives,
        "events": events,
    }
FIRST = {(name, next(iter(file["cases"]))) for name, file in FILES.items() if name.startswith("text-of-")}
FEW = {("text-of-qwen", "a_thought_and_a_call"), ("text-of-gpt-oss", "a_word_before_a_call")}


def marks_of(name, case):
    """Families share their readers: not each text of theirs is read each time, and few are passed on."""
    return [pytest.mark.thorough][: name.startswith("text-of-") and (name, case) not in FIRST | FEW]


PAIRS = [(name, case) for name, file in FILES.items() for case in file["cases"]]
CASES = [pytest.param(*pair, id="-".join(pair), marks=marks_of(*pair)) for pair in PAIRS]
PASSED_ON = [
    pytest.param(*pair, id="-".join(pair), marks=[pytest.mark.thorough][: pair in FIRST - FEW])
    for pair in PAIRS
    if not marks_of(*pair)
]
QUESTION = "Hello?"


class Recorded(BaseChatModel):
    """A chat model of LangChain that streams recorded messages."""

    messages: list[dict]

    @property
    def _llm_type(self):
        return "recorded"

    def _generate(self, *_, **__):
        raise NotImplementedError

    def _stream(self, *_, **__):
        for message in self.messages:
            yield ChatGenerationChunk(message=AIMessageChunk(**message))

    def bind_tools(self, *_, **__):
        return self


@asynccontextmanager
async def answering(name, case):
    """What a client and a `ChatStretto` are made of, for the server of a file that sends one of its cases."""
    api, sent = FILES[name]["api"], FILES[name]["cases"][case]
    if api == "langchain":
        model = Recorded(messages=sent["events"])
        yield (model,), {"backend": model}
        return
    if "whole" in sent:
        reply = RawResponse([json.dumps(sent["whole"]).encode()], headers={"content-type": "application/json"})
    else:
        reply = RawResponse([*map(line, sent["events"]), b"" if api == "anthropic" else b"data: [DONE]\n\n"][:-1])
    async with ScriptedServer(reply) as server:
        url = server.url if api == "anthropic" else server.openai_url
        # A name of which nothing is known, as that of an anthropic model has to be one.
        model = "anthropic:claude-haiku-4-5" if api == "anthropic" else "openai:recorded"
        yield (model, url), {"model": model, "base_url": url, "api_key": "none", "max_retries": 0}


def line(event):
    if isinstance(event, str):
        return event.encode() + b"\n\n"
    return b"event: %b\ndata: %b\n\n" % (event.get("type", "").encode(), json.dumps(event).encode())


def client_of(made):
    model, *url = made
    where = {"base_url": url[0], "api_key": "none"} if url else {}
    return AsyncStretto(model, settings=Settings(attempts=1), **where)


def called(calls):
    return [[each["function"]["name"], json.loads(each["function"]["arguments"])] for each in calls or ()]


def thought(thoughts):
    return "".join(reasoning_of(each)[1] for each in thoughts)


@pytest.mark.parametrize(("name", "case"), CASES)
async def test_the_client_gives_what_a_server_means(name, case):
    gives = FILES[name]["cases"][case]["gives"]
    async with answering(name, case) as (made, _), client_of(made) as client:
        if "fails" in gives:
            with pytest.raises(StrettoError) as caught:
                await client.ask(QUESTION, tools=TOOLS, on_missing="raise")
            assert gives["fails"] in str(caught.value)
            partial = caught.value.answer.text if isinstance(caught.value, IncompleteAnswerError) else gives["text"]
            assert partial == gives["text"]
            return
        answer = await client.ask(QUESTION, tools=TOOLS, **FILES[name]["cases"][case].get("asks", {}))
    calls = [[call.name, json.loads(call.arguments)] for call in answer.tool_calls]
    assert (answer.text, calls, answer.finish_reason) == (gives["text"], gives.get("calls", []), gives["finish"])
    assert thought(answer.thoughts) == gives.get("thoughts", "")
    if "usage" in gives:
        used = answer.usage
        assert [used.prompt_tokens, used.completion_tokens, used.reasoning_tokens] == gives["usage"]
    warnings = " ".join(map(str, answer.warnings))
    assert all(words in warnings for words in gives.get("warns", ()))
    if "extra" in gives:
        assert answer.tool_calls[0].extra == gives["extra"]


@pytest.mark.parametrize(("name", "case"), PASSED_ON)
async def test_the_server_gives_the_same_streamed_and_whole(name, case):
    gives = FILES[name]["cases"][case]["gives"]
    asked = {"model": "stretto", "messages": [{"role": "user", "content": QUESTION}], "tools": TOOLS}
    asked |= FILES[name]["cases"][case].get("asks", {})
    async with (
        answering(name, case) as (made, _),
        client_of(made) as client,
        serving(client) as live,
        live.http() as http,
    ):
        whole = (await http.post("/v1/chat/completions", json=asked)).json()
        body = (await http.post("/v1/chat/completions", json=asked | {"stream": True})).text
    events = [json.loads(each[6:]) for each in body.split("\n") if each.startswith("data: {")]
    deltas = [choice for event in events for choice in event.get("choices", ())]
    text = "".join(choice["delta"].get("content") or choice["delta"].get("refusal") or "" for choice in deltas)
    if "fails" in gives:
        assert "error" in whole or whole["choices"][0]["finish_reason"] == "length"
        assert gives["fails"] in json.dumps(whole, ensure_ascii=False)
        assert gives["fails"] in body
        assert text in (gives["text"], "")
        return
    [choice] = whole["choices"]
    message = choice["message"]
    assert (message["content"] or message.get("refusal") or "") == text == gives["text"]
    word = gives.get("wire") or finish_of(gives["finish"])
    assert {choice["finish_reason"], deltas[-1]["finish_reason"]} == {word}
    streamed = {}
    for piece in (piece for each in deltas for piece in each["delta"].get("tool_calls", ())):
        call = streamed.setdefault(piece["index"], {"function": {"name": "", "arguments": ""}})
        for field in ("name", "arguments"):
            call["function"][field] += piece["function"].get(field) or ""
    assert called(message.get("tool_calls")) == called(streamed.values()) == gives.get("calls", [])
    told = [message, *(each["delta"] for each in deltas)]
    thoughts = ["".join(each.get(name) or "" for name in ("reasoning_content", "reasoning")) for each in told]
    assert thoughts[0] == "".join(thoughts[1:]) == gives.get("thoughts", "")
    if "usage" in gives:
        used = whole["usage"]
        assert [used["prompt_tokens"], used["completion_tokens"]] == gives["usage"][:2]


@pytest.mark.parametrize(("name", "case"), PASSED_ON)
async def test_langchain_gives_the_same_streamed_and_whole(name, case):
    gives = FILES[name]["cases"][case]["gives"]
    async with answering(name, case) as (_, fields):
        chat = ChatStretto(**fields)
        bound = chat.bind_tools(TOOLS).bind(**FILES[name]["cases"][case].get("asks", {}))
        try:
            if "fails" in gives:
                with pytest.raises(StrettoError, match=gives["fails"].strip("'")):
                    await bound.bind(on_missing="raise").ainvoke(QUESTION)
                return
            whole = await bound.ainvoke(QUESTION)
            streamed = None
            async for chunk in bound.astream(QUESTION):
                streamed = chunk if streamed is None else streamed + chunk
        finally:
            chat.client().close()
    for message in (whole, streamed):
        calls = [[call["name"], call["args"]] for call in message.tool_calls]
        ended = message.response_metadata["finish_reason"]
        assert (message.text, calls, ended) == (gives["text"], gives.get("calls", []), gives["finish"])
        if "usage" in gives:
            used = message.usage_metadata
            assert [used["input_tokens"], used["output_tokens"]] == gives["usage"][:2]
