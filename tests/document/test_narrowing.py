"""Passages are smaller where the text is dense in what the question asks for."""

import json
import re
from collections import Counter

import pytest
from reader import ask, scripted, text_of

from stretto import Budget, Document
from stretto.values.document import Heading

pytestmark = pytest.mark.anyio

PARAGRAPH = "The meeting of the garden committee was long, and nobody has written down what was said in it. " * 6
INVOICE = "Invoice {} was sent to the printer, and the printer has paid it late."
DENSE = "\n\n".join(INVOICE.format(number) for number in range(90))
TEXT = "\n\n".join([*[PARAGRAPH] * 40, DENSE, *[PARAGRAPH] * 60])
NUMBER = re.compile(r"passage \d+ of \d+")
QUESTION = "Which invoice did the printer dispute?"
NOTHING = json.dumps({"no_information": True, "evidence": [], "rationale": "", "answer": "", "confidence": 0})


async def read(question=QUESTION, *, text=TEXT, headings=(), slots=16, preference="careful", **options):
    """The prompts of the passages, and the answer."""
    prompts = []

    def reply(prompt):
        if "passage" in (text := text_of(prompt)):
            prompts.append(text)
        return NOTHING

    backend = scripted(reply, context_window=8_000, concurrent_calls=slots)
    found = await ask(
        backend, question, Document(text=text, title="minutes", headings=headings), preference=preference, **options
    )
    return [text for text in prompts if NUMBER.search(text)], found


def number_of(text):
    return NUMBER.search(text)[0]


def lengths(found, *, dense):
    return [each.end - each.start for each in found.passages if ("Invoice" in TEXT[each.start : each.end]) == dense]


async def test_where_the_text_is_dense_in_the_words_of_the_question_passages_are_smaller():
    _, found = await read(slots=4)
    _, other = await read("What was said in the garden?", slots=4)
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


@pytest.mark.parametrize("most", [16, 20, 24])
async def test_half_of_a_budget_of_calls_is_kept(most):
    _, plain = await read("What was it?", slots=4)
    _, found = await read(slots=4, budget=Budget(max_calls=most))
    _, unbound = await read(slots=4)
    assert len(plain.passages) <= len(found.passages) <= most / 2 < len(unbound.passages)


async def test_fastest_leaves_passages_as_they_are():
    _, found = await read(preference="fastest")
    _, other = await read("What was it?", preference="fastest")
    assert {each.start for each in found.passages} == {each.start for each in other.passages}


async def test_a_word_of_most_passages_counts_where_it_stands_far_more_often():
    text = "\n\n".join([*[f"{PARAGRAPH} Invoice."] * 40, DENSE, *[f"{PARAGRAPH} Invoice."] * 60])
    _, plain = await read("What was it?", text=text)
    _, found = await read("What does the invoice say?", text=text)
    assert len(found.passages) > len(plain.passages)


@pytest.mark.parametrize("question", ["List all invoices.", "What has been printed?", "Which payments were invoiced?"])
async def test_other_forms_of_a_word_count(question):
    _, other = await read("What was it?" if "all" not in question else "List all dates.")
    _, found = await read(question)
    assert len(found.passages) > len(other.passages)


async def test_of_many_words_the_longest_count_and_of_those_the_last():
    words = "Invoice another several quickly yellows village kitchen teacher morning"
    _, plain = await read("What was it?")
    _, found = await read(words)
    _, last = await read(" ".join(reversed(words.split())))
    assert len(found.passages) == len(plain.passages) < len(last.passages)


async def test_no_part_ends_behind_a_heading():
    rows = [INVOICE.format(number) for number in range(90)]
    paragraphs = [part for number, row in enumerate(rows) for part in (f"Chapter {number}", row)]
    text = "\n\n".join([*[PARAGRAPH] * 40, *paragraphs, *[PARAGRAPH] * 60])
    headings = tuple(Heading(offset=each.start(), level=2, text=each[0]) for each in re.finditer(r"Chapter \d+", text))
    _, found = await read(text=text, headings=headings)
    ends = [text[each.start : each.end].splitlines()[-1] for each in found.passages]
    assert len(ends) > 10
    assert not [line for line in ends if line.startswith("Chapter")]


@pytest.mark.parametrize("preference", ["balanced", "careful"])
async def test_a_reading_in_order_stays_one_and_grows_by_a_quarter_at_most(preference):
    hops = "What was said by the printer who disputed the invoice?"
    _, plain = await read("What was said by the captain who has left the boat?", slots=4, preference=preference)
    _, found = await read(hops, slots=4, preference=preference)
    most = 24 if preference == "careful" else len(plain.passages) * 5 // 4
    assert len(plain.passages) < len(found.passages) <= most
    assert {each.id.partition("-")[0] for each in found.branches} <= {"passage", "answer"}


async def test_half_of_a_budget_of_tokens_is_kept():
    _, plain = await read("What was it?", slots=4)
    _, unbound = await read(slots=4)
    _, found = await read(slots=4, budget=Budget(max_tokens_total=4 * plain.usage.total_tokens))
    _, little = await read(slots=4, budget=Budget(max_tokens_total=3 * plain.usage.total_tokens))
    assert len(plain.passages) == len(little.passages) < len(found.passages) < len(unbound.passages)


@pytest.mark.parametrize("preference", ["balanced", "careful"])
async def test_with_a_deadline_there_are_no_more_waves(preference):
    _, plain = await read("What was it?", slots=4, preference=preference)
    _, found = await read(slots=4, preference=preference, deadline_s=600)
    assert -(-len(found.passages) // 4) == -(-len(plain.passages) // 4)


@pytest.mark.parametrize(("preference", "slots", "times"), [("balanced", 16, 1.3), ("careful", 4, 2)])
async def test_a_reader_that_lists_the_first_ten_things_of_a_passage_finds_more(preference, slots, times):
    def first_ten(prompt):
        passage = text_of(prompt).partition(" the passage\n")[2]
        quotes = re.findall(r"Invoice \d+ was sent", passage)[:10]
        return json.dumps(
            {"record": {"evidence": quotes, "answer": "Invoices."} if quotes else {"no_information": True}}
        )

    backend = scripted(first_ten, context_window=8_000, concurrent_calls=slots)
    found = []
    for question in ("List all invoices.", "List all dates."):
        answer = await ask(backend, question, Document(text=TEXT, title="minutes"), preference=preference)
        found.append(sum(len(each.evidence) for each in answer.passages))
    assert found[0] > times * found[1]


async def test_the_dense_one_of_two_passages_is_cut():
    documents = [Document(text="\n\n".join([PARAGRAPH] * 10)), Document(text=DENSE)]
    backend = scripted(lambda _: NOTHING, context_window=8_000, concurrent_calls=1)
    plain = await ask(backend, "List all dates.", *documents, preference="careful")
    found = await ask(backend, "List all invoices.", *documents, preference="careful")
    assert len(plain.passages) == 2 < len(found.passages)


@pytest.mark.parametrize(
    ("question", "other", "line"),
    [
        ("合同对终止是怎么规定的？", "谁参加了会议？", "合同在第{}年终止。"),
        ("계약 해지는 언제 가능합니까?", "누가 왔습니까?", "계약은 {}년에 해지된다."),
    ],
)
async def test_words_without_spaces_between_them_count(question, other, line):
    text = "\n\n".join([*[PARAGRAPH] * 40, *[line.format(number) for number in range(300)], *[PARAGRAPH] * 60])
    _, plain = await read(other, text=text)
    _, found = await read(question, text=text)
    assert len(found.passages) > len(plain.passages)
