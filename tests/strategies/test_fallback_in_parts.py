"""A part that one model cannot write is written by the next one, and stands with those of the first."""

import json

import pytest
from streaming import text_of
from test_fields import HELD, QUESTION, Report, obliging
from test_rewrite import PARAGRAPHS, TEXT, piece_of
from test_rewrite_edits import LIST, changes

from stretto import AsyncStretto
from stretto.testing import Reply, ScriptedBackend
from stretto.values.errors import ServerFailedError

pytestmark = pytest.mark.anyio

DOWN = Reply(fault=ServerFailedError("own:a is down.", backend="own:a"))


async def ask(reply, fails, question, strategy, **options):
    """The answer of two models that reply alike, the first of which fails at such prompts; and the second's calls."""
    main = ScriptedBackend(lambda prompt: DOWN if fails(prompt) else reply(prompt), name="own:a", capabilities=HELD)
    other = ScriptedBackend(reply, name="own:b", capabilities=HELD)
    async with AsyncStretto(main, fallback=[other]) as stretto:
        answer = await stretto.ask(question, strategy=strategy, **options)
    assert answer.strategy == strategy
    assert any(warning.code == "fallback" and "own:b" in warning for warning in answer.warnings)
    assert len([each for each in answer.branches if each.writers]) >= 1
    return answer, other


@pytest.mark.parametrize("part", ["only these fields now", "only the field `findings`", "element 2 of `chapters`"])
async def test_a_part_of_a_record(part):
    answer, other = await ask(
        obliging, lambda prompt: part in text_of(prompt), QUESTION, "fields", response_format=Report
    )
    assert answer.parsed == Report.model_validate_json(answer.text)
    assert list(json.loads(answer.text)) == list(Report.model_fields)
    assert part in text_of(other.calls[0][0])


@pytest.mark.parametrize("number", [0, 5])
async def test_a_piece_of_a_text(number):
    answer, other = await ask(
        lambda prompt: piece_of(prompt).upper() or "{}",
        lambda prompt: PARAGRAPHS[number] in piece_of(prompt),
        f"Translate this text into German:\n\n{TEXT}",
        "rewrite",
    )
    assert answer.text == TEXT.upper()
    assert PARAGRAPHS[number] in piece_of(other.calls[0][0])


async def test_a_list_of_changes():
    wrong = TEXT.replace("Paragraph 7 of the letter", "Paragraph 7 of teh leter", 1)

    def reply(prompt):
        assert LIST in text_of(prompt)
        return changes(("7 of teh leter is", "7 of the letter is")) if "teh leter" in piece_of(prompt) else changes()

    answer, other = await ask(
        reply,
        lambda prompt: "teh leter" in piece_of(prompt),
        f"Correct the spelling of this text:\n\n{wrong}",
        "rewrite",
    )
    assert answer.text == TEXT
    assert "teh leter" in piece_of(other.calls[0][0])
