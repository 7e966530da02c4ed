"""A check measures what a model holds, keeps it, and the router goes by it."""

import json
import logging
import math

import pytest
from plans import ASKED, plan

from stretto import AsyncStretto, Document, Stretto
from stretto.abilities import Abilities, Ability, abilities_of, keep
from stretto.abilities.checking import MOST_CALLS, check
from stretto.abilities.kept import file_of, prompts_version
from stretto.abilities.questions import (
    _COUNTRIES,
    _REVIEWS,
    ADVICE,
    PASSAGE,
    has_fields,
    is_label,
    is_plan,
    is_quotation,
    questions,
)
from stretto.backends.base import Capabilities
from stretto.prompts import Catalogue
from stretto.testing import Reply, ScriptedBackend
from stretto.values.errors import BackendError, StrettoError

pytestmark = pytest.mark.anyio

BICYCLE = "How do I look after a bicycle?"
REVIEWS = "Classify each review as positive or negative:\n- Great tent.\n- The zip broke.\n- I like it.\n- It smells."
PLAN = plan("Clean the frame", "Pump the tyres", opening="Clean it first, then oil it.")


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    (tmp_path / "settings.toml").touch()
    monkeypatch.setenv("STRETTO_SETTINGS", str(tmp_path / "settings.toml"))


SENTENCES = PASSAGE.replace(". ", ".|").split("|")
TOLD = {
    ASKED: PLAN,
    **{review: f"{label.capitalize()}." for review, label in _REVIEWS},
    **{f"\n{country}\n": capital for country, capital in _COUNTRIES.items()},
    "NONE": "NONE",
    "letter by letter: What is the door code": SENTENCES[2],
    "letter by letter: Who repaired": SENTENCES[4],
    "letter by letter: How often": SENTENCES[5],
    "JSON": '{"name": "dog", "legs": 4}',
    "40 words": "It flows slowly through the valley, past old mills and meadows, " * 3,
    "Himmel": "Das Licht der Sonne ist weiß und wird in der Luft gestreut.",
    "cielo": "La luz del sol es blanca y se dispersa en el aire.",
    "": "Wipe it dry and put a little on each link now.",
}


def good(prompt):
    """What a model says that holds everything."""
    return next(said for words, said in TOLD.items() if words in prompt.messages[-1].content)


def echoing(prompt):
    """What a model says that copies the form of our prompts, says "positive" to everything and invents."""
    asked = prompt.messages[-1].content
    if any(review in asked for review, _ in _REVIEWS):
        return "positive"
    return "You write one part of the answer to this question. Other writers, who cannot see your text."


def scripted(said, **able):
    backend = ScriptedBackend({"": said})
    backend.capabilities = Capabilities(context_window=8000, **({"concurrent_calls": 8} | able))
    return backend


def found_of(backend, **changes):
    held = {"plan": Ability(right=3, total=3, needed=2), "label": Ability(right=5, total=10, needed=8)}
    fields = {"model": backend.name, "checked": "2026-11-24", "prompts": prompts_version(), "held": held}
    return Abilities(**(fields | changes))


# --- what is measured


async def test_a_model_that_holds_everything_passes_every_question():
    backend = scripted(good)
    found = await check(backend, Catalogue())
    assert {name: (ability.held, ability.example) for name, ability in found.held.items()} == dict.fromkeys(
        ("plan", "item", "label", "record", "schema", "length", "language", "nothing"), (True, "")
    )


async def test_a_model_that_echoes_prompts_and_says_one_label_to_all_holds_nothing():
    found = await check(scripted(echoing), Catalogue())
    assert not any(ability.held for ability in found.held.values())
    assert (found.held["label"].right, found.held["label"].total) == (5, 10)
    assert found.held["plan"].example.startswith("You write one part")


async def test_a_model_that_does_not_quote_reads_a_document_that_fits_without_citing_it():
    backend = scripted(good)
    record = {"record": Ability(right=0, total=3, needed=2)}
    document = Document(text="Signed by Ada.")
    async with AsyncStretto(backend) as stretto:
        before = await stretto.route("Who signed?", documents=[document])
        keep(found_of(backend, held=record))
        after = await stretto.route("Who signed?", documents=[document])
    assert (before.strategy, after.strategy, after.code) == ("document", "direct", "ability")
    assert "0 of 3" in after.reason


