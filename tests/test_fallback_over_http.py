"""Another model goes on where one fails, over real HTTP: nothing shown is lost or repeated, and nothing is left."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import anyio
import pytest

from stretto import AllModelsFailedError, AsyncStretto, Settings
from stretto.backends.providers.learned import learned
from stretto.backends.registry import open_backend
from stretto.backends.resilience.resilient import Resilience
from stretto.testing.server import Fault, HttpReply, RawResponse, ReplyRule, ScriptedServer

pytestmark = [pytest.mark.anyio, pytest.mark.leaping]

RESILIENCE = Resilience(attempts=2, first_wait_s=0.001, longest_wait_s=0.002)
IMPATIENT = replace(RESILIENCE, first_text_s=5, stall_s=5)
OUTLINE, POINT = "Write only the outline", "text of point {},"
DOWN = HttpReply(fault=Fault("status", status=500, message="out of order"))
REST = "<received>\nPump them up well"


def parts(**changed):
    """A server's replies to the calls of a skeleton; ``changed`` by the name of a part."""
    said = {
        "outline": "1. Tyres\n2. Chain\n3. Brakes",
        "first": "Pump them up well and often.",
        "second": "Oil it now and then.",
        "third": "Test them before every ride.",
        "direct": "Pump them up well and often.",
    } | changed
    patterns = {"outline": OUTLINE, "first": POINT.format(1), "second": POINT.format(2), "third": POINT.format(3)}
    rules = [ReplyRule(pattern, said.pop(name)) for name, pattern in patterns.items()]
    direct = said.pop("direct")
    return [*(ReplyRule(pattern, reply) for pattern, reply in said.items()), *rules, ReplyRule("", direct)]


def broken(text, kind, after):
    return HttpReply(text, fault=Fault(kind, after=after))


@asynccontextmanager
async def serving(*replies, resilience=RESILIENCE):
    """A client on the first server, with the others as fallbacks; afterwards no task, connection or stream is left."""
    tasks = len(asyncio.all_tasks())
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(ScriptedServer(each)) for each in replies]
        backends = [
            open_backend(f"openai:{name}", base_url=server.openai_url, api_key="any", resilience=resilience)
            for name, server in zip("abc", servers, strict=False)
        ]
        for name, server in zip("abc", servers, strict=False):  # text of unknown models is held back at first
            learned("openai", server.openai_url, name).bare_thoughts = False
        yield await stack.enter_async_context(AsyncStretto(backends[0], fallback=backends[1:])), servers
        for backend in backends:
            await backend.aclose()
        with anyio.fail_after(5):
            for server in servers:
                await server.wait_until(lambda s: s.open_connections == 0 and s.active_streams == 0)
    assert len(asyncio.all_tasks()) == tasks


async def ask(stretto, strategy="direct", **options):
    if strategy == "skeleton":
        options["strategy_options"] = {"form": "points"}
    return await stretto.ask("How do I look after a bicycle?", strategy=strategy, **options)


async def test_what_one_model_cannot_answer_is_answered_by_the_next_after_its_own_attempts():
    async with serving(DOWN, "An answer.") as (stretto, (first, second)):
        answer = await ask(stretto)
    assert (answer.text, answer.finish_reason) == ("An answer.", "stop")
    assert (len(first.requests), len(second.requests)) == (2, 1)
    assert (answer.usage.calls, answer.usage.retries) == (3, 1)
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("fallback", "direct")]
    (branch,) = answer.branches
    assert branch.model == "openai:b"
    assert [(each.model, each.start, each.usage.calls) for each in branch.writers] == [
        ("openai:a", 0, 2),
        ("openai:b", 0, 1),
    ]
    assert "out of order" in branch.writers[0].error
    assert branch.writers[1].error is None


@pytest.mark.parametrize("kind", ["reset", "stall", "broken", "error", "cut"])
async def test_a_text_that_breaks_off_is_continued_by_the_next_model_without_doubled_words(kind):
    first = broken("Pump them up well and often.", kind, 4)
    resilience = IMPATIENT if kind == "stall" else RESILIENCE
    async with serving(first, parts(**{REST: "up well and often."}), resilience=resilience) as (stretto, servers):
        answer = await ask(stretto)
    assert (answer.text, answer.finish_reason) == ("Pump them up well and often.", "stop")
    assert [len(server.requests) for server in servers] == [1, 1]
    assert answer.branches[0].writers[1].start == len("Pump them up well")
    assert [writer.model for writer in answer.branches[0].writers] == ["openai:a", "openai:b"]
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("fallback", "direct")]


@pytest.mark.parametrize("word", ["abort", "error", "insufficient_system_resource", "network_error"])
@pytest.mark.parametrize("said", ["Pump them up well", ""])
async def test_an_answer_whose_server_ends_it_with_a_failure_goes_on_elsewhere(word, said):
    delta, end = {"delta": {"content": said}}, {"delta": {}, "finish_reason": word}
    body = [b"data: " + json.dumps({"choices": [{"index": 0, **each}]}).encode() + b"\n\n" for each in (delta, end)]
    rest = parts(**{REST: " and often."}) if said else "Pump them up well and often."
    async with serving(RawResponse(body), rest) as (stretto, servers):
        answer = await ask(stretto)
    assert (answer.text, answer.finish_reason) == ("Pump them up well and often.", "stop")
    assert [len(server.requests) for server in servers] == ([1, 1] if said else [2, 1])  # nothing to lose: tried again
    assert repr(word) in str(answer.warnings[0])


