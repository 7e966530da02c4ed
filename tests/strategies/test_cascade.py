"""A small model answers; the main one only where that answer does not stand."""

import json
import logging
import math
import re
from datetime import date

import anyio
import pytest
from plans import ASKED, asked_for, plan
from scored_backend import ScoredBackend

from stretto import AsyncStretto, Budget, InvalidRequestError
from stretto.backends.base import Capabilities
from stretto.local_engine.pocket import UNKNOWN
from stretto.strategies.cascade.answer_verdict import agreement
from stretto.strategies.cascade.learned import Estimate, Learned, Step, keep_learned
from stretto.testing import Reply, ScriptedBackend
from stretto.values.errors import ServerFailedError, StreamBrokenError

pytestmark = [pytest.mark.anyio, pytest.mark.leaping]

CHECK = "Is this answer correct"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
DOWN = Reply(fault=ServerFailedError("It is down."))


def model(script="The main answer.", name="own:main", **capabilities):
    script = script if isinstance(script, dict) else {"": script}
    return ScriptedBackend(script, name=name, capabilities=Capabilities(**capabilities))


def checked(said, text="A small answer."):
    """A small model that can be held to a schema, and what it says of its own answer."""
    return model({CHECK: said, "": text}, "own:small", json_schema=True)


def scored(logprob, text="A small answer."):
    return ScoredBackend({"": text}, logprob)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Nothing that was learned on this machine."""
    (tmp_path / "settings.toml").touch()
    monkeypatch.setenv("STRETTO_SETTINGS", str(tmp_path / "settings.toml"))


def learn(*steps, main="own:main", questions=60):
    """Keep what a calibration learned: for each step its model, what tells, and the threshold."""
    return keep_learned(
        Learned(
            steps=tuple(Step(model=model, by=by, threshold=threshold) for model, by, threshold in steps),
            main=main,
            learned=date(2026, 11, 26),
            questions=questions,
            goal=0.95,
            agreement=Estimate(value=0.95, low=0.9, high=1),
            share=Estimate(value=0.4, low=0.3, high=0.5),
        )
    )


async def ask(small, main=None, question="Why is the sky blue?", roles=None, **options):
    async with AsyncStretto(main or model(), roles={"small": small, **(roles or {})}) as stretto:
        return await stretto.ask(question, **({"strategy": "cascade"} | options))


@pytest.mark.parametrize(
    "value",
    [
        {"steps": []},
        {"steps": [{"model": "own:small", "by": "probability", "threshold": math.nan}]},
        {"steps": [{"model": "own:small", "by": "luck", "threshold": 0.5}]},
        {"goal": 7},
        {"questions": 0},
        {"agreement": {"value": math.inf, "low": 0, "high": 1}},
    ],
)
async def test_kept_thresholds_that_cannot_be_are_ignored_like_a_damaged_file(value, caplog):
    small = scored(-2.0)
    path = learn((small.name, "probability", -3.0))
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | value), encoding="utf-8")
    answer = await ask(small)
    assert answer.text == "The main answer."  # by the usual threshold
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"{path} is damaged and ignored. Run stretto calibrate again."
    ]


async def test_a_sure_answer_stands_and_the_main_model_is_not_asked():
    main = model()
    answer = await ask(scored(-0.1), main)
    assert (answer.text, answer.strategy, answer.finish_reason) == ("A small answer.", "cascade", "stop")
    assert main.calls == []
    assert answer.usage.calls == 1
    assert answer.route.reason.endswith(
        "own:small answered: the mean log-probability of its tokens is -0.10, and -0.5 is needed."
    )
    assert answer.logprobs == ()  # nobody asked for them
    assert answer.branches[0].model == "own:small"


async def test_an_unsure_answer_is_not_shown_and_both_are_counted():
    async with (
        AsyncStretto(model(), roles={"small": scored(-2.0)}) as stretto,
        stretto.stream("Why?", strategy="cascade") as stream,
    ):
        events = [event async for event in stream]
    answer = events[-1].answer
    assert answer.text == "".join(event.text for event in events if event.type == "text_delta") == "The main answer."
    assert [branch.model for branch in answer.branches] == ["own:small", "own:main"]
    assert answer.usage.calls == 2
    assert answer.usage.discarded_tokens == answer.branches[0].usage.completion_tokens > 0
    assert "is -2.00" in answer.route.reason
    assert answer.warnings == ()


@pytest.mark.parametrize("refusal", ["I'm sorry, but I can't help with that.", UNKNOWN])
async def test_a_refusal_does_not_stand_however_sure_the_model_is_of_it(refusal):
    answer = await ask(scored(-0.01, refusal))
    assert answer.text == "The main answer."
    assert "it refused" in answer.route.reason


@pytest.mark.parametrize(
    ("said", "text", "why"),
    [
        ('{"stands": true}', "A small answer.", "it is sure"),
        ('{"stands": false}', "The main answer.", "not sure"),
        ("Perhaps.", "The main answer.", "neither yes nor no"),
        (DOWN, "The main answer.", "its check failed: It is down."),
    ],
)
async def test_a_model_without_log_probabilities_judges_itself(said, text, why):
    answer = await ask(checked(said))
    assert answer.text == text
    assert why in answer.route.reason
    assert answer.warnings == ()


@pytest.mark.parametrize(("second", "text"), [("blue light!", "Blue light."), ("Red dust.", "The main answer.")])
async def test_a_model_without_schemas_is_asked_twice_and_has_to_agree_with_itself(second, text):
    answer = await ask(model({"": ["Blue light.", second]}, "own:small"))
    assert answer.text == text
    assert "two answers" in answer.route.reason


def test_longer_answers_agree_by_the_words_that_they_have_in_common():
    one = "The sky is blue because air scatters blue light more than red light from the sun above us."
    assert agreement(one, one.upper()) == 1.0
    assert (
        agreement(one, "Air scatters blue light more than red light from the sun, so the sky is blue up there.") > 0.3
    )
    assert (
        agreement(one, "Tyres want air every week, and the chain wants oil after each ride in the rain out there.") == 0
    )


async def test_a_format_that_does_not_parse_is_the_hardest_check():
    main = model('{"n": 3}', json_schema=True)
    answer = await ask(scored(-0.01, "Three."), main, response_format=SCHEMA)
    assert answer.parsed == {"n": 3}
    assert "response_format" in answer.route.reason
    answer = await ask(scored(-0.01, '{"n": 4}'), main, response_format=SCHEMA)
    assert answer.parsed == {"n": 4}


async def test_an_answer_that_ends_at_the_limit_of_the_small_model_does_not_stand():
    cut = scored(-0.01, Reply("A small", finish_reason="length"))
    answer = await ask(cut)
    assert answer.text == "The main answer."
    assert "cut by the limit" in answer.route.reason
    assert (await ask(cut, max_tokens=2)).text == "A small"  # as short as the caller wants it


async def test_a_small_model_that_fails_is_asked_once_and_the_main_one_answers():
    small = model(DOWN, "own:small", logprobs=True)
    answer = await ask(small)
    assert (answer.text, answer.warnings) == ("The main answer.", ())
    assert len(small.calls) == 1
    assert "it failed: It is down." in answer.route.reason


async def test_where_the_main_model_fails_what_the_small_one_wrote_is_better_than_nothing():
    answer = await ask(scored(-2.0), model(DOWN))
    assert (answer.text, answer.finish_reason) == ("A small answer.", "stop")
    assert [warning.code for warning in answer.warnings] == ["fallback"]


async def test_with_fastest_both_begin_at_once_and_the_one_that_is_not_needed_is_cancelled_and_counted():
    held = anyio.Event()
    main = model(Reply("The main answer.", hold=held))
    answer = await ask(scored(-0.1), main, preference="fastest")
    assert answer.text == "A small answer."
    assert (len(main.calls), main.running) == (1, 0)
    assert answer.usage.calls == 2
    assert [(branch.model, branch.status) for branch in answer.branches] == [
        ("own:small", "finished"),
        ("own:main", "failed"),
    ]
    assert answer.branches[1].error == "an answer of a smaller model was accepted"


async def test_with_fastest_the_main_model_wins_if_it_is_there_first():
    held = anyio.Event()
    small = model(Reply("A small answer.", hold=held), "own:small", logprobs=True)
    answer = await ask(small, preference="fastest")
    assert answer.text == "The main answer."
    assert small.running == 0
    assert answer.route.role == "main"
    assert "there first" in answer.route.reason


async def test_with_fastest_a_small_answer_that_does_not_stand_is_not_waited_for_twice():
    answer = await ask(scored(-2.0), preference="fastest")
    assert answer.text == "The main answer."
    assert answer.usage.calls == 2


async def test_a_ladder_has_several_models():
    middle = scored(-0.2, "A middle answer.")
    middle.name = "own:middle"
    main = model()
    answer = await ask(scored(-2.0), main, roles={"smallest": scored(-3.0), "smaller": scored(-2.0)})
    assert [branch.id for branch in answer.branches] == ["smallest", "smaller", "small", "direct"]
    assert answer.route.reason.count("was asked first") == 1
    assert answer.route.reason.count("was asked next") == 2
    answer = await ask(middle, main, roles={"smaller": scored(-3.0)})
    assert answer.text == "A middle answer."
    assert [branch.id for branch in answer.branches] == ["smaller", "small"]


async def test_a_callers_own_ladder_and_threshold():
    options = {"ladder": ["draft"], "threshold": math.log(0.99)}
    answer = await ask(None, roles={"draft": scored(-0.1)}, strategy_options=options)
    assert answer.text == "The main answer."
    assert "-0.0100503 is needed" in answer.route.reason


async def test_a_threshold_for_each_step_of_a_ladder():
    roles = {"smaller": scored(-0.4, "A smaller answer.")}
    options = {"threshold": {"smaller": -0.3, "small": -0.6}}
    answer = await ask(scored(-0.5), roles=roles, strategy_options=options)
    assert answer.text == "A small answer."
    with pytest.raises(InvalidRequestError, match="threshold names 'medium', which is no role of the ladder"):
        await ask(scored(-0.5), strategy_options={"threshold": {"medium": -0.3}})


@pytest.mark.parametrize(("threshold", "text"), [(-0.2, "The main answer."), (-0.8, "A small answer.")])
async def test_what_was_learned_for_a_pair_is_its_bound_and_is_named(threshold, text):
    learn(("own:small", "probability", threshold))
    answer = await ask(scored(-0.4))
    assert answer.text == text
    assert f"and {threshold:g} is needed, as learned from 60 questions on 2026-11-26." in answer.route.reason


async def test_what_the_caller_says_counts_more_than_what_was_learned():
    learn(("own:small", "probability", -0.2))
    answer = await ask(scored(-0.4), strategy_options={"threshold": -0.5})
    assert answer.text == "A small answer."
    assert "learned" not in answer.route.reason


async def test_what_was_learned_for_another_main_model_is_not_used():
    learn(("own:small", "probability", -0.2), main="own:other")
    assert (await ask(scored(-0.4))).text == "A small answer."


async def test_a_small_model_that_does_not_pay_is_not_asked():
    learn(("own:small", "probability", None))
    small = scored(-0.01)
    answer = await ask(small)
    assert (answer.text, small.calls) == ("The main answer.", [])
    assert "it does not pay" in answer.route.reason


async def test_a_ladder_has_what_was_learned_for_it_as_a_whole_else_what_was_learned_for_each_pair():
    def smaller():
        backend = scored(-0.4, "A smaller answer.")
        backend.name = "own:smaller"
        return backend

    learn(("own:smaller", "probability", -0.5))
    answer = await ask(scored(-0.3), roles={"smaller": smaller()})
    assert answer.text == "A smaller answer."
    learn(("own:smaller", "probability", -0.35), ("own:small", "probability", -0.35), questions=70)
    answer = await ask(scored(-0.3), roles={"smaller": smaller()})
    assert answer.text == "A small answer."
    assert "70 questions" in answer.route.reason


async def test_it_was_learned_that_the_check_tells_more_than_the_probabilities():
    learn(("own:small", "check", 1.0))
    small = ScoredBackend({CHECK: '{"stands": false}', "": "A small answer."}, -0.01, json_schema=True)
    answer = await ask(small)
    assert answer.text == "The main answer."
    assert "not sure of its answer, as learned" in answer.route.reason


async def test_what_tells_can_be_named():
    small = ScoredBackend({"": ["Blue light.", "Red dust."]}, -0.01)
    answer = await ask(small, strategy_options={"by": "agreement"})
    assert answer.text == "The main answer."
    assert "0% in common" in answer.route.reason
    answer = await ask(model("A small answer.", "own:small"), strategy_options={"by": "check"})
    assert "by='check'" in answer.route.reason


@pytest.mark.parametrize(("most", "asked"), [(1, ["own:main"]), (2, ["own:small", "own:main"])])
async def test_no_more_calls_are_made_than_the_budget_has(most, asked):
    answer = await ask(scored(-2.0), budget=Budget(max_calls=most))
    assert answer.text == "The main answer."
    assert [branch.model for branch in answer.branches] == asked


async def test_without_a_small_model_there_is_one_clear_error():
    with pytest.raises(InvalidRequestError, match="needs a smaller model, and this client has none"):
        await ask(None)


async def test_a_small_model_that_cannot_do_what_is_needed_is_not_asked():
    small = checked('{"stands": true}')
    answer = await ask(small, model(logprobs=True), logprobs=0)
    assert answer.text == "The main answer."
    assert small.calls == []
    assert "logprobs=0" in answer.route.reason


async def test_the_router_chooses_it_for_nobody_and_its_price_is_told_beforehand():
    async with AsyncStretto(model(), roles={"small": scored(-0.1)}) as stretto:
        route = await stretto.route("Why is the sky blue?", strategy="cascade", preference="fastest")
        assert (route.strategy, route.role) == ("cascade", "main")
        assert route.forecast["cascade"].calls == 3
        points = await stretto.route("Give me six tips.", strategy="cascade", strategy_options={"parts": "skeleton"})
        assert points.forecast["cascade"].calls == 1 + 6 + 6
        assert (await stretto.route("Why is the sky blue?")).strategy == "direct"


async def test_a_local_main_model_drafts_from_the_answer_that_did_not_stand_and_writes_the_same():
    question, options = "What is the largest ocean?", {"temperature": 0, "max_tokens": 60}
    small = ScoredBackend({"": lambda _: straight.text}, -2.0)
    async with AsyncStretto("local:pocket", roles={"small": small}) as stretto:
        straight = await stretto.ask(question, strategy="direct", decoding="autoregressive", **options)
        answer = await stretto.ask(question, strategy="cascade", strategy_options={"hand_on": True}, **options)
    assert answer.text == straight.text
    assert answer.branches[-1].model == "local:pocket"
    assert answer.decoding.steps < straight.decoding.steps / 2


PLAN = plan("Tyres", "Chain", "Brakes")


class Doubting(ScoredBackend):
    """Is not sure of what it writes in one section."""

    async def _chunks(self, prompt, options, reply):
        self.logprob = -2.0 if self.words in reply.text else -0.1
        async for chunk in super()._chunks(prompt, options, reply):
            yield chunk


def point_by(who):
    """Writes a section of the plan, in words of its own."""
    words = {
        "Tyres": "press them with a thumb",
        "Chain": "a drop of oil on each link",
        "Brakes": "pull both levers hard",
    }

    def written(prompt):
        title = next(each for each in words if asked_for(each) in prompt.messages[-1].content)
        return f"{words[title].capitalize()}, says {who}."

    return written


def doubting(words):
    backend = Doubting({"": point_by("the small one")})
    backend.words = words
    return backend


def in_parts(small, **options):
    main = model({ASKED: PLAN, "": point_by("the main one")})
    return ask(small, main, "Give me three tips for a bicycle.", strategy_options={"parts": "skeleton"}, **options)


async def test_each_section_is_a_cascade_of_its_own():
    answer = await in_parts(doubting("link"))
    points = [branch for branch in answer.branches if branch.kind == "section"]
    assert [branch.model for branch in points] == ["own:small", "own:main", "own:small"]
    assert answer.text.count("the small one") == 2
    assert answer.text.count("the main one") == 1
    assert answer.text.index("Tyres") < answer.text.index("Chain") < answer.text.index("Brakes")
    assert answer.route.reason.endswith("own:small wrote 2 of 3 parts: a mean log-probability of -0.5 was needed.")
    assert answer.usage.calls == 1 + 3 + 1
    assert answer.usage.discarded_tokens > 0
    assert answer.warnings == ()


async def test_a_section_that_the_small_model_cannot_write_is_written_by_the_main_one():
    answer = await in_parts(ScoredBackend({"": DOWN}))
    assert answer.text.count("the main one") == 3
    assert "0 of 3 parts" in answer.route.reason
    assert answer.warnings == ()


async def test_parts_need_log_probabilities():
    with pytest.raises(
        InvalidRequestError, match="own:small reports no log-probabilities, which decide whether a part"
    ):
        await in_parts(model("A point.", "own:small"))


async def test_what_streams_in_parts_is_the_answer():
    main = model({ASKED: PLAN, "": point_by("the main one")})
    async with (
        AsyncStretto(main, roles={"small": doubting("thumb")}) as stretto,
        stretto.stream("Give me three tips.", strategy="cascade", strategy_options={"parts": "skeleton"}) as stream,
    ):
        events = [event async for event in stream]
    answer = events[-1].answer
    assert "".join(event.text for event in events if event.type == "text_delta") == answer.text
    for branch in answer.branches:
        deltas = [event.text for event in events if event.type == "branch_delta" and event.branch_id == branch.id]
        assert "".join(deltas) == branch.text


REVIEWS = ["A wonderful film.", "What a bore.", "Not my thing at all."]
TASK = "Classify each review as positive or negative:\n" + "\n".join(f"- {review}" for review in REVIEWS)


def judging_reviews(*told, name="own:main", **scored):
    script = {re.escape(review): said for review, said in zip(REVIEWS, told, strict=True)}
    return ScoredBackend(script, name=name, **scored)


async def test_each_item_is_a_cascade_of_its_own():
    small = judging_reviews("positive", "positive", "negative", name="own:small", scores={REVIEWS[1]: -3.0})
    main = judging_reviews("negative", "negative", "positive")
    answer = await ask(small, main, TASK, strategy_options={"parts": "items"})
    items = [branch for branch in answer.branches if branch.kind == "item"]
    assert [(branch.model, branch.text) for branch in items] == [
        ("own:small", "positive"),
        ("own:main", "negative"),
        ("own:small", "negative"),
    ]
    assert "2 of 3 parts" in answer.route.reason
    assert answer.usage.calls == 4


async def test_sections_by_cascade_and_items_by_consensus_have_their_fallbacks_in_one_client():
    def main_point(prompt):
        said = point_by("the main one")(prompt)
        return Reply(said, fault=StreamBrokenError("It broke off.", backend="own:main"), fault_after=3)

    # The small one doubts a point; the main one breaks off in it; the third goes on.
    votes = {re.escape(review): "negative" for review in REVIEWS} | {re.escape(REVIEWS[0]): [DOWN, "positive"]}
    main = model({ASKED: PLAN, **votes, "": main_point})
    third = model({"<received>\nA drop of": " oil, says the third one.", "": "positive"}, name="own:third")
    async with AsyncStretto(main, roles={"small": doubting("link")}, fallback=[third]) as stretto:
        points = await stretto.ask("Give me three tips.", strategy="cascade", strategy_options={"parts": "skeleton"})
        items = await stretto.ask(TASK, strategy="items", strategy_options={"samples": 3})
    chain = next(branch for branch in points.branches if branch.id == "section-2")
    assert [each.model for each in chain.writers] == ["own:main", "own:third"]
    assert "A drop of oil, says the third one." in points.text
    assert points.text.count("the small one") == 2
    assert ("fallback", "section-2") in [(warning.code, warning.part) for warning in points.warnings]
    voters = [branch.model for branch in items.branches if branch.id.startswith("item-1-vote")]
    assert sorted(set(voters)) == ["own:main", "own:third"]
    assert [line.rpartition(" ")[2] for line in items.text.splitlines() if line.strip()] == [
        *("positive", "negative", "negative")
    ]


async def test_a_deadline_that_passes_while_the_small_one_writes_leaves_the_main_one_its_half():
    small = ScoredBackend({"": Reply("A small answer.", hold=anyio.Event())})
    deadline_s = 0.3
    answer = await ask(small, question="Why is the sky blue?", deadline_s=deadline_s)
    assert answer.text == "The main answer."
    told = re.search(r"it failed: The deadline passed after (\S+) s\.", answer.route.reason)
    assert told is not None
    assert float(told[1]) < 0.7 * deadline_s


async def test_leaving_in_the_middle_ends_all_models():
    held = Reply("Never.", hold=anyio.Event())
    small, main = ScoredBackend({"": held}), model(held)
    async with AsyncStretto(main, roles={"small": small}) as stretto:
        async with stretto.stream("Why?", strategy="cascade", preference="fastest") as stream:
            async for event in stream:
                if event.type == "branch_started":
                    break
        assert (small.running, main.running) == (0, 0)
