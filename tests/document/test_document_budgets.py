"""Budgets of its own for the reading and for putting together, and an answer that stops after the reading."""

import pytest
from reader import FACTS, ask, haystack, scripted

from stretto import AsyncStretto, InvalidRequestError

pytestmark = pytest.mark.anyio

QUESTION = "What is the code of name3?"


async def test_after_the_reading_the_findings_are_the_answer_and_no_further_call_is_made():
    backend = scripted()
    answer = await ask(backend, QUESTION, haystack(4, FACTS), strategy_options={"stop_after": "reading"})
    kinds = {branch.kind for branch in answer.branches}
    assert kinds == {"passage"}
    assert answer.text.startswith("- ")
    assert str(FACTS["name3"]) in answer.text
    assert answer.citations
    assert all(each.label in answer.text for each in answer.citations)
    assert answer.finish_reason == "stop"
    assert answer.passages


async def test_a_document_that_fits_is_read_in_passages_where_only_the_reading_is_wanted():
    backend = scripted(context_window=100_000)
    answer = await ask(backend, QUESTION, haystack(1, FACTS), strategy_options={"stop_after": "reading"})
    assert {branch.kind for branch in answer.branches} == {"passage"}
    assert str(FACTS["name3"]) in answer.text


async def test_the_forecast_of_the_reading_alone_has_no_answer_in_it():
    document = haystack(4, FACTS)
    async with AsyncStretto(scripted()) as stretto:
        whole = await stretto.route(QUESTION, documents=document, strategy="document")
        options = {"stop_after": "reading"}
        part = await stretto.route(QUESTION, documents=document, strategy="document", strategy_options=options)
    assert part.forecast["document"].calls == whole.forecast["document"].calls - 1
    assert part.forecast["document"].seconds < whole.forecast["document"].seconds


async def test_the_reading_has_a_budget_of_calls_and_what_it_does_not_reach_is_named():
    backend = scripted()
    first = "What is the code of name0?"
    answer = await ask(backend, first, haystack(8, FACTS), strategy_options={"reading_calls": 3})
    reading = [branch for branch in answer.branches if branch.kind == "passage" and branch.usage.calls]
    assert len(reading) == 3
    assert str(FACTS["name0"]) in answer.text
    assert answer.branches[-1].kind == "direct"
    assert [(each.code, "reading_calls=3" in each) for each in answer.warnings] == [("unread", True)]


async def test_the_reading_has_a_budget_of_tokens():
    backend = scripted()
    options = {"reading_tokens": 4_000}
    answer = await ask(backend, QUESTION, haystack(8, FACTS), strategy_options=options)
    spent = sum(branch.usage.total_tokens for branch in answer.branches if branch.kind == "passage")
    assert 0 < spent <= 4_000
    assert [w.code for w in answer.warnings if "reading_tokens=4000" in w] == ["unread"]


async def test_putting_together_has_a_budget_and_the_findings_stand_where_it_ends():
    backend = scripted()
    options = {"answer_tokens": 20}
    answer = await ask(backend, QUESTION, haystack(4, FACTS), strategy_options=options)
    assert str(FACTS["name3"]) in answer.text
    assert "budget" in [warning.code for warning in answer.warnings]


async def test_a_record_has_the_tokens_that_it_is_given():
    backend = scripted()
    await ask(backend, QUESTION, haystack(4, FACTS), strategy_options={"record_tokens": 64})
    passages = [options.max_tokens for prompt, options in backend.calls if "no_information" in str(prompt.messages)]
    assert set(passages) == {64}


@pytest.mark.parametrize(
    ("question", "options", "says"),
    [
        ("Translate the report into German.", {}, "a document is rewritten piece by piece"),
        (QUESTION, {"response_format": {"type": "object"}}, "response_format holds an answer"),
    ],
)
async def test_where_reading_alone_gives_no_answer_it_is_refused_before_a_call(question, options, says):
    backend = scripted()
    with pytest.raises(InvalidRequestError, match=says):
        await ask(backend, question, haystack(4, FACTS), strategy_options={"stop_after": "reading"}, **options)
    assert backend.calls == []


@pytest.mark.parametrize("options", [{"reading_calls": 0}, {"stop_after": "answering"}, {"read": 1}])
async def test_options_that_do_not_exist_are_named(options):
    with pytest.raises(InvalidRequestError, match=r"strategy_options= holds"):
        await ask(scripted(), QUESTION, haystack(1, FACTS), strategy_options=options)
