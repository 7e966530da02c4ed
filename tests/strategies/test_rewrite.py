"""A given text that is rewritten in pieces: how it is cut, put together and checked."""

import re

import anyio
import pytest
from streaming import streamed, text_of

from stretto import AsyncStretto
from stretto.strategies.rewrite.terms import Shared
from stretto.testing import Reply, ScriptedBackend
from stretto.values.errors import IncompleteAnswerError, ServerFailedError

pytestmark = pytest.mark.anyio

PIECE = re.compile(r"(?P<fence>=== [0-9a-f]+ ===) piece\n(?P<piece>.*?)\n(?P=fence) after", re.DOTALL)
PARAGRAPHS = [
    f"Paragraph {number} of the letter is here, and it says what has to be said of it." * 4 for number in range(12)
]
TEXT = "\n\n".join(PARAGRAPHS)
QUESTION = f"Translate this text into German:\n\n{TEXT}"


def piece_of(prompt):
    """The piece that a call is to rewrite; empty for a call that agrees on terms."""
    found = PIECE.search(text_of(prompt))
    return found["piece"] if found else ""


def writer(change=str.upper, terms="{}"):
    """A model that changes each piece so, and agrees on these terms."""

    def reply(prompt):
        piece = piece_of(prompt)
        return change(piece) if piece else terms

    return ScriptedBackend(reply)


async def ask(backend, question=QUESTION, **request):
    return (await streamed(backend, question, strategy="rewrite", **request))[0]


async def test_pieces_are_written_side_by_side_and_put_together_in_order():
    backend = writer()
    answer = await ask(backend)
    assert answer.text == TEXT.upper()
    assert backend.most_running > 3
    assert {branch.kind for branch in answer.branches} == {"terms", "piece"}
    assert (answer.strategy, answer.warnings, answer.finish_reason) == ("rewrite", (), "stop")


async def test_the_first_piece_streams_while_the_others_and_the_terms_wait():
    hold = anyio.Event()
    backend = ScriptedBackend(lambda prompt: "EINS" if PARAGRAPHS[0] == piece_of(prompt) else Reply("{}", hold=hold))
    async with AsyncStretto(backend) as stretto, stretto.stream(QUESTION, strategy="rewrite") as stream:
        async for event in stream:
            if event.type == "text_delta":
                assert event.text.startswith("EINS")
                hold.set()
                break
        async for _ in stream:
            pass


async def test_layout_code_and_front_matter_are_copied():
    source = (
        "---\ntitle: kept\n---\n\n# Heading one\n\n\n\nA paragraph with words. "
        + "More of it. " * 40
        + "\n\n```py\nx = 'kept'\n```\n\n"
        "- item one\n- item two\n\n***\n\n| head | col |\n|------|-----|\n| cell | two |\n| more | row |\n\n[ref]: http://x.org/kept\n"
    )
    answer = await ask(writer(str.upper), f"Translate this text into German:\n\n{source}")
    changed = source.upper()
    for kept in ("---\ntitle: kept\n---", "```py\nx = 'kept'\n```", "[ref]: http://x.org/kept"):
        changed = changed.replace(kept.upper(), kept)
    assert answer.text == changed.rstrip()


async def test_what_a_piece_lost_is_asked_for_once_more_and_then_told():
    question = QUESTION.replace("Paragraph 5", "[Paragraph](https://example.org/5) with {name} and 1,234")
    tries = []

    def reply(prompt):
        piece = piece_of(prompt)
        if "example.org" in piece:
            tries.append(text_of(prompt))
            if len(tries) == 1:
                return piece.replace("(https://example.org/5)", "").replace("1,234", "1.234")
        return piece or "{}"

    answer = await ask(ScriptedBackend(reply), question)
    assert answer.text == question.partition("\n\n")[2]
    assert len(tries) == 2
    assert "links are missing: https://example.org/5" in tries[1]
    assert answer.warnings == ()
    told = await ask(writer(lambda piece: piece.replace("{name}", "Name")), question)
    assert [(w.code, "{name}." in w) for w in told.warnings] == [("kept", True)]


