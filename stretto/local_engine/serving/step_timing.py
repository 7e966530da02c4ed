"""Measures what a step costs on this machine, by its number of rows."""

from __future__ import annotations

import time
from collections.abc import Generator

import torch

from stretto.local_engine.choosing.sampling import most_probable
from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.step_cost import StepCost, step_clock
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.flatten import flatten
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading.load import LoadedModel

__all__ = ["measure_step_cost", "measuring"]

_ROWS = (*range(1, 17), 20, 24, 32, 48, 64)  # each number of rows that a draft or a small batch has
_TEXT = 16  # tokens: reading 64 took longer than all that is timed before the first request
_ROUNDS = 6  # the fastest counts: the first step of a shape may be slower, and so is any beside other programs
_FIRST, _FIRST_ROUNDS = (*range(1, 9), 12, 16), 2  # rows of a first table, which is there soon
_DEAR = 6.0  # steps of one row; more rows are not measured, because they would not be drafted
_LIMIT_S = 4.0


def measure_step_cost(model: LoadedModel) -> StepCost:
    """Time steps of 1, 2, 3, ... 64 rows behind a short text; the fastest of a few rounds counts.

    Provisional: it may change in any release.

    A step of several rows has a draft tree, because the layout and the mask of a tree are part of the cost. All numbers
    of rows are timed in each round, so that other programs slow all of them down alike. Timing ends early where rows
    are too expensive to be drafted, and on slow machines after some seconds.
    """
    with torch.inference_mode():
        (*_, table) = filter(None, measuring(model))
    return StepCost(table)


def measuring(model: LoadedModel) -> Generator[dict[int, float], None, None]:
    """Do what `measure_step_cost` does, one forward at a time, so that requests can run in between.

    Only inside `torch.inference_mode`. It yields after each forward.

    Yields:
        milliseconds by number of rows behind each round from the second one on; nothing behind other forwards.
    """
    longest = max(2, min(_TEXT, model.context_window // 2))
    device = model.device
    ids = torch.zeros(1, longest + _ROWS[-1], dtype=torch.long, device=device)
    positions = torch.arange(longest + _ROWS[-1], device=device)[None]
    text = [0] * (longest + 1)
    cache = KeyValueCache(1)
    model.forward(Rows(ids[:, :longest], positions[:, :longest], longest), cache, positions[0, :1])
    yield {}
    counts = [rows for rows in _ROWS if longest + rows <= model.context_window]
    times: dict[int, list[float]] = {rows: [] for rows in counts}
    spent_s, clock = 0.0, step_clock(device)
    for number in range(_ROUNDS):
        for rows in counts:
            if number < _FIRST_ROUNDS and rows not in _FIRST:
                continue
            tree = DraftTree()
            tree.add_path([0] * (rows - 1), [1.0] * (rows - 1))  # any model has a token 0
            began, start = time.perf_counter(), clock()
            logits = model.forward(flatten([text], [tree], device), cache, positions[0, :rows])
            most_probable(logits).tolist()
            times[rows].append(1e3 * (clock() - start))
            spent_s += time.perf_counter() - began
            if rows > 1 and times[rows][-1] > _DEAR * min(times[1]):
                break
            yield {}
        is_slow = spent_s > _LIMIT_S
        if number or is_slow:
            yield {rows: min(own) for rows, own in times.items() if own}
        if is_slow:
            return
