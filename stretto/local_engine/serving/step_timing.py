"""Measures what a step costs on this machine, by its number of rows."""

from __future__ import annotations

import time
from collections.abc import Generator

import torch

from stretto.local_engine.choosing.sampling import most_probable
from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.model.cache import KeyValueCache
from stretto.local_engine.model.flatten import flatten
from stretto.local_engine.model.load import LoadedModel
from stretto.local_engine.model.rows import Rows

__all__ = ["measure_step_cost", "measuring"]

_ROWS = (1, 2, 4, 8, 16, 32, 64)
_TEXT = 64
_REPETITIONS = 5
_DEAR = 6.0  # steps of one row; more rows are not measured, because they would not be drafted
_LIMIT_S = 3.0


def measure_step_cost(model: LoadedModel) -> StepCost:
    """Time steps of 1, 2, 4, ... 64 rows behind a short text; the fastest of a few repetitions counts.

    A step of several rows has a draft tree, because the layout and the mask of a tree are part of the cost. Timing ends
    early where rows are too expensive to be drafted, and on slow machines after some seconds.
    """
    with torch.inference_mode():
        steps = measuring(model)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                return StepCost(done.value)


def measuring(model: LoadedModel) -> Generator[None, None, dict[int, float]]:
    """Do what `measure_step_cost` does, one forward at a time, so that requests can run in between.

    Only inside `torch.inference_mode`.

    Returns:
        milliseconds by number of rows.
    """
    longest = max(2, min(_TEXT, model.context_window // 2))
    rows_fitting = [rows for rows in _ROWS if longest + rows <= model.context_window]
    device = model.device
    ids = torch.zeros(1, longest + _ROWS[-1], dtype=torch.long, device=device)
    positions = torch.arange(longest + _ROWS[-1], device=device)[None]
    text = [0] * (longest + 1)
    cache = KeyValueCache(1)
    model.forward(Rows(ids[:, :longest], positions[:, :longest], longest), cache, positions[0, :1])
    measured: dict[int, float] = {}
    spent = 0.0
    for rows in rows_fitting:
        tree = DraftTree()
        tree.add_path([0] * (rows - 1), [1.0] * (rows - 1))  # any model has a token 0
        times: list[float] = []
        while len(times) <= _REPETITIONS:  # the first of a shape may be slower
            yield
            start = time.perf_counter()
            logits = model.forward(flatten([text], [tree], device), cache, positions[0, :rows])
            most_probable(logits).tolist()
            times.append(time.perf_counter() - start)
            spent += times[-1]
            if len(times) > 1 and spent > _LIMIT_S:
                break
        measured[rows] = min(times[1:]) * 1e3
        if measured[rows] > _DEAR * measured[1] or spent > _LIMIT_S:
            break
    return measured
