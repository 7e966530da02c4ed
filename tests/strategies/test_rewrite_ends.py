"""Rewritten texts that end early: refusals, limits, deadlines, readers who leave."""

import pytest
from streaming import streamed, text_of
from test_rewrite import PARAGRAPHS, QUESTION, TEXT, piece_of, writer

from stretto import AsyncStretto, Budget, BudgetExceededError
from stretto.testing import Reply, ScriptedBackend
from stretto.values.errors import ServerFailedError

pytestmark = pytest.mark.anyio

SORRY = "I'm sorry, but I can't help with that text."
RENAME = QUESTION.replace("Translate this text into German", 'Rename "letter" to "mail" in this text')


def first_piece(said, others=str.upper):
    """A model that says this in place of the first piece."""
    return writer(lambda piece: said if PARAGRAPHS[0] in piece else others(piece))


async def ask(backend, question=QUESTION, **request):
    return await streamed(backend, question, strategy="rewrite", **request)


def chunked(text, size=4, **reply):
    return Reply(chunks=[text[at : at + size] for at in range(0, len(text), size)], **reply)


@pytest.mark.parametrize(
    "said",
    [SORRY, chunked(SORRY), chunked(SORRY, finish_reason="refusal"), "Es tut mir leid."],
    ids=["prose", "prose in pieces", "told by the server", "German"],
)
async def test_a_refusal_is_never_joined_with_rewritten_pieces(said):
    answer, _ = await ask(first_piece(said))
    assert answer.text == "\n\n".join([PARAGRAPHS[0], *(each.upper() for each in PARAGRAPHS[1:])])
    assert answer.finish_reason == "refusal"
    assert [warning.code for warning in answer.warnings] == ["part_missing"]


async def test_a_refusal_in_other_words_that_is_told_at_its_end_stands_alone():
    said = "This is against the rules."
    answer, _ = await ask(first_piece(chunked(said, finish_reason="refusal")))
    assert (answer.text.strip(), answer.finish_reason) == (said, "refusal")


async def test_a_first_piece_that_is_refused_once_is_asked_for_again():
    replies = [chunked(SORRY), PARAGRAPHS[0].upper()]
    answer, _ = await ask(writer(lambda piece: replies.pop(0) if PARAGRAPHS[0] in piece else piece.upper()))
    assert (answer.text, answer.finish_reason, answer.warnings) == (TEXT.upper(), "stop", ())


@pytest.mark.parametrize("question", [QUESTION, RENAME], ids=["pieces", "edits"])
async def test_a_text_whose_pieces_are_all_refused_is_asked_for_in_one_piece(question):
    def reply(prompt):
        return Reply(SORRY, finish_reason="refusal")

    answer, events = await ask(ScriptedBackend(reply), question)
    assert (answer.text, answer.strategy, answer.finish_reason) == (SORRY, "direct", "refusal")
    assert answer.warnings[0].code == "strategy"
    assert "".join(event.text for event in events if event.type == "text_delta") == SORRY


async def test_a_text_that_begins_with_an_apology_is_written_all_the_same():
    question = QUESTION.replace(PARAGRAPHS[0], f"Es tut mir leid. {PARAGRAPHS[0]}")
    answer, _ = await ask(writer(lambda piece: piece.replace("Es tut mir leid", "I'm sorry")), question)
    assert answer.text.startswith("I'm sorry. Paragraph 0")
    assert (answer.finish_reason, answer.warnings) == ("stop", ())


async def test_a_filter_that_stops_what_is_shown_ends_it_there():
    half = PARAGRAPHS[0][:100].upper()
    answer, _ = await ask(first_piece(chunked(half, finish_reason="content_filter")))
    assert answer.text.startswith(half + " […")
    assert answer.text.count("PARAGRAPH 0") == half.count("PARAGRAPH 0")
    assert answer.text.endswith(PARAGRAPHS[11].upper())
    assert answer.finish_reason == "content_filter"


@pytest.mark.parametrize("question", [QUESTION, RENAME], ids=["pieces", "edits"])
async def test_nothing_is_shown_where_nothing_could_be_written(question):
    down = ServerFailedError("The server failed.", backend="scripted:model")
    shown = []
    async with AsyncStretto(ScriptedBackend(lambda _: Reply("", fault=down))) as stretto:
        with pytest.raises(ServerFailedError):
            async with stretto.stream(question, strategy="rewrite") as stream:
                shown = [event async for event in stream if event.type == "text_delta"]
    assert shown == []


@pytest.mark.leaping
async def test_at_its_deadline_only_checked_pieces_are_shown():
    backend = writer(
        lambda piece: (
            Reply(chunks=["HALF OF IT", "more"], chunk_delay_s=99) if PARAGRAPHS[5] in piece else piece.upper()
        )
    )
    answer, _ = await ask(backend, deadline_s=2)
    assert answer.finish_reason == "deadline"
    assert "HALF OF IT" not in answer.text
    assert set(answer.text.split("\n\n")) <= {*PARAGRAPHS, *(each.upper() for each in PARAGRAPHS)}


async def test_a_reader_who_leaves_has_checked_pieces_only_and_ends_every_call():
    backend = writer(
        lambda piece: (
            Reply(chunks=["HALF OF IT", " more"], chunk_delay_s=99) if PARAGRAPHS[3] in piece else piece.upper()
        )
    )
    shown = ""
    async with AsyncStretto(backend) as stretto:
        async with stretto.stream(QUESTION, strategy="rewrite") as stream:
            async for event in stream:
                shown += event.text if event.type == "text_delta" else ""
                if PARAGRAPHS[2].upper() in shown:
                    break
        assert shown.strip() == "\n\n".join(PARAGRAPHS[:3]).upper()
        assert backend.running == 0


@pytest.mark.parametrize("question", [QUESTION, RENAME], ids=["pieces", "edits"])
@pytest.mark.parametrize("total", range(100, 6000, 500))
async def test_a_small_budget_of_tokens_leaves_what_was_written_or_shows_nothing(question, total):
    def reply(prompt):
        if '{"changes"' in text_of(prompt):
            return '{"changes": [{"old": "letter", "new": "mail"}]}'
        piece = piece_of(prompt)
        return piece.upper() if piece else "{}"

    shown = ""
    try:
        async with AsyncStretto(ScriptedBackend(reply)) as stretto:
            async with stretto.stream(question, strategy="rewrite", budget=Budget(max_tokens_total=total)) as stream:
                async for event in stream:
                    shown += event.text if event.type == "text_delta" else ""
            answer = stream.answer
    except BudgetExceededError:
        assert shown == ""
        assert total < 1100  # not even the straight answer's prompt fits
        return
    assert answer.usage.total_tokens <= total
    written = [
        each for each in PARAGRAPHS if each.upper() in answer.text or each.replace("letter", "mail") in answer.text
    ]
    assert written or answer.text.strip()  # the budget may end in the first piece
    assert answer.finish_reason == ("stop" if len(written) == len(PARAGRAPHS) else "budget")
    assert all(warning.code in ("part_missing", "budget") for warning in answer.warnings)