async def test_a_check_makes_sixty_calls_at_most_and_tells_its_progress():
    backend, told = scripted(good), []
    await check(backend, Catalogue(), lambda *seen: told.append(seen))
    assert len(backend.calls) <= MOST_CALLS
    assert [done for done, _, _ in told] == list(range(1, told[-1][1] + 1))


async def test_the_limit_of_calls_does_not_leave_out_a_question():
    families = ("general", "small")
    assert len(list(questions(Catalogue(), families))) + 9 + len(ADVICE) <= MOST_CALLS


async def test_without_time_the_rest_is_left_out_and_without_an_answer_nothing_is_kept():
    backend = scripted(good)
    with pytest.raises(StrettoError, match="within 0 s"):
        await check(backend, Catalogue(), most_s=0)


async def test_a_backend_that_fails_at_once_raises_its_own_error():
    with pytest.raises(BackendError, match="no such model"):
        await check(scripted(Reply(fault=BackendError("no such model", backend="x"))), Catalogue())


async def test_a_backend_that_fails_later_holds_nothing_and_says_why():
    fault = Reply(fault=BackendError("it broke down", backend="x"))
    backend = ScriptedBackend({"bicycle": [PLAN, fault], "": fault})
    found = await check(backend, Catalogue())
    assert not any(ability.held for ability in found.held.values())
    assert found.held["label"].example == "it broke down"
    assert not found.tokens_per_s


@pytest.mark.parametrize(
    ("said", "held"),
    [
        (PLAN, True),
        ("**Opening:** Clean it first, then oil it.\n1. Every week: steps\n2) At the shop: table", True),
        ("Opening: Clean it first, then oil it.", False),
        ("Sections: A | B\n1. a\n2. b", False),
        ("Clean it, then oil it.\n1. Clean it.\n2. Oil it.", False),
        ("", False),
    ],
)
def test_a_plan_has_an_opening_and_two_sections(said, held):
    assert is_plan(said) is held


@pytest.mark.parametrize(
    "said", ["positive or negative", "The review is positive", "", "negative", "positive\npositive"]
)
def test_only_the_right_label_alone_is_right(said):
    assert not is_label("positive")(said)
    assert is_label("positive")(" Positive.\n")


def test_a_quotation_with_one_other_letter_is_none():
    judge = is_quotation(PASSAGE, "4471")
    assert judge('"The door code is 4471."')
    assert not judge("The door code is: 4471.")
    assert not judge(PASSAGE)


# --- what is kept


async def test_the_result_is_kept_by_the_client_and_read_again(tmp_path):
    backend = scripted(good)
    async with AsyncStretto(backend) as stretto:
        found = await stretto.check()
    assert abilities_of(backend) == found
    kept = json.loads(file_of(found.model).read_text(encoding="utf-8"))
    assert kept["held"]["label"]["right"] == 10
    assert [path.suffix for path in (tmp_path / "abilities").iterdir()] == [".json"]


def test_the_synchronous_client_checks_too():
    backend = scripted(good)
    with Stretto(backend) as stretto:
        assert stretto.check() == abilities_of(backend)


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"model": 1}', "\x00" * 50])
def test_a_damaged_file_is_told_and_ignored(damage, caplog):
    backend = scripted(good)
    path = keep(found_of(backend))
    path.write_text(damage, encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert abilities_of(backend) is None
    assert str(path) in caplog.text
    assert "Run stretto check again" in caplog.text


@pytest.mark.parametrize(
    "value",
    [
        *({"tokens_per_s": {"1": rate}} for rate in (0.0, -3, math.nan, math.inf, 5e-324, 1e300, None, "fast")),
        *({"tokens_per_s": {streams: 20.0}} for streams in ("0", "-1", "one", str(10**400))),
        *({"direct_tokens": tokens} for tokens in (0, -5, math.nan, 10**400)),
        {"held": {"plan": {"right": -1, "total": 3, "needed": 2}}},
        {"families": {"small": -1}},
    ],
)
async def test_a_file_with_values_that_cannot_be_is_ignored_like_a_damaged_one(value, caplog):
    backend = scripted(good)
    path = keep(found_of(backend))
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | value), encoding="utf-8")
    async with AsyncStretto(backend) as stretto:
        await stretto.ask("What are the advantages of tea?")
        await stretto.ask("What are the advantages of coffee?")
    assert [f"{path} is damaged and ignored. Run stretto check again."] == [
        record.message for record in caplog.records if record.levelno >= logging.WARNING
    ]


