import gc
import json
import math
import os
import pickle
import time
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import get_args
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto import Stretto
from stretto.backends.base import Capabilities, Measured
from stretto.backends.load import meter_of
from stretto.router import Judgement, Router
from stretto.router.correction import Correction, corrected, keep_correction
from stretto.router.offer import Offer
from stretto.router.shape import SHAPES
from stretto.strategies import STRATEGIES
from stretto.testing import ScriptedBackend
from stretto.values.budget import Budget
from stretto.values.errors import InvalidRequestError
from stretto.values.request import Request
from stretto.values.route import Route, RouteCode

ADVICE = "What are the advantages and disadvantages of keeping bees in a city?"
POEM = "Write a poem about the harbour at night."
SLOGANS = "Write 12 slogans for a shop that repairs umbrellas."


def backend(**capabilities):
    """By default one that writes answers by points, so that a route tells what the question was taken for."""
    able = Capabilities(**{"prompt_family": "pocket"} | capabilities)
    return ScriptedBackend({}, name="openai:scripted", capabilities=able)


def decide(prompt, *, main=None, **options) -> Route:
    return Router().decide(Request.of(prompt, **options), {"main": main or backend()})


class Fixed:
    """A model that always judges the same."""

    def __init__(self, skeleton, *, shape="points", known=20):
        shares = {"short": 0, "points": 0, "steps": 0, "prose": 0, "items": 0, "code": 0, "transform": 0} | {shape: 1.0}
        self.thresholds = {"fastest": 0.3, "balanced": 0.5, "careful": 0.7}
        self.judgement = Judgement(shares, skeleton, known)

    def judge(self, _):
        return self.judgement


def fixed(skeleton, *, prompt=ADVICE, main=None, shape="points", known=20, **options) -> Route:
    router = Router(model=Fixed(skeleton, shape=shape, known=known))
    return router.decide(Request.of(prompt, **options), {"main": main or backend()})


# --- what the prompt asks for


@pytest.mark.parametrize(
    "prompt",
    [
        ADVICE,
        "How do I look after a bicycle?",
        "Explain the main causes of the First World War.",
        "Compare heat pumps, gas boilers and pellet stoves for an old house.",
        "Was sind die Vor- und Nachteile von Homeoffice?",
        "¿Cuáles son las ventajas y desventajas de vivir en el campo?",
        "远程工作有哪些优点和缺点？",
    ],
)
def test_independent_points_are_written_from_an_outline(prompt):
    assert decide(prompt).strategy == "skeleton"


def general(prompt=ADVICE, *, skeleton=0.95, **options) -> Route:
    return fixed(skeleton, prompt=prompt, main=backend(prompt_family="general"), **options)


def test_a_general_model_is_asked_for_sections_where_a_plan_saves_a_quarter():
    route = general(preference="fastest")
    assert route.strategy == "skeleton"
    assert route.reason.startswith("A plan first, then its sections in parallel")
    assert route.forecast["skeleton"].seconds < 0.75 * route.forecast["direct"].seconds


def test_where_a_plan_saves_too_little_the_answer_is_straight_and_never_by_points():
    route = general(
        f"{ADVICE} In 200 words.", preference="fastest"
    )  # the first token of each call is assumed to take long
    assert (route.strategy, route.code) == ("direct", "gain")
    saved = f"about {route.forecast['skeleton'].seconds:.1f} s against {route.forecast['direct'].seconds:.1f} s"
    assert saved in route.reason


@pytest.mark.parametrize("preference", ["balanced", "careful"])
def test_sections_are_taken_only_where_the_fastest_answer_is_wanted(preference):
    route = general(preference=preference)
    assert (route.strategy, route.code) == ("direct", "readers")
    assert general(preference="fastest").strategy == "skeleton"


@pytest.mark.parametrize(("prompt", "each"), [("Give me 10 tips for saving.", 30), ("Name 12 ways to save.", 25)])
def test_a_list_whose_items_are_long_is_planned_and_one_of_short_items_is_straight(prompt, each):
    for question in (prompt, "List ways to save money."):
        route = general(f"{question} In 900 words.", preference="fastest")
        assert route.strategy == "skeleton"
        assert route.reason.startswith("A plan first, then its items in parallel")
        assert general(f"{question} In 900 words.").strategy == "direct"
    short = general(f"{prompt} In 300 words.", preference="fastest")
    assert (short.strategy, short.code) == ("direct", "gain")
    assert f"{each} words" in short.reason


