"""Long conversations hold the event loop no longer than short ones: what each message costs is done in threads."""

import sys
from collections import Counter

import pytest

from stretto import AsyncStretto, InvalidRequestError
from stretto.bounds import MOST
from stretto.testing.server import ScriptedServer

pytestmark = pytest.mark.anyio

FEW, MANY = 101, 1_001  # the turns alternate
TURN = {"type": "object", "properties": {"text": {"type": "string"}}}


def messages(count):
    return [{"role": ("user", "assistant")[turn % 2], "content": f"Turn {turn}."} for turn in range(count - 1)] + [
        {"role": "user", "content": "Why?"}
    ]


def tools(count):
    return [{"type": "function", "function": {"name": f"t{n}", "parameters": TURN}} for n in range(count)]


async def calls_in_the_loop(ask):
    """How often each Python function was called in this thread, the event loop's."""
    counted = Counter()

    def count(frame, event, _):
        if event == "call":
            counted[frame.f_code.co_filename, frame.f_code.co_name] += 1

    sys.setprofile(count)
    try:
        await ask()
    finally:
        sys.setprofile(None)
    return counted


@pytest.mark.parametrize("model", ["openai:some-model", "anthropic:some-model"])
@pytest.mark.parametrize("kind", ["messages", "tools"])
async def test_no_function_is_called_for_each_message_in_the_event_loop(model, kind):
    async with ScriptedServer("Because.") as server:
        url = server.openai_url if model.startswith("openai") else server.url
        async with AsyncStretto(model, base_url=url, api_key="any") as stretto:

            async def ask(count):
                if kind == "messages":
                    answer = await stretto.ask(messages(count))
                else:
                    answer = await stretto.ask("Why?", tools=tools(count))
                assert answer.text == "Because."

            await ask(FEW)  # imports, compiles
            few = await calls_in_the_loop(lambda: ask(FEW))
            many = await calls_in_the_loop(lambda: ask(MANY))
        assert len(server.requests[-1].body[kind]) == MANY
    more = {name: many[name] - few[name] for name in many if many[name] - few[name] > (MANY - FEW) // 2}
    sdk = {name: calls for name, calls in more.items() if "_transform" in name[0]}
    reading = [name for _, name in more if name in ("messages_of", "_message", "_read", "read_tool", "as_openai")]
    assert (sdk, reading) == ({}, [])
    assert sum(more.values()) < 40 * (MANY - FEW)  # the scripted server, which is in this loop too, included


@pytest.mark.parametrize("kind", ["messages", "parts", "tools", "stop"])
async def test_more_than_a_request_may_hold_is_refused_before_any_of_it_is_read(kind):
    class Unread(list):
        def __iter__(self):
            raise AssertionError("it was read")

    most = MOST[kind]
    asked, options = "Why?", {}
    if kind == "messages":
        asked = [object()] * (most + 1)
    elif kind == "parts":
        asked = [{"role": "user", "content": Unread([None] * (most + 1))}]
    else:
        options[kind] = Unread([None] * (most + 1))
    async with AsyncStretto("openai:some-model", base_url="http://127.0.0.1:9", api_key="any") as stretto:
        with pytest.raises(InvalidRequestError, match=rf"{kind} holds {most + 1:,} entries, and {most:,} is the most"):
            await stretto.ask(asked, **options)
