import pytest

from stretto.backends.base import Capabilities, Measured
from stretto.local_engine.drafting.catalogue import DRAFTERS, LOSSY
from stretto.router import Router
from stretto.router.decoding import HOT
from stretto.router.forecast import decoding_forecast, speed_of
from stretto.testing import ScriptedBackend
from stretto.values.errors import InvalidRequestError
from stretto.values.request import Request
from stretto.values.token_records import DecodingStats

CODE = "Implement a binary search in Python."
POINTS = "What are the advantages of electric cars?"
POEM = "Write a poem about the harbour at night."
METHODS = tuple(name for name in DRAFTERS if name != "draft_model")
STEPS = {1: 4.0, 2: 4.2, 4: 4.4, 8: 5.0, 16: 8.0}
SEEN = DecodingStats(
    methods=("auto",), steps=100, rows=800, tokens=300, drafted={"suffix": 700}, accepted={"suffix": 200}
)


class Measuring(ScriptedBackend):
    """Says how fast it is."""

    speed = None

    def measured(self):
        return self.speed


def decided(prompt, *, decodings=METHODS, decoding=None, measured=None, **options):
    capabilities = Capabilities(decodings=decodings, decoding=decoding)
    local = Measuring({}, name="local:scripted", capabilities=capabilities)
    local.speed = measured
    return Router().decide(Request.of(prompt, **options), {"main": local})


@pytest.mark.parametrize(
    ("prompt", "options"),
    [
        (CODE, {}),
        ("Rewrite this text in the past tense: The bicycle lives in a dry place. Its chain is oiled.", {}),
        ("Where does the bicycle live?", {"documents": ["The bicycle lives in a dry place."]}),
        ("Give me the name and the town of the writer as a JSON object: Ada Lovelace lived in London.", {}),
    ],
)
def test_what_repeats_its_prompt_or_itself_is_drafted_deep(prompt, options):
    route = decided(prompt, **options)
    assert route.decoding == "auto"
    assert route.decoding_reason.startswith("Decoded with auto, for deep drafts: ")


@pytest.mark.parametrize("prompt", [POEM, "Write an essay about solitude.", "What is the capital of Mongolia?"])
def test_open_text_is_left_to_the_method_that_cuts_its_drafts_to_what_pays(prompt):
    route = decided(prompt)
    assert route.decoding == "auto"
    assert route.decoding_reason == "Decoded with auto, for short drafts: this text repeats little."


@pytest.mark.parametrize(
    "prompt",
    [
        "What are the advantages and disadvantages of keeping bees in a city?",
        "Write 12 slogans for a shop that repairs umbrellas.",
    ],
)
def test_parts_that_are_written_side_by_side_are_drafted_for_only_where_a_step_is_known_to_be_long(prompt):
    unknown, short, long = (
        decided(prompt, measured=measured)
        for measured in (None, Measured(step_ms=STEPS), Measured(step_ms={1: 40.0, 64: 80.0}))
    )
    assert [unknown.decoding, short.decoding, long.decoding] == ["autoregressive", "autoregressive", "auto"]
    assert "share a step (not measured yet)" in unknown.decoding_reason
    assert "4.0 ms here, less than 10" in short.decoding_reason
    assert "a step takes 40 ms here" in long.decoding_reason
    assert decided(prompt, decodings=("suffix", "autoregressive"), measured=Measured({1: 40.0})).decoding == (
        "autoregressive"
    )


def test_a_lossy_method_is_never_chosen_but_named_as_lossy_where_the_caller_does():
    assert set(METHODS) & LOSSY
    for prompt in (
        CODE,
        POINTS,
        POEM,
        "Extract the town: Ada lived in London.",
        "Is this review positive: Great tent.",
    ):
        for options in ({}, {"temperature": 0.7}, {"documents": ["The bicycle lives in a dry place."]}):
            for measured in (None, Measured({1: 40.0, 2: 41.0}, {"auto": SEEN})):
                assert decided(prompt, measured=measured, **options).decoding not in LOSSY
    for method in sorted(set(METHODS) & LOSSY):
        assert f"{method}, which is lossy" in decided(POEM, decoding=method).decoding_reason


def test_a_draft_model_drafts_open_text_and_leaves_code_to_auto():
    assert decided(POEM, decodings=tuple(DRAFTERS)).decoding == "draft_model"
    assert decided(CODE, decodings=tuple(DRAFTERS)).decoding == "auto"


def test_hot_sampling_is_decoded_without_drafts_and_the_cause_states_the_threshold():
    assert decided(CODE, temperature=HOT).decoding == "auto"
    route = decided(CODE, temperature=HOT + 0.1)
    assert route.decoding == "autoregressive"
    assert f"at temperature {HOT + 0.1:g}, above {HOT:g}" in route.decoding_reason