async def test_a_piece_that_cannot_be_written_stands_as_it_was_and_the_others_are_there():
    def reply(prompt):
        piece = piece_of(prompt)
        if "Paragraph 7" in piece:
            return Reply("", fault=ServerFailedError("The server failed.", backend="scripted:model"))
        return piece.upper() or "{}"

    answer = await ask(ScriptedBackend(reply))
    missing = next(branch for branch in answer.branches if branch.status == "failed")
    assert missing.text == ""
    assert PARAGRAPHS[7] in answer.text
    assert PARAGRAPHS[6].upper() in answer.text
    assert {(warning.code, warning.part) for warning in answer.warnings} == {("part_missing", missing.id)}


async def test_a_text_that_is_to_be_hidden_is_never_left_as_it_was():
    def reply(prompt):
        piece = piece_of(prompt)
        if "Paragraph 7" in piece:
            return Reply("", fault=ServerFailedError("The server failed.", backend="scripted:model"))
        return piece.upper()

    answer = await ask(
        ScriptedBackend(reply), QUESTION.replace("Translate this text into German", "Redact all names in this text")
    )
    assert PARAGRAPHS[7] not in answer.text


@pytest.mark.parametrize("said", ["I'm sorry, but I can't help with that.", "ok", "Es tut mir leid."])
@pytest.mark.parametrize("on_missing", ["note", "omit", "raise"])
async def test_a_refusal_in_prose_never_takes_the_place_of_a_piece(said, on_missing):
    question = QUESTION.replace("Paragraph 5", "A paragraph")
    backend = writer(lambda piece: said if "A paragraph" in piece else piece.upper())
    if on_missing == "raise":
        with pytest.raises(IncompleteAnswerError):
            await ask(backend, question, on_missing=on_missing)
        return
    answer = await ask(backend, question, on_missing=on_missing)
    assert said not in answer.text
    assert ("A paragraph of the letter" in answer.text) == (on_missing == "note")
    assert PARAGRAPHS[6].upper() in answer.text
    assert len([each for each in answer.warnings if each.code == "part_missing"]) == 1


async def test_a_refusal_in_prose_is_asked_for_once_more():
    replies = ["I can't help with that.", PARAGRAPHS[5].upper()]
    answer = await ask(writer(lambda piece: replies.pop(0) if piece == PARAGRAPHS[5] else piece.upper()))
    assert (answer.text, answer.warnings) == (TEXT.upper(), ())


@pytest.mark.parametrize(
    ("order", "written"),
    [
        ("Translate this text into Chinese", "这里是信的第5段，它说了必须说的话。" * 4),
        ("Shorten this text", "Paragraph 5 speaks."),
    ],
)
async def test_a_text_that_is_short_for_a_reason_stands(order, written):
    question = QUESTION.replace("Translate this text into German", order)
    answer = await ask(writer(lambda piece: written if piece == PARAGRAPHS[5] else piece.upper()), question)
    assert written in answer.text
    assert answer.warnings == ()


async def test_terms_are_agreed_on_once_and_told_to_every_writer_but_the_first():
    question = QUESTION.replace("letter", "Kingdom letter")
    backend = writer(
        lambda piece: piece.replace("Kingdom", "Reich"),
        '{"terms": {"Kingdom": "Reich", "absent": "x"}, "voice": "formal"}',
    )
    answer = await ask(backend, question)
    told = [text_of(prompt) for prompt, _ in backend.calls if piece_of(prompt)]
    assert (
        sum("- Kingdom: Reich" in text and "Voice: formal" in text and "absent" not in text for text in told)
        == len(told) - 1
    )
    assert answer.warnings == ()


