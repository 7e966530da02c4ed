"""Tool calls that nobody asked for, in parts of an answer: they are left out, and hold nothing up."""

import anyio
import pytest
from patience import patience

from stretto import AsyncStretto, ToolCall
from stretto.backends.base import Capabilities
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio

CALLS = (ToolCall(id="one", name="look", arguments="{}"),)


async def asked(script, prompt, slots=1, **options):
    backend = ScriptedBackend(script, capabilities=Capabilities(concurrent_calls=slots))
    with anyio.fail_after(patience(20)):
        async with AsyncStretto(backend) as stretto, stretto.stream(prompt, **options) as events:
            kinds = [event.type async for event in events]
            return events.answer, kinds


def calling(text):
    return Reply(text, tool_calls=CALLS)


async def test_points_that_call_tools_keep_their_text():
    script = {"Write only the outline": calling("1. Tea\n2. Milk"), "": calling("It is good for you.")}
    answer, kinds = await asked(script, "Name two drinks.", strategy="skeleton", strategy_options={"form": "points"})
    assert (answer.strategy, answer.finish_reason, answer.tool_calls) == ("skeleton", "stop", ())
    assert answer.text.count("It is good for you.") == 2
    assert [(w.code, w.part) for w in answer.warnings] == [("tool", None)]
    assert "tool_call_delta" not in kinds


async def test_a_point_that_only_calls_tools_is_asked_for_in_another_way():
    script = {"Write only the outline": "1. Tea\n2. Milk", "": [calling(""), "Drink it warm."]}
    answer, _ = await asked(script, "Name two drinks.", strategy="skeleton", strategy_options={"form": "points"})
    assert answer.text.count("Drink it warm.") == 2
    assert all(branch.status == "finished" for branch in answer.branches)


async def test_items_in_groups_that_call_tools_do_not_wait_for_ever():
    prompt = "Translate each of these into French:\n- dog\n- cat\n- bird\n- fish"
    script = {"": calling("1. un\n2. deux")}
    answer, _ = await asked(script, prompt, slots=2, strategy="items")
    assert (answer.strategy, answer.tool_calls) == ("items", ())
    assert "deux" in answer.text
