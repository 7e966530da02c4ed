"""A slice of the soak, and the batching benchmark at its smallest, on a tiny model."""

from dataclasses import replace

import batching
import memory
import numpy as np
import pytest
import soak
import torch
import transformers
from asking import PROMPTS
from tiny_models import build

from stretto.local_engine.generation import Finished, Generation


def test_thirty_mixed_requests_leave_nothing_behind(loaded):
    model = replace(loaded("llama"), context_window=256)
    report = soak.run(model, PROMPTS, 24, tokens=40, seed=3, sample=8, warm_up=6)
    assert report.clean
    assert sum(report.reasons.values()) == 30
    assert [number for number, _ in report.memory] == [*range(-6, 24)]
    assert report.reasons["cancelled"] >= 3
    assert report.compared == 8


def test_what_the_soak_reports_can_be_bad():
    flat = memory.Slope(0.0, 0.0)
    report = soak.Report({"length": 2}, 0, 0, 0, 2, 0, flat, flat, (99.0, 99.0), [], 100.0, 1.0)
    assert report.clean
    for fault in ("ends_missing", "slots_left", "threads_left", "different"):
        assert not replace(report, **{fault: 1}).clean
    assert not replace(report, reasons={"length": 1, "error": 1}).clean


def test_a_soak_compares_only_what_ended_by_itself():
    asked = soak.Asked(Generation((1,), 3), None, ends=[Finished("length")])
    assert soak._comparable(asked)
    assert not soak._comparable(replace(asked, ends=[Finished("cancelled")]))
    assert not soak._comparable(replace(asked, request=Generation((1,), 3, temperature=0.7)))


def test_what_is_kept_of_a_soak_does_not_grow_with_it(loaded, start):
    engine, ledger = start(loaded("llama")), soak.Ledger(40, 5, 0)
    for number in range(40):
        ledger.wait()
        ledger.send(engine, soak.Asked(Generation(PROMPTS[number % 5], 2), None), number)
    ledger.wait(until_all=True)
    assert ledger.end_counts == bytes([1] * 40)
    assert ledger.reasons == {"length": 40}
    assert (len(ledger.sample), len(ledger.recent), ledger._running) == (5, soak.AT_ONCE, [])
    assert all(asked.handle is None and len(asked.answer) == 2 for asked in ledger.sample)


def test_a_slope_is_found_in_noise_with_its_error():
    chance = np.random.default_rng(0)
    noise = chance.normal(0, 1000, 1000)
    growing = memory.Slope.of([int(10 * number + each) for number, each in enumerate(noise)])
    assert abs(growing.each - 10) < 3 * growing.error < 2
    flat = memory.Slope.of([int(each) for each in noise])
    assert abs(flat.each) < 3 * flat.error
    assert memory.Slope.of([1, 2, 3]) == memory.Slope(0.0, 0.0)


def test_what_malloc_gave_out_is_counted():
    before = memory.given_out()
    if before is None:
        pytest.skip("malloc does not tell here")
    held = torch.ones(2**22)  # 16 MiB
    assert 2**24 <= memory.given_out() - before < 2**24 + 2**20
    del held
    assert memory.given_out() - before < 2**20


@pytest.mark.parametrize("together", [True, False])
def test_our_requests_are_timed_and_their_tokens_counted(together, loaded, start):
    run = batching.ours(start(loaded("llama")), PROMPTS[:3], 6, "autoregressive", together=together)
    assert run.tokens == 18
    assert all(0 < first <= end for first, end in zip(run.firsts, run.ends, strict=True))
    assert (sorted(run.ends) == run.ends) or together


def test_the_padded_peer_says_the_same(loaded, start):
    ours = batching.ours(start(loaded("llama")), PROMPTS, 6, "auto")
    peer = batching.padded(build("llama").eval(), PROMPTS, 6)
    row = batching.Row.of("peer", [peer], ours.answers)
    assert row.same_answers == 1
    assert (row.requests, row.tokens_per_s.median) == (5, pytest.approx(30 / max(peer.ends)))


def test_the_continuous_peer_says_the_same_or_why_it_cannot_run(loaded, start, capsys):
    transformers.utils.logging.set_verbosity_error()
    engine = start(loaded("llama"))
    found = batching.methods(engine, build("llama").eval(), 6)
    run = found.get("transformers generate_batch")
    if run is None:
        assert "cannot run here" in capsys.readouterr().out
        return
    ours = batching.ours(engine, PROMPTS, 6, "autoregressive")
    assert run(PROMPTS).answers == ours.answers


def test_percentiles_are_values_that_were_measured():
    assert batching.percentile([3.0, 1.0, 2.0], 0.95) == 3.0
    assert batching.percentile(list(range(1, 101)), 0.95) == 95
    assert batching.percentile([7.0], 0.5) == 7.0
