import pytest
from reader import FACTS, haystack, scripted, text_of

from stretto import AsyncStretto, Budget, Document, Settings
from stretto.backends.base import Capabilities
from stretto.extending import Offer
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio


async def route(question, *documents, window=2_000, beyond_window=False, passage=None, **options):
    able = {"context_window": window, "beyond_window": beyond_window, "passage_tokens": passage}
    async with AsyncStretto(scripted(**able)) as stretto:
        return await stretto.route(question, documents=documents, **options)


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("What is the code of name3?", "the answer is put together"),
        ("Summarize the report.", "summarised"),
        ("List all the codes.", "every passage"),
        ("What is the code of the person who is captain of the Aurora?", "in order"),
    ],
)
async def test_a_document_that_does_not_fit_is_read_in_passages_and_the_route_says_how(question, says):
    chosen = await route(question, haystack(10, FACTS))
    assert (chosen.strategy, chosen.code) == ("document", "suits")
    assert "2,000 tokens" in chosen.reason
    assert says in chosen.reason


async def test_hops_over_many_passages_are_followed_in_rounds():
    chosen = await route("What is the code of the person who is captain of the Aurora?", haystack(100, FACTS))
    assert "rounds" in chosen.reason


@pytest.mark.parametrize(
    "question",
    [
        "Who signed the contract?",
        "What are the main risks?",
        "Give an overview of the tenant's obligations.",
        "What are the advantages and disadvantages of the new tariff?",
        "Which function reads the settings file?",
        "Why did the experiment fail?",
        "Summarise the report.",
        "What is the code of the person who is captain of the Aurora?",
    ],
)
async def test_a_question_about_a_document_that_fits_is_answered_with_places(question):
    chosen = await route(question, Document(text="Signed by Ada."), window=100_000)
    assert (chosen.strategy, chosen.code) == ("document", "suits")
    assert "sent whole" in chosen.reason


@pytest.mark.parametrize(
    "question", ["List all the dates.", "Extract the names as JSON.", "How many people are there?"]
)
async def test_all_of_a_kind_is_searched_for_in_every_passage_even_of_a_document_that_fits(question):
    chosen = await route(question, Document(text="Signed by Ada."), window=100_000)
    assert chosen.strategy == "document"
    assert "every passage" in chosen.reason
    few = await route(question, Document(text="Signed by Ada. " * 2_000), window=100_000, budget=Budget(max_calls=2))
    assert (few.strategy, few.code) == ("direct", "budget")


@pytest.mark.parametrize(
    ("question", "options", "code", "says"),
    [
        ("Write a Python unit test for the function add.", {}, "shape", "mainly code"),
        ("Turn this into a Markdown table.", {}, "demand", "rewritten"),
        ("Translate this into German.", {}, "demand", "rewritten"),
        ("Who signed? Answer as JSON.", {}, "demand", '"as json"'),
        ("Who signed?", {"system": "Respond only with valid JSON."}, "demand", "a format"),
        ("Who signed?", {"response_format": {"type": "object"}}, "demand", "response_format"),
    ],
)
async def test_an_answer_that_citations_would_spoil_has_none_and_the_route_says_so(question, options, code, says):
    chosen = await route(question, Document(text="def add(a, b): return a + b"), window=100_000, **options)
    assert (chosen.strategy, chosen.code) == ("direct", code)
    assert says in chosen.reason


async def test_an_answer_about_a_document_that_fits_cites_it_without_being_told_to():
    text = "The lease begins in May.\n\nThe code of name3 is 1021."
    async with AsyncStretto(scripted(context_window=100_000)) as stretto:
        found = await stretto.ask("What is the code of name3?", documents=[Document(text=text, title="lease")])
    assert found.text == f"The code of name3 is 1021 {found.citations[0].label}."
    assert text[found.citations[0].start : found.citations[0].end] == found.citations[0].quote


async def test_a_long_document_is_read_in_passages_for_an_answer_in_a_form():
    chosen = await route("Who signed?", haystack(10, FACTS), response_format={"type": "object"})
    assert chosen.strategy == "document"


async def test_a_model_that_reads_beyond_its_window_is_sent_the_document_for_a_question_to_one_passage():
    chosen = await route("Who signed?", haystack(10, FACTS), beyond_window=True)
    assert (chosen.strategy, chosen.code) == ("direct", "window")
    for question in ("List all the codes.", "What is the code of the person who is captain of the Aurora?"):
        assert (await route(question, haystack(10, FACTS), beyond_window=True)).strategy == "document"


