import json
import re
from itertools import pairwise

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stretto import AsyncStretto
from stretto.backends.base import Capabilities
from stretto.errors import AuthenticationError, ServerFailedError, StrettoError
from stretto.request import Budget
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio

QUESTION = "Give the plural of each word: cat, child, mouse"
PLURALS = {"cat": "cats", "child": "children", "mouse": "mice"}
POCKET = Capabilities(prompt_family="pocket", joins_running_batch=False)


def entry(item):
    return rf"<entry>\n{item}\n</entry>"


def script(first=()):
    usual = {entry(item): plural for item, plural in PLURALS.items()} | {"": "A straight answer."}
    return {**dict(first), **{pattern: reply for pattern, reply in usual.items() if pattern not in first}}


async def ask(backend, question=QUESTION, **request):
    async with AsyncStretto(backend) as stretto:
        async with stretto.stream(question, strategy="items", **request) as stream:
            events = [event async for event in stream]
        assert "".join(event.text for event in events if event.type == "text_delta") == stream.answer.text
        assert backend.running == 0
        return stream.answer


def text_of(prompt):
    return "\n".join(message.content for message in prompt.messages)


async def test_each_item_is_a_call_and_the_results_stand_in_the_order_of_the_items():
    backend = ScriptedBackend(script({entry("cat"): Reply("cats", delay_s=0.02)}))
    answer = await ask(backend)
    assert answer.text == "cat: cats\nchild: children\nmouse: mice"
    assert [(branch.id, branch.kind, branch.title) for branch in answer.branches] == [
        ("item-1", "item", "cat"),
        ("item-2", "item", "child"),
        ("item-3", "item", "mouse"),
    ]
    assert (answer.warnings, answer.finish_reason, answer.usage.calls) == ((), "stop", 3)


async def test_all_items_run_at_the_same_time():
    backend = ScriptedBackend(script())
    await ask(backend)
    assert backend.most_running == 3


async def test_the_first_item_streams_while_the_others_wait():
    hold = anyio.Event()
    backend = ScriptedBackend(script({entry("child"): Reply("children", hold=hold)}))
    async with AsyncStretto(backend) as stretto, stretto.stream(QUESTION, strategy="items") as stream:
        seen = ""
        async for event in stream:
            if event.type == "text_delta":
                seen += event.text
            if "cats" in seen:
                hold.set()
    assert stream.answer.text == "cat: cats\nchild: children\nmouse: mice"


async def test_every_call_carries_system_prompt_context_and_its_own_item_only():
    backend = ScriptedBackend({"": "yes"})
    question = "Our shop sells tea.\n\nIs each mail an order?\n- 3 boxes please\n- wrong tea\n- 9 tins"
    await ask(backend, question, system="Be kind.")
    for (prompt, _), item in zip(backend.calls, ("3 boxes please", "wrong tea", "9 tins"), strict=True):
        assert "Be kind." in prompt.messages[0].content
        assert "Our shop sells tea." in text_of(prompt)
        assert [other for other in ("3 boxes please", "wrong tea", "9 tins") if other in text_of(prompt)] == [item]


async def test_the_pocket_model_gets_the_message_it_was_trained_on():
    backend = ScriptedBackend({"Item: child": "children", "": "x"}, capabilities=POCKET)
    answer = await ask(backend)
    assert [prompt.messages[0].content for prompt, _ in backend.calls] == [
        f"Give the plural of each word\nItem: {item}" for item in PLURALS
    ]
    assert all(len(prompt.messages) == 1 for prompt, _ in backend.calls)
    assert "child: children" in answer.text


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


@settings(max_examples=25)
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


async def test_a_failed_item_keeps_its_place_and_the_others_stay():
    down = Reply(fault=ServerFailedError("the server is down"))
    answer = await ask(ScriptedBackend(script({"child": down})))
    assert answer.text == "cat: cats\nchild: [could not be written: the server is down]\nmouse: mice"
    assert answer.warnings == ("'child' is incomplete: the server is down",)
    assert [branch.status for branch in answer.branches] == ["finished", "failed", "finished"]


async def test_a_failed_item_is_named_where_its_label_does_not_name_it():
    down = Reply(fault=ServerFailedError("the server is down"))
    answer = await ask(
        ScriptedBackend(script({"child": down})), "Give the plural of each word:\n1. cat\n2. child\n3. mouse"
    )
    assert answer.text.split("\n")[1] == "2. [child: could not be written: the server is down]"


