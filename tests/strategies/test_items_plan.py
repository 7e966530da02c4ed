"""Prompts whose form says nothing, taken apart by a plan that the model writes."""

import json

import pytest
from asking_items import POCKET, ask, entry

from stretto.backends.base import Capabilities
from stretto.testing import Reply, ScriptedBackend
from stretto.values.errors import ServerFailedError

pytestmark = pytest.mark.anyio

PLANNED = "Roman numerals for 9, 44 and 399, please"
PLAN = json.dumps(
    {
        "kind": "items",
        "instruction": "Write it in Roman numerals",
        "context": "",
        "items": ["9", "44", "399"],
        "count": 0,
    }
)


async def test_an_unknown_form_is_taken_apart_by_a_plan():
    backend = ScriptedBackend(
        {"write one JSON object": PLAN, entry("9"): "IX", entry("44"): "XLIV", "": "CCCXCIX"},
        capabilities=Capabilities(json_schema=True),
    )
    answer = await ask(backend, PLANNED)
    assert answer.text == "9: IX\n44: XLIV\n399: CCCXCIX"
    assert [branch.kind for branch in answer.branches] == ["plan", "item", "item", "item"]
    schemas = [prompt.response_schema for prompt, _ in backend.calls]
    assert schemas[0] is not None
    assert schemas[1:] == [None, None, None]


async def test_without_a_schema_the_plan_is_read_from_the_text():
    backend = ScriptedBackend({"write one JSON object": f"Sure:\n```json\n{PLAN}\n```", "": "X"})
    answer = await ask(backend, PLANNED)
    assert answer.text == "9: X\n44: X\n399: X"
    assert backend.calls[0][0].response_schema is None


@pytest.mark.parametrize(
    "plan",
    [
        '{"kind": "neither", "instruction": "", "context": "", "items": [], "count": 0}',
        PLAN.replace('"44"', '"45"'),
        PLAN.replace('"44"', '"9"'),
        PLAN.replace(', "399"', ""),
        PLAN.replace("Write it in Roman numerals", " "),
        '{"kind": "samples", "count": 2}',
        "I would rather not.",
        Reply(finish_reason="refusal"),
        Reply(fault=ServerFailedError("down")),
    ],
)
async def test_a_plan_that_cannot_be_trusted_leads_straight_on(plan):
    answer = await ask(ScriptedBackend({"write one JSON object": plan, "": "A straight answer."}), PLANNED)
    assert answer.text == "A straight answer."
    assert [warning.code for warning in answer.warnings] == ["strategy"]


async def test_a_plan_may_find_samples():
    plan = '{"kind": "samples", "instruction": "", "context": "", "items": [], "count": 3}'
    backend = ScriptedBackend({"write one JSON object": plan, "number 1 of": "One", "number 2": "Two", "": "Three"})
    answer = await ask(backend, "Find a motto for my choir, try as often as you like")
    assert answer.text in ("1. One\n2. Two\n3. Three", "1. Three")


async def test_the_pocket_model_is_asked_for_no_plan():
    backend = ScriptedBackend({"": "A straight answer."}, capabilities=POCKET)
    assert [branch.kind for branch in (await ask(backend, PLANNED)).branches] == ["direct"]
