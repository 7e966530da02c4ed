"""Documents that hold nothing on a question, or were not read: no answer comes from nowhere, and none ends as whole."""

import json
import re
from typing import ClassVar

import pytest
from pydantic import BaseModel
from reader import FACTS, QUESTIONS, answer, ask, haystack, record, scripted, text_of

from stretto import AsyncStretto, Document
from stretto.language.telling import languages
from stretto.testing import Reply
from stretto.values.errors import BackendError, DeadlineExceededError, IncompleteAnswerError, ServerFailedError

pytestmark = pytest.mark.anyio
QUESTION = "What is the code of Berta?"
INVENTED = "The code of Berta is 777 [1]."
NOTHING = record({"no_information": True})


def reader(said=NOTHING):
    """A model that writes the same of every passage, and makes up an answer when it is asked for one."""
    return lambda prompt: said if '"no_information"' in text_of(prompt) else INVENTED


def says_nothing(found, text="The documents do not tell it."):
    assert (found.text, found.citations, found.finish_reason) == (text, (), "nothing_found")
    assert "unread" in [warning.code for warning in found.warnings]
    assert {branch.kind for branch in found.branches} == {"passage"}


async def test_a_model_that_would_invent_an_answer_is_not_asked_for_one():
    backend = scripted(reader())
    found = await ask(backend, QUESTION, haystack(10, FACTS))
    says_nothing(found)
    assert len(backend.calls) == len(found.passages)


async def test_a_record_whose_quotations_are_invented_is_nothing_found():
    invented = record({"evidence": ["The code of Berta is 777."], "answer": "It is 777.", "confidence": 5})
    found = await ask(scripted(reader(invented)), QUESTION, haystack(10, FACTS))
    says_nothing(found)
    warning = found.warnings[0]
    assert (warning.code, f" {len(found.passages)}." in warning) == ("quotation", True)


async def test_several_documents_and_a_question_in_hops():
    documents = haystack(4, FACTS), haystack(6, FACTS, seed=2), haystack(4, {})
    says_nothing(await ask(scripted(reader()), QUESTION, *documents))
    hops = "What is the code of the person who is captain of the Aurora?"
    says_nothing(await ask(scripted(lambda p: NOTHING if '"notes"' in text_of(p) else INVENTED), hops, *documents))


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("List all the codes.", "The documents do not tell it."),
        ("List all the codes as JSON.", "[]"),
        ("How many codes are there?", "0"),
    ],
)
async def test_everything_of_a_kind_where_there_is_nothing(question, text):
    says_nothing(await ask(scripted(reader()), question, haystack(10, FACTS)), text)


@pytest.mark.parametrize("language", languages().documents)
async def test_it_is_said_in_the_language_of_the_question(language):
    said = languages().documents[language]["nothing"]
    says_nothing(await ask(scripted(reader()), QUESTIONS[language], haystack(10, FACTS)), said)


@pytest.mark.parametrize("question", ["Berta?", "1021?"])
async def test_a_short_question_is_answered_in_the_language_of_the_turns_before_it(question):
    before = [
        {"role": "user", "content": "Wie ist der Code von name3 und warum?"},
        {"role": "assistant", "content": "1021."},
    ]
    async with AsyncStretto(scripted(reader())) as stretto:
        turns = [*before, {"role": "user", "content": question}]
        found = await stretto.ask(turns, strategy="document", documents=[haystack(10, FACTS)])
    says_nothing(found, languages().documents["de"]["nothing"])


async def test_an_answer_that_must_have_a_form_is_marked():
    class Code(BaseModel):
        code: int

    def script(prompt):
        return NOTHING if '"no_information"' in text_of(prompt) else '{"code": 777}'

    found = await ask(scripted(script), QUESTION, haystack(10, FACTS), response_format=Code)
    assert (found.parsed, found.citations, found.finish_reason) == (Code(code=777), (), "nothing_found")
    assert "quotation" in [warning.code for warning in found.warnings]


async def test_an_answer_that_names_none_of_its_findings_is_marked():
    def script(prompt):
        return answer(prompt) if '"no_information"' in text_of(prompt) else "The code is 777, as everybody knows."

    found = await ask(scripted(script), "What is the code of name3?", haystack(10, FACTS))
    assert found.citations == ()
    assert "quotation" in [warning.code for warning in found.warnings]


async def test_the_last_event_says_it_too():
    async with (
        AsyncStretto(scripted(reader())) as stretto,
        stretto.stream(QUESTION, strategy="document", documents=[haystack(10, FACTS)]) as events,
    ):
        seen = [event async for event in events]
    assert "".join(event.text for event in seen if event.type == "text_delta") == "The documents do not tell it."
    assert not any(event.record.informative for event in seen if event.type == "passage_read")
    assert json.loads(seen[-1].model_dump_json())["answer"]["finish_reason"] == "nothing_found"


