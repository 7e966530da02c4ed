"""How busy a backend is, and what follows for the number of calls and for the route."""

import anyio
import pytest

from stretto import AsyncStretto, Settings
from stretto.backends.load import CallLimits, Load, LoadMeter, LoadShare, load_of, meter_of
from stretto.extending import Capabilities
from stretto.testing import ScriptedBackend
from stretto.testing.server import Fault, HttpReply, ReplyRule, ScriptedServer
from stretto.values.request import Request

pytestmark = pytest.mark.anyio

POINTS = "What are the main benefits of regular exercise? Give me six tips."
TITLES = ("Heart", "Sleep", "Mood", "Bones", "Weight", "Memory")
STRAIGHT = "Moving each day helps heart, mood and sleep. " * 40
OUTLINE = "\n".join(f"{number}. {title}" for number, title in enumerate(TITLES, 1))
SCRIPT = {"Outline the answer": OUTLINE} | {
    f"Write point: {title}": f"Words {number} about {title}, all of its own{number}."
    for number, title in enumerate(TITLES, 1)
}
BY_POINTS = Capabilities(prompt_family="pocket", concurrent_calls=8)  # in parts wherever that suits


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def waited(meter, clock, calls, *, running, took_s):
    """A call among so many gets its first token after a while, as one of so many streams."""
    begun = [meter.begun() for _ in range(running)]
    meter.first(calls, took_s)
    clock.now += 1
    for each in begun:
        meter.ended(each, 100)


def test_a_server_is_known_by_the_streams_that_ran_when_calls_had_waited():
    clock = Clock()
    meter = LoadMeter(clock)
    waited(meter, clock, 1, running=1, took_s=0.2)
    assert meter.load().holds is None
    for _ in range(3):
        waited(meter, clock, 9, running=4, took_s=2.0)
    assert meter.load().holds == 4


def test_late_first_tokens_that_no_other_call_explains_say_nothing():
    clock = Clock()
    meter = LoadMeter(clock)
    waited(meter, clock, 1, running=1, took_s=0.2)
    for _ in range(5):
        waited(meter, clock, 2, running=2, took_s=5.0)
    assert meter.load().holds is None


def test_prompts_that_are_read_one_after_the_other_are_no_bound():
    clock = Clock()
    meter = LoadMeter(clock)
    waited(meter, clock, 1, running=1, took_s=0.2)
    begun = []
    for _ in range(6):  # sent together; each begins a second after the one before
        clock.now += 1
        begun.append(meter.begun())
        meter.first(6, clock.now - 1)
    holds = meter.load().holds
    assert holds == 6
    for each in begun[:4]:
        meter.ended(each, 100)
    clock.now += 1
    begun.append(meter.begun())  # a seventh, sent with them
    meter.first(7, clock.now - 1)
    assert meter.load().holds == 6


def test_late_calls_are_no_bound_where_the_server_told_how_many_it_takes():
    for told, holds in ((False, 1), (True, None)):
        backend = ScriptedBackend("any")
        backend.capabilities = Capabilities(concurrent_calls=8, calls_reported=told)
        meter = meter_of(backend)
        meter.first(1, 0.2)
        for _ in range(3):  # five points, each begun after the one before had ended: their prompts took that long
            meter.first(5, 2.0)
            meter.ended(meter.begun(), 100)
        assert load_of(backend).holds == holds


def test_a_capacity_that_shrinks_is_found_out_and_one_that_grows_is_after_a_minute():
    clock = Clock()
    meter = LoadMeter(clock)
    waited(meter, clock, 1, running=1, took_s=0.2)
    for _ in range(12):
        waited(meter, clock, 9, running=8, took_s=2.0)
    for _ in range(14):
        waited(meter, clock, 9, running=2, took_s=2.0)
    assert meter.load().holds == 2
    clock.now += 61
    assert meter.load().holds is None


