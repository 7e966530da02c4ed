import gpu
import pytest
import torch

from stretto.local_engine.drafting.step_cost import StepCost


def test_without_a_gpu_one_message_says_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main([]) == 2
    assert "No CUDA device" in capsys.readouterr().out


@pytest.mark.thorough
def test_the_whole_of_it_runs_on_toy_sizes(capsys):
    assert gpu.main(["--tiny", "--device", "cpu", "--seconds", "60", "--repetitions", "1"]) == 0
    shown = capsys.readouterr().out
    for said in (
        *("plain step over the floor", "64 rows over 1 row", "auto over the floor", "lookahead"),
        *("hf prompt lookup", "first token of 40, transformers", "batches, engine", "batches, transformers"),
    ):
        assert said in shown


def test_auto_over_the_floor_is_composed_of_tokens_a_step_and_the_large_models_costs():
    large = StepCost({1: 4.0, 3: 6.0})
    step = {"floor_ms": 2.0, "plain_step_ms_graphs": gpu.Spread(4.5, 4.5, 4.5)}
    methods = [
        {"method": "auto", "graphs": True, "temperature": 0.0, "tokens_per_step": 3.0, "rows_per_step": 2.5},
        {"method": "suffix", "graphs": True, "temperature": 0.0, "tokens_per_step": 9.0, "rows_per_step": 2.5},
        {"method": "auto", "graphs": False, "temperature": 0.0, "tokens_per_step": 1.0, "rows_per_step": 2.5},
    ]
    (found,) = gpu.composed(step, methods, large)
    assert found["tokens_per_s"] == pytest.approx(3 / (5.5 + 0.5) * 1000)
    assert found["over_floor"] == pytest.approx(1.0)