def test_the_callers_choice_wins_over_the_backends_and_that_over_the_routers():
    assert decided(CODE, decoding="lookahead").decoding == "lookahead"
    route = decided(CODE, decoding="lookahead", temperature=2.0)
    assert route.decoding_reason == "Decoded with lookahead: local:scripted was made with it."
    capabilities = Capabilities(decodings=METHODS, decoding="lookahead")
    local = ScriptedBackend({}, name="local:scripted", capabilities=capabilities)
    route = Router().decide(Request.of(CODE, decoding="jacobi"), {"main": local})
    assert (route.decoding, route.decoding_reason) == ("jacobi", "Decoded with jacobi: asked for by the caller.")


def test_a_backend_behind_an_api_has_no_decoding():
    route = decided(POEM, decodings=())
    assert (route.decoding, route.decoding_reason, route.decoding_forecast) == (None, "", None)


@pytest.mark.parametrize("decodings", [METHODS, ()])
def test_a_method_that_does_not_exist_is_refused_with_the_names_of_all(decodings):
    local = ScriptedBackend({}, name="local:scripted", capabilities=Capabilities(decodings=decodings))
    with pytest.raises(InvalidRequestError, match=r"no decoding method 'turbo'\. Use one of: .*\bsuffix\b"):
        Router().decide(Request.of(POEM, decoding="turbo"), {"main": local})


def test_a_draft_model_that_is_not_there_is_asked_for():
    local = ScriptedBackend({}, name="local:scripted", capabilities=Capabilities(decodings=METHODS))
    with pytest.raises(InvalidRequestError, match=r"make the backend with draft=\. Use one of: .*\bsuffix\b"):
        Router().decide(Request.of(POEM, decoding="draft_model"), {"main": local})


def test_before_the_model_is_loaded_the_forecast_is_unknown_and_says_so():
    forecast = decided(CODE).decoding_forecast
    assert (forecast.ms_per_token, forecast.speed_up, forecast.tokens_per_step) == (None, None, None)
    assert forecast.summary == "The speed of auto is unknown: the model is not loaded yet."


def test_a_method_that_decoded_nothing_yet_is_unknown_beside_a_known_step():
    forecast = decoding_forecast("auto", Measured(step_ms=STEPS))
    assert (forecast.step_ms, forecast.ms_per_token) == (4.0, None)
    assert forecast.summary.endswith("it has not been used here yet. A step of one row takes 4.00 ms.")


def test_the_forecast_is_the_measured_step_over_the_measured_tokens():
    forecast = decoding_forecast("auto", Measured(step_ms=STEPS, decodings={"auto": SEEN}))
    assert (forecast.tokens_per_step, forecast.rows_per_step, forecast.measured_steps) == (3.0, 8.0, 100)
    assert forecast.ms_per_token == pytest.approx(5.0 / 3)
    assert forecast.speed_up == pytest.approx(2.4)
    assert forecast.summary == (
        "About 1.67 ms a token, 2.40 times as fast as one token a step: "
        "3.00 tokens from 8.0 rows a step, seen in 100 steps; a step of one row takes 4.00 ms."
    )


def test_acceptance_without_step_costs_gives_no_time():
    forecast = decoding_forecast("auto", Measured(decodings={"auto": SEEN}))
    assert (forecast.tokens_per_step, forecast.ms_per_token) == (3.0, None)
    assert "not measured yet" in forecast.summary


def test_without_drafts_a_token_takes_a_step():
    forecast = decoding_forecast("autoregressive", Measured(step_ms=STEPS))
    assert (forecast.ms_per_token, forecast.speed_up) == (4.0, 1.0)


def test_a_measured_rate_replaces_the_assumed_one():
    measured = Measured(step_ms=STEPS, decodings={"auto": SEEN})
    known = decoding_forecast("auto", measured)
    assert speed_of("local:x", Capabilities(), decoding=known).tokens_per_s == pytest.approx(600)
    unknown = decoding_forecast("auto", None)
    assert speed_of("local:x", Capabilities(), decoding=unknown) == speed_of("local:x", Capabilities())
    quick, slow = decided(CODE, measured=measured), decided(CODE)
    assert quick.forecast["direct"].seconds < slow.forecast["direct"].seconds


def test_calls_that_slow_each_other_are_forecast_by_the_measured_steps():
    def forecasts(steps):
        measured = Measured(step_ms=steps)
        return decided(POINTS, decoding="autoregressive", measured=measured, preference="fastest").forecast

    flat, steep = forecasts({1: 4.0, 8: 5.0, 64: 8.0}), forecasts({1: 4.0, 8: 32.0, 64: 256.0})
    assert flat["skeleton"].seconds < 0.75 * flat["direct"].seconds
    assert steep["skeleton"].seconds > steep["direct"].seconds


def test_the_first_token_takes_a_measured_step_over_a_short_prompt():
    known = decoding_forecast("autoregressive", Measured(step_ms=STEPS))
    quick, slow = (
        speed_of("local:x", Capabilities(), decoding=known, measured=Measured(step_ms={**STEPS, 64: ms}))
        for ms in (20.0, 900.0)
    )
    assert (quick.first_token_s, slow.first_token_s) == (0.02, 0.9)
