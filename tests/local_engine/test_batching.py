"""Requests that share an engine: nobody starves, nothing is left behind, drafts stop where they do not pay."""

import gc

import pytest
from asking import PROMPTS, outcome, submit_together, tokens
from wild_drafters import Oracle

from stretto.local_engine.drafting.auto import Auto
from stretto.local_engine.drafting.calibration import Experience
from stretto.local_engine.drafting.catalogue import DRAFTERS, EQUIPPED
from stretto.local_engine.drafting.protocol import Autoregressive
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.generation import Generation

USUAL = {1: 10.0, 8: 11.4, 16: 13.3, 32: 21.0, 64: 42.0}


def auto(equipment):
    return Auto(
        StepCost(USUAL), equipment.texts, experience=equipment.learned.setdefault("auto", (Experience(), Experience()))
    )


def drafted(engine, length, requests=1):
    prompts = [PROMPTS[2]] * requests
    asked = [
        Generation(prompt, length, temperature=2.0, seed=seed, decoding="auto") for seed, prompt in enumerate(prompts)
    ]
    ends = [outcome(handle)[1] for handle in submit_together(engine, asked)]
    return sum(sum(end.figures.drafted.values()) for end in ends) / requests


@pytest.mark.parametrize("requests", [1, 4])
def test_auto_all_but_stops_drafting_where_nothing_is_accepted(requests, loaded, start):
    """By counts: a row takes 2% of a step by the table, so what is drafted in the second hundred takes below 1%."""
    first = drafted(start(loaded("llama"), drafters={"auto": auto}), 100, requests)
    assert first <= 60
    assert drafted(start(loaded("llama"), drafters={"auto": auto}), 200, requests) - first <= 40


def test_auto_need_not_learn_again_what_an_earlier_request_has_taught_it(loaded, start):
    engine = start(loaded("llama"), drafters={"auto": auto})
    first, second = drafted(engine, 100), drafted(engine, 100)
    assert first >= 10
    assert second < first


def test_a_request_without_drafts_gets_its_token_in_every_step_of_the_others(loaded, start):
    """Those that have all their drafts accepted take all the rows there are, and hold nobody up."""
    model = loaded("llama")
    plain = start(model)
    answers = {prompt: tokens(plain.submit(Generation(prompt, 60))) for prompt in PROMPTS}
    kinds = {"greedy": lambda _: Oracle(answers), "plain": lambda _: Autoregressive()}
    engine = start(model, drafters=kinds, draft_nodes=16)
    asked = [Generation(prompt, 60, decoding="greedy") for prompt in PROMPTS[1:]]
    handles = submit_together(engine, [Generation(PROMPTS[0], 60, decoding="plain"), *asked])
    ends = [outcome(handle)[1] for handle in handles]
    assert [handle.sequence.generated for handle in handles] == [answers[prompt] for prompt in PROMPTS]
    assert ends[0].figures.steps == ends[0].figures.tokens == 59
    assert sum(end.figures.tokens_per_step > 1.2 for end in ends[1:]) >= 3


def test_those_that_wait_are_admitted_in_the_order_in_which_they_came(loaded, start):
    engine, told = start(loaded("llama"), batch_size=2), []
    with engine.announced():
        handles = [
            engine.submit(Generation(PROMPTS[0], 5), lambda event, number=number: told.append((number, event)))
            for number in range(6)
        ]
    tokens(engine.submit(Generation(PROMPTS[1], 5)))
    assert [number for number, event in told if not hasattr(event, "text")] == [*range(6)]
    assert all(handle.finished for handle in handles)


def test_when_a_request_is_told_of_its_end_nothing_of_it_is_held(loaded, start):
    engine = start(loaded("llama"))
    for handle in submit_together(engine, [Generation(prompt, 20) for prompt in PROMPTS]):
        tokens(handle)
    assert (engine.occupancy.running, engine.occupancy.slots, engine.occupancy.waiting) == (0, 0, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("decoding", sorted(DRAFTERS.keys() - EQUIPPED))
def test_what_a_request_held_is_free_without_a_garbage_collection(decoding, loaded, start):
    """In a large program, one that looks at everything is minutes away; a circle would stay until then."""
    engine = start(loaded("llama"), draft_history_tokens=20)
    tokens(engine.submit(Generation(PROMPTS[0], 4, decoding=decoding)))
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for number, prompt in enumerate(PROMPTS):
            form = "[a-f]{5}" if number % 2 else None
            request = Generation(prompt, 12, end_ids=frozenset({2}), decoding=decoding, response_format=form)
            tokens(engine.submit(request))
        gc.collect()
        circles = [type(thing).__name__ for thing in gc.garbage if type(thing).__module__.startswith("stretto.")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert circles == []


def steps(engine, seed, decoding):
    _, end = outcome(engine.submit(Generation(PROMPTS[0], 80, temperature=2.0, seed=seed, decoding=decoding)))
    return end.figures.steps


@pytest.mark.parametrize("decoding", ["suffix", "auto"])
def test_earlier_answers_help_only_if_asked_to(decoding, loaded, start, monkeypatch):
    """The same seed says the same again, which no source but the memory can foresee."""
    monkeypatch.setattr(StepCost, "observe", lambda *_: None)  # where other work runs, `auto` may find drafts too dear
    forgetful, engine = start(loaded("llama")), start(loaded("llama"), draft_history_tokens=1000)
    for each in (forgetful, engine):
        each._cost.fit({1: 10.0, 64: 10.1})
        first, again = steps(each, 1, decoding), steps(each, 1, decoding)
        assert again < first / 2 if each is engine else again > 0.8 * first


def test_earlier_answers_that_are_forgotten_help_no_more(loaded, start):
    engine = start(loaded("llama"), draft_history_tokens=1000)
    first, again = steps(engine, 1, "suffix"), steps(engine, 1, "suffix")
    engine.forget_learned()
    assert again < first / 2
    assert steps(engine, 1, "suffix") > 0.8 * first