def test_an_answer_of_a_hundred_thousand_brackets_is_a_wrong_one():
    assert not has_fields({"name": str})("[" * 100_000)


def test_a_check_with_other_prompts_does_not_count():
    backend = scripted(good)
    keep(found_of(backend, prompts="before"))
    assert abilities_of(backend) is None


# --- what the router makes of it


async def test_labels_that_are_not_held_are_not_classified_in_parts_and_the_cause_names_the_command():
    backend = scripted("positive")
    async with AsyncStretto(backend) as stretto:
        assert (await stretto.route(REVIEWS)).strategy == "items"
        keep(found_of(backend))
        route = await stretto.route(REVIEWS)
        assert (route.strategy, route.code) == ("direct", "ability")
        assert "5 of 10 in the check of 2026-11-24" in route.reason
        assert "`stretto check`" in route.reason
        demanded = await stretto.route(REVIEWS, strategy="items")
        assert (demanded.strategy, demanded.code) == ("items", "asked")
        assert "labels" in demanded.reason
        translated = await stretto.route("Translate into French:\n- dog\n- cat\n- hen\n- ant")
        assert translated.strategy == "items"  # which needs no labels


async def test_sections_need_a_plan():
    backend = scripted("x")
    async with AsyncStretto(backend) as stretto:
        assert (await stretto.route(BICYCLE, preference="fastest")).strategy == "skeleton"
        keep(found_of(backend, held={"plan": Ability(right=0, total=3, needed=2)}))
        route = await stretto.route(BICYCLE, preference="fastest")
    assert (route.strategy, route.code) == ("direct", "ability")


async def test_streams_that_slow_each_other_make_sections_too_slow():
    backend = scripted("x")
    async with AsyncStretto(backend) as stretto:
        keep(found_of(backend, held={}, tokens_per_s={1: 40.0, 8: 38.0}))
        assert (await stretto.route(BICYCLE, preference="fastest")).strategy == "skeleton"
        keep(found_of(backend, held={}, tokens_per_s={1: 40.0, 8: 5.0}))
        route = await stretto.route(BICYCLE, preference="fastest")
    assert (route.strategy, route.code) == ("direct", "gain")


async def test_a_check_measures_how_long_straight_answers_are_and_short_ones_make_sections_too_dear():
    backend = scripted(good)
    found = await check(backend, Catalogue())
    assert found.direct_tokens == math.ceil(len(TOLD[""]) / 4)
    keep(found_of(backend, held={}, direct_tokens=found.direct_tokens))
    async with AsyncStretto(backend) as stretto:
        route = await stretto.route(BICYCLE, preference="fastest")
    assert route.strategy == "direct"
    assert route.forecast["direct"].written == found.direct_tokens


def test_questions_can_be_asked_in_every_family_of_prompts():
    families = tuple({template.family for template in Catalogue()})
    assert {question.family for question in questions(Catalogue(), families)} == {*families, None}


async def test_entries_are_asked_for_with_the_prompts_that_the_model_holds_best():
    words = "Translate into French:\n- dog\n- cat\n- hen\n- ant"
    backend = scripted("un")
    async with AsyncStretto(backend) as stretto:
        prompts = []
        for family in ("general", "small"):
            keep(found_of(backend, held={}, family=family))
            before = len(backend.calls)
            await stretto.ask(words, strategy="items")
            prompts.append(backend.calls[before][0].messages[-1].content)
    assert prompts[0] != prompts[1]