class Failing:
    """A model that reads every n-th passage only, as what else it writes says."""

    FAULT: ClassVar = Reply("", fault=ServerFailedError("the server is on fire"))

    def __init__(self, every, read, otherwise=FAULT):
        self.every, self.read, self.otherwise = every, read, otherwise

    def __call__(self, prompt):
        text = text_of(prompt)
        if '"no_information"' not in text:
            return self.read(prompt)
        number = int(re.search(r" passage (\d+) of \d", text)[1])
        return self.read(prompt) if number % self.every == 1 else self.otherwise


async def test_documents_that_were_mostly_not_read_do_not_end_as_whole():
    found = await ask(scripted(Failing(3, answer)), "What is the code of every person?", haystack(20, FACTS))
    assert found.citations
    assert found.finish_reason == "incomplete"


async def test_documents_of_which_a_passage_failed_end_as_ever():
    def script(prompt):
        return Failing.FAULT if " passage 2 of " in text_of(prompt) else answer(prompt)

    found = await ask(scripted(script), "What is the code of every person?", haystack(20, FACTS))
    assert found.finish_reason == "stop"


async def test_where_nothing_was_found_in_what_could_be_read_the_answer_says_both():
    found = await ask(scripted(Failing(3, reader())), QUESTION, haystack(20, FACTS))
    assert found.text == "The documents do not tell it. Parts of the documents could not be read."
    assert found.finish_reason == "incomplete"


async def test_who_wants_no_answer_without_a_passage_gets_the_sentence_in_the_error():
    with pytest.raises(IncompleteAnswerError) as raised:
        await ask(scripted(Failing(3, reader())), QUESTION, haystack(20, FACTS), on_missing="raise")
    assert raised.value.answer.text.startswith("The documents do not tell it.")


async def test_a_model_that_holds_no_form_is_said_to_be_unable_and_the_documents_not_to_be_silent():
    document = haystack(10, FACTS)
    found = await ask(scripted(Failing(14, reader(), otherwise="I have read it.")), QUESTION, document)
    assert found.text == languages().documents["en"]["unable"]
    assert found.finish_reason == "incomplete"
    assert (found.warnings[-1].code, " 2 of 26 " in found.warnings[-1]) == ("unread", True)


@pytest.mark.parametrize("question", ["How many codes are there?", "List all the codes as JSON."])
async def test_a_model_that_holds_no_form_counts_nothing(question):
    found = await ask(scripted(Failing(14, reader(), otherwise="I have read it.")), question, haystack(10, FACTS))
    assert found.text == languages().documents["en"]["unable"]


@pytest.mark.thorough
async def test_after_two_documents_without_a_record_one_that_fits_is_answered_without_quotations():
    backend, short = scripted(Failing(14, reader(), otherwise="I have read it.")), Document(text="Signed by Ada.")
    async with AsyncStretto(backend) as stretto:
        before = await stretto.route("Who signed?", documents=[short])
        for _ in range(2):
            await stretto.ask(QUESTION, documents=[haystack(10, FACTS)])
        after = await stretto.route("Who signed?", documents=[short])
    assert (before.strategy, after.strategy, after.code) == ("document", "direct", "ability")


@pytest.mark.leaping
async def test_a_deadline_before_one_passage_is_read_is_an_error_of_the_deadline():
    with pytest.raises(DeadlineExceededError, match=r"deadline of 0\.5 s left no time to read one of \d+ passages"):
        await ask(scripted(lambda _: Reply("{}", delay_s=600)), QUESTION, haystack(10, FACTS), deadline_s=0.5)


@pytest.mark.thorough
async def test_a_deadline_while_documents_are_counted_and_cut_is_an_error_of_the_deadline():
    class Slow:
        """Counts for as long as its thread is not stopped, a word at a time."""

        def __init__(self):
            self.counted = 0

        async def text_counter(self):
            return self.count

        def count(self, text):
            self.counted += 1
            return sum(1 for _ in range(200_000)) and len(text) // 3

    backend, slow = scripted(), Slow()
    backend.text_counter = slow.text_counter
    text = "\n\n".join(f"Paragraph {number} of a long text." for number in range(200_000))
    with pytest.raises(DeadlineExceededError, match=r"The deadline passed after 0\.05 s"):
        await ask(backend, QUESTION, Document(text=text, title="t"), deadline_s=0.05)
    assert backend.calls == []
    assert slow.counted < 200_000


async def test_other_failures_of_all_passages_stay_what_they_were():
    with pytest.raises(BackendError, match=r"None of .* on fire"):
        await ask(scripted(lambda _: Failing.FAULT), QUESTION, haystack(10, FACTS))
