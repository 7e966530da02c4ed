"""Several items in one call, where there are more of them than slots or calls."""

import re

import pytest
from asking_items import ask
from streaming import text_of

from stretto.backends.base import Capabilities
from stretto.testing import Reply, ScriptedBackend
from stretto.values.budget import Budget
from stretto.values.errors import ServerFailedError

pytestmark = pytest.mark.anyio

WORDS = "Put each word in capitals: aa, bb, cc, dd, ee, ff"


async def test_more_items_than_slots_share_calls():
    def answers(prompt):
        return "\n".join(
            f"{number}. {item.upper()}" for number, item in re.findall(r"^(\d)\. (\w+)$", text_of(prompt), re.MULTILINE)
        )

    backend = ScriptedBackend(answers, capabilities=Capabilities(concurrent_calls=3))
    answer = await ask(backend, "Put each word in capitals: aa, bb, cc, dd, ee, ff, gg")
    assert answer.text == "\n".join(f"{word}: {word.upper()}" for word in ("aa", "bb", "cc", "dd", "ee", "ff", "gg"))
    assert [branch.id for branch in answer.branches] == ["item-1-3", "item-4-5", "item-6-7"]


@pytest.mark.parametrize("wrong", ["1. A\n2. B", "1. A\n2. B\n1. C\n3. D", "no list", "1. A\n2. B\n3. C\n4. D"])
async def test_a_group_with_a_wrong_number_of_results_is_asked_for_item_by_item(wrong):
    backend = ScriptedBackend(
        {r"1\. aa": wrong, r"these \d": "1. x\n2. y\n3. z", "": "single"}, capabilities=Capabilities(concurrent_calls=2)
    )
    answer = await ask(backend, WORDS)
    assert answer.text == "aa: single\nbb: single\ncc: single\ndd: x\nee: y\nff: z"
    assert [warning.code for warning in answer.warnings] == ["strategy"]


async def test_what_a_group_wrote_before_it_broke_off_is_kept_and_only_the_rest_is_asked_for():
    cut = Reply("1. A\n2. B\n3. C", finish_reason="length")
    backend = ScriptedBackend(
        {r"1\. aa": cut, r"these \d": "1. x\n2. y\n3. z", "": "single"}, capabilities=Capabilities(concurrent_calls=2)
    )
    answer = await ask(backend, WORDS)
    assert answer.text == "aa: A\nbb: B\ncc: single\ndd: x\nee: y\nff: z"
    assert [warning.code for warning in answer.warnings] == ["strategy"]
    assert answer.finish_reason == "stop"


async def test_without_a_call_left_what_a_group_wrote_is_kept_and_what_is_missing_is_named():
    cut = Reply("1. A\n2. B\n3. C", finish_reason="length")
    backend = ScriptedBackend({r"1\. aa": cut, r"1\. dd": "1. x\n2. y\n3. z"})
    answer = await ask(backend, WORDS, budget=Budget(max_calls=2))
    lines = answer.text.split("\n")
    assert lines[:2] == ["aa: A", "bb: B"]
    assert lines[2] == "cc: [could not be written]"
    assert lines[3:] == ["dd: x", "ee: y", "ff: z"]
    assert [(w.code, w.part) for w in answer.warnings] == [("strategy", "item-1-3"), ("budget", "item-3")]
    assert len(backend.calls) == 2


async def test_without_a_call_left_results_too_few_are_kept_with_a_doubt():
    backend = ScriptedBackend({r"1\. aa": "1. A\n2. B", r"1\. dd": "1. x\n2. y\n3. z"})
    answer = await ask(backend, WORDS, budget=Budget(max_calls=2))
    assert answer.text.startswith("aa: A\nbb: B\ncc: [could not be written]")
    assert [(w.code, w.part) for w in answer.warnings] == [("part_missing", "item-1-3"), ("budget", "item-3")]
    assert "may belong to other items" in answer.warnings[0]


