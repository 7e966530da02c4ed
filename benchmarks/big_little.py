"""`big_little` on a real model: its speed, and how many tokens it changes, beside `draft_model` and no drafts.

    python benchmarks/big_little.py                       local:smollm2, and itself without some of its layers
    python benchmarks/big_little.py --leave-out 4 8 16    other numbers of layers
    python benchmarks/big_little.py --clock wall          time as it passes, on a machine that nobody else uses

No smaller model with SmolLM2's tokenizer comes with Stretto, so the little model is the big one without some layers of
its middle, not trained any further. That is a poor little model: a trained one of the same size agrees more often. The
table therefore shows how often it agrees as well. Answers are greedy; for each question the methods take turns, each
beside an answer without drafts. A run ends after ``--minutes``, with what it has.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from measuring import IMAGES, Spread, machine, save
from plots import plot, recorded
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from stretto.display.palette import Palette
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
SURPRISES = (1.0, 4.0)
WARM_UP = 8  # tokens of each method before anything is measured
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
    return prepare(f"{name} without {left_out} layers", *shortened(name, left_out))


def shortened(name: str, left_out: int) -> tuple[Any, Any]:
    """The same, of transformers, and its tokenizer."""
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
    return model, tokenizer


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


@dataclass(frozen=True)
class Way:
    """A method with a little model, or without: ``left_out`` layers, and ``surprise`` of `big_little`."""

    method: str
    engine: Engine
    left_out: int = 0
    surprise: float | None = None


def ways_of(given: argparse.Namespace, big: LoadedModel) -> list[Way]:
    """No drafts first, then each little model by both methods."""
    ways = [Way("autoregressive", Engine(big, prefix_cache_bytes=0))]
    for left_out in given.leave_out:
        little = little_of(given.model, left_out)
        ways.append(Way("draft_model", Engine(big, draft=little, prefix_cache_bytes=0), left_out))
        for surprise in SURPRISES:
            options = {"big_little": {"surprise": surprise}}
            engine = Engine(big, draft=little, prefix_cache_bytes=0, method_options=options)
            ways.append(Way("big_little", engine, left_out, surprise))
    return ways


def rows_of(ways: Sequence[Way], runs: Mapping[int, list[tuple[float, Run]]]) -> list[dict[str, Any]]:
    """What each method with a little model came to."""
    rows = []
    for place, way in enumerate(ways[1:], 1):
        if not runs[place]:  # the time was up
            continue
        faster, shown = Spread.of([ratio for ratio, _ in runs[place]]), [run for _, run in runs[place]]
        means = {
            name: statistics.mean(getattr(run, name) for run in shown)
            for name in ("tokens_per_step", "accepted", "divergence")
        }
        about = {"method": way.method, "left_out": way.left_out, "surprise": way.surprise, "answers": len(shown)}
        rows.append({**about, "faster": vars(faster), **means})
    return rows


def told(rows: Sequence[dict[str, Any]]) -> Table:
    """The rows as a table."""
    table = Table("method", "layers left out", "surprise", "times as fast", "tokens a step", "accepted", "changed")
    for row in rows:
        table.add_row(
            row["method"], str(row["left_out"]), "" if row["surprise"] is None else f"{row['surprise']:g}",
            str(Spread(**row["faster"])), f"{row['tokens_per_step']:.2f}", f"{row['accepted']:.0%}",
            f"{row['divergence']:.0%}",
        )  # fmt: skip
    return table


def draw(result: dict[str, Any]) -> None:
    """Speed by the share of changed tokens, one mark for each method and little model."""

    def drawn(plt: Any, colours: Palette) -> Any:
        figure, axes = plt.subplots(figsize=(7.2, 3.6))
        for left_out in sorted({row["left_out"] for row in result["rows"]}):
            own = [row for row in result["rows"] if row["left_out"] == left_out]
            changed = [100 * row["divergence"] for row in own]
            faster = [row["faster"]["median"] for row in own]
            axes.plot(changed, faster, marker="o", label=f"without {left_out} of its layers")
            for row, x, y in zip(own, changed, faster, strict=True):
                name = "draft_model" if row["surprise"] is None else f"surprise {row['surprise']:g}"
                axes.annotate(name, (x, y), xytext=(4, 5), textcoords="offset points", fontsize=8, color=colours.dim)
        axes.axhline(1, color=colours.field, zorder=0)
        axes.set_xlabel("% of tokens that the larger model would not have chosen")
        axes.set_ylabel("times as fast as without drafts")
        axes.set_ylim(bottom=0)
        axes.legend(title=f"little model: {result['model']}", loc="lower right")
        return figure

    plot(IMAGES / "big-little", drawn)
    recorded("python benchmarks/redraw.py", ["big-little.png"], "benchmarks/results/big_little.json")


def main() -> None:
    """Measure, print, keep and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:smollm2")
    parser.add_argument("--leave-out", type=int, nargs="+", default=[4, 10])
    parser.add_argument("--questions", type=int, default=len(QUESTIONS), choices=range(1, len(QUESTIONS) + 1))
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=4.0, help="after which no further answer is begun")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=CLOCKS, default="cpu")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    big, clock = load_model(find_source(given.model), dtype="float32"), CLOCKS[given.clock]
    prompts = [
        tuple(
            big.tokenizer.apply_chat_template([{"role": "user", "content": each}], add_generation_prompt=True)[
                "input_ids"
            ]
        )
        for each in QUESTIONS[: given.questions]
    ]
    ways = ways_of(given, big)
    runs: dict[int, list[tuple[float, Run]]] = defaultdict(list)
    turns = [prompt for _ in range(given.repetitions) for prompt in prompts]
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("warming up", total=len(turns) * (len(ways) - 1) + len(ways))
        for way in ways:
            answered(way.engine, prompts[0], way.method, WARM_UP, clock)
            progress.advance(task)
        until = time.monotonic() + 60 * given.minutes
        for prompt in turns:
            for place in random.sample(range(1, len(ways)), len(ways) - 1):
                if time.monotonic() > until:
                    break
                progress.update(task, description=ways[place].method)
                plain = answered(ways[0].engine, prompt, ways[0].method, given.tokens, clock)
                run = answered(ways[place].engine, prompt, ways[place].method, given.tokens, clock)
                runs[place].append((plain.seconds / run.seconds, run))
                progress.advance(task)
    for way in ways:
        way.engine.close()
    rows = rows_of(ways, runs)
    Console(width=110).print(machine(), told(rows))
    setting = {name: getattr(given, name) for name in ("model", "tokens", "threads", "clock")}
    result = {"machine": machine(), **setting, "rows": rows}
    save("big_little", result)
    draw(result)


if __name__ == "__main__":
    main()
