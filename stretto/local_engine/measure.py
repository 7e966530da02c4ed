"""What a step costs on this machine by its number of rows."""

from __future__ import annotations

import time

import torch

from stretto.local_engine.cache import KeyValueCache, Rows
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.load import LoadedModel

__all__ = ["BatchStepCost", "measure_step_cost"]

_ROWS = (1, 2, 4, 8, 16, 32, 64)
_TEXT = 64
_REPETITIONS = 5
_DEAR = 6.0
_LIMIT_S = 3.0


class BatchStepCost(StepCost):
    """Milliseconds of a step by the rows of one sequence, where ``sequences`` have as many each.

    So drafts shrink as the batch grows, to none when rows are no longer spare (Liu et al., arXiv:2406.14066).
    """

    sequences = 1

    def __call__(self, rows: int) -> float:
        """Milliseconds of a step with this many rows, 1 or more, of each sequence."""
        return super().__call__(rows * self.sequences)

    def alone(self, rows: int) -> float:
        """Milliseconds of a step with this many rows of one sequence, whatever runs now."""
        return super().__call__(rows)

    def nearly_free(self, allowance: float = 1.02) -> int:
        """Number of rows beside the first that make a step at most so many times as long."""
        return max(rows for rows in range(1, _ROWS[-1] + 1) if self(rows) <= allowance * self(1)) - 1


def measure_step_cost(model: LoadedModel) -> BatchStepCost:
    """Time steps of 1, 2, 4, ... 64 rows behind a short text; the fastest of a few repetitions counts.

    It ends early where rows have become too dear to be drafted, and on slow machines after some seconds.
    """
    with torch.inference_mode():
        longest = max(2, min(_TEXT, model.context_window // 2))
        rows_fitting = [rows for rows in _ROWS if longest + rows <= model.context_window]
        device = model.device
        ids = torch.zeros(1, longest + _ROWS[-1], dtype=torch.long, device=device)
        places = torch.arange(longest + _ROWS[-1], device=device)[None]
        cache = KeyValueCache(1)
        model.forward(Rows(ids[:, :longest], places[:, :longest], longest), cache, places[0, :1])
        measured: dict[int, float] = {}
        begun = time.perf_counter()
        for rows in rows_fitting:
            here = slice(longest, longest + rows)
            step = Rows(ids[:, here], places[:, here], longest + rows)
            times = []
            for _ in range(_REPETITIONS + 1):  # the first of a shape may be slower
                start = time.perf_counter()
                model.forward(step, cache, places[0, :rows]).argmax(-1).tolist()
                times.append((time.perf_counter() - start) * 1e3)
                if len(times) > 1 and time.perf_counter() - begun > _LIMIT_S:
                    break
            measured[rows] = min(times[1:])
            if measured[rows] > _DEAR * measured[1] or time.perf_counter() - begun > _LIMIT_S:
                break
    return BatchStepCost(measured)
