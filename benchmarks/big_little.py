"""`big_little` on a real model: its speed, and how many tokens it changes, beside `draft_model` and no drafts.

    python benchmarks/big_little.py                       local:smollm2, and itself without some of its layers
    python benchmarks/big_little.py --leave-out 4 8 16    other numbers of layers
    python benchmarks/big_little.py --clock cpu           processor time, on a machine that others use too

No smaller model with SmolLM2's tokenizer comes with Stretto, so the little model is the big one without some layers of
its middle, not trained any further. That is a poor little model: a trained one of the same size agrees more often. The
table therefore shows how often it agrees as well. Answers are greedy; in each repetition the methods take turns.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from measuring import Spread
from rich.console import Console
from rich.progress import track
from rich.table import Table

from stretto.local_engine.generation import Finished, Generation
from stretto.local_engine.model.load import LoadedModel, load_model, prepare
from stretto.local_engine.model.source import find_source
from stretto.local_engine.model.weights import read_model
from stretto.local_engine.serving.engine import Engine

QUESTIONS = (
    "How do I look after a bicycle?",
    "Why is the sky blue?",
    "Write a short letter that thanks a neighbour for watering the plants.",
    "What should I know before I adopt a cat?",
)
SURPRISES = (1.0, 2.0, 4.0)
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass(frozen=True)
class Run:
    """One answer: seconds behind its first token for each further one, and its figures."""

    seconds: float
    tokens_per_step: float
    divergence: float
    accepted: float


def little_of(name: str, left_out: int) -> LoadedModel:
    """The model without so many layers of its middle."""
    model, tokenizer, _ = read_model(find_source(name), torch.float32, trust_remote_code=False)
    layers = list(model.model.layers)
    first = (len(layers) - left_out) // 2
    kept = layers[:first] + layers[first + left_out :]
    config = deepcopy(model.config)
    config.num_hidden_layers = len(kept)
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[: len(kept)]
    for place, layer in enumerate(kept):
        layer.self_attn.layer_idx = place
    model.model.layers = torch.nn.ModuleList(kept)
    model.config = model.model.config = config
    return prepare(f"{name} without {left_out} layers", model, tokenizer)


def answered(engine: Engine, prompt: tuple[int, ...], decoding: str, tokens: int, clock: Callable[[], float]) -> Run:
    """Answer once."""
    began = 0.0
    for event in engine.submit(Generation(prompt, tokens, decoding=decoding)):
        began = began or clock()
        if isinstance(event, Finished) and event.figures is not None:
            figures = event.figures
            drafted = sum(figures.drafted.values())
            return Run(
                (clock() - began) / figures.tokens,
                figures.tokens_per_step,
                figures.divergence,
                sum(figures.accepted.values()) / drafted if drafted else 0.0,
            )
    raise RuntimeError("the answer has no end")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:smollm2")
    parser.add_argument("--leave-out", type=int, nargs="+", default=[4, 10])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    given = parser.parse_args()
    big, clock = load_model(find_source(given.model), dtype="float32"), CLOCKS[given.clock]
    prompts = [
        tuple(
            big.tokenizer.apply_chat_template([{"role": "user", "content": each}], add_generation_prompt=True)[
                "input_ids"
            ]
        )
        for each in QUESTIONS
    ]
    rows: list[tuple[str, str, Engine]] = [("", "autoregressive", Engine(big, prefix_cache_bytes=0))]
    for left_out in given.leave_out:
        little = little_of(given.model, left_out)
        rows.append((f"-{left_out}", "draft_model", Engine(big, draft=little, prefix_cache_bytes=0)))
        for surprise in SURPRISES:
            options = {"big_little": {"surprise": surprise}}
            engine = Engine(big, draft=little, prefix_cache_bytes=0, method_options=options)
            rows.append((f"-{left_out}, surprise {surprise:g}", "big_little", engine))
    runs: dict[int, list[tuple[float, Run]]] = defaultdict(list)
    for repetition in track(range(given.repetitions + 1), "answering"):
        for prompt in prompts:
            order = random.sample(range(1, len(rows)), len(rows) - 1)
            plain = answered(rows[0][2], prompt, "autoregressive", given.tokens, clock)
            for place in order:
                run = answered(rows[place][2], prompt, rows[place][1], given.tokens, clock)
                if repetition:  # the first one compiles
                    runs[place].append((plain.seconds / run.seconds, run))
    table = Table("method", "little model", "times as fast", "tokens a step", "accepted", "changed")
    for place, (about, method, _) in enumerate(rows[1:], 1):
        shown = [run for _, run in runs[place]]
        cells: list[Any] = [
            f"{statistics.mean(getattr(run, name) for run in shown):.2f}" for name in ("tokens_per_step",)
        ]
        cells += [f"{statistics.mean(getattr(run, name) for run in shown):.0%}" for name in ("accepted", "divergence")]
        table.add_row(method, about, str(Spread.of([ratio for ratio, _ in runs[place]])), *cells)
    Console(width=110).print(table)
    for *_, engine in rows:
        engine.close()


if __name__ == "__main__":
    main()
