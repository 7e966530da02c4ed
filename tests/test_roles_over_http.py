"""Every role has fallbacks, over real HTTP: a judge refuses, a proposer stalls, an aggregator breaks off."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import anyio
import pytest

from stretto import AsyncStretto
from stretto.backends.registry import open_backend
from stretto.backends.resilience.resilient import Resilience
from stretto.testing.server import Fault, HttpReply, ReplyRule, ScriptedServer

pytestmark = [pytest.mark.anyio, pytest.mark.leaping]

RESILIENCE = Resilience(attempts=1, first_wait_s=0.001, longest_wait_s=0.002)
IMPATIENT = replace(RESILIENCE, first_text_s=5, stall_s=5)
TOGETHER, JUDGING = "the answer to the question yourself", "the best answer"
ESSAYS = [
    "The bridge is a long story of iron, and it stands over the river since the year of the flood.",
    "The bridge is a long story of stone, and it stands over the river since the year of the fire.",
    "Nobody knows who built it; some say giants, others say a bishop who had lost a bet with them.",
]


def model(name, answer="", *, together="All agree.", judging="Answer 3."):
    answer = answer or f"What {name} says."
    return [ReplyRule(TOGETHER, together), ReplyRule(JUDGING, judging), ReplyRule("", answer)]


@asynccontextmanager
async def serving(*replies, fallback=(), resilience=RESILIENCE):
    """A client with a server for each of the roles main, b, c, ... and for each fallback; nothing is left of it."""
    tasks = len(asyncio.all_tasks())
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(ScriptedServer(each)) for each in (*replies, *fallback)]
        backends = [
            open_backend(f"openai:{name}", base_url=server.openai_url, api_key="any", resilience=resilience)
            for name, server in zip("abcdef", servers, strict=False)
        ]
        main, *others = backends[: len(replies)]
        roles = dict(zip("bcdef", others, strict=False))
        yield (
            await stack.enter_async_context(AsyncStretto(main, roles=roles, fallback=backends[len(replies) :])),
            servers,
        )
        for backend in backends:
            await backend.aclose()
        with anyio.fail_after(5):
            for server in servers:
                await server.wait_until(lambda s: s.open_connections == 0 and s.active_streams == 0)
    assert len(asyncio.all_tasks()) == tasks


async def together(stretto, **options):
    return await stretto.ask("Why do bees dance?", strategy="collaborate", strategy_options=options)


async def test_a_proposer_that_stalls_is_stood_in_for_by_another_model():
    stalled = HttpReply("What b would say.", fault=Fault("stall"))
    async with serving(model("a"), model("b", stalled), fallback=[model("c")], resilience=IMPATIENT) as (stretto, _):
        answer = await together(stretto, quorum=2)
    assert (answer.text, answer.finish_reason) == ("All agree.", "stop")
    assert [(branch.kind, branch.model, branch.text) for branch in answer.branches] == [
        ("proposal", "openai:a", "What a says."),
        ("proposal", "openai:c", "What c says."),
        ("aggregate", "openai:a", "All agree."),
    ]


async def test_no_model_proposes_twice_because_another_one_failed():
    down = HttpReply(fault=Fault("status", status=500))
    async with serving(model("a", down), model("b")) as (stretto, (_, second)):
        main, other = stretto.backends.values()
        answer = await together(AsyncStretto(main, roles={"b": other}, fallback=[other]), quorum=2)
    assert (answer.text, len(second.requests)) == ("What b says.", 1)


@pytest.mark.parametrize("kind", ["reset", "broken", "cut", "stall"])
async def test_another_model_goes_on_in_the_middle_of_an_aggregation(kind):
    breaking = HttpReply("All agree that they show the way.", fault=Fault(kind, after=4))
    rest = [ReplyRule("<received>\nAll agree that they", " they show where food is."), ReplyRule("", "What c says.")]
    replies = model("a"), model("b", together=breaking)
    async with serving(*replies, fallback=[rest], resilience=IMPATIENT) as (stretto, _):
        answer = await together(stretto, quorum=2, aggregator="b")
    assert answer.text == "All agree that they show where food is."
    writers = answer.branches[-1].writers
    assert [(each.model, each.start > 0) for each in writers] == [("openai:b", False), ("openai:c", True)]
    assert "fallback" in [warning.code for warning in answer.warnings]


@pytest.mark.parametrize(
    "judging",
    [
        HttpReply("I will not judge.", finish="refusal"),
        HttpReply("I cannot tell."),
        HttpReply(fault=Fault("status", status=500)),
        HttpReply("Answer 1.", fault=Fault("stall")),
    ],
)
async def test_another_judge_is_asked_where_one_chooses_nothing(judging):
    samples = iter(ESSAYS)
    replies = lambda request: judging if JUDGING in request.prompt else next(samples)  # noqa: E731 - a script
    async with serving(replies, fallback=[model("b")], resilience=IMPATIENT) as (stretto, _):
        answer = await stretto.ask(
            "Write about the bridge.", strategy="consensus", strategy_options={"samples": 3, "judge": "main"}
        )
    assert answer.agreement.decided_by == "judge"
    assert answer.warnings[-1].code == "votes"


async def test_a_long_wait_for_a_limit_is_left_to_another_model():
    limited = HttpReply(fault=Fault("status", status=429, message="Slow down.", headers={"retry-after": "30"}))
    patient = replace(RESILIENCE, attempts=4)
    async with serving(limited, fallback=["An answer."], resilience=patient) as (stretto, (first, second)):
        with anyio.fail_after(5):
            answers = [await stretto.ask("Why?", strategy="direct") for _ in range(2)]
    assert [answer.text for answer in answers] == ["An answer."] * 2
    assert (len(first.requests), len(second.requests)) == (1, 2)
    assert [warning.code for answer in answers for warning in answer.warnings] == ["fallback"] * 2


async def test_a_short_wait_for_a_limit_is_waited_for():
    limited = Fault("status", status=429, message="Slow down.", headers={"retry-after": "0"})
    patient = replace(RESILIENCE, attempts=4)
    async with serving("Its own.", fallback=["Another."], resilience=patient) as (stretto, (first, second)):
        first.script(limited)
        answer = await stretto.ask("Why?", strategy="direct")
    assert (answer.text, len(second.requests)) == ("Its own.", 0)
