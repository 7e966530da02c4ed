"""Long documents, and an answer that is held to a format."""

import json

import pytest
from pydantic import BaseModel
from reader import FACTS, answer, ask, haystack, scripted, text_of

from stretto.values.errors import InvalidRequestError

pytestmark = pytest.mark.anyio
QUESTION = "What is the code of name3?"


class Code(BaseModel):
    name: str
    code: int
    others: list[int] = []


def in_form(*said):
    """A reader whose last calls answer in turn what is given; it reads passages as ever."""
    left = list(said)

    def reply(prompt):
        return (
            left.pop(0) if prompt.response_schema and "name" in prompt.response_schema["properties"] else answer(prompt)
        )

    return reply


@pytest.mark.parametrize("window", [2_000, 100_000], ids=["in passages", "whole"])
async def test_the_last_reading_is_held_to_the_schema(window):
    backend = scripted(in_form('{"name": "name3", "code": 1021, "others": [3]}'), context_window=window)
    found = await ask(backend, QUESTION, haystack(10, FACTS), response_format=Code)
    assert found.parsed == Code(name="name3", code=1021, others=[3])
    assert json.loads(found.text)["others"] == [3]  # a list, and no citation
    last = text_of(backend.calls[-1][0])
    assert "1021" in last
    assert "in square brackets, like" not in last
    if window == 2_000:
        assert [citation.quote for citation in found.citations] == ["The code of name3 is 1021."]
        assert sum(branch.kind == "passage" for branch in found.branches) > 3


async def test_an_answer_that_does_not_fit_is_asked_for_once_more():
    backend = scripted(in_form("It is 1021 [1].", '{"name": "name3", "code": 1021, "others": []}'))
    found = await ask(backend, QUESTION, haystack(10, FACTS), response_format=Code)
    assert found.parsed.code == 1021
    assert "It is 1021" not in found.text
    assert "The code of name3 is 1021." in text_of(backend.calls[-1][0])  # the findings are shown again


async def test_what_is_to_be_extracted_can_have_a_form_of_its_own():
    backend = scripted(in_form('{"name": "all", "code": 12, "others": [1000]}'))
    found = await ask(backend, "List all the codes.", haystack(10, FACTS), response_format=Code)
    assert found.parsed.others == [1000]


@pytest.mark.parametrize(
    ("question", "form", "said"),
    [
        (QUESTION, "[0-9]+", "response_format is a regular expression, and .* cannot hold an answer to one"),
        ("Translate it into German.", Code, "a document is rewritten piece by piece"),
    ],
)
async def test_what_cannot_be_held_to_a_form_is_refused_before_anything_is_read(question, form, said):
    backend = scripted()
    with pytest.raises(InvalidRequestError, match=said):
        await ask(backend, question, haystack(10, FACTS), response_format=form)
    assert backend.calls == []
