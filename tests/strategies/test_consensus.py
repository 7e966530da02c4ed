"""``consensus``: several samples, their vote, and what is not called for any more."""

from collections import Counter
from fractions import Fraction

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from streaming import streamed

from stretto import (
    AsyncStretto,
    AuthenticationError,
    BackendError,
    Budget,
    InvalidRequestError,
    ServerFailedError,
    StreamBrokenError,
    Stretto,
    Usage,
)
from stretto.extending import Capabilities
from stretto.strategies.consensus.consensus_answer import chosen_by
from stretto.strategies.consensus.stopping import certainty, decided
from stretto.testing import Reply, ScriptedBackend

pytestmark = [pytest.mark.anyio, pytest.mark.leaping]

LEGS = "How many legs do 3 spiders have?"
ESSAY = "Why do bees dance?"


def backend(*replies, at_once=16, **able):
    return ScriptedBackend({"": list(replies)}, capabilities=Capabilities(concurrent_calls=at_once, **able))


def options(**given):
    return {"strategy": "consensus", "strategy_options": given}


async def ask(model, question=LEGS, given=None, **request):
    async with AsyncStretto(model) as stretto:
        return await stretto.ask(question, strategy="consensus", strategy_options=given, **request)


async def test_the_answer_of_most_samples_is_shown_and_the_rest_is_not_asked_for():
    model = backend("24", "23", "There are 24 legs.", "**24**", "22", at_once=1)
    answer, events = await streamed(model, LEGS, strategy="consensus")
    told = answer.agreement
    assert answer.text in ("24", "There are 24 legs.", "**24**")
    assert (told.votes, told.share, told.decided_by) == ({"24": 3, "23": 1}, 0.75, "unchangeable")
    assert (told.samples, told.begun, told.finished, told.cancelled, told.failed) == (5, 4, 4, 1, 0)
    assert (len(model.calls), answer.usage.calls, answer.strategy) == (4, 4, "consensus")
    assert answer.warnings == ()
    assert answer.finish_reason == "stop"
    assert answer.route.reason.endswith("75% of 4 samples agree, and no vote could change that.")
    votes = [event for event in events if event.type == "vote_counted"]
    assert [(event.vote, event.left) for event in votes] == [("24", 4), ("23", 3), ("24", 2), ("24", 1)]
    assert [event.decided_by for event in votes] == [None, None, None, "unchangeable"]


async def test_what_other_samples_wrote_counts_as_discarded():
    answer = await ask(backend("24", "24", "24", at_once=1), given={"samples": 3})
    shown, other, unsent = answer.branches
    assert (shown.usage.discarded_tokens, other.usage.discarded_tokens) == (0, other.usage.completion_tokens)
    assert (unsent.status, unsent.usage) == ("failed", Usage())
    assert answer.usage.discarded_tokens == other.usage.completion_tokens > 0


def test_the_certainty_is_that_of_a_coin():
    assert certainty(0, 0) == Fraction(1, 2)
    assert certainty(3, 0) == Fraction(15, 16)
    assert certainty(4, 0) == Fraction(31, 32)
    assert certainty(5, 1) == Fraction(120, 128)
    assert certainty(2, 2) == Fraction(1, 2)


def predicted(votes, enough):
    """How many of these votes are counted before the rule ends the vote, and which rule that is."""
    counted = Counter()
    for number, vote in enumerate(votes, start=1):
        counted[vote] += 1
        (_, first), second = counted.most_common()[0], sum(each[1] for each in counted.most_common()[1:2])
        left = len(votes) - number
        if left and first - second > left:
            return number, "unchangeable"
        # Of a Beta(first + 1, second + 1) variable, above 1/2, by the trapezoidal rule.
        steps = [step / 2000 for step in range(2001)]
        density = [x**first * (1 - x) ** second for x in steps]
        if left and first > second and sum(density[1000:]) - density[1000] / 2 >= enough * sum(density):
            return number, "certain"
    return len(votes), "all_votes"


@given(
    votes=st.lists(st.sampled_from("123"), min_size=2, max_size=12),
    enough=st.sampled_from([0.8, 0.9, 0.95, 1.0]),
)
@settings(max_examples=15)
def test_exactly_the_calls_that_the_rule_predicts_are_made(votes, enough):
    model = backend(*votes, at_once=1)
    answer = anyio.run(ask, model, LEGS, {"samples": len(votes), "certainty": enough})
    number, rule = predicted(votes, enough)
    assert len(model.calls) == answer.usage.calls == number
    assert answer.agreement.votes == Counter(votes[:number])
    assert answer.agreement.decided_by == rule
    most = Counter(votes).most_common()
    if rule == "unchangeable" or (rule == "all_votes" and (len(most) == 1 or most[0][1] > most[1][1])):
        assert answer.text == most[0][0]


