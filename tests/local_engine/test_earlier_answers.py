"""Drafts from what was written before, and from files: the answers stay what they are, and nobody's reach another."""

import pytest
from asking import PROMPTS, outcome, submit_together, tokens

from stretto.local_engine.drafting.sources.files import FileTexts
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.generation import Generation

SAMPLED = {"temperature": 2.0, "seed": 3}


def steps(engine, **given):
    _, end = outcome(engine.submit(Generation(PROMPTS[0], 80, **{"decoding": "suffix", **SAMPLED, **given})))
    return end.figures.steps


@pytest.mark.parametrize("decoding", ["suffix", "auto", "aggressive"])
def test_answers_stay_the_same_greedy_sampled_in_a_batch_and_with_a_schema(decoding, loaded, start):
    model = loaded("llama")
    asked = [
        {"max_new_tokens": 40},
        {"max_new_tokens": 30, **SAMPLED},
        {"max_new_tokens": 30, "temperature": 0.7, "seed": 9},
        {"max_new_tokens": 24, "response_format": "[a-f]{12}", "end_ids": frozenset({2})},
        {"max_new_tokens": 30, "draft": (9, 8, 7, 6)},
    ]
    plain = start(model)
    expected = [tokens(plain.submit(Generation(prompt, **given))) for prompt, given in zip(PROMPTS, asked, strict=True)]
    engine = start(model, draft_history_tokens=500, files=FileTexts([expected[0], expected[1][::-1], list(PROMPTS[1])]))
    for answer in range(3):  # what was said before is known from the second time on
        requests = [
            Generation(prompt, decoding=decoding, answer=answer, **given)
            for prompt, given in zip(PROMPTS, asked, strict=True)
        ]
        found = [tokens(handle) for handle in submit_together(engine, requests)]
        assert found == expected


def test_earlier_answers_help_their_own_tenant_and_no_other(loaded, start):
    engine = start(loaded("llama"), draft_history_tokens=1000)
    first = steps(engine, tenant="mine")
    assert steps(engine, tenant="mine") < first / 2
    assert steps(engine, tenant="another") == first
    assert steps(engine) == first
    assert steps(engine, tenant="") == steps(engine, tenant="") == first
    assert steps(engine) < first / 2


def test_parts_of_one_answer_draft_for_each_other_though_no_answers_are_kept(loaded, start):
    engine = start(loaded("llama"))
    first = steps(engine, answer=1)
    assert steps(engine, answer=1) < first / 2
    assert steps(engine, answer=2) == first


def test_a_part_drafts_from_another_that_is_still_being_written(loaded, start):
    engine = start(loaded("llama"))
    given = {"decoding": "suffix", "answer": 1, **SAMPLED}
    ahead = engine.submit(Generation(PROMPTS[0], 200, **given))
    read = 0
    for event in ahead:
        read += len(event.tokens)
        if read > 40:
            break
    behind = engine.submit(Generation(PROMPTS[0], 30, **given))
    _, end = outcome(behind)
    ahead.cancel()
    assert behind.sequence.generated == ahead.sequence.generated[:30]
    assert end.figures.steps < 15


def test_files_are_drafted_from(loaded, start, monkeypatch):
    monkeypatch.setattr(StepCost, "observe", lambda *_: None)  # where other work runs, `auto` may find drafts too dear
    model = loaded("llama")
    plain = start(model)
    answer = tokens(plain.submit(Generation(PROMPTS[0], 80, **SAMPLED)))
    engine = start(model, files=FileTexts([list(range(5, 90)), answer]))
    assert steps(engine) < steps(plain) / 2
    for each in (engine, plain):
        each._cost.fit({1: 10.0, 64: 10.1})
    assert steps(engine, decoding="auto") < steps(plain, decoding="auto")
