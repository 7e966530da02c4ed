"""Parsers of what models and callers write, on texts that mean them ill: linear time, and no foreign error."""

import subprocess
import sys

import pytest
from hostile import FRAGMENTS, PARSERS
from hostile import __file__ as hostile_program
from hypothesis import given
from hypothesis import strategies as st
from patience import patience

from stretto import AsyncStretto
from stretto.strategies.outline import MOST_WORDS, OutlineParser
from stretto.testing import ScriptedBackend

CPU_S = 3  # of the processor's time for one text; linear parsers take about a tenth of it, quadratic ones much more


class Boundless(ScriptedBackend):
    """Writes on, whatever limit it is given."""

    def _chunks(self, prompt, options, reply):
        return super()._chunks(prompt, options.model_copy(update={"max_tokens": None}), reply)


HOSTILE = st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join)


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("parser", PARSERS)
def test_long_hostile_texts_are_read_within_a_limit_of_processor_time(parser):
    done = subprocess.run(
        [sys.executable, hostile_program, parser, str(round(patience(CPU_S)))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == "done", f"{done.stdout.splitlines()[-1]} {done.stderr[-500:]}"


@pytest.mark.parametrize("parser", PARSERS)
@given(text=HOSTILE)
def test_no_text_raises(parser, text):
    PARSERS[parser](text)


@given(HOSTILE, st.integers(1, 5))
def test_any_cutting_of_a_hostile_outline_gives_the_same_points(text, length):
    whole, pieces = OutlineParser(), OutlineParser()
    whole.feed(text)
    for at in range(0, len(text), length):
        pieces.feed(text[at : at + length])
    whole.finish()
    pieces.finish()
    assert pieces.points == whole.points
    assert (pieces.opening, pieces.closing, pieces.cut) == (whole.opening, whole.closing, whole.cut)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "outline",
    [
        "[" * 20_000,
        '{"a":' * 5_000,
        '[{"title": "Tea", "words": 1' + "0" * 400 + '}, {"title": "Milk", "words": 1' + "0" * 18 + "}]",
        '[{"title": "Tea", "words": true}, {"title": "Milk", "needs": [1' + "0" * 5_000 + "]}]",
        "1. Tea (needs " + "1" * 5_000 + ")\n2. Milk (999 words)",
    ],
    ids=["brackets", "objects", "huge lengths", "huge needs", "long number"],
)
async def test_no_outline_takes_an_answer_away_or_asks_for_a_length_without_bounds(outline):
    backend = Boundless({"Write only the outline": outline, "": "Some words."})
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask("How do I make tea?", strategy="skeleton")
    assert "Some words." in answer.text
    assert all((options.max_tokens or 0) <= 6 * MOST_WORDS for _, options in backend.calls)


def test_a_json_outline_goes_on_behind_a_line_that_became_void():
    parser = OutlineParser()
    parser.feed('["Tyres",\n"Chain",\n"Bra')
    parser.feed('\x18\n"Brakes",\n"Lights"]')
    parser.finish()
    assert [point.title for point in parser.points] == ["Tyres", "Chain", "Brakes", "Lights"]


def test_a_json_outline_that_comes_again_as_a_whole_gives_no_point_twice():
    parser = OutlineParser()
    parser.feed('["Tyres", "Chain", "Bra')
    parser.feed('\x18\n["Tyres", "Chain", "Brakes"]')
    parser.finish()
    assert [point.title for point in parser.points] == ["Tyres", "Chain", "Brakes"]