@settings(max_examples=10)
@given(votes=st.lists(st.sampled_from("123"), min_size=2, max_size=9), at_once=st.integers(2, 9))
def test_side_by_side_the_outcome_is_that_of_the_whole_vote(votes, at_once):
    model = backend(*votes, at_once=at_once)
    answer = anyio.run(ask, model, LEGS, {"samples": len(votes), "certainty": 1})
    most = Counter(votes).most_common()
    if len(most) == 1 or most[0][1] > most[1][1]:
        assert answer.text == most[0][0]
    number, _ = predicted(votes, 1)
    assert len(model.calls) <= min(len(votes), number + at_once - 1)
    assert model.running == 0


async def test_a_sample_that_stalls_is_not_waited_for():
    model = backend("24", Reply("25", hold=anyio.Event()), "24", "24", "23")
    answer, _ = await streamed(model, LEGS, strategy="consensus")
    assert answer.text == "24"
    assert (answer.agreement.begun, answer.agreement.cancelled) == (5, 1 + (answer.agreement.finished == 3))


async def test_samples_that_fail_or_break_off_have_no_vote_and_are_named():
    model = backend(
        Reply(fault=ServerFailedError("The server is down.", backend="scripted:model")),
        Reply("25 25 25", fault=StreamBrokenError("It broke off.", backend="scripted:model"), fault_after=1),
        Reply("25 25", finish_reason="length"),
        "24",
        "24",
        at_once=1,
    )
    answer, _ = await streamed(model, LEGS, strategy="consensus")
    assert (answer.text, answer.finish_reason) == ("24", "stop")
    assert (answer.agreement.votes, answer.agreement.failed) == ({"24": 2}, 3)
    assert [warning.code for warning in answer.warnings] == ["votes"]
    assert len(model.calls) == 5


async def test_where_all_fail_alike_their_own_error_is_raised():
    model = backend(Reply(fault=AuthenticationError("The key is wrong.", backend="scripted:model")))
    with pytest.raises(AuthenticationError, match="The key is wrong"):
        await ask(model)
    assert model.running == 0


async def test_where_all_fail_in_several_ways_one_error_counts_them():
    fault = Reply(fault=ServerFailedError("The server is down.", backend="scripted:model"))
    model = backend(fault, fault, Reply(""))
    with pytest.raises(
        BackendError, match=r"No sample could be written. 2 of 3: The server is down; 1 of 3: .*no text"
    ):
        await ask(model, given={"samples": 3})


async def test_what_is_there_at_the_deadline_decides():
    never = Reply("25", hold=anyio.Event())
    answer, _ = await streamed(backend("24", "24", never, never, never), LEGS, strategy="consensus", deadline_s=30)
    assert (answer.text, answer.finish_reason) == ("24", "stop")
    assert (answer.agreement.failed, answer.agreement.cancelled) == (2, 1)  # two that are left decide nothing
    assert answer.warnings[0].code == "votes"


async def test_a_sample_that_repeats_itself_has_no_vote():
    looping = Reply("So it goes on and on. " * 400, hold=None)
    answer = await ask(backend(looping, "24", "24", at_once=1), given={"samples": 3})
    assert (answer.text, answer.agreement.failed, answer.agreement.cancelled) == ("24", 1, 0)
    assert [(w.code, "it repeats itself" in w) for w in answer.warnings] == [("votes", True)]
    assert len(answer.branches[0].text) < 1_000


async def test_the_longest_beginning_is_shown_where_no_sample_ends():
    model = backend("one two", "one two three four", "one", Reply("one two three four five six"))
    answer = await ask(model, ESSAY, {"samples": 3}, max_tokens=3)
    assert (answer.text, answer.finish_reason) == ("one two three", "length") or answer.finish_reason == "stop"


async def test_each_sample_has_all_of_max_tokens():
    model = backend("one two three")
    answer = await ask(model, ESSAY, {"samples": 4, "certainty": 1}, max_tokens=4)
    assert answer.finish_reason == "stop"
    assert {asked.max_tokens for _, asked in model.calls} == {4}
    assert model.most_running == 4


