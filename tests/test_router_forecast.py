import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.backends.base import Capabilities
from stretto.router import Router
from stretto.router.forecast import SPECULATION, TOKENS_BY_SHAPE, Speed, answer_tokens, direct_forecast, speed_of
from stretto.router.parse import Parse
from stretto.router.shape import SHAPES
from stretto.strategies.items.items_offer import items_forecast
from stretto.strategies.skeleton.skeleton_offer import sections_forecast
from stretto.testing import ScriptedBackend
from stretto.values.request import Request
from stretto.values.route import DecodingForecast

REMOTE = Speed(first_token_s=0.5, tokens_per_s=50.0, concurrent_calls=16)


def forecast(shape, speed, *, prompt_tokens, items=0, words=None, max_tokens=None):
    """What the strategies of the library put into their offers."""
    answer = answer_tokens(shape, words=words, max_tokens=max_tokens)
    found = {
        "direct": direct_forecast(speed, prompt_tokens, answer),
    }
    return found | ({"items": items_forecast(speed, prompt_tokens, answer, items)} if items > 1 else {})


def test_a_straight_answer_takes_the_first_token_and_then_its_length():
    prospect = forecast("points", REMOTE, prompt_tokens=20, max_tokens=100)["direct"]
    assert (prospect.seconds, prospect.tokens, prospect.calls) == (2.5, 120, 1)


def route(family, **options):
    able = Capabilities(prompt_family=family, concurrent_calls=options.pop("slots", 16))
    backend = ScriptedBackend({}, name="openai:any", capabilities=able)
    return Router().decide(Request.of("How do I look after a bicycle?", **options), {"main": backend})


@pytest.mark.parametrize(("family", "calls"), [("general", 4), ("pocket", 7)])
def test_parts_are_faster_and_dearer(family, calls):
    found = route(family, preference="fastest").forecast
    assert found["skeleton"].seconds < found["direct"].seconds
    assert found["skeleton"].tokens > found["direct"].tokens
    assert found["skeleton"].calls == calls


MEASURED = json.loads((Path(__file__).parents[1] / "benchmarks" / "results" / "planned.json").read_text("utf-8"))


@pytest.mark.parametrize("rate", [60, 150])
@pytest.mark.parametrize("preference", ["fastest", "balanced"])
def test_answers_in_sections_are_expected_to_take_what_was_measured(rate, preference):
    rows = {row["way"]: row for row in MEASURED["rates"][str(rate)]["rows"] if row["of"] == "all"}
    straight, planned = rows["straight"]["wall_s"][0], rows[f"planned, {preference}"]["wall_s"][0]
    case = SimpleNamespace(
        speed=Speed(first_token_s=0.4, tokens_per_s=rate, concurrent_calls=16),
        answer_tokens=round((straight - 0.4) * rate),
        prompt_tokens=13,
        measured=None,
        request=(asked := Request.of("How?", preference=preference)),
        parse=Parse.of(asked),
    )
    assert sections_forecast(case).seconds == pytest.approx(planned, rel=0.06)


def test_fewer_slots_mean_more_waves():
    few, many = (route("pocket", slots=slots).forecast["skeleton"].seconds for slots in (3, 16))
    assert few > many


def test_what_drafts_won_in_code_or_loops_is_not_expected_of_an_answer_in_points():
    seen = DecodingForecast(step_ms=12.0, ms_per_token=3.0, tokens_per_step=4.0)
    rates = {shape: speed_of("local:any", Capabilities(), decoding=seen, shape=shape).tokens_per_s for shape in SHAPES}
    assert rates["code"] == pytest.approx(1000 / 3)
    assert rates["points"] == pytest.approx(1000 / 12 * SPECULATION)


def test_a_length_asked_for_replaces_the_usual_one():
    short, long = (forecast("prose", REMOTE, prompt_tokens=20, words=words)["direct"] for words in (100, 1000))
    assert long.seconds > short.seconds


@pytest.mark.parametrize(("items", "there"), [(0, False), (1, False), (2, True), (40, True)])
def test_items_are_forecast_from_two_on(items, there):
    assert ("items" in forecast("items", REMOTE, prompt_tokens=50, items=items)) is there


@pytest.mark.parametrize(("items", "calls"), [(5, 5), (16, 16), (17, 9), (160, 16), (1920, 160)])
def test_more_items_than_slots_share_calls(items, calls):
    assert forecast("items", REMOTE, prompt_tokens=50, items=items)["items"].calls == calls


def test_a_model_in_this_process_is_assumed_slower():
    local, remote = speed_of("local:pocket", Capabilities()), speed_of("openai:gpt", Capabilities())
    assert local.tokens_per_s < remote.tokens_per_s


def test_every_shape_has_a_usual_length():
    assert set(TOKENS_BY_SHAPE) == set(SHAPES)


@given(
    st.sampled_from(SHAPES),
    st.integers(1, 64),
    st.integers(0, 10**6),
    st.integers(0, 100),
    st.none() | st.integers(1, 10**5),
)
def test_no_forecast_is_free_or_endless(shape, concurrent_calls, prompt_tokens, items, words):
    found = forecast(shape, Speed(0.5, 50.0, concurrent_calls), prompt_tokens=prompt_tokens, items=items, words=words)
    assert all(0 < each.seconds < 1e6 and each.tokens > 0 and each.calls > 0 for each in found.values())
