"""Constants shared by compiled code and its callers."""

from __future__ import annotations

PANEL = 16
"""Outputs of a panel: a register of AVX-512, two of AVX2, four of NEON."""

STOPPED = -(2**62)
"""Counter value that releases all waiting threads; see `stretto.local_engine.kernels.vectors.barrier`."""

TABLE, PANELS, PAIRS, BLOCKS = range(4)
"""Layouts of input vectors."""

FLOAT32, BFLOAT16, FLOAT16 = range(3)
"""Types of input vectors; see `stretto.local_engine.kernels.embedding.Embedding`."""