async def test_one_form_of_headings_and_one_of_instructions_is_told_to_every_writer_but_the_first():
    backend = writer(
        terms='{"terms": {}, "voice": "formal", "headings": "infinitive:\\nKette prüfen",'
        ' "instructions": "formal address: Prüfen Sie die Kette"}'
    )
    await ask(backend)
    told = "Voice: formal\nHeadings: infinitive: Kette prüfen\nInstructions: formal address: Prüfen Sie die Kette\n"
    pieces = [text_of(prompt) for prompt, _ in backend.calls if piece_of(prompt)]
    assert sum(told in text for text in pieces) == len(pieces) - 1
    (agreeing,) = (text_of(prompt) for prompt, _ in backend.calls if not piece_of(prompt))
    assert all(name in agreeing for name in ('"voice"', '"headings"', '"instructions"'))


def test_what_explains_a_rendering_is_left_out_of_it():
    shared = Shared({})
    shared.take('{"terms": {"demand": "demand (how much people want)"}, "voice": "you"}', "The demand grew.")
    assert shared.as_text == "- demand: demand\nVoice: you"


def test_only_a_term_that_stands_in_a_piece_can_be_rendered_otherwise():
    shared = Shared({"scratcher": "Kratzbaum", "PR": "PR", "practice": "s'entraîner", "猫": "cat"})
    told = ("The scratchers. A PR. Practice. 猫です。", "Die Kratzbäume. Ein PR. Entraînez-vous. A cat.")
    for source, result in [
        ("Scratching is normal.", "Kratzen ist normal."),
        ("Prefer finishing.", "Schließe lieber ab."),
        ("Practical tips.", "Conseils."),
    ]:
        assert shared.uneven([told, (source, result)]) == []
    assert shared.uneven([told, ("A scratcher and 猫。", "Ein Möbel.")]) == ["scratcher", "猫"]


async def test_terms_of_the_caller_are_kept_to_and_uneven_ones_told():
    question = QUESTION.replace("letter", "saddle")
    wrong = await ask(
        writer(lambda piece: piece.replace("saddle", "Sitz" if "Paragraph 5" in piece else "Sattel")),
        question,
        strategy_options={"terms": {"saddle": "Sattel"}},
    )
    assert [(w.part, '"Sattel"' in w) for w in wrong.warnings] == [("piece-6-again", True), (None, False)]
    assert '"saddle"' in wrong.warnings[1]


async def test_announcements_and_fences_around_a_piece_are_left_out():
    answer = await ask(writer(lambda piece: f"Here is the translation:\n\n```\n{piece.upper()}\n```\n"))
    assert answer.text == TEXT.upper()


async def test_without_a_text_it_answers_in_one_piece_and_says_so():
    answer = await ask(ScriptedBackend({"": "Yes."}), "Is water wet?")
    assert (answer.text, answer.strategy) == ("Yes.", "direct")
    assert [warning.code for warning in answer.warnings] == ["strategy"]


@pytest.mark.parametrize(
    ("question", "system", "task"),
    [
        (f"Correct the spelling of this text.\n\n{TEXT}", None, "Correct the spelling"),
        (f"{TEXT}\n\nTranslate the text above into French.", None, "Translate the text above"),
        (f"Übersetze diesen Text ins Englische:\n{TEXT}", None, "Übersetze"),
        (TEXT, "You are a translator. Translate everything the user writes into German.", "You are a translator"),
        (f"Make this friendlier:\n<text>\n{TEXT}\n</text>", None, "Make this friendlier"),
        (f"Make the tone of this text formal:\n<text>\n{TEXT}\n</text>", None, "Make the tone of this text formal"),
    ],
)
async def test_the_task_and_the_text_are_told_apart(question, system, task):
    backend = writer()
    answer = await ask(backend, question, system=system, strategy_options={"way": "pieces"})
    assert answer.text == TEXT.upper()
    assert all(task in text_of(prompt) for prompt, _ in backend.calls)
