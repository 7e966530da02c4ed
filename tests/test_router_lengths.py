"""What the straight answers of a model show of their length, and what the router makes of it."""

from dataclasses import replace

import pytest

from stretto import AsyncStretto
from stretto.backends.base import Capabilities
from stretto.router.forecast import TOKENS_BY_SHAPE, Speed
from stretto.router.lengths import ENOUGH, lengths_of
from stretto.strategies.skeleton_offer import SMALL_POINT, skeleton_forecast
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
        return await stretto.route(ASKED)


async def test_a_model_whose_straight_answers_are_short_is_asked_for_no_points():
    route = await routed_after(SHORT)
    assert route.strategy == "direct"
    assert "too little gained" in route.reason
    assert route.forecast["direct"].written < 60


async def test_one_whose_straight_answers_are_long_is():
    route = await routed_after(LONG)
    assert route.strategy == "skeleton"
    assert route.forecast["direct"].written > TOKENS_BY_SHAPE["points"] / 2


@pytest.mark.parametrize("options", [{"max_tokens": 20}, {"stop": ["mind"]}, {"n": 2}], ids=str)
async def test_answers_that_did_not_end_by_themselves_tell_nothing(options):
    assert (await routed_after(SHORT, **options)).strategy == "skeleton"


async def test_a_length_that_is_asked_for_is_none_of_the_model():
    backend = backend_of(SHORT)
    async with AsyncStretto(backend) as stretto:
        for _ in range(ENOUGH):
            await stretto.ask(f"{ASKED} Answer in 20 words.", strategy="direct")
    assert lengths_of(backend).typical("points") is None


async def test_two_answers_are_not_enough_and_another_model_another_matter():
    first, second = backend_of(SHORT), backend_of(LONG)
    for tokens in (30, 50):
        lengths_of(first).note("points", tokens)
    assert lengths_of(first).typical("points") is None
    lengths_of(first).note("points", 100)
    assert lengths_of(first).typical("points") == 60
    assert lengths_of(second).typical("points") is None


async def test_short_answers_of_a_weak_model_do_not_count_since_they_never_wait_for_points():
    backend = backend_of(SHORT)
    lengths = lengths_of(backend)
    for tokens in (20, 400, 30, 300, 25):
        lengths.note("points", tokens)
    assert lengths.typical("points", least=64) == 155  # two long ones are not enough
    lengths.note("points", 500)
    assert lengths.typical("points", least=64) == 400
    async with AsyncStretto(backend) as stretto:
        usual = (await stretto.route(ASKED)).forecast["direct"].written
        backend.capabilities = replace(backend.capabilities, prompt_family="small")
        weak = (await stretto.route(ASKED)).forecast["direct"].written
    assert (usual, weak) == (212, 400)


async def test_the_outlines_of_a_model_say_what_an_outline_takes():
    backend = ScriptedBackend({"Write only the outline": "1. Heart\n2. Sleep\n3. Mood", "": LONG})
    backend.capabilities = Capabilities(context_window=8000, concurrent_calls=8)
    async with AsyncStretto(backend) as stretto:
        before = (await stretto.route(ASKED)).forecast["skeleton"].seconds
        for _ in range(ENOUGH):
            await stretto.ask(ASKED, strategy="skeleton")
        after = await stretto.route(ASKED)
    assert lengths_of(backend).typical("outline") < 10
    assert lengths_of(backend).typical("point") is not None
    assert after.forecast["skeleton"].seconds < before


def test_the_length_of_a_list_follows_from_the_list():
    backend = backend_of(SHORT)
    for _ in range(ENOUGH):
        lengths_of(backend).note("items", 30)
    assert lengths_of(backend).typical("items") is None


def test_the_slowest_point_of_a_weak_model_is_as_long_as_it_may_be():
    speed = Speed(0.0, 10.0, 8)
    nearly, all_of_it = (skeleton_forecast(speed, 0, 900, small=True, point=length) for length in (50, SMALL_POINT))
    assert nearly.seconds == all_of_it.seconds
    assert nearly.written < all_of_it.written
