"""The form of what items give: lists, tables, paragraphs, JSON."""

import json
from itertools import pairwise

import pytest
from asking_items import PLURALS, QUESTION, ask, entry, script
from hypothesis import given
from hypothesis import strategies as st

from stretto.testing import Reply, ScriptedBackend
from stretto.values.errors import ServerFailedError

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("as a JSON array", '["cats", "children", "mice"]'),
        ("as JSON", '{"cat": "cats", "child": "children", "mouse": "mice"}'),
        ("as a JSON object", '{"cat": "cats", "child": "children", "mouse": "mice"}'),
    ],
)
async def test_json_is_valid_and_in_the_shape_asked_for(asked, expected):
    answer = await ask(ScriptedBackend(script()), f"Give the plural of each word {asked}: cat, child, mouse")
    assert json.loads(answer.text) == json.loads(expected)


async def test_results_that_are_json_become_part_of_the_json():
    backend = ScriptedBackend(
        {
            entry("cat"): '```json\n{"plural": "cats"}\n```',
            entry("child"): '["children"]',
            entry("mouse"): 'a "mouse"\n\\',
        }
    )
    answer = await ask(backend, "Give the plural of each word as a JSON array: cat, child, mouse")
    assert json.loads(answer.text) == [{"plural": "cats"}, "children", 'a "mouse"\n\\']


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Plural of each, as a numbered list: cat, child, mouse", "1. cat: cats\n2. child: children\n3. mouse: mice"),
        ("Give the plural of each word:\n1. cat\n2. child\n3. mouse", "1. cats\n2. children\n3. mice"),
        ("Plural of each word as bullet points: cat, child, mouse", "- cat: cats\n- child: children\n- mouse: mice"),
        ("Give the plural of each word, comma-separated: cat, child, mouse", "cats, children, mice"),
        ("Plural of each:\nWord 1: cat\nWord 2: child\nWord 3: mouse", "Word 1: cats\nWord 2: children\nWord 3: mice"),
        ("A paragraph on each: cat, child, mouse", "**cat**\n\ncats\n\n**child**\n\nchildren\n\n**mouse**\n\nmice"),
        (
            "Give the plural of each word in a table: cat, child, mouse",
            "|  |  |\n| --- | --- |\n| cat | cats |\n| child | children |\n| mouse | mice |",
        ),
    ],
)  # fmt: skip
async def test_the_form_is_the_one_asked_for(question, expected):
    assert (await ask(ScriptedBackend(script()), question)).text == expected


async def test_a_table_has_the_columns_asked_for():
    backend = ScriptedBackend(
        {entry("cat"): "| cat | cats |", entry("child"): "children", entry("mouse"): "a\\|b | mice"}
    )
    answer = await ask(
        backend, "Give the plural of each word in a table with the columns word and plural: cat, child, mouse"
    )
    assert answer.text.split("\n") == [
        "| word | plural |",
        "| --- | --- |",
        "| cat | cats |",
        "| child | children |",
        "| a\\|b | mice |",
    ]


async def test_a_repeated_item_is_taken_off_its_result():
    backend = ScriptedBackend({entry("cat"): "**Cat**: cats", entry("child"): "child → children", "": "mouse mice"})
    assert (await ask(backend)).text == "cat: cats\nchild: children\nmouse: mouse mice"


@pytest.mark.thorough
@given(
    texts=st.tuples(*[st.text("ab :\n*é猫", min_size=1, max_size=30).filter(str.strip)] * 3),
    cuts=st.lists(st.integers(1, 29), max_size=5),
)
async def test_the_answer_does_not_depend_on_how_the_results_were_cut(texts, cuts):
    def rules(pieces):
        return {entry(item): Reply(chunks=pieces(text)) for item, text in zip(PLURALS, texts, strict=True)}

    def cut(text):
        edges = [0, *sorted({at for at in cuts if at < len(text)}), len(text)]
        return [text[begin:end] for begin, end in pairwise(edges)]

    for question in (QUESTION, QUESTION.replace("word:", "word as a JSON array:")):
        whole = await ask(ScriptedBackend(rules(lambda text: [text])), question)
        assert (await ask(ScriptedBackend(rules(cut)), question)).text == whole.text


async def test_a_failed_item_is_named_where_its_label_does_not_name_it():
    down = Reply(fault=ServerFailedError("the server is down"))
    answer = await ask(
        ScriptedBackend(script({"child": down})), "Give the plural of each word:\n1. cat\n2. child\n3. mouse"
    )
    assert answer.text.split("\n")[1] == "2. [child: could not be written]"


async def test_a_failed_item_is_null_in_json():
    down = Reply(fault=ServerFailedError("the server is down"))
    answer = await ask(
        ScriptedBackend(script({"child": down})), "Give the plural of each word as a JSON array: cat, child, mouse"
    )
    assert json.loads(answer.text) == ["cats", None, "mice"]
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("part_missing", "item-2")]