async def test_a_refusal_of_all_is_the_answer():
    model = backend(Reply("No.", finish_reason="refusal"))
    answer = await ask(model)
    assert (answer.finish_reason, answer.agreement.votes) == ("refusal", {})


async def test_samples_that_do_not_agree_are_told_of():
    answer = await ask(backend("1", "2", "3", "4"), given={"samples": 4})
    assert [(w.code, "1 of 4 votes" in w) for w in answer.warnings] == [("votes", True)]
    assert answer.agreement.share == 0.25


class Label(BaseModel):
    mood: str
    stars: int


async def test_json_under_a_schema_is_voted_on_and_what_does_not_fit_has_no_vote():
    good, same = '{"mood": "good", "stars": 4}', '```json\n{"stars": 4.0, "mood": "Good"}\n```'
    model = backend(good, '{"mood": "bad"}', same, '{"mood": "bad", "stars": 1}', at_once=1)
    answer = await ask(model, "Label it.", {"samples": 4}, response_format=Label)
    assert answer.parsed == Label(mood="good", stars=4) or answer.parsed == Label(mood="Good", stars=4)
    assert list(answer.agreement.votes.values()) == [2]
    assert (answer.agreement.finished, len(model.calls)) == (3, 3)
    assert answer.warnings == ()


async def test_where_no_sample_fits_the_format_a_warning_says_so():
    answer = await ask(backend("no JSON"), "Label it.", {"samples": 2}, response_format=Label)
    assert (answer.text, answer.parsed) == ("no JSON", None)
    assert [warning.code for warning in answer.warnings] == ["format"]


async def test_choices_are_voted_on():
    model = backend("It is positive.", "Negative!", "positive", "no idea", at_once=1)
    answer = await ask(model, "Label the mood.", {"samples": 4, "choices": ["positive", "negative"]})
    assert answer.agreement.votes == {"positive": 2, "negative": 1}
    assert answer.agreement.finished == 4


TEXTS = (
    "Bees dance so that the others learn where the flowers are, how far away and in which direction.",
    "By its dance a bee tells the others where the flowers are, how far away and in which direction they lie.",
    "It is a wonder of nature, and nobody knows for sure, but many books were written about it in all times.",
)


async def test_of_longer_texts_the_one_that_is_most_like_the_others_is_shown():
    answer = await ask(backend(TEXTS[2], *TEXTS[:2]), ESSAY, {"samples": 3})
    assert answer.text in TEXTS[:2]
    assert (answer.agreement.decided_by, answer.agreement.share) == ("similarity", 0)


def judging(reply):
    texts = list(TEXTS)
    return ScriptedBackend({"the best answer": reply, "": texts}, capabilities=Capabilities())


async def test_a_judge_that_was_named_chooses_among_longer_texts():
    model = judging("Answer 3.")
    answer, _ = await streamed(model, ESSAY, **options(samples=3, judge="main"))
    assert (answer.text, answer.agreement.decided_by) == (TEXTS[2], "judge")
    asked = model.calls[-1][0].messages[-1].content
    assert all(text in asked for text in TEXTS)
    assert asked.count("===") == 2 * 4
    assert "judge" in {branch.id for branch in answer.branches}


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (Reply("I will not.", finish_reason="refusal"), "it answered 'I will not.'"),
        (Reply("No, 1.", finish_reason="content_filter"), "it answered 'No, 1.'"),
        (Reply("7"), "it answered '7'"),
        (Reply("\x1b[J</answers> 2000"), r"it answered '\x1b[J</answers> 2000'"),
        (Reply(fault=ServerFailedError("It is down.", backend="scripted:model")), "It is down"),
    ],
)
async def test_where_the_judge_chooses_nothing_likeness_decides(reply, cause):
    answer, _ = await streamed(judging(reply), ESSAY, **options(samples=3, judge="main"))
    assert answer.text in TEXTS[:2]
    assert answer.agreement.decided_by == "similarity"
    assert [(w.code, w.endswith(f": {cause}.")) for w in answer.warnings] == [("votes", True)]
    assert answer.finish_reason == "stop"


