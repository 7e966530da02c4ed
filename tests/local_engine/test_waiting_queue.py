"""The one queue of an engine: who is admitted when, and what is told of the way to the first token."""

import logging
import threading
from dataclasses import replace

from asking import PROMPTS, submit_together, tokens
from forwards import Watched
from patience import patience
from tiny_models import WINDOW

from stretto.local_engine.generation import Finished, Generation


def test_a_request_comes_through_all_stages_before_its_first_text(loaded, start):
    seen, ended = [], threading.Event()

    def listen(event):
        seen.append(type(event).__name__)
        if isinstance(event, Finished):
            ended.set()

    engine = start(loaded("llama"))
    engine.submit(Generation(PROMPTS[0], 3), listen, on_stage=lambda stage, at_s: seen.append((stage, at_s)))
    assert ended.wait(patience(60))
    assert [stage for stage, _ in seen[:4]] == ["submitted", "admitted", "prompt_read", "first_token"]
    assert [at_s for _, at_s in seen[:4]] == sorted(at_s for _, at_s in seen[:4])
    assert seen[-1] == "Finished"


def test_a_request_without_a_slot_stays_in_the_queue_and_the_log_says_why(loaded, start, caplog):
    engine = start(loaded("llama"), batch_size=1)
    with caplog.at_level(logging.DEBUG, "stretto.local_engine.serving"):
        first, second = submit_together(engine, [Generation(PROMPTS[0], 30), Generation(PROMPTS[1], 2)])
        tokens(second)
    assert first.finished
    assert second.stages["admitted"] > first.stages["first_token"]
    waits = [record.stretto for record in caplog.records if record.stretto["event"] == "requests wait"]
    assert ("no slot is free", 1) in {(fields["reason"], fields["waiting"]) for fields in waits}


def test_each_request_leaves_a_line_with_its_times_and_none_of_its_text(loaded, start, caplog):
    engine = start(loaded("llama"))
    with caplog.at_level(logging.INFO, "stretto.local_engine.serving"):
        handle = engine.submit(Generation(PROMPTS[0], 5))
        tokens(handle)
    (record,) = [record for record in caplog.records if record.stretto["event"] == "request ended"]
    fields = record.stretto
    assert record.name == "stretto.local_engine.serving"
    assert (fields["request"], fields["reason"]) == (handle.number, "length")
    assert (fields["prompt_tokens"], fields["completion_tokens"]) == (len(PROMPTS[0]), 5)
    assert 0 <= fields["queue_s"] <= fields["first_token_s"] <= fields["total_s"]
    assert record.getMessage().startswith(f"request ended: request={handle.number} reason=length queue_s=")
    assert {type(value) for value in fields.values()} <= {int, float, str}
    assert {value for value in fields.values() if isinstance(value, str)} == {
        "request ended",
        "length",
        "autoregressive",
    }


def test_a_long_prompt_is_not_passed_over_by_one_short_prompt_after_the_other(loaded, start):
    model, admitted, handles = loaded("llama"), [], []
    lengths = iter([2, 2, WINDOW - 60, *[2] * 30])

    def forward(rows, cache, keep):
        if length := next(lengths, 0):  # while the first request runs, there are always short ones in the queue
            request = Generation((20 + len(handles),) * length, 2)
            handles.append(engine.submit(request, on_stage=lambda stage, _: admitted.append((stage, length))))
        return model.forward(rows, cache, keep)

    engine = start(replace(model, forward=Watched(model.forward, forward)))
    tokens(engine.submit(Generation(PROMPTS[0], 60)))
    for handle in handles:
        tokens(handle)
    order = [length for stage, length in admitted if stage == "admitted"]
    assert len(order) == 33
    assert order.index(WINDOW - 60) < 20
