"""What an adapter kept apart from the weights costs: steps and prompts with adapters, over those without.

    python benchmarks/adapters.py                            SmolLM2 as it is stored, two LoRAs of rank 16 and one of 64
    python benchmarks/adapters.py --clock cpu --threads 1    processor time, next to other work on the machine

The adapters change all products of all layers, by random numbers. The tasks take turns within a round. Milliseconds and
the quotient, medians with spread of the rounds.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from measuring import Spread, machine
from rich.console import Console
from rich.progress import track
from rich.table import Table

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.kernels.compiling.compiler import compile_now
from stretto.local_engine.kernels.thread_team import end_threads, limit_threads
from stretto.local_engine.model.adapters.attached_lora import attach_lora
from stretto.local_engine.model.adapters.lora import LoraAdapter, LoraDelta
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.flatten import flatten
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading.load import LoadedModel, load_model
from stretto.local_engine.model.loading.source import find_source

Adapters = tuple[str | None, ...]
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
LAYERS, WIDTH, KEYS, INNER = 30, 576, 192, 1536
SHAPES = {
    "self_attn.q": (WIDTH, WIDTH),
    "self_attn.k": (KEYS, WIDTH),
    "self_attn.v": (KEYS, WIDTH),
    "self_attn.o": (WIDTH, WIDTH),
    "mlp.gate": (INNER, WIDTH),
    "mlp.up": (INNER, WIDTH),
    "mlp.down": (WIDTH, INNER),
}
"""Outputs and inputs."""
RANKS = {"first": 16, "second": 16, "large": 64}
READ, PROMPT = 64, 512
TASKS: dict[str, tuple[int, Adapters]] = {
    "a step, rank 16": (1, ("first",)),
    "a step, rank 64": (1, ("large",)),
    "a step of 8 requests, two adapters and none": (
        1,
        ("first", "second", None, "first", "second", None, None, "first"),
    ),
    f"a prompt of {PROMPT}, rank 16": (PROMPT, ("first",)),
}
"""Rows of each request, and their adapters."""


def lora(rank: int) -> LoraAdapter:
    """Random changes of all products of SmolLM2."""
    draw = torch.Generator().manual_seed(rank)
    changes = {
        f"model.layers.{layer}.{name}_proj": LoraDelta(
            torch.randn(rank, inner, generator=draw) / 30, torch.randn(outer, rank, generator=draw) / 300
        )
        for layer in range(LAYERS)
        for name, (outer, inner) in SHAPES.items()
    }
    return LoraAdapter(Path(f"rank-{rank}"), changes)


def took(model: LoadedModel, clock: Callable[[], float], rows: int, adapters: Adapters) -> float:
    """Milliseconds of a forward."""
    count, given = len(adapters), None if adapters == (None,) * len(adapters) else adapters
    cache = KeyValueCache(count)
    if rows == 1:
        texts = torch.arange(READ).expand(count, READ)
        model.forward(Rows(texts + 1, texts, READ, adapters=given), cache, torch.tensor([READ - 1]))
        asked = replace(
            flatten([[*range(1, READ + 1), 7]] * count, [DraftTree()] * count, model.device), adapters=given
        )
    else:
        texts = torch.arange(rows).expand(count, rows)
        asked = Rows(texts + 1, texts, rows, adapters=given)
    began = clock()
    model.forward(asked, cache, torch.tensor([rows - 1]))
    return 1e3 * (clock() - began)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    limit_threads(options.threads)
    model, found = load_model(find_source("local:smollm2")), dict[str, list[tuple[float, float]]]()
    assert isinstance(model.forward, LlamaForward)
    for name, rank in RANKS.items():
        attach_lora(model, name, lora(rank))
    assert compile_now(model.forward.lora_parts)
    model.forward.look_for_code()
    run = partial(took, model, CLOCKS[options.clock])
    with torch.inference_mode():
        for number in track(range(options.rounds + 1), description="rounds"):
            for task, (rows, adapters) in TASKS.items():
                pair = run(rows, (None,) * len(adapters)), run(rows, adapters)
                if number:  # the first round warms up
                    found.setdefault(task, []).append(pair)
    table = Table(
        "ms", "without", "with", "over", title=f"{machine()}, {options.threads} threads, {options.clock} time"
    )
    for task, pairs in found.items():
        without, with_them = zip(*pairs, strict=True)
        over = [right / left for left, right in pairs]
        table.add_row(task, *(str(Spread.of(each)) for each in (without, with_them, over)))
    Console(width=150).print(table)
    end_threads()


if __name__ == "__main__":
    main()