@pytest.mark.parametrize("preference", ["fastest", "balanced", "careful"])
def test_a_small_model_answers_straight(preference):
    route = fixed(0.95, main=backend(prompt_family="small"), preference=preference)
    assert (route.strategy, route.code) == ("direct", "ability")
    assert fixed(0.95, main=backend(prompt_family="small"), strategy="skeleton").strategy == "skeleton"


class Reading(ScriptedBackend):
    """A model in this process that says how long its steps take: one of many tokens of a prompt, 2 ms for each."""

    def measured(self):
        return Measured(step_ms={1: 50.0, 8: 55.0, 64: 60.0, 1024: self.reading_ms})


@pytest.mark.parametrize(("reading_ms", "strategy"), [(70.0, "skeleton"), (1_200.0, "direct")])
def test_a_machine_that_reads_slowly_answers_straight_since_its_first_text_would_be_late(reading_ms, strategy):
    able = Capabilities(decodings=("autoregressive",))
    local = Reading({}, name="local:scripted", capabilities=able)
    local.reading_ms = reading_ms
    route = fixed(0.95, prompt=f"{ADVICE} In 900 words.", main=local, preference="fastest", max_tokens=3_000)
    assert (route.strategy, route.code) == (strategy, "gain" if strategy == "direct" else "suits")


@pytest.mark.parametrize(
    "prompt",
    [
        "hey, how are you feeling today?",
        "Hello there!",
        "thanks mate",
        "Who built you?",
        "Good evening",
        "Wie geht's dir so?",
        "Ça va ?",
        "¿Cómo te va?",
    ],
)
def test_small_talk_is_answered_in_a_line(prompt):
    route = decide(prompt)
    assert (route.strategy, route.shape) == ("direct", "short")


@pytest.mark.parametrize(
    "prompt",
    [
        "Hi! What are the pros and cons of a standing desk?",
        "Give me exactly 5 points on why cities plant trees.",
        "What is quantum computing? In exactly 5 points.",
        "Nenne mir genau fünf Punkte zum Thema Homeoffice.",
    ],
)
def test_a_greeting_or_an_exact_number_does_not_hide_points(prompt):
    assert decide(prompt).strategy == "skeleton"


@pytest.mark.parametrize(
    ("prompt", "shape"),
    [
        (POEM, "prose"),
        ("What is the capital of Mongolia?", "short"),
        ("Implement a binary search in Python.", "code"),
        ("Solve 3x + 7 = 25 and show every step.", "steps"),
        ("Schreibe ein Gedicht über den Herbst.", "prose"),
        ("用Python写一个快速排序", "code"),
    ],
)
def test_everything_else_is_written_straight_through(prompt, shape):
    route = decide(prompt)
    assert (route.strategy, route.shape) == ("direct", shape)


def test_many_samples_of_a_kind_are_written_item_by_item():
    route = decide(SLOGANS)
    assert (route.strategy, route.shape) == ("items", "items")
    assert route.forecast["items"].calls == 12


@pytest.mark.parametrize(
    "prompt",
    [
        "Translate into French\n\n- apple\n- bread\n- cheese\n- milk",
        "Translate into French\n\napple\nbread\ncheese\nmilk",
        "Translate these into French:\napple\nbread\ncheese\nmilk",
        "Describe each city in one sentence\n\n1. Lisbon\n2. Oslo\n3. Prague\n4. Riga",
        "Traduis en anglais\n\n- la pomme\n- le pain\n- le fromage\n- le lait",
    ],
)
def test_a_list_by_lines_under_a_task_for_each_is_written_item_by_item(prompt):
    route = decide(prompt)
    assert route.strategy == "items"
    assert route.forecast["items"].calls in (3, 4)


@pytest.mark.parametrize(
    "prompt",
    [
        "Sort these by size\n\n- whale\n- ant\n- dog",
        "Write a story with these words\n\n- lantern\n- river\n- key",
        "Translate this poem into French:\n\nThe road is long\nThe night is cold\nThe stars are bright",
    ],
)
def test_a_list_whose_items_belong_together_is_written_straight_through(prompt):
    assert decide(prompt).strategy == "direct"


