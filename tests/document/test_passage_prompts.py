"""What the reader of a passage is sent, and what it may write: no more of either than is needed."""

import json

import pytest
from reader import FACTS, answer, ask, haystack, scripted, text_of, unfenced

from recipes.reading.lessons import filled
from stretto import Document
from stretto.documents import Chunk
from stretto.strategies.document.library import Library
from stretto.strategies.document.records import MAP_SCHEMA, NOTES_SCHEMA

pytestmark = pytest.mark.anyio
NOTHING = ['{"no_information": true}', '{"record": {"no_information": true}}', '{"record": null}']


def maps(backend):
    return [prompt for prompt, _ in backend.calls if '"no_information"' in text_of(prompt)]


def shown(text, start, end):
    """What a prompt shows of a passage, by the names behind the fences."""
    library = Library.of((Document(text=text, title="t"),)).cut([[Chunk(0, start, end, 9)]])
    values = library.shown(library.places[0])
    fence = values["fence"]
    parts = f"{values['leading']}{fence} the passage\n{values['passage']}\n{values['following']}{fence} end"
    return {name: said.removesuffix("\n") for name, said in unfenced(parts, fence)[1].items()}


@pytest.mark.parametrize("short", NOTHING)
async def test_two_words_are_enough_for_a_passage_that_holds_nothing(short):
    backend = scripted(lambda prompt: said if "evidence" in (said := answer(prompt)) or "{" not in said else short)
    found = await ask(backend, "What is the code of name3?", haystack(10, FACTS))
    assert len(maps(backend)) == len(found.passages)
    assert sum(each.informative for each in found.passages) == 1
    assert "1021" in found.text


@pytest.mark.parametrize(
    "form",
    [
        lambda fields: {"record": fields},
        lambda fields: {"record": [fields]},
        lambda fields: {"record": "It is there.", **fields},
        lambda fields: {**fields, "record": None},
        dict,
    ],
    ids=["named", "in a list", "beside a text", "beside null", "bare"],
)
async def test_a_record_is_understood_at_once_whatever_is_around_it(form):
    fields = {"evidence": ["The code of name3 is 1021."], "answer": "1021", "confidence": 5}
    asked = []

    def script(prompt):
        said = answer(prompt)
        if '"evidence"' not in said:
            return said
        asked.append(prompt)
        return json.dumps(form(fields))

    found = await ask(scripted(script), "What is the code of name3?", haystack(10, FACTS))
    assert [each.quote for each in found.citations] == fields["evidence"]
    assert len(asked) == 1


async def test_a_short_quotation_has_a_place_of_its_own_whatever_its_order():
    text = "raise Error from exc\n\nraise Error"

    def script(prompt):
        quotes = ["raise Error", "raise Error from exc"]
        return json.dumps({"record": {"evidence": quotes}}) if '"no_information"' in text_of(prompt) else ""

    found = await ask(scripted(script), "List every line that raises.", Document(text=text, title="t"))
    assert [(each.start, each.quote) for each in found.citations] == [(0, "raise Error from exc"), (22, "raise Error")]


@pytest.mark.parametrize(
    "broken",
    [
        '{"record": {}}',
        '{"record": "yes"}',
        '{"record": []}',
        '{"record": "yes", "thoughts": "none"}',
        '{"record": {"no_information": false}}',
    ],
)
async def test_a_record_that_says_nothing_is_asked_for_again(broken):
    asked = []

    def script(prompt):
        said = answer(prompt)
        if '"evidence"' in said:
            asked.append(prompt)
            return broken if len(asked) == 1 else said
        return said

    found = await ask(scripted(script), "What is the code of name3?", haystack(10, FACTS))
    assert len(asked) == 2
    assert "1021" in found.text


@pytest.mark.parametrize("schema", [MAP_SCHEMA, NOTES_SCHEMA])
def test_every_field_of_a_schema_is_required_as_strict_servers_demand(schema):
    def objects(part):
        if part.get("type") == "object":
            yield part
        for inner in [*part.get("properties", {}).values(), *part.get("anyOf", ())]:
            yield from objects(inner)

    assert len(list(objects(schema))) == 3
    for each in objects(schema):
        assert each["required"] == list(each["properties"])
        assert each["additionalProperties"] is False


def test_a_passage_is_shown_with_the_sentence_before_it():
    text = "Once.\n\nAnna Berg founded the firm.\n\nShe sold it in 1999.\n\nThen it rained."
    assert shown(text, text.index("She"), text.index("Then") - 2) == {
        "before the passage": "Anna Berg founded the firm.",
        "the passage": "She sold it in 1999.",
    }


def test_what_follows_a_passage_is_shown_only_where_a_sentence_is_cut():
    text = "One two three. Four five six.\n\nSeven."
    assert shown(text, 0, text.index(" five")) == {
        "the passage": "One two three. Four",
        "after the passage": "five six.",
    }
    assert shown(text, 0, text.index("\n")) == {"the passage": "One two three. Four five six."}


async def test_findings_name_a_document_only_among_several_and_a_place_only_on_a_page():
    def findings(prompt):
        return text_of(prompt).partition(" findings\n")[2]

    one = haystack(6, FACTS)
    backend = scripted()
    await ask(backend, "What is the code of name3?", one)
    assert '[cite:1] "The code of name3 is 1021."' in findings(backend.calls[-1][0])
    half = len(one.text) // 2
    paged = one.model_copy(update={"title": "lease", "pages": (0, half)})
    await ask(backend, "What is the code of name3?", paged, Document(text="No codes here.", title="b"))
    assert '[cite:1] (lease, p. 1) "The code of name3 is 1021."' in findings(backend.calls[-1][0])


async def test_the_pocket_model_is_sent_what_it_was_trained_on():
    def script(prompt):
        text = text_of(prompt)
        if "Write the record" not in text:
            return "The code of name3 is 1021 [1]."
        quotes = ["The code of name3 is 1021."] if "name3" in text.partition("Question:")[0] else []
        return json.dumps({"evidence": quotes, "answer": "It is.", "confidence": 5, "no_information": not quotes})

    able = {"prompt_family": "pocket", "passage_tokens": 256, "reads_history": False}
    backend, document, question = scripted(script, **able), haystack(10, FACTS), "What is the code of name3?"
    found = await ask(backend, question, document)
    assert [each.quote for each in found.citations] == ["The code of name3 is 1021."]
    fence = Library.of((document,)).fence
    sent = [prompt for prompt, _ in backend.calls[:-1]]
    for number, (prompt, each) in enumerate(zip(sent, found.passages, strict=True), start=1):
        passage = document.text[each.start : each.end]
        values = {"fence": fence, "number": str(number), "total": str(len(sent)), "passage": passage}
        assert text_of(prompt) == filled("document_map", **values, question=question)
        assert list(prompt.response_schema["properties"]) == [
            "evidence",
            "rationale",
            "answer",
            "confidence",
            "no_information",
        ]
    quote = found.citations[0]
    said = f'Finding, confidence 5 of 5: It is.\n[1] (report, chars {quote.start}-{quote.end}) "{quote.quote}"'
    last = text_of(backend.calls[-1][0])
    assert last == filled("document_answer", fence=fence, records=said, question=question)
