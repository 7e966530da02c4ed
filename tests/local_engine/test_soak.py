"""A slice of the soak, and the batching benchmark at its smallest, on a tiny model."""

from dataclasses import replace

import batching
import pytest
import soak
import transformers
from asking import PROMPTS
from tiny_models import build

from stretto.local_engine.generation import Finished, Generation


def test_thirty_mixed_requests_leave_nothing_behind(loaded):
    report = soak.run(replace(loaded("llama"), context_window=256), PROMPTS, 30, tokens=40, seed=3, sample=8)
    assert report.clean
    assert sum(report.reasons.values()) == 30
    assert report.reasons["cancelled"] >= 3
    assert report.compared == 8


def test_what_the_soak_reports_can_be_bad():
    report = soak.Report({"length": 2}, 0, 0, 0, 2, 0, 10.0, 100.0, 1.0)
    assert report.clean
    for fault in ("ends_missing", "slots_left", "threads_left", "different"):
        assert not replace(report, **{fault: 1}).clean
    assert not replace(report, reasons={"length": 1, "error": 1}).clean


def test_a_soak_compares_only_what_ended_by_itself():
    asked = soak.Asked(Generation((1,), 3), None, ends=[Finished("length")])
    assert soak._comparable(asked)
    assert not soak._comparable(replace(asked, ends=[Finished("cancelled")]))
    assert not soak._comparable(replace(asked, request=Generation((1,), 3, temperature=0.7)))


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
