"""A check measures what a model holds, keeps it, and the router goes by it."""

import json
import logging
import math

import pytest

from stretto import AsyncStretto, Document, Stretto
from stretto.abilities import Abilities, Ability, abilities_of, judging, keep
from stretto.abilities.checking import MOST_CALLS, check
from stretto.abilities.kept import file_of, prompts_version
from stretto.abilities.questions import _COUNTRIES, _REVIEWS, ADVICE, PASSAGE, questions
from stretto.backends.base import Capabilities
from stretto.errors import BackendError, StrettoError
from stretto.prompts import Catalogue
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio

BICYCLE = "How do I look after a bicycle?"
FRENCH = "Quels sont les avantages d'une bibliothèque dans un village ?"
REVIEWS = "Classify each review as positive or negative:\n- Great tent.\n- The zip broke.\n- I like it.\n- It smells."
OUTLINE = "1. Clean the frame\n2. Pump the tyres\n3. Check the brakes"


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    (tmp_path / "settings.toml").touch()
    monkeypatch.setenv("STRETTO_SETTINGS", str(tmp_path / "settings.toml"))


SENTENCES = PASSAGE.replace(". ", ".|").split("|")
TOLD = {
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
    "Points:": OUTLINE,
    "outline of the answer": OUTLINE,
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
    if "outline of the answer" in asked or "Points:" in asked:
        return "1. **Title of the first point**: ...\n2. **Title of the second point**: ..."
    if "Point: " in asked:
        return asked
    return "You write one part of the answer to this question. Other writers, who cannot see your text."


def scripted(said, **able):
    backend = ScriptedBackend({"": said})
    backend.capabilities = Capabilities(context_window=8000, **({"concurrent_calls": 8} | able))
    return backend


def found_of(backend, **changes):
    held = {"outline": Ability(right=3, total=3, needed=2), "label": Ability(right=5, total=10, needed=8)}
    fields = {"model": backend.name, "checked": "2026-11-24", "prompts": prompts_version(), "held": held}
    return Abilities(**(fields | changes))


# --- what is measured


async def test_a_model_that_holds_everything_passes_every_question():
    backend = scripted(good)
    found = await check(backend, Catalogue())
    assert {name: (ability.held, ability.example) for name, ability in found.held.items()} == dict.fromkeys(
        ("outline", "point", "item", "label", "record", "schema", "length", "language", "nothing"), (True, "")
    )


async def test_a_model_that_echoes_prompts_and_says_one_label_to_all_holds_nothing():
    found = await check(scripted(echoing), Catalogue())
    assert not any(ability.held for ability in found.held.values())
    assert (found.held["label"].right, found.held["label"].total) == (5, 10)
    assert found.held["outline"].example.startswith("1. **Title of the first point**")


async def test_a_weak_model_is_asked_for_points_in_the_languages_of_its_prompts():
    said = {
        "Erkläre": "Gib einen Tropfen Öl auf die Kette und wische den Rest mit einem Tuch ab.",
        "Explain": "Put a drop of oil on the chain and wipe the rest off with a cloth.",
        "Explique": "Put a drop of oil on the chain and wipe the rest off with a cloth.",
        "Punkte:": "1. Die Kette ölen und pflegen\n2. Den Rahmen putzen\n3. Die Bremsen prüfen",
        "Points:": "1. Oil the chain\n2. Clean the frame",
        "": "1. Oil the chain\n2. Clean the frame",
    }
    backend = scripted(
        lambda prompt: next(said[k] for k in said if k in prompt.messages[-1].content), prompt_family="small"
    )
    found = await check(backend, Catalogue())
    assert len(backend.calls) <= MOST_CALLS
    assert {name: found.held[f"points-{name}"].held for name in ("de", "fr", "es", "it", "pt")} == {
        "de": True,
        **dict.fromkeys(("fr", "es", "it", "pt"), False),
    }
    keep(found.model_copy(update={"tokens_per_s": {}, "direct_tokens": None}))  # points of a script do not pay
    async with AsyncStretto(backend) as stretto:
        german, french = [await stretto.route(asked) for asked in ("Wie pflege ich ein Fahrrad?", FRENCH)]
    assert german.strategy == "skeleton"
    assert "the model does not hold points in French (" in french.reason


async def test_a_weak_model_that_was_not_checked_answers_straight_in_other_languages_than_english():
    backend = scripted(good, prompt_family="small")
    async with AsyncStretto(backend) as stretto:
        english, french = [await stretto.route(asked) for asked in (BICYCLE, FRENCH)]
    assert english.strategy == "skeleton"
    assert french.strategy == "direct"
    assert "has to show in `stretto check` that it holds points in this language" in french.reason


async def test_a_model_that_does_not_quote_reads_a_document_that_fits_without_citing_it():
    backend = scripted(good)
    record = {"record": Ability(right=0, total=3, needed=2)}
    document = Document(text="Signed by Ada.")
    async with AsyncStretto(backend) as stretto:
        before = await stretto.route("Who signed?", documents=[document])
        keep(found_of(backend, held=record))
        after = await stretto.route("Who signed?", documents=[document])
    assert (before.strategy, after.strategy) == ("document", "direct")
    assert "the model does not hold quotations letter by letter (0 of 3" in after.reason


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
    backend = ScriptedBackend({"bicycle": [OUTLINE, fault], "": fault})
    found = await check(backend, Catalogue())
    assert not any(ability.held for ability in found.held.values())
    assert found.held["label"].example == "it broke down"
    assert not found.tokens_per_s


def test_titles_copied_from_the_examples_of_a_prompt_are_no_outline():
    prompt = "Question: How can I sleep?\nPoints:\n1. Keep regular hours\n2. Avoid screens late\n\nPoints:"
    judge = judging.is_outline(prompt)
    assert not judge("1. Keep regular hours\n2. Avoid screens late\n3. Read a book")
    assert judge(OUTLINE)
    assert not judge("A bicycle needs care.")
    assert not judge("1. Clean it\n2. Clean it\n3. Clean it")


@pytest.mark.parametrize(
    "said", ["positive or negative", "The review is positive", "", "negative", "positive\npositive"]
)
def test_only_the_right_label_alone_is_right(said):
    assert not judging.is_label("positive")(said)
    assert judging.is_label("positive")(" Positive.\n")


def test_a_quotation_with_one_other_letter_is_none():
    judge = judging.is_quotation(PASSAGE, "4471")
    assert judge('"The door code is 4471."')
    assert not judge("The door code is: 4471.")
    assert not judge(PASSAGE)


def test_a_point_that_turns_in_circles_or_repeats_its_prompt_is_none():
    prompt = "Write two sentences about this advice: oil the chain once in a while and wipe it."
    assert not judging.is_point(prompt)("Oil the chain once in a while and wipe it.")
    assert not judging.is_point(prompt)("We ride along the river every day at noon. " * 5)
    assert judging.is_point(prompt)("Drip a little oil on each link, then wipe off what is left.")


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
        assert route.strategy == "direct"
        assert "does not hold labels out of a list (5 of 10 in the check of 2026-11-24" in route.reason
        assert "`stretto check`" in route.reason
        demanded = await stretto.route(REVIEWS, strategy="items")
        assert demanded.strategy == "items"
        assert demanded.reason.startswith("Asked for by the caller, although the model does not hold labels")
        translated = await stretto.route("Translate into French:\n- dog\n- cat\n- hen\n- ant")
        assert translated.strategy == "items"  # which needs no labels


@pytest.mark.parametrize("name", ["outline", "point"])
async def test_points_need_outlines_and_points(name):
    backend = scripted("x")
    async with AsyncStretto(backend) as stretto:
        assert (await stretto.route(BICYCLE)).strategy == "skeleton"
        keep(found_of(backend, held={name: Ability(right=0, total=3, needed=2)}))
        route = await stretto.route(BICYCLE)
    assert route.strategy == "direct"
    assert "0 of 3" in route.reason


async def test_streams_that_slow_each_other_make_points_too_slow():
    backend = scripted("x")
    async with AsyncStretto(backend) as stretto:
        keep(found_of(backend, held={}, tokens_per_s={1: 40.0, 8: 38.0}))
        assert (await stretto.route(BICYCLE)).strategy == "skeleton"
        keep(found_of(backend, held={}, tokens_per_s={1: 40.0, 8: 5.0}))
        route = await stretto.route(BICYCLE)
    assert route.strategy == "direct"
    assert "too little gained" in route.reason


async def test_a_check_measures_how_long_straight_answers_are_and_short_ones_make_points_too_dear():
    backend = scripted(good)
    found = await check(backend, Catalogue())
    assert found.direct_tokens == math.ceil(len(TOLD[""]) / 4)
    keep(found_of(backend, held={}, direct_tokens=found.direct_tokens))
    async with AsyncStretto(backend) as stretto:
        route = await stretto.route(BICYCLE)
    assert route.strategy == "direct"
    assert route.forecast["direct"].written == found.direct_tokens


def test_questions_can_be_asked_in_every_family_of_prompts():
    families = tuple({template.family for template in Catalogue()})
    assert {question.family for question in questions(Catalogue(), families)} == {*families, None}


async def test_prompts_are_of_the_family_that_the_model_holds_best():
    backend = scripted(OUTLINE)
    async with AsyncStretto(backend) as stretto:
        for family, words in (("general", "other writers"), ("small", "Keep regular hours")):
            keep(found_of(backend, held={}, family=family))
            before = len(backend.calls)
            await stretto.ask(BICYCLE, strategy="skeleton")
            assert words in str(backend.calls[before])
