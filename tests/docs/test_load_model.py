"""The tables of benchmarks/results/load_model.md are those that the kept figures give."""

import importlib.util
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
spec = importlib.util.spec_from_file_location("make_load_model", DOCS / "make_load_model.py")
model = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = model  # where dataclasses look
spec.loader.exec_module(model)


def test_the_page_shows_what_the_kept_figures_give():
    page = model.PAGE.read_text(encoding="utf-8")
    assert model.filled(page, model.table(model.GPU_TOKENS)) == page


def load(an_hour, **costs):
    usual = {"calls": 9, "read": 1000, "written": 500, "seconds": 2.0, "server_s": 0.02, "redis_s": 1e-5, "redis_ms": 1}
    return model.Load(an_hour, model.Costs(**(usual | costs)), gpu_tokens=1000.0)


def test_a_load_is_worked_out_by_hand():
    found = load(3600 * 10 // model.PEAK)  # ten answers a second in the busiest minute
    assert found.a_second == pytest.approx(10, rel=0.01)
    assert found.at_once == pytest.approx(20, rel=0.01)
    assert found.calls_at_once == pytest.approx(160, rel=0.01)
    assert found.tokens_a_minute == pytest.approx(60 * 10 * 1500, rel=0.01)
    assert found.gpus == 5
    assert found.servers == 1
    assert found.redis == pytest.approx(10 * 9 * 1e-5, rel=0.01)


@pytest.mark.parametrize(
    ("costs", "first"),
    [({"written": 10_000}, "the GPU"), ({"written": 1, "server_s": 1.0}, "the server's processor")],
)
def test_what_is_most_overloaded_fails_first(costs, first):
    assert load(100_000, **costs).fails_first().startswith(first)


def test_a_small_load_fails_nowhere():
    assert load(10).fails_first() == "nothing"
