"""The place in a given text where an answer has arrived, on scripted streams of tokens."""

# ruff: noqa: S311 - what is drawn here is no secret
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import generate

from stretto.local_engine.draft_tree import ROOT
from stretto.local_engine.drafting.aggressive.aggressive import Aggressive
from stretto.local_engine.drafting.aggressive.alignment import Alignment, Reason
from stretto.local_engine.drafting.auto import Auto
from stretto.local_engine.drafting.prompt_lookup import PromptLookup
from stretto.local_engine.drafting.protocol import DraftContext
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.drafting.suffix import Suffix

SOURCE = list(range(100, 160))  # each token once
BEFORE, BEHIND = [1, 2, 3], [4, 5]


def follow(text, source=SOURCE, *, begins=True):
    alignment = Alignment(source, begins=begins)
    for end in range(1, len(text) + 1):
        alignment.follow(text[:end], end - 1)
    return alignment


def steps(drafter, source, answer):
    """Steps that an answer takes, by a model that writes it whatever comes."""
    prompt = [*BEFORE, *source, *BEHIND]
    whole = [*prompt, *answer]

    def target(text):
        return [whole[len(text)] if len(text) < len(whole) else 0, *range(900, 907)]

    return generate(drafter, target, prompt, len(answer), rows=32)


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        (SOURCE[:20], 20),  # copied
        ([*SOURCE[:20], 7, *SOURCE[21:23]], 23),  # replaced
        ([*SOURCE[:20], 7, 8, 9, *SOURCE[20:22]], 22),  # inserted
        ([*SOURCE[:20], *SOURCE[25:27]], 27),  # deleted
        ([*SOURCE[:20], 7, *SOURCE[24:26]], 26),  # a span replaced by one token
        ([*SOURCE[:9], *SOURCE[50:53]], 53),  # a jump
        ([*SOURCE[:30], *[7] * 90, *SOURCE[2:5]], 5),  # back, long after
    ],
)
def test_the_place_is_found_again_after_a_change(answer, place):
    alignment = follow(answer)
    assert (alignment.place, alignment.left) == (place, 0)


def test_auto_names_it_as_the_source_of_what_it_alone_has_drafted():
    drafter = Auto(StepCost({1: 10.0, 64: 10.1}), extra_sources=[Aggressive(SOURCE)])
    tree = drafter.propose(DraftContext([1, 2, 3], 3, 1000), 4)
    assert tree.tokens[:3] == SOURCE[:3]
    assert set(tree.sources) == {"aggressive"}


def test_it_is_not_found_by_one_token_nor_by_two_that_are_far_from_where_it_was():
    assert follow([*SOURCE[:5], 7, SOURCE[6]]).left == 2
    assert follow([*SOURCE[:5], 7, *[8] * 70, *SOURCE[50:52]]).left is None
    assert follow([7, 8, *SOURCE[10:12]], begins=False).left is None
    assert follow([7, 8, *SOURCE[10:13]], begins=False).place == 13


def test_of_several_places_the_one_where_more_agrees_is_taken_and_then_the_nearest():
    source = [1, 2, 3, 50, 9, 1, 2, 3, 60, 8, 1, 2, 3, 70]
    assert follow([8, 1, 2, 3], source, begins=False).place == 13
    assert follow([9, 1, 2, 3], source, begins=False).place == 8
    away = Alignment(source, begins=True)
    away.place, away.left = 4, 0
    away.follow([9, 77, 1, 2, 3], 0)
    assert away.place == 8


def test_right_after_a_change_the_draft_says_how_the_text_may_go_on():
    drafter = Aggressive(SOURCE)
    context = DraftContext([1, *SOURCE[:20], SOURCE[25]], 1, 1000)
    tree = drafter.propose(context, 32)
    assert [tree.child(ROOT, token) is not None for token in (126, 121, 120)] == [True] * 3  # deleted, replaced, added


def test_a_change_that_was_made_is_drafted_where_the_source_says_the_same_again():
    source = [*range(10, 30), 50, 51, 13, 14, 15, 50, 51, 16, 17]
    answer = [*range(10, 30), 60, 13, 14, 15, 60, 16, 17]
    drafter, context = Aggressive(source), DraftContext([1, *answer[:23]], 1, 100)
    tree, node = drafter.propose(context, 20), ROOT
    for token in answer[23:]:
        node = tree.child(node, token)
        assert node is not None