async def test_a_failed_item_is_null_in_json():
    down = Reply(fault=ServerFailedError("the server is down"))
    answer = await ask(
        ScriptedBackend(script({"child": down})), "Give the plural of each word as a JSON array: cat, child, mouse"
    )
    assert json.loads(answer.text) == ["cats", None, "mice"]
    assert "'child'" in answer.warnings[0]


async def test_a_failed_item_is_asked_for_once_more_in_a_plain_way():
    down = Reply(fault=ServerFailedError("the server is down"))
    backend = ScriptedBackend(script({entry("child"): down, r"each word:\n\nchild$": "children"}))
    answer = await ask(backend)
    assert answer.text == "cat: cats\nchild: children\nmouse: mice"
    assert answer.warnings == ()


async def test_a_broken_result_is_continued():
    broken = Reply(chunks=["chil", "never"], fault=ServerFailedError("gone"), fault_after=1)
    backend = ScriptedBackend(script({entry("child"): broken, "<received>\nchil\n</received>": "dren"}))
    assert (await ask(backend)).text == "cat: cats\nchild: children\nmouse: mice"


async def test_nothing_written_at_all_is_an_error():
    backend = ScriptedBackend({"": Reply(fault=AuthenticationError("The key is wrong."))})
    with pytest.raises(StrettoError, match="key is wrong"):
        await ask(backend)


async def test_more_items_than_slots_share_calls():
    def answers(prompt):
        return "\n".join(
            f"{number}. {item.upper()}" for number, item in re.findall(r"^(\d)\. (\w+)$", text_of(prompt), re.MULTILINE)
        )

    backend = ScriptedBackend(answers, capabilities=Capabilities(parallel_slots=3))
    answer = await ask(backend, "Put each word in capitals: aa, bb, cc, dd, ee, ff, gg")
    assert answer.text == "\n".join(f"{word}: {word.upper()}" for word in ("aa", "bb", "cc", "dd", "ee", "ff", "gg"))
    assert [branch.id for branch in answer.branches] == ["item-1-3", "item-4-5", "item-6-7"]


@pytest.mark.parametrize("wrong", ["1. A\n2. B", "1. A\n2. B\n1. C\n3. D", "no list", "1. A\n2. B\n3. C\n4. D"])
async def test_a_group_with_a_wrong_number_of_results_is_asked_for_item_by_item(wrong):
    backend = ScriptedBackend(
        {r"1\. aa": wrong, r"these \d": "1. x\n2. y\n3. z", "": "single"}, capabilities=Capabilities(parallel_slots=2)
    )
    answer = await ask(backend, "Put each word in capitals: aa, bb, cc, dd, ee, ff")
    assert answer.text == "aa: single\nbb: single\ncc: single\ndd: x\nee: y\nff: z"
    assert "item by item" in answer.warnings[0]


WORDS = "Put each word in capitals: aa, bb, cc, dd, ee, ff"


async def test_what_a_group_wrote_before_it_broke_off_is_kept_and_only_the_rest_is_asked_for():
    cut = Reply("1. A\n2. B\n3. C", finish_reason="length")
    backend = ScriptedBackend(
        {r"1\. aa": cut, r"these \d": "1. x\n2. y\n3. z", "": "single"}, capabilities=Capabilities(parallel_slots=2)
    )
    answer = await ask(backend, WORDS)
    assert answer.text == "aa: A\nbb: B\ncc: single\ndd: x\nee: y\nff: z"
    assert "broke off after 2 results" in answer.warnings[0]
    assert answer.finish_reason == "stop"


async def test_without_a_call_left_what_a_group_wrote_is_kept_and_what_is_missing_is_named():
    cut = Reply("1. A\n2. B\n3. C", finish_reason="length")
    backend = ScriptedBackend({r"1\. aa": cut, r"1\. dd": "1. x\n2. y\n3. z"})
    answer = await ask(backend, WORDS, budget=Budget(max_calls=2))
    lines = answer.text.split("\n")
    assert lines[:2] == ["aa: A", "bb: B"]
    assert lines[2].startswith("cc: [could not be written: The budget of max_calls=2 is used up")
    assert lines[3:] == ["dd: x", "ee: y", "ff: z"]
    assert any(warning.startswith("'cc' is incomplete: The budget") for warning in answer.warnings)
    assert len(backend.calls) == 2


