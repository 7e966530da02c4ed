"""Constants that compiled code and its callers share."""

from __future__ import annotations

__all__ = ["PANEL", "STOPPED"]

PANEL = 16
"""Outputs of a panel: a register of AVX-512, two of AVX2, four of NEON."""

STOPPED = -(2**62)
"""Written into a counter, it releases all threads that wait; see `stretto.local_engine.kernels.vectors.barrier`."""
