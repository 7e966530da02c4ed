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
from collections.abc import Callable
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
DIVIDED = {"tensor 2": Layout(tensor=2), "pipeline 2": Layout(pipeline=2), "context 2": Layout(context=2)}
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


def ways(folder: Path, rounds: int, threads: int, progress: Progress) -> dict[str, dict[str, Spread]]:
    """Time every way # way -> task."""
    bar = progress.add_task("ways", total=len(DIVIDED) + (rounds + 1) * (len(DIVIDED) + 2))
    one, source, loaded = whole(folder).forward, find_source(str(folder)), list[LoadedModel]()
    forwards: dict[str, tuple[Forward, int]] = {"one process": (one, threads), "one, all threads": (one, 2 * threads)}
    found: dict[str, dict[str, list[float]]] = {}
    try:
        for way, layout in DIVIDED.items():
            loaded.append(load_divided(source, layout, dtype="float32", device="cpu", threads=threads))
            forwards[way] = loaded[-1].forward, threads
            progress.advance(bar)
        for number in range(rounds + 1):
            for name, (forward, own) in forwards.items():
                torch.set_num_threads(own)
                for task, run in TASKS.items():
                    took = run(forward)
                    if number:  # the first round warms up
                        found.setdefault(name, {}).setdefault(task, []).append(took)
                progress.advance(bar)
    finally:
        for model in loaded:
            model.free()
    return {name: {task: Spread.of(took) for task, took in tasks.items()} for name, tasks in found.items()}


def bubbles(folder: Path, rounds: int, threads: int, progress: Progress) -> dict[int, dict[str, tuple[Spread, float]]]:
    """Divide the rows of a pipeline more and more finely # rows of a microbatch -> task -> milliseconds and bubble."""
    tasks = {name: TASKS[name] for name in ("step of 16", f"prompt of {PROMPT}")}
    bar, found = progress.add_task("bubbles", total=len(MICROBATCHES)), dict[int, dict[str, tuple[Spread, float]]]()
    for rows in MICROBATCHES:
        layout, source = Layout(pipeline=2), find_source(str(folder))
        model = load_divided(source, layout, dtype="float32", device="cpu", threads=threads, microbatch=rows)
        forward = model.forward
        assert isinstance(forward, SharedForward)
        try:
            for name, run in tasks.items():
                run(forward)
                forward.busy_s = forward.span_s = 0.0
                took = Spread.of([run(forward) for _ in range(rounds)])
                assert forward.bubble is not None
                found.setdefault(rows, {})[name] = took, forward.bubble
        finally:
            model.free()
        progress.advance(bar)
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
    """Plot each way over one process, as it is kept in ``several_devices.json``."""
    ways_, base = result["ways"], result["ways"]["one process"]

    def figure(plt: Any, colours: Any) -> Any:
        made, axes = plt.subplots(figsize=(7, 3.2))
        shown = [name for name in ways_ if name != "one process"]
        for number, name in enumerate(shown):
            places = [place + number / (len(shown) + 1) for place in range(len(TASKS))]
            heights = [ways_[name][task]["median"] / base[task]["median"] for task in TASKS]
            axes.bar(places, heights, 0.8 / len(shown), label=name)
        axes.axhline(1, color=colours.dim, linewidth=1)
        axes.set_xticks([place + 0.3 for place in range(len(TASKS))], list(TASKS))
        axes.set_ylabel("time over that of one process")
        axes.legend()
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
        folder, given = Path(name), (options.rounds, options.threads, progress)
        save(folder, large=options.large)
        result["ways"] = ways(folder, *given)
        result["bubbles"] = bubbles(folder, *given)
    told(result)
    if options.keep:
        console.print(f"kept in {keep('several_devices', result)}")


if __name__ == "__main__":
    main()
