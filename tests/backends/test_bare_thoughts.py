"""Thoughts of which only the end arrives, as models write them whose template has opened them, on plain servers."""

import json

import pytest
from engines import llamacpp, ollama, sglang, vllm
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from pydantic import BaseModel

from stretto import AsyncStretto
from stretto.backends.providers.bare_thoughts import BareThoughts, expected_of
from stretto.testing.server import HttpReply, RawResponse, ScriptedServer
from stretto.values.events import TextDelta

pytestmark = pytest.mark.anyio

THOUGHT = "I need an outline.\n1. So: 1. Brakes\n</think>\n\n"
BICYCLE = "How do I look after a bicycle?"


class City(BaseModel):
    """A city."""

    name: str


def thinking(answer):
    """A reply with a thought before it, as a server without a reasoning parser sends it."""
    return HttpReply(f"Hm, a question.\nI should answer it.\n</think>\n\n{answer}")


def client(server, model="some-model", **options):
    return AsyncStretto(f"openai:{model}", base_url=server.openai_url, api_key="none", **options)


async def listened(stretto):
    """The texts that are shown of an answer, one by one, and the answer."""
    async with stretto.stream(BICYCLE, strategy="direct") as stream:
        pieces = [event.text async for event in stream if isinstance(event, TextDelta)]
        return pieces, stream.answer


def whole(text, expected=None, *, cut=False, size=1):
    """What is told of a text that comes in pieces: texts, thought, whether it was found, how much was shown at once."""
    bare, texts, thoughts = BareThoughts(expected), "", ""
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    for piece in pieces:
        told = bare.feed(piece)
        texts, thoughts = texts + told.text, thoughts + told.thought
    shown = len(texts)
    told = bare.finish(cut=cut)
    return texts + told.text, thoughts + told.thought, bare.found, shown


@pytest.mark.parametrize("size", [1, 3, 7, 100])
@pytest.mark.parametrize(
    ("text", "expected", "cut", "gives"),
    [
        ("hm</think>\n\nHi.", None, False, ("Hi.", "hm", True, 3)),
        ("hm</think>Hi.", None, False, ("Hi.", "hm", True, 3)),
        ("\n\n</think>\n\nHi.", None, False, ("Hi.", "", True, 3)),
        ("hm</think>", None, False, ("", "hm", True, 0)),
        ("hm\n</think>\n\nHi. A </think> again.", None, False, ("Hi. A </think> again.", "hm", True, 21)),
        ("Hi there.", None, False, ("Hi there.", "", False, 0)),
        ("Hi there.", None, True, ("Hi there.", "", None, 0)),
        ("hm", True, True, ("", "hm", None, 0)),
        ("Hi there.", True, False, ("Hi there.", "", False, 0)),
        ("Hi there.", False, False, ("Hi there.", "", False, 9)),
        ("  <think>hm</think>Hi.", None, False, ("  <think>hm</think>Hi.", "", False, 22)),
        ("Write `</think>` there.", None, False, ("Write `</think>` there.", "", False, 0)),
        ("First <think>, then </think> it.", None, False, ("First <think>, then </think> it.", "", False, 0)),
        ("hm</think>\n\nHi.", False, False, ("hm</think>\n\nHi.", "", True, 15)),
        ("Hm</think>x", False, False, ("Hm</think>x", "", False, 11)),
        ("", None, False, ("", "", None, 0)),
    ],
)
def test_a_text_is_told_apart_from_a_thought_however_it_comes(text, expected, cut, gives, size):
    *told, shown = gives
    found = whole(text, expected, cut=cut, size=size)
    assert [*found[:3]] == told
    assert found[3] == shown


@pytest.mark.parametrize(
    ("model", "host", "expected"),
    [
        ("Qwen/QwQ-32B", "", None),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "", None),
        ("meta-llama/Llama-3.1-8B-Instruct", "gpu-box:8000", False),
        ("mistralai/Magistral-Small-2507", "", None),
        ("Qwen/Qwen2.5-7B-Instruct", "", False),
        ("Qwen/Qwen3-8B", "", None),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "", False),
        ("Qwen/Qwen3-30B-A3B-Thinking-2507", "", None),
        ("qwen3-coder:30b", "", False),
        ("openai/gpt-oss-20b", "", False),
        ("my-tuned-model", "localhost:8000", None),
        ("mistral-medium-3-5", "api.mistral.ai", False),
        ("anything", "eu.openai.azure.com:443", False),
        ("anything", "notopenrouter.ai", None),
    ],
)
def test_names_and_services_that_leave_no_doubt_cost_no_stream(model, host, expected):
    assert expected_of(model, host) is expected


async def test_the_first_answer_costs_the_stream_and_later_ones_stream_behind_their_thoughts():
    async with ScriptedServer(thinking("One two three.")) as server, client(server) as stretto:
        pieces = []
        for _ in range(2):
            shown, answer = await listened(stretto)
            pieces.append(shown)
            assert (answer.text, answer.finish_reason) == ("One two three.", "stop")
            assert answer.thoughts[0]["reasoning_content"] == "Hm, a question.\nI should answer it."
    assert [len(each) for each in pieces] == [3, 3]


async def test_an_ordinary_model_is_known_after_one_answer_and_streams_from_then_on():
    async with ScriptedServer("One two three.") as server, client(server) as stretto:
        pieces = [(await listened(stretto))[0] for _ in range(2)]
    assert ["".join(each) for each in pieces] == ["One two three."] * 2
    assert [len(each) for each in pieces] == [1, 3]


