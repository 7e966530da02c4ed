"""Parsers of what models and callers write, on texts that mean them ill: linear time, and no foreign error."""

import sys

import pytest
import warm
from hostile import FRAGMENTS, PARSERS
from hostile import __file__ as hostile_program
from hypothesis import given
from hypothesis import strategies as st
from patience import patience

from stretto import AsyncStretto
from stretto.strategies.skeleton.outline import OutlineParser
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
    command = [sys.executable, hostile_program, parser, str(round(patience(CPU_S)))]
    done = warm.run(command, timeout=patience(500))
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
    assert pieces.cut == whole.cut


@pytest.mark.anyio
@pytest.mark.parametrize("form", ["sections", "points"])
@pytest.mark.parametrize("written", ["[" * 20_000, "1. Tea " + "1" * 5_000 + "\n2. Milk", "Opening: A | " * 5_000])
async def test_no_plan_takes_an_answer_away(form, written):
    backend = Boundless({"Write only the outline|You plan the answer": written, "": "Some words."})
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask("How do I make tea?", strategy="skeleton", strategy_options={"form": form})
    assert "Some words." in answer.text