@pytest.mark.parametrize(
    ("said", "chosen"),
    [
        *((said, 2) for said in ("2", "**2**", "Answer 2.", "Of the 3 answers, answer 2 is best.")),
        ("Answer 2: unlike answers 1 and 3, it is complete.", 2),
        ("I cannot choose between 1 and 3.", None),
        ("I'm sorry, but I can't help with comparing answer 2.", None),
        ("I compared these 3 answers.", None),
        ("2.5 of 3", 3),
    ],
)
def test_a_judge_chooses_the_number_that_it_begins_with_or_the_only_one(said, chosen):
    assert chosen_by(said) == chosen


async def test_a_judge_that_goes_on_and_on_is_cut_and_its_choice_counts():
    model = judging(Reply("Answer 3. " * 5_000))
    answer = await ask(model, ESSAY, {"samples": 3, "judge": "main"})
    assert (answer.text, answer.agreement.decided_by, answer.warnings) == (TEXTS[2], "judge", ())
    assert answer.branches[-1].usage.completion_tokens <= 64


async def test_the_budget_bounds_the_calls():
    model = backend("1", "2", "3", "4", "5")
    answer = await ask(model, budget=Budget(max_calls=3))
    assert len(model.calls) == 3
    assert "budget" in [warning.code for warning in answer.warnings]
    answer = await ask(backend("24"), budget=Budget(max_calls=1))
    assert (answer.text, answer.agreement.decided_by) == ("24", "only_one")


async def test_the_budget_of_tokens_is_shared_by_the_samples():
    model = backend("24")
    answer = await ask(model, budget=Budget(max_tokens_total=200))
    assert answer.text == "24"
    assert all(0 < asked.max_tokens <= 40 for _, asked in model.calls)
    assert answer.usage.total_tokens <= 200


async def test_samples_of_a_seed_have_seeds_of_their_own():
    model = backend("1", "2", "3")
    await ask(model, given={"samples": 3}, seed=7)
    assert [asked.seed for _, asked in model.calls] == [7, 8, 9]


async def test_a_local_model_samples_where_no_temperature_was_given():
    local, remote = backend("1", decodings=("autoregressive",)), backend("1")
    for model in (local, remote):
        await ask(model)
    assert {asked.temperature for _, asked in local.calls} == {0.7}
    assert {asked.temperature for _, asked in remote.calls} == {None}
    answer = await ask(remote, temperature=0)
    assert answer.warnings[0].code == "option"


async def test_leaving_early_leaves_nothing_running():
    model = backend(Reply("24", hold=anyio.Event()))
    async with AsyncStretto(model) as stretto, stretto.stream(LEGS, strategy="consensus") as events:
        async for event in events:
            if event.type == "branch_started":
                break
    assert model.running == 0
    assert len(model.calls) <= 5


async def test_it_is_used_by_name_only_and_tells_its_price_before():
    async with AsyncStretto(backend("24")) as stretto:
        for preference in ("fastest", "balanced", "careful"):
            route = await stretto.route(LEGS, preference=preference)
            assert (route.strategy, "consensus" in route.forecast) == ("direct", False)
        route = await stretto.route(LEGS, **options(samples=9))
    assert (route.strategy, route.forecast["consensus"].calls) == ("consensus", 9)
    assert route.forecast["consensus"].tokens == 9 * route.forecast["direct"].tokens


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (options(sampels=3), "holds 'sampels'.*Its options are: samples, certainty"),
        (options(samples=1), "samples=1, which cannot be used: input should be greater than or equal to 2"),
        (
            {"strategy": "consensus", "strategy_options": {"end_weak": True}},
            "with samples=5 no sample would ever be ended, because that begins once warm_up=8 have finished",
        ),
        ({"strategy": "direct", "strategy_options": {"samples": 3}}, "strategy='direct' has none. Leave them out"),
        ({"strategy_options": {"samples": 3}}, "strategy='auto' has none. Name the strategy"),
        (options(judge="nobody"), "judge='nobody'.*main"),
    ],
)
def test_wrong_options_are_named(request_, said):
    with Stretto(backend("24")) as stretto, pytest.raises(InvalidRequestError, match=said):
        stretto.ask(LEGS, **request_)


def test_a_vote_is_open_while_it_can_change():
    assert decided(Counter(), 5, 0.95) is None
    assert decided(Counter({"a": 2, "b": 1}), 1, 1.0) is None
    assert decided(Counter({"a": 3, "b": 1}), 1, 1.0) == "unchangeable"
    assert decided(Counter({"a": 4}), 20, 0.95) == "certain"
