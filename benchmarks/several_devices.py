"""A model over two processes of one machine: what a step costs, and for how long the stages of a pipeline wait.

    python benchmarks/several_devices.py --keep
    python benchmarks/several_devices.py --threads 8 --large --keep     on a machine with 16 cores

A random model of the Llama family in float32, in transformers' forward. Ways: one process with as many threads as each
of two has, one process with the threads of both, and two processes (tensor, pipeline, context). The ways take turns
within a round. Printed: milliseconds of a step by the number of requests, and of a prompt, medians with spread; for
pipelines, the bubble by the size of a microbatch. On a machine without idle cores for all processes, nothing here is
faster than one process: the table shows what the division itself costs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measuring import IMAGES, Spread, machine
from measuring import save as keep
from plots import plot
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.model.cache import KeyValueCache
from stretto.local_engine.model.flatten import flatten
from stretto.local_engine.model.forward import Forward, TransformersForward
from stretto.local_engine.model.load import LoadedModel, prepare
from stretto.local_engine.model.rows import Rows
from stretto.local_engine.model.source import find_source
from stretto.local_engine.parallel.forward import SharedForward
from stretto.local_engine.parallel.layout import Layout
from stretto.local_engine.parallel.load import load_divided

ROUNDS, STEPS, PROMPT, VOCABULARY = 3, 4, 256, 4096
REQUESTS = (1, 4, 16)
MICROBATCHES = (4, 16, 10_000)  # rows at least; the last one divides nothing
PIPELINES = {f"pipeline 2, {rows} rows": rows for rows in MICROBATCHES}
USUAL = "pipeline 2, 16 rows"
DIVIDED = {"tensor 2": Layout(tensor=2), "context 2": Layout(context=2), **dict.fromkeys(PIPELINES, Layout(pipeline=2))}
SMALL: dict[str, Any] = {
    "hidden_size": 384,
    "intermediate_size": 1152,
    "num_hidden_layers": 8,
    "num_attention_heads": 6,
}
LARGE: dict[str, Any] = {
    "hidden_size": 1536,
    "intermediate_size": 4608,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
}
console = Console(width=150)


def save(folder: Path, *, large: bool) -> None:
    """Write a random model of 17 million parameters, or of 350 million."""
    words = {f"w{number}": number for number in range(VOCABULARY)}
    inner = Tokenizer(models.WordLevel(words, unk_token="w0"))  # noqa: S106 - no password
    PreTrainedTokenizerFast(tokenizer_object=inner).save_pretrained(folder)  # type: ignore[no-untyped-call]
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        eos_token_id=None,
        bos_token_id=None,
        **(LARGE if large else SMALL),
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def whole(folder: Path) -> LoadedModel:
    """The model in this process, in the same forward as the others."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    loaded = prepare(f"local:{folder}", model, tokenizer, compiled=False, general=TransformersForward)
    assert isinstance(loaded.forward, TransformersForward)
    return loaded


def prompt(batch: int, length: int) -> Rows:
    """The first rows of some texts."""
    tokens = torch.arange(batch * length).view(batch, length) % VOCABULARY
    return Rows(tokens, torch.arange(length).expand(batch, length), length)


def step_ms(forward: Forward, requests: int) -> float:
    """Milliseconds of one step of so many requests, with 32 tokens before it."""
    cache = KeyValueCache(requests)
    forward(prompt(requests, 32), cache, torch.tensor([31]))
    texts = [[number] * 33 for number in range(requests)]
    began = time.perf_counter()
    for _ in range(STEPS):
        forward(flatten(texts, [DraftTree()] * requests, torch.device("cpu")), cache, torch.tensor([0]))
        texts = [[*text, 1] for text in texts]
    return (time.perf_counter() - began) / STEPS * 1e3


def prompt_ms(forward: Forward) -> float:
    """Milliseconds of reading a prompt in one forward."""
    rows = prompt(1, PROMPT)
    began = time.perf_counter()
    forward(rows, KeyValueCache(1), torch.tensor([PROMPT - 1]))
    return (time.perf_counter() - began) * 1e3


TASKS: dict[str, Callable[[Forward], float]] = {
    **{f"step of {count}": partial(step_ms, requests=count) for count in REQUESTS},
    f"prompt of {PROMPT}": prompt_ms,
}


@contextmanager
def divided(folder: Path, threads: int, progress: Progress) -> Iterator[dict[str, SharedForward]]:
    """The model over two processes in each way."""
    source, forwards = find_source(str(folder)), dict[str, SharedForward]()
    try:
        for way, layout in progress.track(DIVIDED.items(), description="starting processes"):
            rows = PIPELINES.get(way)
            model = load_divided(source, layout, dtype="float32", device="cpu", threads=threads, microbatch=rows)
            assert isinstance(model.forward, SharedForward)
            forwards[way] = model.forward
        yield forwards
    finally:
        for forward in forwards.values():
            forward.close()


