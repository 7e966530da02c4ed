"""`auto` on a real model: beside one token at a time and prompt lookup, on five kinds of answers, and what rows cost.

    python benchmarks/decoding_real.py FOLDER                               float32 and bfloat16, on all processors
    python benchmarks/decoding_real.py FOLDER --dtype float32 --threads 1 --clock cpu
                                                                            on a machine that others use too
    python benchmarks/decoding_real.py FOLDER --keep NAME                   keeps the figures in benchmarks/results/

FOLDER holds a chat model as `save_pretrained` writes it. Answers are greedy. In each repetition the methods take turns
on each question, in a random order, and a ratio is of times within one repetition. Times are those from the first token
to the last. One token at a time runs twice: what its second row differs from 1.0 is noise. `--clock cpu` counts the
processor time of this process, which other programs change less: with one thread
it is the time that the engine would take on an idle core. The cost of rows is taken in turns too.

`NUMBA_CPU_NAME=haswell python benchmarks/decoding_real.py ...` compiles for a processor without AVX-512; give such runs
a folder of their own for compiled code, by NUMBA_CACHE_DIR.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from measuring import RESULTS, Spread, machine
from rich.console import Console
from rich.table import Table

from stretto.local_engine.choosing.sampling import most_probable
from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.generation import Generation, Piece
from stretto.local_engine.kernels.switch import run_compiled
from stretto.local_engine.kernels.thread_team import limit_threads
from stretto.local_engine.model.cache import KeyValueCache
from stretto.local_engine.model.flatten import flatten
from stretto.local_engine.model.load import LoadedModel, load_model
from stretto.local_engine.model.rows import Rows
from stretto.local_engine.model.source import find_source
from stretto.local_engine.serving.engine import Engine

FUNCTION = '''def average_speed(distances, durations):
    """Return the average speed over several legs of a journey."""
    total_distance = 0.0
    total_duration = 0.0
    for distance, duration in zip(distances, durations):
        if duration <= 0:
            raise ValueError("a leg of a journey needs a positive duration")
        total_distance += distance
        total_duration += duration
    if total_duration == 0:
        return 0.0
    return total_distance / total_duration'''

WORKLOADS = {
    "repeat": f"Repeat this function exactly as it is, and write nothing else:\n\n```python\n{FUNCTION}\n```",
    "rename": f"Rename the variable total_distance to covered in this function. Write the whole function:\n\n"
    f"```python\n{FUNCTION}\n```",
    "count": "Go on with this list up to item 60, and write nothing else:\n\nitem 1\nitem 2\nitem 3\nitem 4\nitem 5",
    "advice": "How do I look after a bicycle in winter? Give me advice in a few paragraphs.",
    "docstring": "Write a Python function that does what this docstring says:\n\n"
    '"""Return the median of a list of numbers, and None for an empty list."""',
}
AGAIN = "one at a time, again"
"""The control: its ratio to one token at a time is what the machine's noise makes of 1.0."""
METHODS = ("autoregressive", AGAIN, "prompt_lookup", "auto")
ROWS = (1, 2, 4, 6, 8, 12, 16, 32)
MOST_OF_THE_BEST = 1.05
REPEATING = {"repeat", "rename"}
MOST_WHERE_REPEATING = 0.6
MOST_OF_EIGHT_ROWS = 2.0
console = Console(width=120)
Clock = Callable[[], float]


@dataclass(frozen=True)
class Timed:
    """One answer: its tokens, milliseconds per token behind the first one, and tokens and rows of a step."""

    tokens: tuple[int, ...]
    ms: float
    per_step: float
    rows: float


def answer(engine: Engine, prompt: tuple[int, ...], method: str, length: int, clock: Clock) -> Timed:
    """Ask the engine once."""
    handle = engine.submit(Generation(prompt, length, decoding=method, end_ids=engine.model.end_ids))
    times: list[float] = []
    counts: list[int] = []
    figures = None
    for event in handle:
        if isinstance(event, Piece):
            times.append(clock())
            counts.append(len(event.tokens))
        else:
            figures = event.figures
            if event.error is not None:
                raise event.error
    behind = sum(counts[1:])
    if figures is None or behind == 0:
        raise ValueError(f"an answer by {method} has no tokens to be timed")
    spent = 1e3 * (times[-1] - times[0]) / behind
    return Timed(tuple(handle.sequence.generated), spent, figures.tokens / figures.steps, figures.rows / figures.steps)


