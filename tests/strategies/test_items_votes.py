"""Items by consensus: each item is written several times, and the result on which most agree is shown."""

import re

import pytest

from stretto import AsyncStretto, Budget, ServerFailedError, VoteCounted
from stretto.extending import Capabilities
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio

REVIEWS = ["A wonderful film.", "What a bore.", "Not my thing at all."]
TASK = "Classify each review as positive or negative:\n" + "\n".join(f"- {review}" for review in REVIEWS)
DOWN = Reply(fault=ServerFailedError("out of order", backend="scripted:model"))


def saying(*told, name="scripted:model"):
    """A backend that writes these results for each review, one after the other."""
    return ScriptedBackend(
        {re.escape(review): list(results) for review, results in zip(REVIEWS, told, strict=True)},
        name=name,
        capabilities=Capabilities(concurrent_calls=16),
    )


async def ask(backend, samples=3, *, fallback=(), **request):
    options = {"samples": samples}
    async with AsyncStretto(backend, fallback=list(fallback)) as stretto:
        return await stretto.ask(TASK, strategy="items", strategy_options=options, **request)


async def test_each_item_has_a_vote_of_its_own():
    backend = saying(["positive"], ["negative", "positive", "negative"], ["positive", "negative", "negative"])
    answer = await ask(backend)
    assert [line.rpartition(" ")[2] for line in answer.text.splitlines() if line.strip()] == [
        *("positive", "negative", "negative")
    ]
    assert answer.strategy == "items"
    assert [branch.model for branch in answer.branches if branch.kind == "item"] == ["scripted:model"] * 3


async def test_what_is_certain_is_not_asked_for_again():
    told = saying(*[["positive"] * 5] * 3)
    answer = await ask(told, samples=5, max_parallel_parts=2)
    assert len(told.calls) <= 12  # three that agree decide; a fourth may have begun beside the third
    dropped = [branch for branch in answer.branches if branch.kind == "vote" and branch.status == "failed"]
    assert len(dropped) >= 3
    assert all(branch.discarded for branch in dropped)
    assert {branch.error for branch in dropped} == {"it was not needed any more: the vote was decided without it"}
    assert answer.usage.discarded_tokens > 0


async def test_events_count_the_votes_of_each_item():
    backend = saying(["positive"], ["negative"], ["negative"])
    given = {"strategy": "items", "strategy_options": {"samples": 3}}
    async with AsyncStretto(backend) as stretto, stretto.stream(TASK, **given) as stream:
        events = [event async for event in stream if isinstance(event, VoteCounted)]
    assert {event.branch_id.partition("-vote")[0] for event in events} == {"item-1", "item-2", "item-3"}


async def test_each_vote_has_the_fallbacks():
    backend = saying([DOWN], ["negative"], ["negative"])
    other = saying(["positive"], ["negative"], ["negative"], name="scripted:other")
    answer = await ask(backend, fallback=[other])
    assert "positive" in answer.text
    assert all(branch.model == "scripted:other" for branch in answer.branches if branch.id.startswith("item-1"))


async def test_an_item_whose_samples_all_fail_is_told_of():
    backend = saying([DOWN], ["negative"], ["negative"])
    answer = await ask(backend)
    assert answer.finish_reason == "error"
    assert answer.text.count("negative") == 2
    assert "part_missing" in [warning.code for warning in answer.warnings]


async def test_a_budget_of_calls_leaves_fewer_votes():
    backend = saying(["positive"], ["negative"], ["negative"])
    answer = await ask(backend, samples=5, budget=Budget(max_calls=6))
    assert len(backend.calls) <= 6
    assert "budget" in [warning.code for warning in answer.warnings]


async def test_the_price_is_told_beforehand():
    async with AsyncStretto(saying(["positive"], ["negative"], ["negative"])) as stretto:
        plain = await stretto.route(TASK, strategy="items")
        voted = await stretto.route(TASK, strategy="items", strategy_options={"samples": 4})
    assert voted.forecast["items"].calls == 12 > plain.forecast["items"].calls
