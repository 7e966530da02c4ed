"""A model over two processes of one machine: what a step costs, and for how long the stages of a pipeline wait.

    python benchmarks/several_devices.py

A random model of the Llama family in float32, in transformers' forward. Ways: one process with one thread, one process
with as many threads as there are cores, and two processes with one thread each (tensor, pipeline, context). The ways
take turns within a round. Printed: milliseconds of a step by the number of requests, and of a prompt, medians with
spread; for pipelines, the bubble by the size of a microbatch. On a machine without idle cores for all processes,
nothing here is faster than one process: the table shows what the division itself costs.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from measuring import Spread, machine
from rich.console import Console
from rich.progress import track
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

ROUNDS, STEPS, PROMPT, VOCABULARY = 5, 8, 256, 4096
CORES = os.cpu_count() or 1
REQUESTS = (1, 4, 8, 16)
MICROBATCHES = (4, 16, 10_000)  # rows at least; the last one divides nothing
DIVIDED = {"tensor 2": Layout(tensor=2), "pipeline 2": Layout(pipeline=2), "context 2": Layout(context=2)}


def save(folder: Path) -> None:
    """Write a random model of 17 million parameters."""
    words = {f"w{number}": number for number in range(VOCABULARY)}
    inner = Tokenizer(models.WordLevel(words, unk_token="w0"))  # noqa: S106 - no password
    PreTrainedTokenizerFast(tokenizer_object=inner).save_pretrained(folder)  # type: ignore[no-untyped-call]
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=384,
        intermediate_size=1152,
        num_hidden_layers=8,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        eos_token_id=None,
        bos_token_id=None,
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


def ways(forwards: dict[str, Forward], rounds: int) -> None:
    """Time every way, and print a table."""
    found: dict[tuple[str, str], list[float]] = {}
    for number in track(range(rounds + 1), description="ways"):
        for name, forward in forwards.items():
            torch.set_num_threads(CORES if name == "one process, all threads" else 1)
            for task, run in TASKS.items():
                took = run(forward)
                if number:
                    found.setdefault((name, task), []).append(took)
    table = Table("ms", *TASKS, title=machine())
    for name in forwards:
        table.add_row(name, *(str(Spread.of(found[name, task])) for task in TASKS))
    Console(width=170).print(table)


def bubbles(folder: Path, rounds: int) -> None:
    """Divide the rows of a pipeline more and more finely, and print its bubble."""
    tasks = {name: TASKS[name] for name in ("step of 16", f"prompt of {PROMPT}")}
    columns = [f"{task}, {what}" for task in tasks for what in ("ms", "bubble")]
    table = Table("rows of a microbatch", *columns, title="pipeline 2")
    for rows in MICROBATCHES:
        model = load_divided(find_source(str(folder)), Layout(pipeline=2), dtype="float32", threads=1, microbatch=rows)
        forward, cells = model.forward, list[str]()
        assert isinstance(forward, SharedForward)
        try:
            for run in tasks.values():
                run(forward)
                forward.busy_s = forward.span_s = 0.0
                took = Spread.of([run(forward) for _ in range(rounds)])
                assert forward.bubble is not None
                cells += [str(took), f"{forward.bubble:.0%}"]
        finally:
            model.free()
        table.add_row(f"{rows:,} or more" if rows < PROMPT else "undivided", *cells)
    Console(width=130).print(table)


def main() -> None:
    """Measure and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as name, torch.inference_mode():
        folder = Path(name)
        save(folder)
        one = whole(folder).forward
        source = find_source(str(folder))
        models_of = {
            way: load_divided(source, layout, dtype="float32", device="cpu", threads=1)
            for way, layout in DIVIDED.items()
        }
        divided = {way: model.forward for way, model in models_of.items()}
        try:
            ways({"one process, one thread": one, "one process, all threads": one, **divided}, rounds)
        finally:
            for model in models_of.values():
                model.free()
        bubbles(folder, rounds)


if __name__ == "__main__":
    main()
