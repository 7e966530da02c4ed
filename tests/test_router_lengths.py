"""What the straight answers of a model show of their length, and what the router makes of it."""

import re

import pytest

from stretto import AsyncStretto
from stretto.backends.base import Capabilities
from stretto.router.forecast import TOKENS_BY_SHAPE
from stretto.router.history import ENOUGH, history_of
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio

ASKED = "What are the main benefits of regular exercise?"
SHORT, LONG = "It keeps heart and mind well. " * 4, "It keeps heart and mind well, day after day. " * 60


def backend_of(text):
    backend = ScriptedBackend({"": text})
    backend.capabilities = Capabilities(context_window=8000, concurrent_calls=8)
    return backend


async def routed_after(text, **options):
    """The route of a question for points, after straight answers of this text."""
    backend = backend_of(text)
    async with AsyncStretto(backend) as stretto:
        for _ in range(ENOUGH):
            await stretto.ask(ASKED, **({"strategy": "direct"} | options))
        return await stretto.route(ASKED, preference="fastest")


async def test_a_model_whose_straight_answers_are_short_is_answered_straight():
    route = await routed_after(SHORT)
    assert (route.strategy, route.code) == ("direct", "gain")
    assert route.forecast["direct"].written < 60


async def test_long_straight_answers_make_the_next_one_expected_to_be_long():
    route = await routed_after(LONG)
    assert route.forecast["direct"].written > TOKENS_BY_SHAPE["points"] / 2


@pytest.mark.parametrize("options", [{"max_tokens": 20}, {"stop": ["mind"]}, {"n": 2}], ids=str)
async def test_answers_that_did_not_end_by_themselves_tell_nothing(options):
    assert (await routed_after(SHORT, **options)).forecast["direct"].written > 60


async def test_a_length_that_is_asked_for_is_none_of_the_model():
    backend = backend_of(SHORT)
    async with AsyncStretto(backend) as stretto:
        for _ in range(ENOUGH):
            await stretto.ask(f"{ASKED} Answer in 20 words.", strategy="direct")
    assert history_of(backend).usual_tokens("points") is None


async def test_two_answers_are_not_enough_and_another_model_another_matter():
    first, second = backend_of(SHORT), backend_of(LONG)
    for tokens in (30, 50):
        history_of(first).note_length("points", tokens)
    assert history_of(first).usual_tokens("points") is None
    history_of(first).note_length("points", 100)
    assert history_of(first).usual_tokens("points") == 60
    assert history_of(second).usual_tokens("points") is None


async def test_a_plan_is_asked_for_in_the_length_that_straight_answers_of_the_model_have():
    asked = []
    for text in (SHORT, LONG):
        backend = backend_of(text)
        async with AsyncStretto(backend) as stretto:
            for _ in range(ENOUGH):
                await stretto.ask(ASKED, strategy="direct")
            await stretto.ask(ASKED, strategy="skeleton")
        (prompt,) = (
            prompt.messages[-1].content for prompt, _ in backend.calls if "You plan" in prompt.messages[-1].content
        )
        sections, words = re.search(r'by " \| "\. (.*?); headings', prompt), re.search(r"has about (.*?) words", prompt)
        asked.append((words[1], sections[1]))
    assert asked == [("130 to 170", "2"), ("450 to 570", "2 to 4")]


async def test_a_length_that_is_asked_for_is_that_of_the_plan():
    backend = backend_of(LONG)
    async with AsyncStretto(backend) as stretto:
        await stretto.ask(f"{ASKED} Write 800 words.", strategy="skeleton")
    assert "has about 800 words" in backend.calls[0][0].messages[-1].content


def test_the_length_of_a_list_follows_from_the_list():
    backend = backend_of(SHORT)
    for _ in range(ENOUGH):
        history_of(backend).note_length("items", 30)
    assert history_of(backend).usual_tokens("items") is None