def test_a_list_that_belongs_together_is_not_taken_apart_however_sure_the_words_are_and_the_cause_says_why():
    route = fixed(0.1, prompt="Compare these\n\n- Oslo\n- Riga\n- Turin", shape="items")
    assert (route.strategy, route.code) == ("direct", "doubt")
    assert '"Compare"' in route.reason


def test_the_form_of_a_list_decides_where_the_words_leave_doubt():
    model = Fixed(0.1, shape="transform")
    model.judgement = replace(model.judgement, shapes=model.judgement.shapes | {"transform": 0.8, "items": 0.2})
    words = "apple\nbread\ncheese\nmilk"
    route = Router(model=model).decide(Request.of(f"Translate into French\n\n{words}"), {"main": backend()})
    assert (route.strategy, route.confidence) == ("items", 0.95)
    assert "list of 4" in route.reason
    assert Router(model=model).decide(Request.of(f"Sort\n\n{words}"), {"main": backend()}).strategy == "direct"


def test_items_that_cannot_be_counted_are_written_straight_through():
    assert fixed(0.1, prompt="Slogans for a bakery, please", shape="items").strategy == "direct"


def test_items_that_are_not_sure_enough_are_written_straight_through_and_the_cause_says_what_is_missing():
    model = Fixed(0.1)
    model.judgement = replace(model.judgement, shapes=model.judgement.shapes | {"points": 0.4, "items": 0.48})
    cause = Router(model=model).decide(Request.of(SLOGANS), {"main": backend()}).reason
    assert cause == (
        "Written in one piece: that the answer is a set of separate items is not sure enough (48% sure, 50% needed)."
    )
    assert "shows no items to count" in fixed(0.1, prompt="Describe them.", shape="items").reason


def test_where_nothing_known_fires_the_router_abstains():
    route = decide("xqzt vbrk plomf")
    assert (route.strategy, route.code) == ("direct", "unknown")


def test_a_follow_up_is_read_with_the_question_before_it():
    turns = [
        {"role": "user", "content": "What are the advantages and disadvantages of owning a dog?"},
        {"role": "assistant", "content": "Company, exercise; cost, time."},
        {"role": "user", "content": "And for a cat?"},
    ]
    assert decide(turns).strategy == "skeleton"
    turns[0]["content"] = "Write a poem about a dog."
    assert decide(turns).shape == "prose"


def test_a_question_that_stands_alone_is_read_without_the_turns_before():
    turns = [
        {"role": "user", "content": ADVICE},
        {"role": "assistant", "content": "Honey; stings."},
        {"role": "user", "content": "What is the capital of Mongolia?"},
    ]
    assert decide(turns).shape == "short"


# --- what stands against parallel generation


@pytest.mark.parametrize(
    ("options", "code", "named"),
    [
        ({"max_tokens": 100}, "budget", "max_tokens=100"),
        ({"stop": "\n"}, "demand", "stop strings"),
        ({"n": 2}, "whole", "2 answers are asked for, each as a whole"),
        ({"budget": Budget(max_calls=3)}, "budget", "budget of 3 calls"),
        ({"budget": Budget(max_tokens_total=900)}, "budget", "budget of 900 tokens"),
        ({"system": "Respond only with valid JSON."}, "demand", "demands a format"),
        ({"system": "Answer in one sentence."}, "demand", "asks for short answers"),
        ({"main": backend(concurrent_calls=2)}, "busy", "openai:scripted runs only 2 calls at once"),
        ({"main": backend(context_window=200)}, "window", "context window of 200 tokens"),
        ({"main": backend(prompt_family="general")}, "readers", 'preference="fastest" takes sections'),
        ({"main": backend(prompt_family="small")}, "ability", "a model of this size holds no plan of an answer"),
        ({"prompt": f"{ADVICE} Answer in 105 words."}, "gain", "too little gained"),
        ({"known": 2}, "unknown", "nothing in the request says what shape the answer has"),
        ({"shape": "prose", "skeleton": 0.1}, "shape", "is one continuous text"),
    ],
)
def test_what_makes_it_direct_has_a_code_and_a_sentence(options, code, named):
    assert (fixed(0.95).strategy, fixed(0.95).code) == ("skeleton", "suits")
    route = fixed(**{"skeleton": 0.95} | options)
    assert (route.strategy, route.code) == ("direct", code)
    assert named in route.reason


