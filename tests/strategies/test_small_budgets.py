"""A small ``max_tokens_total`` in answers of several calls: what was written stays, and nothing else fails."""

import json

import pytest
from asking_items import QUESTION as WORDS
from asking_items import script
from pydantic import BaseModel, Field
from test_fields import QUESTION, Report, writer

from stretto import AsyncStretto, Budget, BudgetExceededError
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio


class Three(BaseModel):
    first: str = Field(description="Two paragraphs")
    second: str = Field(description="Two paragraphs")
    third: str = Field(description="Two paragraphs")


async def asked(backend, question, total, **request):
    """The answer, or ``None`` where the budget was too small for one; nothing was shown then."""
    shown = ""
    try:
        async with (
            AsyncStretto(backend) as stretto,
            stretto.stream(question, budget=Budget(max_tokens_total=total), **request) as stream,
        ):
            async for event in stream:
                shown += event.text if event.type == "text_delta" else ""
    except BudgetExceededError:
        assert shown == ""
        return None
    assert shown == stream.answer.text
    assert stream.answer.usage.total_tokens <= total
    return stream.answer


@pytest.mark.parametrize("form", [Report, Three])
@pytest.mark.parametrize("total", [20, 60, 200, 300, 600, 1000, 1500, 2500, 6000])
async def test_fields_that_are_there_stay_and_the_text_is_json(form, total):
    answer = await asked(writer(), QUESTION, total, response_format=form, strategy="fields")
    if answer is None:
        assert total < 60
        return
    if answer.strategy == "direct":
        assert total <= 300
        return
    value = json.loads(answer.text)
    whole = set(value) == set(form.model_fields) and all("body" in each for each in value.get("chapters", ()))
    assert value
    assert (answer.finish_reason, answer.parsed is not None) == (("stop" if whole else "budget"), whole)
    assert whole or total < 2500


@pytest.mark.parametrize("total", [20, 100, 150, 300, 600, 2000])
async def test_items_that_are_there_stay(total):
    answer = await asked(ScriptedBackend(script()), WORDS, total, strategy="items")
    if answer is None:
        assert total < 150
        return
    assert "cats" in answer.text
    assert answer.finish_reason == ("stop" if "mice" in answer.text else "budget")
    assert "mice" in answer.text or total < 600
