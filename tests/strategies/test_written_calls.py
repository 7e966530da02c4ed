"""A model that writes a call as the text of its answer has made it, where the text is nothing else and fits."""

import json

import pytest

from stretto import AsyncStretto, StreamBrokenError, ToolCall
from stretto.extending import Capabilities
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
    },
}
CALL = '{"name": "weather", "arguments": {"place": "Bergen"}}'
FENCED = f"```json\n{CALL}\n```"


def weather(place: str) -> str:
    """The weather."""
    return f"Rain in {place}."


def saying(*texts, **reply):
    left = [Reply(chunks=text if isinstance(text, list) else [text], **reply) for text in texts]
    return ScriptedBackend(lambda _: left.pop(0), capabilities=Capabilities(tools=True))


async def ask(backend, tools=(WEATHER,), **options):
    async with AsyncStretto(backend) as stretto:
        return await stretto.ask("Do I need an umbrella?", tools=list(tools), **options)


@pytest.mark.parametrize(
    "text",
    [
        FENCED,
        f"\n```\n{CALL}\n```\n",
        f"````tool_call\n{CALL}\n````",
        f"```JSON\n[{CALL}]\n```",
        f"```json\r\n{CALL}\r\n```",
        f"```json\n{CALL}",
        f"{{{CALL}}}",
        f"```json\n{{{CALL}}}\n```",
        CALL,
        CALL.replace("arguments", "parameters"),
        json.dumps({"name": "weather", "arguments": '{"place": "Bergen"}', "id": "x"}),
    ],
)
@pytest.mark.parametrize("pieces", ["at once", "sign by sign"])
async def test_an_answer_that_is_nothing_but_a_call_is_one(text, pieces):
    answer = await ask(saying(list(text) if pieces == "sign by sign" else text))
    (call,) = answer.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("weather", {"place": "Bergen"})
    assert call.id
    assert (answer.text, answer.finish_reason, answer.warnings) == ("", "tool_calls", ())


async def test_several_fences_are_several_calls():
    answer = await ask(saying(f"{FENCED}\n\n{FENCED.replace('Bergen', 'Oslo')}"))
    assert [json.loads(call.arguments)["place"] for call in answer.tool_calls] == ["Bergen", "Oslo"]
    assert len({call.id for call in answer.tool_calls}) == 2


async def test_a_function_of_the_caller_is_called():
    answer = await ask(saying(FENCED, "Yes, take one."), tools=[weather])
    assert answer.turns[1]["content"] == "Rain in Bergen."
    assert (answer.text, answer.finish_reason) == ("Yes, take one.", "stop")


@pytest.mark.parametrize(
    "text",
    [
        f"I would call this:\n{FENCED}",
        f"{FENCED}\nThat is the call.",
        FENCED.replace('"place"', '"town"'),
        FENCED.replace('"Bergen"', "5"),
        '```json\n{"name": "weather", "arguments": {"place": "Bergen"}, "why": "to know"}\n```',
        f"{FENCED}\n```json\n{CALL.replace('weather', 'delete')}\n```",
    ],
)
@pytest.mark.parametrize("pieces", ["at once", "sign by sign"])
async def test_what_only_looks_like_a_call_stays_text_with_a_warning(text, pieces):
    answer = await ask(saying(list(text) if pieces == "sign by sign" else text))
    assert (answer.text, answer.tool_calls, answer.finish_reason) == (text, (), "stop")
    assert [(w.code, "a call of weather" in w and "tool_choice='required'" in w) for w in answer.warnings] == [
        ("tool", True)
    ]


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"name": "weather", "kind": "word"}\n```',
        CALL.replace("weather", "delete"),
        '```python\nprint("weather")\n```',
        "[note] the weather is fine",
        "{",
        "[]",
        "```json\n[]\n```",
        f"[]\n{CALL.replace('weather', 'delete')}",
        CALL.replace('"Bergen"', "NaN").replace("weather", "delete"),
        "`" * 5000,
        "\n" * 5000 + "x",
        "```",
        "```json\n{" + "[" * 100_000,
        "It is fine.",
    ],
)
@pytest.mark.parametrize("pieces", ["at once", "sign by sign"])
async def test_other_text_is_passed_on_without_a_word(text, pieces):
    answer = await ask(saying(list(text[:1000]) if pieces == "sign by sign" else text))
    assert answer.text == (text[:1000] if pieces == "sign by sign" else text)
    assert (answer.tool_calls, answer.warnings) == ((), ())


@pytest.mark.parametrize("options", [{"tool_choice": "none"}, {"tools": []}])
async def test_without_a_tool_that_may_be_called_it_is_text(options):
    answer = await ask(saying(FENCED), **options)
    assert (answer.text, answer.tool_calls, answer.warnings) == (FENCED, (), ())


async def test_a_call_of_the_server_itself_leaves_the_text_beside_it():
    own = ToolCall(id="a", name="weather", arguments='{"place": "Oslo"}')
    answer = await ask(saying(FENCED, tool_calls=[own]))
    assert (answer.text, answer.tool_calls) == (FENCED, (own,))


async def test_text_is_not_held_back_longer_than_it_may_be_a_call():
    async with (
        AsyncStretto(saying(["```py", "thon\n", "print()\n", "```"])) as stretto,
        stretto.stream("Write a program.", tools=[WEATHER]) as stream,
    ):
        texts = [event.text async for event in stream if event.type == "text_delta"]
    assert "".join(texts) == "```python\nprint()\n```"
    assert len(texts) > 1


async def test_what_was_held_back_is_not_lost_when_the_stream_breaks():
    broken = StreamBrokenError("reset")
    backend = saying(["```json\n", '{"name": ', "x"], [""], fault=broken, fault_after=2)
    answer = await ask(backend)
    assert answer.text == '```json\n{"name": '
    assert answer.finish_reason == "error"


@pytest.mark.parametrize("end", ["stop", "length"])
async def test_a_call_with_nothing_but_white_space_behind_it_ends_the_answer(end):
    """As llama.cpp's server lets Qwen2.5-Coder write on up to the limit where a call is required."""
    more = [f"```json\n{CALL}\n```", *["\n"] * 1000]
    backend = saying(more, finish_reason=end)
    answer = await ask(backend, tool_choice="required")
    (call,) = answer.tool_calls
    assert (call.name, answer.text, answer.finish_reason, answer.warnings) == ("weather", "", "tool_calls", ())
    assert answer.usage.completion_tokens < 100


async def test_a_call_that_a_limit_has_cut_is_none():
    answer = await ask(saying(f"{CALL}\n{CALL[:30]}", finish_reason="length"))
    assert (answer.tool_calls, answer.text) == ((), f"{CALL}\n{CALL[:30]}")
    answer = await ask(saying("<tool_call>weather\n<arg_key>place</arg_key>\n<arg_value>Ber", finish_reason="length"))
    assert (answer.tool_calls, answer.text[:18]) == ((), "<tool_call>weather")