def test_every_code_of_a_reason_is_documented():
    page = (Path(__file__).parents[1] / "docs" / "router.md").read_text(encoding="utf-8")
    assert [code for code in get_args(RouteCode) if f"| `{code}` |" not in page] == []


@pytest.mark.parametrize(
    "demand", ["Answer yes or no.", "In one sentence please.", "In 50 words.", "Keep it short.", "Answer as JSON."]
)
def test_a_demand_in_the_question_makes_it_direct(demand):
    assert fixed(0.95, prompt=f"{ADVICE} {demand}").strategy == "direct"


def test_more_points_than_an_outline_has_are_written_straight_through():
    route = fixed(0.95, prompt="Give me 15 tips for saving money.")
    assert (route.strategy, route.code) == ("direct", "demand")
    assert fixed(0.95, prompt="Give me 10 tips for saving money.").strategy == "skeleton"
    assert fixed(0.95, prompt="Give me 15 tips for saving money.", strategy="skeleton").strategy == "skeleton"


def test_a_generous_budget_is_no_obstacle():
    assert fixed(0.95, budget=Budget(max_calls=8, max_tokens_total=20_000)).strategy == "skeleton"


# --- preference, the caller's own choice, the route


@pytest.mark.parametrize(
    ("skeleton", "chosen"),
    [
        (0.2, {"fastest": "direct", "balanced": "direct", "careful": "direct"}),
        (0.4, {"fastest": "skeleton", "balanced": "direct", "careful": "direct"}),
        (0.6, {"fastest": "skeleton", "balanced": "skeleton", "careful": "direct"}),
        (0.8, {"fastest": "skeleton", "balanced": "skeleton", "careful": "skeleton"}),
    ],
)
def test_the_more_careful_the_surer_it_must_be(skeleton, chosen):
    assert {name: fixed(skeleton, preference=name).strategy for name in chosen} == chosen


def test_thresholds_of_the_committed_model_rise_with_care():
    thresholds = Router().model.thresholds
    assert 0 < thresholds["fastest"] < thresholds["balanced"] < thresholds["careful"] < 1


@pytest.mark.parametrize("strategy", ["direct", "skeleton", "items"])
def test_a_strategy_the_caller_names_is_taken_and_the_shape_still_told(strategy):
    route = decide(POEM, strategy=strategy)
    assert (route.strategy, route.code) == (strategy, "asked")
    assert route.shape == "prose"
    assert route.probabilities["prose"] > 0.5


def test_a_route_names_its_backend_and_forecasts_the_candidates():
    route = decide(ADVICE)
    assert (route.role, route.backend, route.decoding) == ("main", "openai:scripted", None)
    assert route.forecast.keys() >= {"direct", "skeleton"}
    assert route.forecast["skeleton"].seconds < route.forecast["direct"].seconds
    assert route.forecast["skeleton"].tokens > route.forecast["direct"].tokens


def test_a_route_survives_the_way_through_json():
    route = decide(ADVICE)
    assert Route.model_validate_json(route.model_dump_json()) == route


def test_what_is_not_looked_at_is_not_made_and_what_is_is_that_of_the_decision():
    main = backend()
    route = decide(ADVICE, main=main)
    copied, pickled = route.model_copy(update={"elapsed_ms": 0.0}), pickle.loads(pickle.dumps(decide(ADVICE)))  # noqa: S301 - our own bytes
    assert not {"reason", "forecast"} & vars(route).keys()
    meter_of(main).tokens_per_s.update({1: 5.0})  # what calls took later
    assert decide(ADVICE, main=main).forecast != route.forecast == copied.forecast == pickled.forecast
    assert route.reason == copied.reason == pickled.reason
    names = list(Route.model_fields)
    assert list(json.loads(decide(ADVICE).model_dump_json())) == list(dict(decide(ADVICE))) == names
    assert " reason='Outline first" in str(decide(ADVICE))


def test_an_answer_that_is_kept_keeps_no_backend():
    main = ScriptedBackend({"": "Ulaanbaatar."})
    with Stretto(main) as stretto:
        answer = stretto.ask("What is the capital of Mongolia?")
    assert answer.route.reason
    kept, main = ref(main), None
    del stretto
    gc.collect()
    assert kept() is None