def ways(
    one: Forward, forwards: dict[str, SharedForward], rounds: int, threads: int, progress: Progress
) -> dict[str, dict[str, Spread]]:
    """Time every way # way -> task."""
    usual = {way: (forward, threads) for way, forward in forwards.items() if way == USUAL or way not in PIPELINES}
    every: dict[str, tuple[Forward, int]] = {"one process": (one, threads), "one, all threads": (one, 2 * threads)}
    every |= usual
    found: dict[str, dict[str, list[float]]] = {}
    for number in progress.track(range(rounds + 1), description="ways"):
        for name, (forward, own) in every.items():
            torch.set_num_threads(own)
            for task, run in TASKS.items():
                took = run(forward)
                if number:  # the first round warms up
                    found.setdefault(name, {}).setdefault(task, []).append(took)
    return {name: {task: Spread.of(took) for task, took in tasks.items()} for name, tasks in found.items()}


def bubbles(
    forwards: dict[str, SharedForward], rounds: int, progress: Progress
) -> dict[int, dict[str, tuple[Spread, float]]]:
    """Divide the rows of a pipeline more and more finely # rows of a microbatch -> task -> milliseconds and bubble."""
    tasks = {name: TASKS[name] for name in ("step of 16", f"prompt of {PROMPT}")}
    times: dict[tuple[int, str], list[tuple[float, float, float]]] = {}
    for number in progress.track(range(rounds + 1), description="bubbles"):
        for way, rows in PIPELINES.items():
            for name, run in tasks.items():
                forward = forwards[way]
                forward.busy_s = forward.span_s = 0.0
                took = run(forward)
                if number:
                    times.setdefault((rows, name), []).append((took, forward.busy_s, forward.span_s))
    found: dict[int, dict[str, tuple[Spread, float]]] = {}
    for (rows, name), each in times.items():
        took_all, busy, span = zip(*each, strict=True)
        found.setdefault(rows, {})[name] = Spread.of(took_all), 1 - sum(busy) / sum(span)
    return found


def told(result: dict[str, Any]) -> None:
    """Print both tables."""
    table = Table("ms", *TASKS, title=f"{result['machine']}, {result['threads']} threads a process")
    for name, tasks in result["ways"].items():
        table.add_row(name, *(str(tasks[task]) for task in TASKS))
    console.print(table)
    names = next(iter(result["bubbles"].values()))
    columns = [f"{task}, {what}" for task in names for what in ("ms", "bubble")]
    table = Table("rows of a microbatch", *columns, title="pipeline 2")
    for rows, tasks in result["bubbles"].items():
        cells = [cell for took, share in tasks.values() for cell in (str(took), f"{share:.0%}")]
        table.add_row(f"{rows:,} or more" if rows < PROMPT else "undivided", *cells)
    console.print(table)


def draw(result: dict[str, Any]) -> None:
    """Plot each way over one process, and the bubbles, as they are kept in ``several_devices.json``."""
    ways_, base, bubbles_ = result["ways"], result["ways"]["one process"], result["bubbles"]

    def figure(plt: Any, colours: Any) -> Any:
        made, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), width_ratios=(2, 1))
        shown = [name for name in ways_ if name != "one process"]
        for number, name in enumerate(shown):
            places = [place + number / (len(shown) + 1) for place in range(len(TASKS))]
            heights = [ways_[name][task]["median"] / base[task]["median"] for task in TASKS]
            left.bar(places, heights, 0.8 / len(shown), label=name)
        left.axhline(1, color=colours.dim, linewidth=1)
        left.set_yscale("log")
        left.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
        left.minorticks_off()
        left.set_xticks([place + 0.3 for place in range(len(TASKS))], list(TASKS))
        left.set_ylabel("time over that of one process")
        left.legend(fontsize=8)
        tasks = list(next(iter(bubbles_.values())))
        names = [f"{rows} or more" if int(rows) < PROMPT else "undivided" for rows in bubbles_]
        for number, task in enumerate(tasks):
            places = [place + number / (len(tasks) + 1) for place in range(len(names))]
            right.bar(places, [100 * each[task][1] for each in bubbles_.values()], 0.8 / len(tasks), label=task)
        right.axhline(50, color=colours.dim, linewidth=1)
        right.set_xticks([place + 0.15 for place in range(len(names))], names)
        right.set(xlabel="rows of a microbatch", ylabel="bubble of two stages, %")
        right.legend(fontsize=8)
        return made

    plot(IMAGES / "several-devices", figure)


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--large", action="store_true", help="350 million parameters instead of 17")
    parser.add_argument("--keep", action="store_true", help="in benchmarks/results/; redraw.py plots it")
    options = parser.parse_args()
    result: dict[str, Any] = {"machine": machine(), "threads": options.threads, "large": options.large}
    with tempfile.TemporaryDirectory() as name, torch.inference_mode(), Progress(console=console) as progress:
        folder = Path(name)
        save(folder, large=options.large)
        one = whole(folder).forward
        with divided(folder, options.threads, progress) as forwards:
            result["ways"] = ways(one, forwards, options.rounds, options.threads, progress)
            result["bubbles"] = bubbles(forwards, options.rounds, progress)
    told(result)
    if options.keep:
        console.print(f"kept in {keep('several_devices', result)}")


if __name__ == "__main__":
    main()
