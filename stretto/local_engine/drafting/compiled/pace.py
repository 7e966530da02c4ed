"""What a step with drafts takes, for compiled code; see `stretto.local_engine.drafting.step_cost`."""

from __future__ import annotations

from stretto.local_engine.kernels.jit import inner

__all__ = ["step_ms"]


@inner
def step_ms(costs, rows):
    """Milliseconds of a step with so many rows more than without drafts; ``costs`` is what `StepCost.curve` says."""
    table, plain, unit, surplus, own = costs
    return plain + surplus + unit * (table[min(own + rows, len(table)) - 1] - table[own - 1])