async def test_when_only_part_of_one_group_was_written_that_is_the_answer():
    cut = Reply("1. A\n2. B", finish_reason="length")
    backend = ScriptedBackend({r"1\. aa": cut, "": Reply(fault=ServerFailedError("down"))})
    answer = await ask(backend, WORDS, budget=Budget(max_calls=2))
    assert answer.text.startswith("aa: A\nbb: [could not be written")


async def test_tokens_of_a_group_that_is_asked_for_again_count_as_discarded():
    backend = ScriptedBackend(
        {r"1\. aa": "1. A\n2. B", r"these \d": "1. x\n2. y\n3. z", "": "single"},
        capabilities=Capabilities(concurrent_calls=2),
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
    answer = await ask(backend, WORDS, budget=Budget(max_calls=2))
    assert len(backend.calls) == 2
    assert answer.text.count("\n") == 5
    assert answer.warnings == ()


async def test_the_pocket_model_is_never_given_a_group():
    backend = ScriptedBackend({"Item: ": "x"}, capabilities=Capabilities(concurrent_calls=2, prompt_family="pocket"))
    assert len((await ask(backend, "Put each word in capitals: aa, bb, cc, dd, ee")).branches) == 5


@pytest.mark.parametrize(
    "tail", ["\n\nI hope this helps! Let me know.", "\nThese are the capitals.", "\n\nThe task is done.\n- really"]
)
async def test_text_behind_the_last_number_is_not_part_of_the_last_result(tail):
    backend = ScriptedBackend(
        {r"1\. aa": "1. A\n2. B\n3. C" + tail, r"1\. dd": "1. D\n2. E\n3. F"},
        capabilities=Capabilities(concurrent_calls=2),
    )
    answer = await ask(backend, WORDS)
    assert answer.text == "aa: A\nbb: B\ncc: C\ndd: D\nee: E\nff: F"
    assert (answer.warnings, len(backend.calls)) == ((), 2)


@pytest.mark.parametrize(
    "wrong",
    [
        "1. A\n2. Write only the 3 results, in the same order, as a numbered list from 1 to 3.\n3. C",
        "1. A\n2. cc: C\n3. C",
        "1. A\n2. <entry>bb</entry>\n3. C",
    ],
)
async def test_only_the_wrong_result_of_a_group_is_asked_for_alone(wrong):
    backend = ScriptedBackend(
        {r"1\. aa": wrong, r"1\. dd": "1. D\n2. E\n3. F", r"<entry>\nbb\n": "single"},
        capabilities=Capabilities(concurrent_calls=2),
    )
    answer = await ask(backend, WORDS)
    assert answer.text == "aa: A\nbb: single\ncc: C\ndd: D\nee: E\nff: F"
    assert ["1 of 3 results" in w for w in answer.warnings if w.code == "strategy"] == [True]
    assert len(backend.calls) == 3


@pytest.mark.parametrize(
    "swapped", ["2. B\n1. A\n3. C", "1. A\n3. C\n2. B", "1. A\n2. B\n2. C", "1. bb: B\n2. aa: A\n3. cc: C"]
)
async def test_swapped_results_of_a_group_are_asked_for_alone(swapped):
    backend = ScriptedBackend(
        {
            r"1\. aa": swapped,
            r"1\. dd": "1. D\n2. E\n3. F",
            **{rf"<entry>\n{x}\n": x.upper() for x in ("aa", "bb", "cc")},
        },
        capabilities=Capabilities(concurrent_calls=2),
    )
    answer = await ask(backend, WORDS)
    assert [line.partition(": ")[2][0] for line in answer.text.split("\n")] == list("ABCDEF")
    assert len(answer.warnings) == 1


async def test_labels_of_a_group_are_checked_one_by_one():
    question = "Classify each word as a noun or a verb: aa, bb, cc, dd, ee, ff"
    backend = ScriptedBackend(
        {r"1\. aa": "1. **Noun**\n2. bb\n3. verb.", r"1\. dd": "1. noun\n2. noun\n3. verb", r"<entry>\nbb\n": "verb"},
        capabilities=Capabilities(concurrent_calls=2),
    )
    answer = await ask(backend, question)
    assert answer.text == "aa: noun\nbb: verb\ncc: verb\ndd: noun\nee: noun\nff: verb"