def test_a_change_that_is_not_made_again_is_drafted_no_more():
    source = [value for start in range(0, 60, 3) for value in (start + 100, 50, start + 101)]
    changed = [*source]
    changed[1] = 60
    alignment = follow(changed, source)
    change = alignment.change_at(4)
    assert change is not None
    assert (change.written, change.claim < 0.1) == ((60,), True)


@given(
    st.lists(st.integers(0, 5), max_size=40),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3), st.lists(st.integers(0, 7), max_size=3)), max_size=6),
    st.lists(st.integers(1, 6), max_size=30),
    st.booleans(),
)
def test_however_a_text_arrives_it_is_followed_to_the_same_place(source, edits, cuts, begins):
    text = list(source)
    for place, deleted, inserted in edits:
        text[place : place + deleted] = inserted
    whole, parts, end = Alignment(source, begins=begins), Alignment(source, begins=begins), 0
    whole.follow(text, 0)
    for cut in [*cuts, len(text)]:
        parts.follow(text[: end + cut], end)
        end = min(end + cut, len(text))
    assert vars(parts) == vars(whole)
    assert 0 <= whole.place <= len(source)
    assert whole.left is None or 0 <= whole.left <= len(text)
    for guess in whole.guesses(text):
        assert 0 < guess.claim <= 1
        assert guess.place >= 0
    copied = [guess.place for guess in whole.guesses(text) if guess.reason == Reason.COPIES]
    assert copied == ([whole.place] if whole.left == 0 else [])


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_a_source_of_distinct_tokens_is_found_within_two_tokens_of_any_short_change(seed, length):
    random = Random(seed)
    at, kind = random.randrange(5, 40), random.choice(["replace", "insert", "delete"])
    answer = [*SOURCE]
    new = [] if kind == "delete" else [900 + number for number in range(length)]
    answer[at : at if kind == "insert" else at + length] = new
    alignment = follow(answer[: at + len(new) + 2])
    expected = at + 2 + (0 if kind == "insert" else length)
    assert (alignment.place, alignment.left) == (expected, 0)


def edited(rate, seed=1):
    """A source, and the same with a share of its tokens replaced, left out or followed by another one."""
    random = Random(seed)
    source = [100 + min(int(random.expovariate(0.03)), 200) for _ in range(200)]
    answer = []
    for token in source:
        kind = random.random() / rate
        if kind >= 1 / 3:
            answer.append(token if kind >= 2 / 3 else random.randrange(400, 900))
        if 2 / 3 <= kind < 1:
            answer.append(random.randrange(400, 900))
    return source, answer


def test_an_edit_takes_fewer_steps_than_by_repetitions_alone():
    source, answer = edited(0.05)
    found = {
        drafter.name: steps(drafter, source, answer).steps
        for drafter in (
            PromptLookup(),
            Suffix(),
            Aggressive(),
            Auto(StepCost({1: 10.0, 128: 10.1}), extra_sources=[Aggressive()]),
        )
    }
    assert found["aggressive"] < 0.95 * found["suffix"] < 0.8 * found["prompt_lookup"]
    assert found["auto"] < 0.95 * found["suffix"]


def test_a_text_that_is_no_copy_is_soon_left_alone():
    source = [Random(5).randrange(20) for _ in range(200)]
    other = [Random(f"{place}").randrange(20) for place in range(400)]
    drafter, context = Aggressive(), DraftContext([*source, *other[:100]], 200, 1000)
    drafter.propose(context, 8)
    looks = 0
    for token in other[100:]:
        context.tokens.append(token)
        looks += drafter.standing(context) > 0
    assert looks < 30


def test_a_source_of_any_length_and_an_empty_prompt_are_followed():
    for source in ([], [1], [1, 2], [1, 1, 1, 1]):
        run = generate(Aggressive(source), lambda _: [1, *range(2, 9)], [3], 20)
        assert run.text == [3, *[1] * (len(run.text) - 1)]