@pytest.mark.parametrize(
    ("server", "pieces"),
    [
        (lambda: vllm("One two three."), 3),
        (lambda: vllm("One two three.", opens=True), 1),
        (lambda: llamacpp("One two three."), 3),
        (lambda: llamacpp("One two three.", opens=True), 1),
        (lambda: sglang("One two three.", parser="qwen3"), 3),
        (lambda: sglang("One two three."), 1),
        (lambda: ollama("One two three."), 3),
    ],
    ids=["vllm", "vllm-opens", "llamacpp", "llamacpp-opens", "sglang-parser", "sglang", "ollama"],
)
async def test_a_server_whose_prompts_are_known_to_open_no_thought_streams_its_first_answer(server, pieces):
    async with server() as running, client(running) as stretto:
        shown, answer = await listened(stretto)
    assert (len(shown), answer.text) == (pieces, "One two three.")


async def test_points_are_made_of_answers_and_not_of_thoughts():
    def reply(received):
        outline = "Write only the outline" in received.prompt
        return HttpReply(THOUGHT + ("1. Tyres\n2. Chain\n3. Brakes" if outline else "Look at them often."))

    async with ScriptedServer(reply) as server, client(server) as stretto:
        answer = await stretto.ask(BICYCLE, strategy="skeleton", strategy_options={"form": "points"})
    assert [branch.heading for branch in answer.branches if branch.kind == "section"] == ["Tyres", "Chain", "Brakes"]
    assert "think" not in answer.text
    assert answer.text.count("Look at them often.") == 3
    assert (answer.finish_reason, answer.warnings) == ("stop", ())


async def test_a_structured_answer_is_read_behind_its_thought():
    async with ScriptedServer(thinking('{"name": "Oslo"}')) as server, client(server) as stretto:
        answer = await stretto.ask("Which city?", response_format=City)
    assert (answer.parsed, len(server.requests)) == (City(name="Oslo"), 1)


async def test_a_thought_that_fills_max_tokens_is_no_answer_once_the_model_is_known():
    replies = [thinking("Yes."), HttpReply("Hm, a question, and a long one.")]
    async with ScriptedServer(lambda _: replies.pop(0)) as server, client(server) as stretto:
        await stretto.ask("Why?", strategy="direct")
        answer = await stretto.ask("Why?", strategy="direct", max_tokens=3)
    assert (answer.text, answer.finish_reason) == ("", "length")
    assert answer.thoughts[0]["reasoning_content"].startswith("Hm,")


async def test_a_server_that_tells_thoughts_apart_streams_its_first_answer():
    async with ScriptedServer(HttpReply("One two three.", thought="Hm.")) as server, client(server) as stretto:
        pieces, _ = await listened(stretto)
    assert len(pieces) == 3


async def test_thoughts_before_a_tool_call_are_no_text():
    deltas = [
        {"content": "I need the tool.\n</think>\n\n"},
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "w", "arguments": "{}"}}]},
    ]
    choices = [*({"delta": delta} for delta in deltas), {"delta": {}, "finish_reason": "tool_calls"}]
    body = [b"data: " + json.dumps({"choices": [{"index": 0, **each}]}).encode() + b"\n\n" for each in choices]
    tool = {"type": "function", "function": {"name": "w", "parameters": {"type": "object"}}}
    async with ScriptedServer(RawResponse(body)) as server, client(server) as stretto:
        answer = await stretto.ask("Why?", tools=[tool])
    assert (answer.text, len(answer.tool_calls), answer.finish_reason) == ("", 1, "tool_calls")
    assert answer.thoughts[0]["reasoning_content"] == "I need the tool."


async def test_the_log_probabilities_are_those_of_the_answer_alone():
    words = ["hm", "</think>", "\n\nHi", " there."]
    choices = [
        {"delta": {"content": word}, "logprobs": {"content": [{"token": word, "logprob": -1.0, "top_logprobs": []}]}}
        for word in words
    ]
    choices.append({"delta": {}, "finish_reason": "stop"})
    body = [b"data: " + json.dumps({"choices": [{"index": 0, **each}]}).encode() + b"\n\n" for each in choices]
    async with ScriptedServer(RawResponse(body)) as server, client(server) as stretto:
        answers = [await stretto.ask("Why?", strategy="direct", logprobs=0) for _ in range(2)]
    for answer in answers:
        assert answer.text == "Hi there."
        assert [each.token for each in answer.logprobs] == words[2:]


async def test_an_answer_of_a_model_that_had_none_before_is_told_and_the_next_one_is_right():
    replies = [HttpReply("Yes."), *[thinking("Yes.")] * 2]
    async with ScriptedServer(lambda _: replies.pop(0)) as server, client(server) as stretto:
        answers = [await stretto.ask("Why?", strategy="direct") for _ in range(3)]
    assert [answer.text == "Yes." for answer in answers] == [True, False, True]
    assert "thoughts" in answers[1].warnings[0]
    assert answers[2].warnings == ()


async def test_a_chat_model_of_langchain_is_read_the_same():
    model = GenericFakeChatModel(messages=iter([AIMessage(content="I should say hi.</think>\n\nHi.")]))
    async with AsyncStretto(model) as stretto:
        answer = await stretto.ask("Hello?", strategy="direct")
    assert answer.text == "Hi."
