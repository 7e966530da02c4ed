"""Models that hold no record: what they write in other forms counts where it stands in the passage."""

import json
import random
from pathlib import Path

import pytest
from reader import FACTS, QUESTIONS, answer, ask, haystack, scripted, text_of

from stretto import AsyncStretto, Document
from stretto.language.telling import languages
from stretto.strategies.document.bearing import Bearing, quotable

pytestmark = pytest.mark.anyio
QUESTION = "What is the code of name3?"
FACT = "The code of name3 is 1021."
ASKED = "Copy the sentence of this text that answers the question: "


def in_other_words(form, nothing):
    """A model that reads well and writes no record."""

    def reply(prompt):
        said = answer(prompt)
        if '"no_information"' not in text_of(prompt):
            return said
        return form if '"evidence"' in said else nothing

    return reply


@pytest.mark.parametrize(
    "form",
    [
        FACT,
        f'- "{FACT}"',
        "The sentence is: “The code of name3\nis 1021.”",
        f"Here is what I found.\n> {FACT}\nI hope that it helps!",
        f"{FACT} {FACT} The code of name3 is hidden in the castle of the king.",
    ],
)
@pytest.mark.parametrize("nothing", ["none", "None.", "NOTHING", "Keine.", "没有"])
async def test_records_in_other_forms_are_read(form, nothing):
    found = await ask(scripted(in_other_words(form, nothing)), QUESTION, haystack(10, FACTS))
    assert [citation.quote for citation in found.citations] == [FACT]
    assert (found.finish_reason, found.warnings) == ("stop", ())


async def test_a_sentence_that_is_not_in_the_passage_is_still_no_record():
    script = in_other_words("The code of name3 is 777.", "none")
    found = await ask(scripted(script), QUESTION, haystack(10, FACTS))
    assert found.finish_reason == "nothing_found"
    assert sum(record.status == "failed" for record in found.passages) == 1


def small(copy, **able):
    """A small model. `copy` is given the passage and the question, and writes."""

    def reply(prompt):
        passage, _, question = text_of(prompt).rpartition(f"\n\n{ASKED}")
        assert question, "it was asked for something else"
        return copy(passage, question)

    return scripted(reply, prompt_family="small", json_schema=True, context_window=4_096, **able)


SUBJECTS = ["The old mill", "A group of students", "The town council", "Our neighbour", "The museum", "The gardener"]
VERBS = ["was repaired in spring", "met every Tuesday in the hall", "opened a room for visitors", "planted apple trees"]
ENDS = ["because the weather was mild", "although money was short", "before the first snow fell", "as was reported"]
FIVE = {
    "What is the code of Berta?": "The code of Berta is 48213.",
    "When does the Lisbon conference take place?": "The Lisbon conference takes place on 14 March 2031.",
    "Who designed the lighthouse of Arnholm?": "The lighthouse of Arnholm was designed by Clara Voss.",
    "How much does the green chair cost?": "The green chair costs 340 euros.",
    "Where is the red lantern kept?": "The red lantern is kept in the cellar of the town hall.",
}
NOT_THERE = [
    "What is the code of Anna?",
    "what is the code of anna?",
    "Who painted the lighthouse of Brunholm?",
    "Which ship sank near the coast?",
    "When was the concert of the violinist?",
    "Why?",
]