@pytest.mark.parametrize(
    ("load", "room"),
    [
        (Load(), 8),
        (Load(calls=6), 2),
        (Load(calls=80), 1),
        (Load(calls=1, holds=4), 3),
        (Load(limits_left={"requests": 2.9}), 2),
        (Load(limits_left={"requests": float("inf")}), 8),
    ],
)
def test_an_answer_takes_the_room_that_others_leave(load, room):
    backend, request = ScriptedBackend({}, capabilities=Capabilities(concurrent_calls=8)), Request.of("Why?")
    limits = CallLimits.of(backend, request, load)
    assert limits.now == room
    assert limits.why_below(room, "it") is None
    assert limits.why_below(room + 1, "it")
    one = request.model_copy(update={"max_parallel_parts": 1})
    assert CallLimits.of(backend, one, load).now == 1


def test_an_answer_counts_with_what_it_plans_until_its_parts_have_begun():
    share = LoadShare(6, CallLimits.of(ScriptedBackend({}), Request.of("Why?")))
    share.begin()
    assert share.calls == 6  # its outline
    for _ in range(3):
        share.begin()
    share.end()
    assert share.calls == 3


async def test_of_requests_that_come_at_the_same_moment_only_the_first_fans_out():
    backend = ScriptedBackend(SCRIPT | {"": STRAIGHT}, capabilities=BY_POINTS)
    answers = []
    async with AsyncStretto(backend) as stretto:

        async def ask():
            answers.append(await stretto.ask(POINTS))

        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(ask)
        alone = await stretto.ask(POINTS)
    assert sorted(answer.strategy for answer in answers) == ["direct"] * 5 + ["skeleton"]
    busy = [answer.route for answer in answers if answer.strategy == "direct"]
    assert {route.code for route in busy} == {"busy"}
    assert any("way: 7, " in route.reason for route in busy)
    assert alone.strategy == "skeleton"
    assert load_of(backend).calls == 0


async def test_a_cancelled_answer_leaves_its_room():
    backend = ScriptedBackend(SCRIPT, capabilities=BY_POINTS)
    async with AsyncStretto(backend) as stretto:
        async with stretto.stream(POINTS) as stream:
            async for event in stream:
                if event.type == "branch_started":
                    break
            assert load_of(backend).calls == 7
        assert load_of(backend).calls == 0


@pytest.mark.thorough
async def test_after_a_refusal_in_the_middle_answers_are_written_straight_and_nothing_is_lost():
    rules = [ReplyRule(pattern, HttpReply(text)) for pattern, text in SCRIPT.items()]
    async with ScriptedServer(rules) as server:
        settings = Settings(concurrent_calls=4)
        async with AsyncStretto(
            "openai:scripted", base_url=server.openai_url, api_key="k", settings=settings, prompt_family="pocket"
        ) as stretto:
            full = Fault("status", status=429, headers={"retry-after-ms": "1"})
            server.script(None, None, full)
            first = await stretto.ask(POINTS)
            assert (first.strategy, first.warnings, first.usage.retries) == ("skeleton", (), 1)
            load = load_of(stretto.backends["main"])
            assert (load.calls, load.refused) == (0, 1)
            assert load.holds in (1, 2)
            route = await stretto.route(POINTS)
    assert (route.strategy, route.code) == ("direct", "busy")


async def test_what_the_rate_limit_leaves_bounds_the_calls():
    limits = {"x-ratelimit-limit-requests": "100", "x-ratelimit-remaining-requests": "2"}
    limits |= {"x-ratelimit-reset-requests": "1000s"}
    async with (
        ScriptedServer("Yes.", headers=limits) as server,
        AsyncStretto("openai:scripted", base_url=server.openai_url, api_key="k", prompt_family="pocket") as stretto,
    ):
        await stretto.ask("Is water wet?")
        route = await stretto.route(POINTS)
    assert (route.strategy, route.code) == ("direct", "busy")
    assert "2 requests" in route.reason
