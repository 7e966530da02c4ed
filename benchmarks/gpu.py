"""The engine on a GPU: a step over the bandwidth floor, what rows cost, and `auto` over the fastest plain decoding.

    python benchmarks/gpu.py                        needs a CUDA device with 40 GB; about fifteen minutes
    python benchmarks/gpu.py --alone                the engine only, without transformers; four minutes
    python benchmarks/gpu.py --tiny --device cpu    the same code on toy sizes, to see that it runs; keeps nothing

1. A Llama of 8 billion parameters, random weights, bfloat16: the time of a plain step over the time in which its
   weights can be read, with CUDA graphs and without; a forward by its number of rows. One sequence, the first token of
   2,000 and batches, compared with transformers: as it is, without cuDNN's attention, and with a static cache and
   its forward compiled.
2. A small Llama, trained here on the standard library's Python source, continues files that were held out: tokens a
   step and a second of every method, greedily and at temperature 0.7, with graphs and without, and how many of the
   answers are those of one token at a time. `auto` draws as many rows as pay at the large model's costs.
3. Both together: the tokens that a step of `auto` gives, over the time that a step of the large model with as many rows
   takes. One token at a time cannot be faster than the bandwidth allows, so that is what it is compared with. It is
   composed of two measurements and called so.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from bandwidth import floor_ms, read_bandwidth, synchronise, weight_bytes
from comparison.figures import distinct
from comparison.larger import SMALL, Shape, random_model
from comparison.ours import Ours
from comparison.run import Run, Task
from gpu_peers import against_peers, peers, single
from measuring import Spread, machine, save
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from transformers import AutoTokenizer
from transformers.utils import logging

from recipes.pocket.source import held_out_source, training_source
from stretto.local_engine.drafting.auto import Auto
from stretto.local_engine.drafting.catalogue import DRAFTERS
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.graphs.recorded_steps import GraphedForward
from stretto.local_engine.model.loading.load import LoadedModel, prepare
from stretto.local_engine.pocket import pocket_folder
from stretto.local_engine.serving.engine import Engine
from stretto.local_engine.serving.step_timing import measure_step_cost

LLAMA_8B = Shape(4096, 14336, 32, 32, 8, 128_256, tied=False)
TRAINED = Shape(768, 2048, 12, 12, 4, 8192)  # about 80 million parameters
METHODS = ("autoregressive", "jacobi", "lookahead", "prompt_lookup", "suffix", "auto")
ROWS = (1, 2, 4, 8, 16, 32, 64)
HEATS = (0.0, 0.7)
CODE_CHARACTERS = 1500
console = Console(width=None if sys.stdout.isatty() else 130)


def step_cost(options: argparse.Namespace) -> tuple[dict[str, Any], StepCost]:
    """Part 1: the figures, and the large model's costs by rows."""
    shape = SMALL if options.tiny else LLAMA_8B
    model, tokenizer = random_model(shape, torch.bfloat16, options.device)
    size = weight_bytes(model)
    loaded = replace(prepare("local:random", model, tokenizer), end_ids=frozenset())
    if not options.tiny and not isinstance(loaded.forward, GraphedForward):
        console.print("[yellow]the engine does not record CUDA graphs for this model[/]")
    bandwidth = max(read_bandwidth(max(size // 1_000_000, 1), device=options.device) for _ in range(3))
    figures: dict[str, Any] = {
        "gigabytes": size / 1e9,
        "bandwidth_gb_s": bandwidth,
        "floor_ms": floor_ms(size, bandwidth),
    }
    bare = LlamaForward(model)
    for name, forward in (("graphs", loaded.forward), ("no_graphs", bare)):
        figures[f"plain_step_ms_{name}"] = plain_step(replace(loaded, forward=forward), options)
        cost = measure_step_cost(replace(loaded, forward=forward))
        figures[f"rows_ms_{name}"] = {rows: cost(rows) for rows in ROWS}
    engine = Engine(loaded, prefix_cache_bytes=0)
    try:
        model.generation_config.eos_token_id = None
        figures["beside"] = against_peers(
            engine, model, tiny=options.tiny, repetitions=options.repetitions, alone=options.alone
        )
    finally:
        engine.close()
    return figures, measure_step_cost(loaded)


def plain_step(model: LoadedModel, options: argparse.Namespace) -> Spread:
    """Milliseconds of a step of one row, as a request sees it: forward, choice, and everything between two steps."""
    engine = Engine(model, prefix_cache_bytes=0)
    try:
        method, times = Ours(engine, "autoregressive"), []
        for repetition in range(options.repetitions + 1):
            run = method.answer(Task(tuple(range(5, 69)), 8 if options.tiny else 128))
            if repetition:
                times.append(1e3 * run.decoding_s / max(run.decoded, 1))
    finally:
        engine.close()
    return Spread.of(times)


def batches(tokens: torch.Tensor, rows: int, length: int, seed: int) -> Iterator[torch.Tensor]:
    """Pieces of the source, at random places, for ever # [rows, length]."""
    chance = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(len(tokens) - length, (rows,), generator=chance)
        yield torch.stack([tokens[start : start + length] for start in starts.tolist()])


def train(options: argparse.Namespace, tokenizer: Any, progress: Progress) -> tuple[Any, dict[str, Any]]:
    """A Llama trained on the standard library's source, for so many seconds; its loss on the held-out files too."""
    shape = replace(SMALL, vocabulary=len(tokenizer)) if options.tiny else replace(TRAINED, vocabulary=len(tokenizer))
    model, _ = random_model(shape, torch.float32, options.device)
    text = "\n\n".join(list(training_source().values())[: 3 if options.tiny else None])
    tokens = torch.tensor(tokenizer(text).input_ids)
    rows, length = (2, 32) if options.tiny else (32, 512)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    began, loss, steps = time.perf_counter(), torch.tensor(0.0), 0
    task = progress.add_task("training", total=options.seconds)
    model.train()
    for batch in batches(tokens, rows, length, seed=1):
        spent = time.perf_counter() - began
        if spent > options.seconds or (options.tiny and steps == 3):
            break
        # Warm up over the first twentieth of the time, then fall to a tenth.
        share = spent / options.seconds
        rate = 1e-3 * min(1.0, share * 20 + 0.05) * (1 - 0.9 * share)
        for group in optimiser.param_groups:
            group["lr"] = rate
        ids = batch.to(options.device)
        with torch.autocast(options.device, torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        steps += 1
        if steps % 20 == 0:
            synchronise(options.device)
            progress.update(task, completed=spent)
    progress.remove_task(task)
    model.eval().to(torch.bfloat16)
    unseen = torch.tensor(tokenizer("\n\n".join(held_out_source().values())).input_ids)
    with torch.inference_mode():
        ids = unseen[: len(unseen) // length * length].view(-1, length)[:32].to(options.device)
        held_out = float(model(input_ids=ids, labels=ids).loss)
    return model, {"steps": steps, "seconds": options.seconds, "loss": float(loss.detach()), "held_out_loss": held_out}


def acceptance(options: argparse.Namespace, large: StepCost, progress: Progress) -> dict[str, Any]:
    """Part 2: tokens and rows a step of each method on the held-out files."""
    tokenizer: Any = AutoTokenizer.from_pretrained(pocket_folder())
    model, training = train(options, tokenizer, progress)
    loaded = replace(prepare("local:trained", model, tokenizer), end_ids=frozenset())
    files = list(held_out_source().values())[: 1 if options.tiny else 8]
    prompts = [tuple(tokenizer(text[:CODE_CHARACTERS]).input_ids) for text in files]
    rows, bare = [], replace(loaded, forward=getattr(loaded.forward, "plain", loaded.forward))
    limit, total = 8 if options.tiny else 256, 2 * len(HEATS) * len(METHODS)
    task = progress.add_task("acceptance", total=total)
    for graphs, ready in ((True, loaded), (False, bare)):
        drafters = {**DRAFTERS, "auto": lambda equipment: Auto(large, equipment.texts)}
        engine = Engine(ready, drafters=drafters, prefix_cache_bytes=0)
        try:
            for heat in HEATS:
                tasks = [Task(ids, limit, heat, seed) for seed, ids in enumerate(prompts)]
                alone: list[Run] = []
                for name in METHODS:
                    Ours(engine, name).answer(tasks[0])  # what is made only once is not counted
                    runs = [Ours(engine, name).answer(each) for each in tasks]
                    alone = alone or runs
                    rows.append({"graphs": graphs, **summed(name, heat, runs, alone)})
                    progress.advance(task)
        finally:
            engine.close()
    others = [] if options.alone else peers(model, slots=max(map(len, prompts)) + limit)
    model.generation_config.eos_token_id = None
    training["peers"] = single(others, [Task(ids, limit) for ids in prompts], options.repetitions)
    return {"training": training, "methods": rows}


def summed(name: str, heat: float, runs: Sequence[Run], alone: Sequence[Run]) -> dict[str, Any]:
    """The figures of one method over all its answers; ``alone`` are those of one token at a time."""
    steps, seconds = max(sum(run.steps for run in runs), 1), sum(run.decoding_s for run in runs)
    decoded, read = sum(run.decoded for run in runs), sum(run.rows for run in runs)
    return {
        "method": name,
        "temperature": heat,
        "tokens_per_step": decoded / steps,
        "rows_per_step": read / steps,
        "tokens_per_s": decoded / max(seconds, 1e-9),
        "same_answers": sum(run.tokens == own.tokens for run, own in zip(runs, alone, strict=True)),
        "answers": len(runs),
        "distinct_4_grams": distinct([run.tokens for run in runs]),
    }


def composed(figures: dict[str, Any], methods: Sequence[dict[str, Any]], large: StepCost) -> list[dict[str, float]]:
    """Part 3: `auto` over the floor of one token at a time, at each temperature."""
    found = []
    for row in methods:
        if row["method"] != "auto" or not row["graphs"]:
            continue
        step = interpolated(large, row["rows_per_step"])
        # Besides the forward a step has its own overhead: what a plain step takes longer than a forward of one row.
        overhead = max(figures["plain_step_ms_graphs"].median - large(1), 0.0)
        speed = row["tokens_per_step"] / (step + overhead) * 1e3
        floor = 1e3 / figures["floor_ms"]
        found.append(
            {
                "temperature": row["temperature"],
                "tokens_per_s": speed,
                "floor_tokens_per_s": floor,
                "over_floor": speed / floor,
            }
        )
    return found


def interpolated(cost: StepCost, rows: float) -> float:
    """Milliseconds of a step with a mean number of rows."""
    low = int(rows)
    return cost(low) + (rows - low) * (cost(low + 1) - cost(low))


def show_step(step: dict[str, Any]) -> None:
    """Print part 1."""
    console.print(
        f"{step['gigabytes']:.2f} GB at {step['bandwidth_gb_s']:.0f} GB/s: floor {step['floor_ms']:.3f} ms; "
        f"plain step {step['plain_step_ms_graphs']} ms with graphs, {step['plain_step_ms_no_graphs']} without"
    )
    for name in ("graphs", "no_graphs"):
        costs = ", ".join(f"{rows}: {cost:.3f}" for rows, cost in step[f"rows_ms_{name}"].items())
        console.print(f"forward by rows, {name}, ms: {costs}")
    show_peers("large model, one sequence", step["beside"]["single"])
    for name, spread in step["beside"]["first_token_ms"].items():
        console.print(f"first token of {step['beside']['prompt_tokens']}, {name}: {spread} ms")
    for name, speeds in step["beside"]["batch_tokens_per_s"].items():
        console.print(f"batches, {name}, tokens/s: {', '.join(f'{size}: {each}' for size, each in speeds.items())}")


def show(results: dict[str, Any]) -> None:
    """Print parts 2 and 3."""
    table = Table("method", "graphs", "temperature", "tokens/step", "rows/step", "tokens/s", "as alone", "4-grams")
    for row in results["acceptance"]["methods"]:
        cells = (row["tokens_per_step"], row["rows_per_step"], row["tokens_per_s"])
        numbers = [*(f"{cell:.2f}" for cell in cells), f"{row['same_answers']} of {row['answers']}"]
        graphs = "yes" if row["graphs"] else "no"
        table.add_row(row["method"], graphs, str(row["temperature"]), *numbers, f"{row['distinct_4_grams']:.2f}")
    console.print(table)
    show_peers("small model, greedy", results["acceptance"]["training"]["peers"])
    for bar in results["bars"]:
        mark = "[green]met   [/]" if bar["met"] else "[red]missed[/]"
        console.print(f"{mark} {bar['measured']:6.2f}  {'<=' if bar['at_most'] else '>='} {bar['aim']}  {bar['name']}")


def show_peers(title: str, found: Sequence[dict[str, Any]]) -> None:
    """Print what the engine is compared with."""
    table = Table(title, "tokens/s", "ms/token", "tokens/step")
    for row in found:
        table.add_row(
            row["method"], str(row["tokens_per_s"]), f"{row['ms_per_token']:.3f}", f"{row['tokens_per_step']:.2f}"
        )
    console.print(table)


def bars(step: dict[str, Any], together: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    """The aims."""
    costs = step["rows_ms_graphs"]
    found = [
        ("plain step over the floor", 1.3, step["plain_step_ms_graphs"].median / step["floor_ms"], True),
        ("64 rows over 1 row", 1.15, costs[64] / costs[1], True),
    ]
    for each in together:
        name = f"auto over the floor of one token at a time, temperature {each['temperature']} (composed)"
        found.append((name, 1.0, each["over_floor"], False))
    return [
        {"name": name, "aim": aim, "measured": value, "at_most": most, "met": value <= aim if most else value > aim}
        for name, aim, value, most in found
    ]


def device_name(device: str) -> str:
    """As it is named in the results."""
    return torch.cuda.get_device_name() if device.startswith("cuda") else "cpu"


def main(given: Sequence[str] | None = None) -> int:
    """Measure, show, keep; 2 where there is no such device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="toy sizes; results are not kept")
    parser.add_argument("--seconds", type=float, default=240.0, help="of training")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--alone", action="store_true", help="the engine without transformers")
    options = parser.parse_args(given)
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        console.print(
            "No CUDA device is here, and this benchmark is about one. Run it where there is a GPU with 40 GB, "
            "or see that its code runs: python benchmarks/gpu.py --tiny --device cpu"
        )
        return 2
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        step, large = step_cost(options)
        show_step(step)  # at once: what comes later may be cut off
        learnt = acceptance(options, large, progress)
    together = composed(step, learnt["methods"], large)
    name = device_name(options.device)
    results = {
        "machine": f"{name}; {machine()}", "torch": torch.__version__, "step": step, "acceptance": learnt,
        "composed": together, "bars": bars(step, together),
    }  # fmt: skip
    show(results)
    if not options.tiny:
        file = save(f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}-gpu", results)
        console.print(f"kept in {file.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
