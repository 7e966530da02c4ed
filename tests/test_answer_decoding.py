"""How a local model decoded an answer, from the request to the figures; on the pocket model."""

import pytest

from stretto import Answer, AsyncStretto, DecodingStats, GenerationOptions
from stretto.testing import ScriptedBackend
from stretto.values.errors import InvalidRequestError

pytestmark = pytest.mark.anyio
QUESTION = "How do I look after a bicycle?"
ITEMS = "Give the plural of each word: cat, child, mouse"


@pytest.mark.thorough
async def test_an_answer_in_parts_adds_up_the_figures_of_its_branches():
    async with AsyncStretto("local:pocket") as stretto:
        answer = await stretto.ask(ITEMS, strategy="items", decoding="suffix")
        again = await stretto.route(QUESTION, decoding="suffix")
    assert answer.route.decoding == "suffix"
    assert len(answer.branches) == 3
    assert sum(branch.decoding.tokens for branch in answer.branches) == answer.decoding.tokens
    assert answer.decoding.methods == ("suffix",)
    assert answer.decoding.tokens == answer.usage.completion_tokens - len(answer.branches)
    assert set(answer.decoding.acceptance) <= {"suffix"}
    assert Answer.model_validate_json(answer.model_dump_json()) == answer
    assert again.decoding_forecast.measured_steps == answer.decoding.steps


@pytest.mark.thorough
async def test_the_router_names_the_decoding_where_nobody_else_does():
    async with AsyncStretto("local:pocket") as stretto:
        answer = await stretto.ask(QUESTION, max_tokens=20)
    assert answer.decoding.methods == (answer.route.decoding,)
    assert answer.route.decoding_reason


async def test_a_backend_without_decoding_methods_leaves_one_out_and_warns():
    backend = ScriptedBackend({"": "A plain answer."}, name="openai:scripted")
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask(QUESTION, decoding="auto", strategy="direct")
        with pytest.raises(InvalidRequestError, match="no decoding method 'turbo'"):
            await stretto.ask(QUESTION, decoding="turbo")
    assert [warning.code for warning in answer.warnings] == ["option"]
    assert answer.decoding is None
    assert backend.calls[0][1] == GenerationOptions()


def test_figures_are_added_up_and_written_with_their_averages():
    one = DecodingStats(
        methods=("auto",), steps=10, rows=40, tokens=25, drafted={"suffix": 30}, accepted={"suffix": 15}
    )
    both = one + DecodingStats(methods=("suffix",), steps=10, rows=10, tokens=10)
    assert both.methods == ("auto", "suffix")
    assert (both.tokens_per_step, both.rows_per_step, both.acceptance) == (1.75, 2.5, {"suffix": 0.5})
    assert both.model_dump()["tokens_per_step"] == 1.75
    assert DecodingStats.model_validate_json(both.model_dump_json()) == both