def prose(characters=60_000, facts=FIVE.values()):  # noqa: B008 - a view of a constant
    """Paragraphs of everyday sentences, with facts spread over them."""
    chance = random.Random(1)  # noqa: S311 - the same words each time, nothing to guess
    parts, size = [], 0
    while size < characters:
        drawn = (f"{chance.choice(SUBJECTS)} {chance.choice(VERBS)} {chance.choice(ENDS)}." for _ in range(5))
        parts.append(list(drawn))
        size += sum(len(each) + 1 for each in parts[-1])
    for number, fact in enumerate(facts):
        parts[(2 * number + 1) * len(parts) // (2 * len(facts))].insert(2, fact)
    return Document(text="\n\n".join(" ".join(part) for part in parts), title="report")


def careless(passage, question):
    """It copies a sentence that begins as the question does, else it makes one up, and goes on talking."""
    words = set(question.lower().strip("?").split())
    best = max(quotable(passage), key=lambda each: len(words & set(each.lower().strip(".").split())))
    return f'The sentence is: "{best}" The code of Anna is 777, and the ship sank in 1912.'


def inventing(passage, question):
    return f"{question.strip('?')} is a long story. The code of Berta was never told. It was in 1912."


@pytest.mark.thorough
@pytest.mark.parametrize(("question", "fact"), FIVE.items())
async def test_a_small_model_that_copies_is_quoted_with_the_place(question, fact):
    document = prose()
    found = await ask(small(careless), question, document)
    citation = found.citations[0]
    assert found.text == f"{fact} {citation.label}"
    assert document.text[citation.start : citation.end] == citation.quote == fact
    assert found.finish_reason == "stop"
    assert 0 < found.usage.calls < len(found.passages) // 4
    skipped = sum(record.status == "skipped" for record in found.passages)
    assert found.warnings[0].startswith(f"{skipped} of {len(found.passages)} ")


@pytest.mark.thorough
@pytest.mark.parametrize("question", NOT_THERE)
@pytest.mark.parametrize("copy", [inventing, careless, lambda _, __: '{"record": {"evidence": ["It is 777."]}}'])
async def test_what_a_small_model_makes_up_is_never_told(question, copy):
    found = await ask(small(copy), question, prose())
    assert found.text == languages().documents["en"]["partly" if found.usage.calls else "unmatched"]
    assert (found.citations, found.finish_reason) == ((), "nothing_found")


@pytest.mark.thorough
@pytest.mark.parametrize(("question", "fact"), FIVE.items())
async def test_an_answer_of_a_small_model_is_never_in_its_own_words(question, fact):
    found = await ask(small(inventing), question, prose())
    quoted = "".join(f"{fact} {citation.label}" for citation in found.citations)
    assert found.text == (quoted or languages().documents["en"]["partly"])


@pytest.mark.thorough
async def test_a_word_that_a_small_model_changes_does_not_lose_the_sentence_of_the_document():
    changed = "The lighthouse of Arnholm was designed by the engineer, Clara Voss."
    found = await ask(small(lambda *_: changed), "Who designed the lighthouse of Arnholm?", prose())
    assert [citation.quote for citation in found.citations] == ["The lighthouse of Arnholm was designed by Clara Voss."]
    assert changed not in found.text


async def test_documents_that_would_fit_are_read_by_a_small_model_in_the_same_way():
    async with AsyncStretto(small(inventing)) as stretto:
        found = await stretto.ask("What is the code of Berta?", documents=[prose(3_000, ())])
    assert (found.text, found.finish_reason) == (languages().documents["en"]["unmatched"], "nothing_found")


@pytest.mark.parametrize(
    ("question", "bearing", "beside"),
    [
        ("Wie lautet der Code von Berta?", "Der Code von Berta ist 48213.", "Der Code von Anna ist 5."),
        ("Was kostet der grüne Stuhl?", "Der grüne Stuhl kostet 340 Euro.", "Der rote Stuhl kostet 20 Euro."),
        ("Combien coûte la chaise verte ?", "La chaise verte coûte 340 euros.", "La table rouge coûte 20 euros."),
        ("Где хранится красный фонарь?", "Красный фонарь хранится в подвале.", "Красный дом хранит память."),
        ("红灯笼放在哪里？", "红灯笼放在地窖里。", "花园里有一口井。"),
    ],
)
def test_what_shares_the_words_of_a_question_is_told_in_other_languages(question, bearing, beside):
    passages = [bearing, beside, *[" ".join(part) for part in zip(SUBJECTS, VERBS, strict=False)]]
    found = Bearing(question, passages)
    assert found.bears(bearing)
    assert found.share(beside) < found.share(bearing)


def test_a_name_or_number_of_the_question_must_stand_in_the_sentence():
    found = Bearing("What did Anna pay in 1985?", ["Anna paid 5 euros in 1985.", "Anna paid 7 euros in 1986.", "Rain."])
    assert found.bears("Anna paid 5 euros in 1985.")
    assert not found.bears("Anna paid 7 euros in 1986.")
    assert not found.bears("Berta paid 5 euros in 1985.")


@pytest.mark.thorough
async def test_other_tasks_and_forms_keep_their_prompts():
    said = json.dumps({"record": {"no_information": True}})
    backend = scripted(lambda _: said, prompt_family="small", context_window=4_096)
    found = await ask(backend, "List all the codes.", prose())
    assert found.finish_reason == "nothing_found"
    assert all(ASKED not in text_of(prompt) for prompt, _ in backend.calls)


PAD = "".join(
    f"Paragraph {number} speaks about boats and birds, and says nothing else of note. " for number in range(80)
)
WHOLE = {
    "What is the monthly rent of the flat?": "The monthly rent of the flat is 1.250 euros.",
    "What is the interest rate of the loan?": "The interest rate of the loan is 4.75 percent a year.",
    "Who signed the lease?": "The lease was signed by Dr. Ada Lind on 3 May.",
    "Which version of Python is needed?": "Version 3.11 of Python is needed to run Stretto.",
    "Where do I put the settings?": "Put the settings into e.g. stretto.toml, or see https://example.org/a.html on it.",
    "How long must the written offer be valid?": "A written offer that comes with the device must be valid for three"
    "\nyears and as long as you offer spare parts.",
    "Wie hoch ist die Miete der Wohnung?": "Die Miete der Wohnung beträgt z. B. 1.250 Euro gem. § 5 Abs. 2.",
    "押金是多少？": "押金为三\n千元整。",
}


@pytest.mark.parametrize("behind", [" ", "\n", "\n\n"])
@pytest.mark.parametrize(("question", "fact"), WHOLE.items())
async def test_the_whole_sentence_is_quoted_with_its_figures_names_and_wrapped_lines(question, fact, behind):
    copied = fact.replace("三\n", "三").replace("\n", " ")
    found = await ask(small(lambda *_: copied), question, Document(text=f"{fact}{behind}{PAD}", title="lease"))
    assert [citation.quote for citation in found.citations] == [fact]
    assert found.text == f"{copied} {found.citations[0].label}"


@pytest.mark.thorough
async def test_where_no_sentence_holds_the_words_nothing_is_read_and_that_is_told():
    backend = small(careless)
    found = await ask(backend, "Which ship sank near the coast?", prose())
    assert found.text == "No sentence of the documents holds the words of the question."
    assert not backend.calls
    assert "unread" in [warning.code for warning in found.warnings]
    assert {record.status for record in found.passages} == {"skipped"}


@pytest.mark.thorough
@pytest.mark.parametrize("language", languages().documents)
async def test_what_was_not_read_is_told_in_the_language_of_the_question(language):
    found = await ask(small(careless), QUESTIONS[language], prose())
    assert found.text == languages().documents[language]["unmatched"]


@pytest.mark.thorough
async def test_documents_tell_nothing_only_where_all_of_them_were_read():
    short = Document(text="The rent of the flat in Arnholm is high.", title="lease")
    found = await ask(small(lambda *_: "None."), "What is the rent of the flat in Arnholm?", short)
    assert found.text == languages().documents["en"]["nothing"]
    found = await ask(small(lambda *_: "None."), "What is the rent of the flat in Arnholm?", short, prose())
    assert found.text == languages().documents["en"]["partly"]


LICENCE = Document(text=Path(__file__).parents[2].joinpath("LICENSE").read_text("utf-8"), title="licence")
ANSWERED = {
    "What is the date of the Apache License?": "Version 2.0, January 2004",
    "What does Contributor mean?": '"Contributor" shall mean Licensor',
    "When do the patent licenses terminate?": "shall terminate as of the date such litigation is filed",
    "Does the License grant permission to use the trade names?": "does not grant permission to use the trade",
    "How much of the ownership of outstanding shares is control?": "fifty percent (50%) or more of the",
}
UNANSWERED = [
    "Who is the president of the foundation?",
    "How many euros does a copy cost?",
    "Which telephone number has the author?",
    "What is the capital of France?",
    "Who wrote the Linux kernel?",
]


@pytest.mark.parametrize(("question", "said"), ANSWERED.items())
async def test_a_wrapped_licence_answers_with_whole_sentences(question, said):
    def reader(passage, _):
        """It finds what is asked for, and copies any sentence where there is none."""
        known = [each for each in quotable(passage) if said in " ".join(each.split())]
        return (known or list(quotable(passage)))[0]

    found = await ask(small(reader), question, LICENCE)
    quoted = [" ".join(citation.quote.split()) for citation in found.citations]
    assert any(said in each for each in quoted), (found.text, found.warnings)
    whole = " ".join(LICENCE.text.split())
    assert all(each in whole for each in quoted)


@pytest.mark.parametrize("question", UNANSWERED)
async def test_what_a_wrapped_licence_does_not_answer_stays_unanswered(question):
    found = await ask(small(careless), question, LICENCE)
    assert (found.finish_reason, found.citations) == ("nothing_found", ())


async def test_a_sentence_that_bears_on_the_question_only_among_its_neighbours_is_read():
    text = f"{PAD}\n\nThe lighthouse of Arnholm.\n\nIt was finished in 1871 by Clara Voss.\n\n{PAD}"
    found = await ask(
        small(lambda *_: "It was finished in 1871 by Clara Voss."),
        "When was the lighthouse of Arnholm finished?",
        Document(text=text, title="d"),
    )
    assert [citation.quote for citation in found.citations] == ["It was finished in 1871 by Clara Voss."]
