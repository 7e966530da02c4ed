"""What a program sees of its answers through hooks."""

import dataclasses
import logging

import anyio
import pytest
from patience import patience

from stretto import AsyncStretto, CallEnded, Hooks, Route, ServerFailedError, StreamBrokenError
from stretto.backends.resilience.resilient import Resilience, resilient
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio

SKELETON = {"Write only the outline": "1. Tyres\n2. Chain", "Tyres": "Pump them.", "Chain": "Oil it.", "": "Yes."}
QUICK = Resilience(attempts=3, first_wait_s=0.001, longest_wait_s=0.001)


async def watched(backend, *, hooks=None, **options):
    routes, calls, retries = [], [], []
    hooks = hooks or Hooks(on_route=routes.append, on_call=calls.append, on_retry=retries.append)
    async with AsyncStretto(backend, hooks=hooks) as stretto:
        answer = await stretto.ask("How do I look after a bicycle?", **options)
    return answer, routes, calls, retries


async def test_a_route_and_each_call_are_told():
    answer, routes, calls, retries = await watched(
        ScriptedBackend(SKELETON), strategy="skeleton", strategy_options={"form": "points"}
    )
    assert routes == [answer.route]
    assert {(call.branch_id, call.kind) for call in calls} == {
        ("outline", "outline"),
        ("point-1", "section"),
        ("point-2", "section"),
    }
    assert sum(call.usage.total_tokens for call in calls) == answer.usage.total_tokens
    assert all(call.backend == "scripted:model" and call.finish_reason == "stop" and not call.error for call in calls)
    assert all(0 <= call.first_text_s <= call.seconds for call in calls)
    assert retries == []


async def test_a_route_that_was_asked_for_alone_is_told_too():
    routes = []
    async with AsyncStretto(ScriptedBackend(SKELETON), hooks=Hooks(on_route=routes.append)) as stretto:
        assert routes == [] and [await stretto.route("Why?")] == routes  # noqa: PT018 - in this order
    assert isinstance(routes[0], Route)


async def test_a_retry_is_told_with_its_cause_and_its_wait():
    backend = ScriptedBackend({"": [Reply(fault=ServerFailedError("overloaded")), Reply("Yes.")]})
    answer, _, calls, retries = await watched(resilient(backend, QUICK), strategy="direct")
    assert [(retry.backend, retry.attempt, str(retry.error)) for retry in retries] == [
        ("scripted:model", 1, "overloaded")
    ]
    assert 0 <= retries[0].wait_s <= 0.001
    assert [call.usage.retries for call in calls] == [answer.usage.retries] == [1]


async def test_a_failed_call_and_the_one_that_goes_on_are_told_apart():
    broken = Reply(chunks=["Half", "x"], fault=StreamBrokenError("reset"), fault_after=1)
    script = {"<received>\nHalf": " and half.", "": broken}
    answer, _, calls, _ = await watched(ScriptedBackend(script), strategy="direct")
    assert answer.text == "Half and half."
    assert [(call.attempt, str(call.error), call.finish_reason) for call in calls] == [
        (1, "reset", None),
        (2, "None", "stop"),
    ]


async def test_a_cancelled_call_is_told_with_neither_error_nor_finish_reason():
    calls = []
    backend = ScriptedBackend({"": Reply("late", hold=anyio.Event())})
    async with AsyncStretto(backend, hooks=Hooks(on_call=calls.append)) as stretto, anyio.create_task_group() as tasks:
        tasks.start_soon(stretto.ask, "Why?")
        with anyio.fail_after(patience(30)):
            while not backend.calls:
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert [(call.error, call.finish_reason, call.first_text_s) for call in calls] == [(None, None, None)]


async def test_what_hooks_are_given_cannot_be_changed():
    _, _, calls, _ = await watched(ScriptedBackend(SKELETON), strategy="direct")
    assert isinstance(calls[0], CallEnded)
    with pytest.raises(dataclasses.FrozenInstanceError):
        calls[0].seconds = 0.0


async def test_a_hook_that_fails_disturbs_no_answer_and_is_logged_once(caplog):
    def fail(_):
        raise ZeroDivisionError("my mistake")

    hooks = Hooks(on_route=fail, on_call=fail)
    with caplog.at_level(logging.ERROR, "stretto.hooks"):
        async with AsyncStretto(ScriptedBackend(SKELETON), hooks=hooks) as stretto:
            for _ in range(3):
                assert (await stretto.ask("Why?", strategy="direct")).text == "Yes."
    assert [record.getMessage().split(";")[0] for record in caplog.records] == [
        "the hook on_route failed",
        "the hook on_call failed",
    ]


async def test_two_clients_at_once_have_their_own_hooks():
    ours, theirs = [], []
    async with (
        AsyncStretto(ScriptedBackend(SKELETON), hooks=Hooks(on_call=ours.append)) as one,
        AsyncStretto(ScriptedBackend(SKELETON), hooks=Hooks(on_call=theirs.append)) as other,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(one.ask, "Why?")
        tasks.start_soon(one.ask, "Why?")
        tasks.start_soon(other.ask, "Why?")
    assert (len(ours), len(theirs)) == (2, 1)
