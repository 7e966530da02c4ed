import json
import re

import pytest
from reader import FACTS, answer, ask, haystack, scripted, text_of, unfenced

from stretto import Document
from stretto.testing import Reply
from stretto.values.errors import ServerFailedError

pytestmark = pytest.mark.anyio


def parts(prompt):
    text = text_of(prompt)
    return unfenced(text, re.search(r'Text between the lines "([^"]+)"', text)[1])


def summariser(prompt):
    """Says of each passage which codes it holds, misquotes it, and puts the sayings together."""
    outside, inside = parts(prompt)
    if '"no_information"' in outside:
        codes = re.findall(r"is (\d+)\.", inside["the passage"])
        return json.dumps({"evidence": ["misquoted"], "answer": f"Codes {' '.join(codes)}.", "confidence": 3})
    return f"In 20 words: {' '.join(re.findall(r'Codes ([^.]*)', inside['findings']))}"


async def test_a_summary_keeps_what_every_passage_says_even_without_a_quotation_in_order():
    backend = scripted(summariser)
    found = await ask(backend, "Summarize the report in 20 words.", haystack(12, FACTS))
    assert found.text.removeprefix("In 20 words:").split() == [str(code) for code in FACTS.values()]
    assert "in 20 words" in text_of(backend.calls[-1][0])


async def test_both_sides_of_a_comparison_are_read_and_cited():
    one = haystack(6, {"alpha": 1, "beta": 2}).model_copy(update={"title": "old"})
    other = haystack(6, {"gamma": 3, "delta": 4}).model_copy(update={"title": "new"})
    found = await ask(scripted(), "Compare the codes of all people in both reports.", one, other)
    assert [(each.title, each.quote.split()[3]) for each in found.citations] == [
        ("old", "alpha"),
        ("old", "beta"),
        ("new", "gamma"),
        ("new", "delta"),
    ]


async def test_a_list_names_each_thing_once_with_the_place_it_stands():
    document = haystack(10, {"one": 11, "two": 12, "three": 11})
    found = await ask(scripted(), "List all the codes.", document)
    lines = found.text.splitlines()
    assert [line.split()[1] for line in lines] == ["11", "12"]
    assert all(citation.label in line for citation, line in zip(found.citations, lines, strict=True))


async def test_where_there_is_nothing_to_list_a_sentence_says_so_and_json_is_an_empty_list():
    assert (await ask(scripted(), "List all the codes.", haystack(6, {}))).text == "The documents do not tell it."
    assert (await ask(scripted(), "List all the codes as JSON.", haystack(6, {}))).text == "[]"


async def test_a_passage_too_full_for_its_record_is_halved_until_all_is_listed():
    facts = {f"name{number}": 10_000 + number for number in range(200)}
    document = Document(text="\n\n".join(f"The code of {name} is {code}." for name, code in facts.items()))

    def short(prompt):
        text = answer(prompt)
        few = not text.startswith("{") or len(json.loads(text)["record"].get("evidence", ())) < 15
        return text if few else Reply(text[:100], finish_reason="length")

    found = await ask(scripted(short), "List all the codes.", document)
    assert [citation.quote for citation in found.citations] == [str(code) for code in facts.values()]
    assert found.warnings == ()


@pytest.mark.thorough
async def test_a_record_that_never_fits_is_told_with_the_places_it_is_of():
    def endless(prompt):
        text = answer(prompt)
        return Reply(text, finish_reason="length") if '"no_information"' in text_of(prompt) else text

    found = await ask(scripted(endless), "List all the codes.", haystack(2, FACTS))
    assert all(record.cut_off for record in found.passages)
    assert [(each.code, "report, chars" in each) for each in found.warnings] == [("part_cut", True)]


@pytest.mark.thorough
async def test_pieces_agree_on_names_and_keep_the_blank_lines_of_code():
    seen = []

    def translator(prompt):
        outside, inside = parts(prompt)
        if '"voice"' in outside:
            return json.dumps({"terms": {"Mister Fox": "Herr Fuchs"}, "voice": ""})
        seen.append(inside.get("terms", "").strip())
        return inside["piece"].removesuffix("\n").replace("Mister Fox", "Herr Fuchs")

    code = "```python\nfirst = 1\n\n\n\nsecond = 2\n```"
    text = "\n\n".join(f"Then Mister Fox came home, and {number} geese saw him go." for number in range(300))
    document = Document(text=f"{text}\n\n{code}\n\n{text}", title="story")
    found = await ask(scripted(translator), "Translate this into German.", document)
    assert found.text == document.text.replace("Mister Fox", "Herr Fuchs")
    assert seen.count("") == 1, "the first piece waits for no terms"
    assert set(seen) == {"", "- Mister Fox: Herr Fuchs"}


async def test_a_piece_that_fails_stands_as_it_was_and_is_named():
    def failing(prompt):
        if "geese 7 " in parts(prompt)[1].get("piece", ""):
            return Reply("", fault=ServerFailedError("the server is on fire"))
        return parts(prompt)[1].get("piece", "{}").removesuffix("\n").upper()

    text = "\n\n".join(f"the geese {number} and more words that fill the line to its end" for number in range(300))
    found = await ask(scripted(failing), "Rewrite this in capitals.", Document(text=text, title="story"))
    assert found.text.lower() == text
    assert "the geese 7 and" in found.text
    assert [(each.code, "the server is on fire" in each) for each in found.warnings] == [("part_missing", True)]


async def test_the_conversation_is_shown_to_the_reader_of_each_passage_as_data():
    backend = scripted()
    turns = [
        {"role": "user", "content": "Who is name3?"},
        {"role": "assistant", "content": "The report names a captain."},
        {"role": "user", "content": "What is the code of name3?"},
    ]
    found = await ask(backend, turns, haystack(10, FACTS))
    first = backend.calls[0][0]
    assert len(first.messages) == 2
    assert "user: Who is name3?" in parts(first)[1]["the conversation so far"]
    assert "1021" in found.text
