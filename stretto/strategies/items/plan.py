"""Asks a model to split a request, and uses only what can be checked against the request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import jiter
from pydantic import BaseModel, Field, ValidationError

from stretto.strategies.items.calls import Calls
from stretto.strategies.items.splitting import FEWEST, MOST_SAMPLES, NotSplit, Split, refer_to_each_other
from stretto.values.answer import REFUSALS

PLAN_TOKENS = 1_500  # items are copied into the plan, so plans of long requests do not fit


class ItemPlan(BaseModel):
    """A request as the model splits it."""

    kind: Literal["items", "samples", "neither"]
    instruction: str = ""
    context: str = ""
    items: list[str] = Field(default_factory=list)
    count: int = 0


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": ["items", "samples", "neither"]},
        "instruction": {"type": "string"},
        "context": {"type": "string"},
        "items": {"type": "array", "items": {"type": "string"}},
        "count": {"type": "integer"},
    },
    "required": ["kind", "instruction", "context", "items", "count"],
    "additionalProperties": False,
}
"""The JSON schema of a plan, for backends that support schemas."""


async def planned(calls: Calls) -> Split | NotSplit:
    """Have the model split the request; a plan that fails the checks is a `NotSplit`."""
    question = calls.request.question
    schema = SCHEMA if calls.runner.capabilities.json_schema else None
    running = calls.start("plan", "plan", "items_plan", room=PLAN_TOKENS + len(question), schema=schema)
    await running.ended()
    if running.finish_reason in REFUSALS:
        return NotSplit("the model refused to plan it")
    if running.exception is not None:
        return NotSplit(f"there is no plan ({str(running.exception).rstrip('.')})")
    if running.finish_reason != "stop":
        return NotSplit("the plan was cut off")
    plan = read_plan(running.text)
    if plan is None:
        return NotSplit("the plan could not be read")
    return checked(plan, question)


def read_plan(text: str) -> ItemPlan | None:
    """Return the plan in the first JSON object of a text, even if incomplete; ``None`` if there is none."""
    start = text.find("{")
    if start < 0:
        return None
    body = text[start:]
    end = body.rfind("}")
    for candidate in (body[: end + 1], body):
        try:
            value = jiter.from_json(candidate.encode("utf-8", "replace"), partial_mode=True)
            return ItemPlan.model_validate(value)
        except (ValueError, ValidationError):
            continue
    return None


def checked(plan: ItemPlan, question: str) -> Split | NotSplit:
    """Return the split that a plan describes, if it is safe: every item must occur verbatim in the question."""
    plan.items = [item.strip() for item in plan.items]
    doubt = next(_doubts(plan, question), None)
    if doubt is not None:
        return NotSplit(doubt)
    if plan.kind == "samples":
        return Split(question.strip(), count=plan.count)
    return Split(plan.instruction.strip(), plan.context.strip(), tuple(plan.items), marks="separated")


def _doubts(plan: ItemPlan, question: str) -> Iterator[str]:
    if plan.kind == "neither":
        yield "the plan found nothing that can be done separately"
    if plan.kind == "samples":
        if not FEWEST <= plan.count <= MOST_SAMPLES:
            yield f"the plan has {plan.count} samples"
        return
    if len(plan.items) < FEWEST or not plan.instruction.strip():
        yield f"the plan has {len(plan.items)} items"
    strange = next((item for item in plan.items if not item or item not in question), None)
    if strange is not None:
        yield f"the plan has an item that is not in the request ({strange[:40]!r})"
    if len(set(plan.items)) < len(plan.items):
        yield "the plan has an item twice"
    if reason := refer_to_each_other(plan.instruction, plan.items):
        yield reason