def prompts(model: LoadedModel, wanted: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The questions as the model's chat template writes them."""
    found = {}
    for name in wanted:
        turns = [{"role": "user", "content": WORKLOADS[name]}]
        found[name] = tuple(model.tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False))
    return found


def compare(engine: Engine, options: argparse.Namespace, clock: Clock) -> list[dict[str, Any]]:
    """Time the methods in turns. Returns a row for each workload and method."""
    runs: dict[tuple[str, str], list[Timed]] = defaultdict(list)
    asked = prompts(engine.model, options.workloads)
    for repetition in range(options.repetitions):
        for name, prompt in asked.items():
            for method in random.Random(f"{repetition} {name}").sample(METHODS, len(METHODS)):  # noqa: S311 - an order
                used = "autoregressive" if method == AGAIN else method
                runs[name, method].append(answer(engine, prompt, used, options.tokens, clock))
    rows = []
    for name in asked:
        plain = runs[name, "autoregressive"]
        for method in METHODS:
            own = runs[name, method]
            best = [min(one.ms, two.ms) for one, two in zip(plain, runs[name, "prompt_lookup"], strict=True)]
            rows.append(
                {
                    "workload": name,
                    "method": method,
                    "ms": vars(Spread.of([each.ms for each in own])),
                    "per_step": statistics.median(each.per_step for each in own),
                    "rows": statistics.median(each.rows for each in own),
                    "over_plain": _ratio(own, [each.ms for each in plain]),
                    "over_best": _ratio(own, best),
                    "same": all(each.tokens == plain[0].tokens for each in own),
                }
            )
    return rows


def _ratio(own: Sequence[Timed], others: Sequence[float]) -> dict[str, float]:
    return vars(Spread.of([each.ms / other for each, other in zip(own, others, strict=True)]))


def cost_of_rows(model: LoadedModel, repetitions: int, clock: Clock) -> dict[int, dict[str, float]]:
    """Milliseconds of a step behind 128 tokens by its rows, in turns."""
    text = [7 + 13 * place % 4000 for place in range(129)]
    ids, places = torch.tensor([text[:-1]]), torch.arange(128)
    times: dict[int, list[float]] = defaultdict(list)
    with torch.inference_mode():
        cache = KeyValueCache(1)
        model.forward(Rows(ids, places[None], 128), cache, places[-1:])
        for repetition in range(repetitions + 1):
            for rows in ROWS:
                tree = DraftTree()
                tree.add_path([7] * (rows - 1), [1.0] * (rows - 1))
                began = clock()
                most_probable(model.forward(flatten([text], [tree], model.device), cache, torch.arange(rows))).tolist()
                if repetition:
                    times[rows].append(1e3 * (clock() - began))
    return {rows: vars(Spread.of(own)) for rows, own in times.items()}


def transformers_tokens(folder: str, asked: dict[str, tuple[int, ...]], length: int) -> dict[str, tuple[int, ...]]:
    """The greedy answers of transformers in float32."""
    from transformers import AutoModelForCausalLM  # noqa: PLC0415 - slow to import

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    found = {}
    for name, prompt in asked.items():
        ids = torch.tensor([prompt])
        whole = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=length, do_sample=False)
        found[name] = tuple(whole[0, len(prompt) :].tolist())
    return found


