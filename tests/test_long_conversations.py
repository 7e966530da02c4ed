"""Long conversations hold the event loop no longer than short ones: what each message costs is done in threads."""

import sys
import threading
from collections import Counter

import pytest

from stretto import AsyncStretto, InvalidRequestError
from stretto.foundation.bounds import MOST
from stretto.foundation.lazy import lazy
from stretto.router import Router
from stretto.testing import ScriptedBackend
from stretto.testing.server import ScriptedServer
from stretto.values.request import Request

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


def parts(count):
    return [{"role": "user", "content": [{"type": "text", "text": f"Part {part}."} for part in range(count)]}]


@pytest.mark.parametrize("model", ["openai:some-model", "anthropic:some-model"])
@pytest.mark.parametrize("kind", ["messages", "parts", "tools"])
async def test_for_each_message_the_event_loop_does_no_more_than_look_at_it(model, kind):
    async with ScriptedServer("Because.") as server:
        url = server.openai_url if model.startswith("openai") else server.url
        async with AsyncStretto(model, base_url=url, api_key="any") as stretto:

            async def ask(count):
                if kind == "tools":
                    answer = await stretto.ask("Why?", tools=tools(count))
                else:
                    answer = await stretto.ask(messages(count) if kind == "messages" else parts(count))
                assert answer.text == "Because."

            await ask(FEW)  # imports, compiles
            few = await calls_in_the_loop(lambda: ask(FEW))
            many = await calls_in_the_loop(lambda: ask(MANY))
        body = server.requests[-1].body
    sent = str(body["tools"] if kind == "tools" else body["messages"])
    ends = {"messages": ("Turn 0.", "Turn 999."), "parts": ("Part 0.", "Part 1000."), "tools": ("'t0'", "'t1000'")}
    assert [sent.count(end) for end in ends[kind]] == [1, 1]
    more = {name for name in many if many[name] - few[name] > (MANY - FEW) // 2}
    ours = {name for file, name in more if "/stretto/testing/" not in file}  # the scripted server is in this loop too
    assert ours <= {"<genexpr>", "media", "typical_tokens", "dumps", "encode", "iterencode"}  # sums; the size of a tool
    assert sum(many[name] - few[name] for name in more) < 16 * (MANY - FEW)


@pytest.mark.thorough
async def test_a_long_text_is_searched_for_lists_in_a_thread():
    lines = "Translate each line:\n" + "\n".join(f"Part {number}." for number in range(2_000))
    async with AsyncStretto(ScriptedBackend({"": "Because."})) as stretto:
        await stretto.ask(lines)
        here = await calls_in_the_loop(lambda: stretto.ask(lines))
    assert [name for name in here if name[0].endswith(("language/listing.py", "items/splitting.py"))] == []


async def test_an_answer_that_is_read_in_a_thread_is_that_of_the_loop():
    rows = "\n".join(f"- {'apple ' * 40}{number}" for number in range(30))
    async with AsyncStretto(ScriptedBackend({"": "Because."})) as stretto:
        route = await stretto.route(f"Translate each of these into French:\n{rows}")
        decided = Router().decide(Request.of(f"Translate each of these into French:\n{rows}"), stretto.backends)
    assert (route.strategy, route.reason) == (decided.strategy, decided.reason) == ("items", decided.reason)


def test_what_one_thread_computes_of_a_question_does_not_hold_another():
    inside, seen = threading.Event(), threading.Event()

    class Question:
        @lazy
        def parsed(self):
            if threading.current_thread() is not threading.main_thread():
                inside.set()
                return seen.wait(10)
            return True

    long, short = Question(), Question()
    reading = threading.Thread(target=lambda: long.parsed)
    reading.start()
    assert inside.wait(10)
    assert short.parsed
    seen.set()
    reading.join()
    assert long.parsed


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