@pytest.mark.parametrize("rest", ["", " \n", "up well"], ids=["nothing", "white space", "what is there already"])
async def test_an_empty_rest_is_asked_for_of_the_next_model(rest):
    first = broken("Pump them up well and often.", "reset", 4)
    third = parts(**{REST: " and often."})
    async with serving(first, rest, third) as (stretto, servers):
        answer = await ask(stretto)
    assert (answer.text, answer.finish_reason) == ("Pump them up well and often.", "stop")
    assert [len(server.requests) for server in servers] == [1, 1, 1]
    (warning,) = answer.warnings
    assert (warning.code, warning.part, "continued" in warning) == ("fallback", "direct", True)
    assert warning.endswith("openai:b returned no text when asked for the rest.")


async def test_a_point_that_breaks_off_is_continued_and_the_others_stay_with_their_model():
    first = parts(first=broken("Pump them up well and often.", "reset", 4))
    async with serving(first, parts(**{REST: " and often."})) as (stretto, (_, second)):
        answer = await ask(stretto, "skeleton")
    assert answer.text == (
        "1. **Tyres**: Pump them up well and often.\n2. **Chain**: Oil it now and then.\n"
        "3. **Brakes**: Test them before every ride."
    )
    assert [branch.model for branch in answer.branches] == ["openai:a", "openai:b", "openai:a", "openai:a"]
    assert len(second.requests) == 1
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("fallback", "point-1")]


@pytest.mark.parametrize("fault", [Fault("status", status=500), Fault("reset", after=2)], ids=["before", "in between"])
async def test_an_outline_that_fails_is_written_by_the_next_model(fault):
    first = parts(outline=HttpReply("1. Tyres\n2. Chain\n3. Brakes", fault=fault))
    second = parts(**{"<received>\n1. Tyres": "2. Chain\n3. Brakes"})
    async with serving(first, second) as (stretto, _):
        answer = await ask(stretto, "skeleton")
    assert answer.text.startswith("1. **Tyres**: Pump them up well and often.\n2. **Chain**: Oil it")
    assert [branch.model for branch in answer.branches] == ["openai:b", "openai:a", "openai:a", "openai:a"]
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("fallback", "outline")]


async def test_where_all_models_fail_one_error_names_each():
    wrong = HttpReply(fault=Fault("status", status=401, message="who are you"))
    async with serving(DOWN, wrong) as (stretto, _):
        with pytest.raises(AllModelsFailedError, match=r"openai:a.*out of order.*openai:b.*who are you") as caught:
            await ask(stretto)
    assert [error.backend for error in caught.value.errors] == ["openai:a", "openai:b"]
    assert caught.value.status == 500


async def test_a_model_that_breaks_off_goes_on_itself_where_no_other_can_be_reached():
    first = [
        ReplyRule(REST, " and often."),
        ReplyRule("", broken("Pump them up well and often.", "reset", 4)),
    ]
    async with serving(first, DOWN) as (stretto, (_, second)):
        second._server.close()
        await second._server.wait_closed()
        answer = await ask(stretto)
    assert answer.text == "Pump them up well and often."
    assert [writer.model for writer in answer.branches[0].writers] == ["openai:a", "openai:b", "openai:a"]


async def test_the_deadline_holds_for_the_model_that_goes_on_too():
    second = parts(**{REST: broken(" and often at best every week.", "stall", 2)})
    async with serving(broken("Pump them up well and often.", "reset", 4), second) as (stretto, _):
        answer = await ask(stretto, deadline_s=5)
    assert (answer.text, answer.finish_reason) == ("Pump them up well and often", "deadline")


async def test_leaving_the_stream_ends_the_call_of_the_model_that_goes_on():
    second = parts(**{REST: broken(" and often at best every week.", "stall", 2)})
    async with serving(broken("Pump them up well and often.", "reset", 4), second) as (stretto, (_, server)):
        async with stretto.stream("How do I look after a bicycle?", strategy="direct") as events:
            async for event in events:
                if event.type == "text_delta" and "often" in event.text:
                    break
        await server.wait_until(lambda s: s.active_streams == 0)


async def test_an_event_says_who_goes_on_and_the_pieces_are_the_text():
    second = parts(**{REST: "well and often."})
    async with (
        serving(broken("Pump them up well and often.", "reset", 4), second) as (stretto, _),
        stretto.stream("How do I look after a bicycle?", strategy="direct") as stream,
    ):
        events = [event async for event in stream]
    (at,) = [number for number, event in enumerate(events) if event.type == "fallback_started"]
    event = events[at]
    assert (event.branch_id, event.model, event.failed, event.kept) == ("direct", "openai:b", "openai:a", 17)
    pieces = [each.text for each in events if each.type == "text_delta"]
    assert "".join(pieces) == "Pump them up well and often."
    assert "".join(each.text for each in events[:at] if each.type == "branch_delta") == "Pump them up well"


@pytest.mark.thorough
async def test_the_embedded_model_goes_on_where_a_server_is_dead():
    async with ScriptedServer() as server:
        address = server.openai_url  # where nothing listens from here on
    settings = Settings(compiled=False)
    async with AsyncStretto("openai:gone", base_url=address, fallback=["local:pocket"], settings=settings) as stretto:
        answer = await ask(stretto, "skeleton", max_tokens=40)
    assert answer.text.startswith("1. **Check tyre pressure**: ")  # from the outline that this model has learned
    assert {branch.model for branch in answer.branches} == {"local:pocket"}
    assert sum(len(branch.writers) == 2 for branch in answer.branches) == 1  # the others begin with the fallback
    assert answer.warnings[-1].code == "fallback"
    assert "nothing listens" in answer.warnings[-1]