def measure(dtype: str, options: argparse.Namespace) -> dict[str, Any]:
    """Everything in one type of the weights."""
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    model = load_model(find_source(f"local:{options.folder}"), dtype=dtype, compiled=True)
    if options.threads:
        limit_threads(options.threads)
        torch.set_num_threads(options.threads)
    run_compiled(True)
    costs = cost_of_rows(model, options.row_repetitions, clock)
    engine = Engine(model, prefix_cache_bytes=0, threads=options.threads, measure=True)
    try:
        rows = compare(engine, options, clock)
        table = engine.step_ms
        equal = None
        if options.transformers:
            asked = prompts(model, options.workloads)
            theirs = transformers_tokens(options.folder, asked, options.tokens)
            ours = {name: answer(engine, asked[name], "auto", options.tokens, clock).tokens for name in asked}
            equal = {name: ours[name] == theirs[name] for name in asked}
    finally:
        engine.close()
    return {"dtype": dtype, "rows": rows, "costs": costs, "step_ms": table, "as_transformers_float32": equal}


def show(found: dict[str, Any]) -> None:
    """Print the figures, and which bars they miss."""
    table = Table(title=f"{found['dtype']}: milliseconds per token")
    for column in ("workload", "method", "ms", "tokens/step", "rows/step", "over plain", "over the best", "same"):
        table.add_column(column, justify="left" if column in ("workload", "method") else "right")
    for row in found["rows"]:
        cells = (f"{row['per_step']:.2f}", f"{row['rows']:.1f}", _shown(row["over_plain"]), _shown(row["over_best"]))
        table.add_row(row["workload"], row["method"], _shown(row["ms"]), *cells, "yes" if row["same"] else "no")
    console.print(table)
    one = found["costs"][1]["median"]
    costs = {rows: round(own["median"] / one, 2) for rows, own in found["costs"].items()}
    console.print(f"a step of 1 row: {_shown(found['costs'][1])} ms; of more, in steps of 1 row: {costs}")
    if found["as_transformers_float32"] is not None:
        console.print(f"as transformers in float32: {found['as_transformers_float32']}")
    for said in missed(found):
        console.print(f"[bold]missed:[/bold] {said}")


def missed(found: dict[str, Any]) -> list[str]:
    """The bars that the figures miss."""
    costs, said = found["costs"], []
    if (ratio := costs[8]["median"] / costs[1]["median"]) > MOST_OF_EIGHT_ROWS:
        said.append(f"8 rows cost {ratio:.2f} of one, more than {MOST_OF_EIGHT_ROWS}")
    for row in found["rows"]:
        if not row["same"]:
            said.append(f"{row['workload']}: {row['method']} gives another answer")
        if row["method"] != "auto":
            continue
        name, over_best, over_plain = row["workload"], row["over_best"]["median"], row["over_plain"]["median"]
        if over_best > MOST_OF_THE_BEST:
            said.append(f"{name}: auto takes {over_best:.2f} of the best, more than {MOST_OF_THE_BEST}")
        if name in REPEATING and over_plain > MOST_WHERE_REPEATING:
            said.append(f"{name}: auto takes {over_plain:.2f} of one at a time, more than {MOST_WHERE_REPEATING}")
    return said


def _shown(spread: dict[str, float]) -> str:
    return f"{spread['median']:.2f} ({spread['least']:.2f}-{spread['most']:.2f})"


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=WORKLOADS)
    parser.add_argument("--tokens", type=int, default=120, help="of an answer at most")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--row-repetitions", type=int, default=15)
    parser.add_argument("--threads", type=int, default=None, help="of a step; by default as the engine chooses")
    parser.add_argument("--clock", default="wall", choices=("wall", "cpu"))
    parser.add_argument("--transformers", action="store_true", help="compare answers with transformers' in float32")
    parser.add_argument("--keep", metavar="NAME", help="keep the figures as benchmarks/results/NAME.json")
    options = parser.parse_args()
    found = []
    for dtype in options.dtype:
        found.append(measure(dtype, options))
        show(found[-1])
    if options.keep:
        head = {"machine": machine(), "model": Path(options.folder).name, "clock": options.clock}
        head |= {"threads": options.threads, "tokens": options.tokens, "repetitions": options.repetitions}
        file = RESULTS / f"{options.keep}.json"
        file.write_text(json.dumps(head | {"found": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
