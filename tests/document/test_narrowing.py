"""Passages are smaller where the text is dense in what the question asks for."""

import json
import re
from collections import Counter

import pytest
from reader import ask, scripted, text_of

from stretto import Budget, Document

pytestmark = pytest.mark.anyio

PARAGRAPH = "The meeting of the garden committee was long, and nobody has written down what was said in it. " * 6
INVOICE = "Invoice {} was sent to the printer, and the printer has paid it late."
DENSE = "\n\n".join(INVOICE.format(number) for number in range(90))
TEXT = "\n\n".join([*[PARAGRAPH] * 40, DENSE, *[PARAGRAPH] * 60])
NUMBER = re.compile(r"passage \d+ of \d+")
QUESTION = "Which invoice did the printer dispute?"
NOTHING = json.dumps({"no_information": True, "evidence": [], "rationale": "", "answer": "", "confidence": 0})


async def read(question=QUESTION, *, text=TEXT, slots=16, preference="careful", **options):
    """The prompts of the passages, and the answer."""
    prompts = []

    def reply(prompt):
        if "passage" in (text := text_of(prompt)):
            prompts.append(text)
        return NOTHING

    backend = scripted(reply, context_window=8_000, parallel_slots=slots)
    found = await ask(backend, question, Document(text=text, title="minutes"), preference=preference, **options)
    return [text for text in prompts if NUMBER.search(text)], found


def number_of(text):
    return NUMBER.search(text)[0]


def lengths(found, *, dense):
    return [each.end - each.start for each in found.passages if ("Invoice" in TEXT[each.start : each.end]) == dense]


async def test_where_the_text_is_dense_in_the_words_of_the_question_passages_are_smaller():
    _, found = await read()
    _, other = await read("What was said in the garden?")
    assert max(lengths(found, dense=True)) < max(lengths(other, dense=True)) / 2
    assert max(lengths(found, dense=False)) == max(lengths(other, dense=False))


async def test_nothing_is_lost_between_smaller_passages():
    _, found = await read()
    position = 0
    for record in found.passages:
        assert not TEXT[position : record.start].strip()
        position = record.end
    assert not TEXT[position:].strip()


async def test_the_prompts_of_all_other_passages_begin_as_they_do_for_every_question():
    asked, _ = await read()
    others, _ = await read("What was said in the garden?")
    numbers = Counter(number_of(text) for text in asked)
    whole = {text.partition(QUESTION)[0] for text in asked if numbers[number_of(text)] == 1}
    assert len(whole) > 3
    assert whole < {text.partition("What was said in the garden?")[0] for text in others}


async def test_a_word_of_most_passages_makes_none_smaller():
    _, found = await read("What has the committee said in its long meeting?")
    _, other = await read("What was it?")
    assert [each.start for each in found.passages] == [each.start for each in other.passages]


async def test_balanced_uses_the_calls_that_run_beside_the_others_anyway():
    for slots in (4, 16):
        _, plain = await read("What was it?", slots=slots, preference="balanced")
        _, found = await read(slots=slots, preference="balanced")
        waves = -(-len(plain.passages) // slots)
        assert -(-len(found.passages) // slots) <= waves + waves // 4
        assert len(found.passages) > len(plain.passages)


@pytest.mark.parametrize("most", [16, 24, 40])
async def test_half_of_a_budget_of_calls_is_kept(most):
    _, plain = await read("What was it?", slots=4)
    _, found = await read(slots=4, budget=Budget(max_calls=most))
    _, unbound = await read(slots=4)
    assert len(plain.passages) <= len(found.passages) <= most / 2 < len(unbound.passages)


async def test_fastest_leaves_passages_as_they_are():
    _, found = await read(preference="fastest")
    _, other = await read("What was it?", preference="fastest")
    assert {each.start for each in found.passages} == {each.start for each in other.passages}
