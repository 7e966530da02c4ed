"""The clock by which steps and drafts are compared."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["step_clock"]

_FINE_S = 1e-5  # resolution of a clock that can time a step


def step_clock(device: torch.device) -> Callable[[], float]:
    """The clock by which steps are compared, in seconds.

    On a CPU it counts what this thread has computed, since what several rows cost over one is a matter of computing.
    Where other programs use the processor too, the time of day told that eight rows cost as much as one. A GPU computes
    while this thread waits, so there, and where the system counts in large steps, it is the time of day.
    """
    counts = device.type == "cpu" and time.get_clock_info("thread_time").resolution <= _FINE_S
    return time.thread_time if counts else time.perf_counter