async def test_a_model_that_was_trained_for_passages_is_given_passages_even_if_it_reads_beyond_its_window():
    chosen = await route("Who signed?", haystack(10, FACTS), passage=256, beyond_window=True)
    assert chosen.strategy == "document"


async def test_a_prompt_longer_than_the_window_is_answered_straight_and_the_route_says_that_the_model_can():
    question = f"{haystack(10, FACTS).text}\n\nWhat is the code of name3?"
    chosen = await route(question, beyond_window=True)
    assert (chosen.strategy, chosen.code) == ("direct", "window")
    assert (await route(question)).code != "window"


async def test_a_response_format_is_kept_rather_than_a_document_rewritten_piece_by_piece():
    chosen = await route("Translate it into German.", haystack(10, FACTS), response_format={"type": "object"})
    assert (chosen.strategy, chosen.code) == ("direct", "demand")


@pytest.mark.parametrize(("able", "strategy"), [({}, "direct"), ({"passage_tokens": 256}, "document")])
async def test_a_model_that_was_trained_on_single_questions_cites_where_it_learned_to_read(able, strategy):
    async with AsyncStretto(scripted(context_window=100_000, reads_history=False, **able)) as stretto:
        chosen = await stretto.route("Who signed?", documents=[Document(text="Signed by Ada.")])
    assert chosen.strategy == strategy
    assert (chosen.code == "ability") == (strategy == "direct")


class Own:
    """A caller's strategy whose offer has the usual priority."""

    name = "own"

    def offer(self, case):
        return Offer(confidence=0.5, reason="It is mine.", forecast=case.direct_forecast)

    async def run(self, request, route, runner):
        raise NotImplementedError


@pytest.mark.parametrize("question", ["Who signed?", "List all the dates.", "Translate this into German."])
async def test_a_strategy_of_the_callers_own_is_asked_before_documents_that_fit_are_cited(question):
    async with AsyncStretto(scripted(context_window=100_000), strategies=[Own()]) as stretto:
        chosen = await stretto.route(question, documents=[Document(text="Signed by Ada.")])
        long = await stretto.route("Who signed?", documents=[haystack(200, FACTS)])
    assert chosen.strategy == "own"
    assert long.strategy == "document"


FAMILIES = {
    "small": "quotes them",
    "general": "cites them",
}


@pytest.mark.parametrize(("family", "says"), FAMILIES.items())
@pytest.mark.parametrize("own", ["small", "general"])
@pytest.mark.parametrize("windows", [1, 4])
async def test_reason_and_forecast_follow_the_family_of_prompts_that_is_used(family, says, own, windows):
    backend = scripted(lambda prompt: text_of(prompt)[-40:], context_window=32_000, prompt_family=own)
    async with AsyncStretto(backend, settings=Settings.load(prompt_family=family)) as stretto:
        question, document = "What is the code of name3?", haystack(windows, FACTS)
        chosen = await stretto.route(question, documents=[document])
        assert says in chosen.reason
        forecast = chosen.forecast["document"]
        found = await stretto.ask(question, documents=[document])
    assert {branch.kind for branch in found.branches} == ({"passage"} if family == "small" else {"direct"})
    assert (forecast.calls == 1) == (family == "general" or windows == 1)


async def test_that_a_local_model_reads_for_long_is_told_before(caplog):
    long = Document(text="The rent of the flat is high. " * 1_200, title="lease")
    backend = ScriptedBackend({"": "Yes."}, name="local:any", capabilities=Capabilities(context_window=32_000))
    async with AsyncStretto(backend, settings=Settings.load(prompt_family="general")) as stretto:
        chosen = await stretto.route("What is the rent?", documents=[long])
        await stretto.ask("What is the rent?", documents=[long])
    assert "tokens first" in chosen.reason
    assert "local:any reads the documents whole before its first word" in caplog.text
    assert chosen.forecast["document"].seconds > 30
    async with AsyncStretto(
        scripted(context_window=32_000), settings=Settings.load(prompt_family="general")
    ) as stretto:
        chosen = await stretto.route("What is the rent?", documents=[long])
    assert "tokens first" not in chosen.reason


async def test_documents_that_nearly_fill_the_window_are_said_to():
    chosen = await route("Who signed?", Document(text="The rent of the flat is high. " * 230), window=2_200)
    assert "nearly fill" in chosen.reason