async def test_without_a_call_left_results_too_few_are_kept_with_a_doubt():
    backend = ScriptedBackend({r"1\. aa": "1. A\n2. B", r"1\. dd": "1. x\n2. y\n3. z"})
    answer = await ask(backend, WORDS, budget=Budget(max_calls=2))
    assert answer.text.startswith("aa: A\nbb: B\ncc: [could not be written: ")
    assert "2 results for 3 items" in answer.warnings[0]
    assert "may not stand at its own items" in answer.warnings[0]


async def test_when_only_part_of_one_group_was_written_that_is_the_answer():
    cut = Reply("1. A\n2. B", finish_reason="length")
    backend = ScriptedBackend({r"1\. aa": cut, "": Reply(fault=ServerFailedError("down"))})
    answer = await ask(backend, WORDS, budget=Budget(max_calls=2))
    assert answer.text.startswith("aa: A\nbb: [could not be written")


async def test_tokens_of_a_group_that_is_asked_for_again_count_as_discarded():
    backend = ScriptedBackend(
        {r"1\. aa": "1. A\n2. B", r"these \d": "1. x\n2. y\n3. z", "": "single"},
        capabilities=Capabilities(parallel_slots=2),
    )
    answer = await ask(backend, WORDS)
    group = next(branch for branch in answer.branches if branch.id == "item-1-3")
    assert group.usage.discarded_tokens == group.usage.completion_tokens > 0
    assert answer.usage.discarded_tokens == group.usage.completion_tokens


async def test_calls_stay_within_the_budget():
    def answers(prompt):
        return "\n".join(
            f"{number}. {item}" for number, item in re.findall(r"^(\d)\. (\w+)$", text_of(prompt), re.MULTILINE)
        )

    backend = ScriptedBackend(answers)
    answer = await ask(backend, "Put each word in capitals: aa, bb, cc, dd, ee, ff", budget=Budget(max_calls=2))
    assert len(backend.calls) == 2
    assert answer.text.count("\n") == 5
    assert answer.warnings == ()


async def test_the_pocket_model_is_never_given_a_group():
    backend = ScriptedBackend({"Item: ": "x"}, capabilities=Capabilities(parallel_slots=2, prompt_family="pocket"))
    assert len((await ask(backend, "Put each word in capitals: aa, bb, cc, dd, ee")).branches) == 5


@pytest.mark.parametrize(
    ("question", "cause"),
    [
        ("Sort these: pear, fig, apple", "together"),
        ("Give the plural of each word: cat, dog", "too few"),
        ("Write a story using these words: lamp, river, crown", "together"),
    ],
)
async def test_what_cannot_be_split_safely_goes_straight_and_says_so(question, cause):
    backend = ScriptedBackend({"": "A straight answer."})
    answer = await ask(backend, question)
    assert answer.text == "A straight answer."
    assert [branch.kind for branch in answer.branches] == ["direct"]
    assert answer.warnings[0].startswith("Answered straight on instead of item by item:")
    assert cause in answer.warnings[0]


async def test_one_call_at_a_time_goes_straight():
    backend = ScriptedBackend({"": "A straight answer."}, capabilities=Capabilities(parallel_slots=1))
    assert [branch.kind for branch in (await ask(backend)).branches] == ["direct"]


async def test_documents_reach_every_call():
    backend = ScriptedBackend({"": "x"})
    await ask(backend, documents=["The plural of cat is katz here."])
    assert all("katz" in text_of(prompt) for prompt, _ in backend.calls)


async def test_the_callers_limit_holds_for_each_item():
    backend = ScriptedBackend({"": "x"})
    await ask(backend, max_tokens=50)
    assert {options.max_tokens for _, options in backend.calls} == {50}


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
    assert "Answered straight on" in answer.warnings[0]


async def test_a_plan_may_find_samples():
    plan = '{"kind": "samples", "instruction": "", "context": "", "items": [], "count": 3}'
    backend = ScriptedBackend({"write one JSON object": plan, "number 1 of": "One", "number 2": "Two", "": "Three"})
    answer = await ask(backend, "Find a motto for my choir, try as often as you like")
    assert answer.text in ("1. One\n2. Two\n3. Three", "1. Three")


async def test_the_pocket_model_is_asked_for_no_plan():
    backend = ScriptedBackend({"": "A straight answer."}, capabilities=POCKET)
    assert [branch.kind for branch in (await ask(backend, PLANNED)).branches] == ["direct"]
