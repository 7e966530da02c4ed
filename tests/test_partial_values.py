"""The value of an answer while it is written."""

import json
from datetime import date
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel

from stretto import AsyncStretto, Stretto
from stretto.backends.base import Capabilities
from stretto.testing import Reply, ScriptedBackend
from stretto.values.partial_values import path_name, path_of, typed

pytestmark = pytest.mark.anyio


class Kind(Enum):
    STUDY = "study"


class Chapter(BaseModel):
    title: str
    body: str = Field(description="Two paragraphs")


class Report(BaseModel):
    title: str
    when: date
    kind: Kind
    summary: str = Field(description="One paragraph")
    chapters: list[Chapter]
    related: dict[str, Chapter] | None = None

    def model_post_init(self, _):
        assert self.when.year


WHOLE = {
    "title": "Bicycles",
    "when": "2026-01-02",
    "kind": "study",
    "summary": "They have two wheels.",
    "chapters": [{"title": "Wheels", "body": "They turn."}, {"title": "Chains", "body": "They pull."}],
    "related": {"x": {"title": "T", "body": "B"}},
}
QUESTION = "Write a report about bicycles."


def writer():
    def reply(prompt):
        said = prompt.messages[-1].content
        if "only these fields" in said:
            short = {name: WHOLE[name] for name in ("title", "when", "kind")}
            return json.dumps({**short, "chapters": [{"title": each["title"]} for each in WHOLE["chapters"]]})
        for number, each in enumerate(WHOLE["chapters"], start=1):
            if f"element {number} of" in said:
                return json.dumps({"body": each["body"]})
        for name in ("summary", "related"):
            if f"only the field `{name}`" in said:
                return json.dumps({name: WHOLE[name]})
        return Reply(chunks=[json.dumps(WHOLE)[at : at + 9] for at in range(0, len(json.dumps(WHOLE)), 9)])

    return ScriptedBackend(reply, capabilities=Capabilities(json_schema=True))


@pytest.mark.parametrize("strategy", ["fields", "direct"])
async def test_each_value_is_of_the_class_and_grows_to_the_whole(strategy):
    async with (
        AsyncStretto(writer()) as stretto,
        stretto.stream(QUESTION, response_format=Report, strategy=strategy) as stream,
    ):
        seen = [value async for value in stream.partial()]
        assert seen[-1] == stream.answer.parsed == Report.model_validate(WHOLE)
    assert all(isinstance(value, Report) for value in seen)
    early = next(value for value in seen if value.summary and value.summary != WHOLE["summary"])
    assert WHOLE["summary"].startswith(early.summary)
    assert seen[0].related is None
    assert any(value.chapters and value.chapters[0].body is None for value in seen)
    assert {value.when for value in seen} <= {None, date(2026, 1, 2)}


def test_synchronous_code_reads_it_too():
    with Stretto(writer()) as stretto, stretto.stream(QUESTION, response_format=Report, strategy="fields") as stream:
        seen = list(stream.partial())
        assert seen[-1] == stream.answer.parsed
    assert all(isinstance(value, Report) for value in seen)


async def test_with_a_schema_it_is_what_json_holds():
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
    backend = ScriptedBackend({"": Reply(chunks=['Sure: {"a": "on', 'e", "b"', ": 2}"])})
    async with AsyncStretto(backend) as stretto, stretto.stream("Go.", response_format=schema) as stream:
        seen = [value async for value in stream.partial()]
    assert seen[0]["a"] in ("on", "one")
    assert seen[-1] == {"a": "one", "b": 2}


async def test_a_text_without_a_format_has_no_value():
    async with AsyncStretto(ScriptedBackend({"": '{"a": 1}'})) as stretto, stretto.stream("Hi.") as stream:
        assert [value async for value in stream.partial()] == []


async def test_a_reader_may_leave_in_the_middle():
    backend = writer()
    async with AsyncStretto(backend) as stretto:
        async with stretto.stream(QUESTION, response_format=Report, strategy="fields") as stream:
            async for value in stream.partial():
                assert isinstance(value, Report)
                break
        assert backend.running == 0


def test_values_that_are_not_valid_yet_are_none():
    value = typed({"when": "2026-0", "kind": "stu", "chapters": [{"title": "W"}, 3], "related": {"x": {}}}, Report)
    assert (value.title, value.when, value.kind) == (None, None, None)
    assert value.chapters[0].title == "W"
    assert value.chapters[1] is None
    assert value.related["x"].title is None
    assert typed([1, "x"], RootModel[list[int]]).root == [1, None]


class Renamed(BaseModel):
    inner: int = Field(alias="Inner Name")


def test_aliases_are_the_names_in_json():
    assert typed({"Inner Name": 3}, Renamed).inner == 3


@given(st.lists(st.one_of(st.text(max_size=8), st.integers(0, 999)), min_size=1, max_size=5))
def test_a_path_is_read_as_it_was_written(path):
    assert path_of(path_name(path)) == tuple(path)
