"""Products of a prompt's rows with weights in few bits: as whole numbers, or unpacked into floats before.

    python benchmarks/block_products.py
    python benchmarks/block_products.py --clock cpu    processor time, next to other work on the machine

The shapes are those of SmolLM2-135M; one layer is all four products. What is unpacked is unpacked before the clock
starts, so those columns are the least that unpacking into tiles could take. Milliseconds of a layer, medians with
spread; the ways take turns within a round.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from measuring import Spread, machine
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor
from torch.nn.functional import linear

from stretto.local_engine.kernels.compiling.compiled_parts import BLOCKS, product
from stretto.local_engine.kernels.compiling.compiler import compile_now
from stretto.local_engine.kernels.panels import Panels, layout_for
from stretto.local_engine.kernels.thread_team import end_threads, limit_threads
from stretto.local_engine.model.quantised.blocks import Blocks
from stretto.local_engine.model.quantised.rounding import rounded_to

SHAPES = ((960, 576), (576, 576), (3072, 576), (576, 1536))  # outputs and inputs
ROWS = (1, 8, 64, 256, 1000)
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
Way = Callable[[Tensor], Tensor]


def ways() -> dict[str, list[Way]]:
    """The products of a layer in each way."""
    draw, found = np.random.default_rng(1), dict[str, list[Way]]()
    for outer, inner in SHAPES:
        weight = draw.normal(size=(outer, inner)).astype(np.float32)
        for bits in (4, 8):
            blocks = Blocks.joined([rounded_to(f"int{bits}", weight)])
            found.setdefault(f"whole numbers, {bits} bits", []).append(blocks)
            if bits == 8:
                continue
            dense = blocks.dense()
            found.setdefault("float32, our panels", []).append(
                Panels.of(dense, layout_for([dense], dtype=torch.float32))
            )
            found.setdefault("float32, torch", []).append(partial(linear, weight=dense))
            found.setdefault("bfloat16, torch", []).append(_in_bfloat16(dense.bfloat16()))
    return found


def _in_bfloat16(weight: Tensor) -> Way:
    return lambda rows: linear(rows.bfloat16(), weight).float()


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    limit_threads(options.threads)
    assert compile_now([product(BLOCKS), product("float32")])
    clock = CLOCKS[options.clock]
    layers, found = ways(), dict[tuple[str, int], list[float]]()
    with torch.inference_mode():
        for number in track(range(options.rounds + 1), description="rounds"):
            for count in ROWS:
                rows = {inner: torch.randn(count, inner) for _, inner in SHAPES}
                for name, layer in layers.items():
                    began = clock()
                    for way, (_, inner) in zip(layer, SHAPES, strict=True):
                        way(rows[inner])
                    if number:  # the first round warms up
                        found.setdefault((name, count), []).append((clock() - began) * 1e3)
    table = Table(
        "ms a layer",
        *(f"{count:,} rows" for count in ROWS),
        title=f"{machine()}, {options.threads} threads, {options.clock} time",
    )
    for name in layers:
        table.add_row(name, *(str(Spread.of(found[name, count])) for count in ROWS))
    Console(width=150).print(table)
    end_threads()


if __name__ == "__main__":
    main()
