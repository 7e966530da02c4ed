"""Sizes that compiled code and torch's side of it agree on."""

from __future__ import annotations

__all__ = ["PANEL", "STOPPED"]

PANEL = 16
"""Outputs whose weights stand side by side: a register of AVX-512, two of AVX2, four of NEON."""

STOPPED = -(2**62)
"""Let into a counter, it lets all threads go that wait at it; see `stretto.local_engine.kernels.vectors.meet`."""
