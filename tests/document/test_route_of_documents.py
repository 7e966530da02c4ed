import pytest
from reader import FACTS, haystack, scripted

from stretto import AsyncStretto, Document

pytestmark = pytest.mark.anyio


async def route(question, *documents, window=2_000, beyond_window=False, passage=None, **options):
    able = {"context_window": window, "beyond_window": beyond_window, "passage_tokens": passage}
    async with AsyncStretto(scripted(**able)) as stretto:
        return await stretto.route(question, documents=documents, **options)


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("What is the code of name3?", "passages are read in parallel, and the answer is put together"),
        ("Summarize the report.", "passages are summarised in parallel"),
        ("List all the codes.", "every passage is searched in parallel"),
        ("Translate the report into German.", "it is done piece by piece in parallel"),
        ("What is the code of the person who is captain of the Aurora?", "so they are read in order"),
    ],
)
async def test_a_document_that_does_not_fit_is_read_in_passages_and_the_route_says_how(question, says):
    chosen = await route(question, haystack(10, FACTS))
    assert chosen.strategy == "document"
    assert "do not fit into the context window of 2,000 tokens" in chosen.cause
    assert says in chosen.cause


async def test_hops_over_many_passages_are_followed_in_rounds():
    chosen = await route("What is the code of the person who is captain of the Aurora?", haystack(100, FACTS))
    assert "read in parallel rounds" in chosen.cause


async def test_a_question_about_a_document_that_fits_is_answered_with_places():
    chosen = await route("Who signed the contract?", Document(text="Signed by Ada."), window=100_000)
    assert chosen.strategy == "document"
    assert "sent whole" in chosen.cause


async def test_code_to_write_from_a_document_that_fits_is_written_straight_on():
    question = "Write a Python unit test for the function add."
    chosen = await route(question, Document(text="def add(a, b): return a + b"), window=100_000)
    assert chosen.strategy == "direct"


async def test_a_long_document_is_read_in_passages_for_an_answer_in_a_form():
    chosen = await route("Who signed?", haystack(10, FACTS), response_format={"type": "object"})
    assert chosen.strategy == "document"


async def test_a_model_that_reads_beyond_its_window_is_sent_the_document_for_a_question_to_one_passage():
    chosen = await route("Who signed?", haystack(10, FACTS), beyond_window=True)
    assert chosen.strategy == "direct"
    assert "the model reads beyond its window by itself" in chosen.cause
    for question in ("List all the codes.", "What is the code of the person who is captain of the Aurora?"):
        assert (await route(question, haystack(10, FACTS), beyond_window=True)).strategy == "document"


async def test_a_model_that_was_trained_for_passages_is_given_passages_even_if_it_reads_beyond_its_window():
    chosen = await route("Who signed?", haystack(10, FACTS), passage=256, beyond_window=True)
    assert chosen.strategy == "document"


async def test_a_prompt_longer_than_the_window_is_answered_straight_and_the_route_says_that_the_model_can():
    question = f"{haystack(10, FACTS).text}\n\nWhat is the code of name3?"
    chosen = await route(question, beyond_window=True)
    assert chosen.strategy == "direct"
    assert chosen.cause.endswith("longer than the context window of 2,000 tokens, and the model reads it by itself.")
    assert "by itself" not in (await route(question)).cause


async def test_a_response_format_is_kept_rather_than_a_document_rewritten_piece_by_piece():
    chosen = await route("Translate it into German.", haystack(10, FACTS), response_format={"type": "object"})
    assert chosen.strategy == "direct"
    assert "response_format holds an answer as a whole" in chosen.cause