def test_a_forecast_of_a_callers_own_that_fails_when_somebody_looks_is_left_out(caplog):
    class Failing:
        name = "failing"

        def offer(self, case):
            return Offer(confidence=1.0, reason=lambda: f"About {len(case.text)} characters.", forecast=lambda: 1 / 0)

    strategies = {**STRATEGIES, "failing": Failing()}
    route = Router().decide(Request.of(ADVICE), {"main": backend()}, strategies)
    assert (route.strategy, route.reason) == ("failing", f"About {len(ADVICE)} characters.")
    assert "failing" not in route.forecast
    assert "could not be made" in caplog.text


def test_the_same_request_is_always_decided_alike():
    first, second = decide(ADVICE), decide(ADVICE)
    assert first.model_copy(update={"elapsed_ms": 0.0}) == second.model_copy(update={"elapsed_ms": 0.0})


def test_without_a_main_backend_the_error_names_the_roles_there_are():
    with pytest.raises(InvalidRequestError, match=r'No backend has the role "main" \(roles: small\)'):
        Router().decide(Request.of(ADVICE), {"small": backend()})


@given(st.text(st.characters(), min_size=1).filter(str.strip))
def test_any_text_is_routed_with_well_formed_probabilities(prompt):
    route = decide(prompt)
    shapes = {name: value for name, value in route.probabilities.items() if name != "skeleton"}
    assert len(shapes) == 7
    assert sum(shapes.values()) == pytest.approx(1)
    assert all(0 <= value <= 1 for value in route.probabilities.values())
    assert route.strategy in {"direct", "skeleton", "items"}
    assert route.reason.endswith(".")


@pytest.mark.parametrize(
    "prompt", ["\ud800 lone surrogate", "a" * 1_000_000, "1. " * 200_000, "\n" * 50_000 + "x", "你" * 100_000, "?!" * 9]
)
def test_odd_and_huge_prompts_are_routed(prompt):
    assert decide(prompt).strategy in {"direct", "skeleton", "items"}


def test_elapsed_time_is_that_of_the_decision():
    router, request = Router(), Request.of(ADVICE)
    started = time.perf_counter()
    route = router.decide(request, {"main": backend()})
    assert 0 < route.elapsed_ms <= (time.perf_counter() - started) * 1000


# --- several backends


def among(prompt, **options) -> Route:
    local = ScriptedBackend({}, name="local:scripted")
    return Router().decide(Request.of(prompt, **options), {"main": backend(), "small": backend(), "local": local})


def test_with_fastest_the_backend_that_is_forecast_to_end_first_answers_and_the_cause_says_so():
    route = among(POEM, preference="fastest")
    assert route.role == "small"
    assert route.reason.endswith("The small backend is forecast to finish first.")


def test_a_few_words_come_soonest_from_the_local_backend():
    route = among("What is the capital of Peru?", preference="fastest", max_tokens=4)
    assert (route.role, route.backend) == ("local", "local:scripted")


@pytest.mark.parametrize("preference", ["balanced", "careful"])
def test_otherwise_the_main_backend_answers(preference):
    assert among(POEM, preference=preference).role == "main"


@pytest.mark.parametrize(
    "value", [{"offset": -1e6}, {"offset": math.nan}, {"offset": math.inf}, {"offset": None}, {"right": -1}]
)
def test_a_kept_correction_that_cannot_be_is_ignored_like_a_damaged_file(value, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("STRETTO_SETTINGS", str(tmp_path / "settings.toml"))
    kept = Correction(offset=3.0, learned=date(2026, 11, 26), questions=60, right_before=40, right=50)
    path = keep_correction(kept)
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | value), encoding="utf-8")
    judged = Judgement(dict.fromkeys(SHAPES, 0.1), 0.4, True)
    assert [corrected(judged), corrected(judged)] == [judged, judged]
    assert [record.message for record in caplog.records] == [
        f"{path} is damaged and ignored. Run stretto calibrate --router again."
    ]


def test_a_pipe_in_the_place_of_a_kept_correction_is_not_waited_for(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("STRETTO_SETTINGS", str(tmp_path / "settings.toml"))
    os.mkfifo(tmp_path / "router.json")
    judged = Judgement(dict.fromkeys(SHAPES, 0.1), 0.4, True)
    assert corrected(judged) == judged
    assert "is damaged and ignored" in caplog.text
