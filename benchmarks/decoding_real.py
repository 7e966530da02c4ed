"""`auto` on a real model: compared with one token at a time and each source of drafts, and what rows cost.

    python benchmarks/decoding_real.py FOLDER                               float32 and bfloat16, on all processors
    python benchmarks/decoding_real.py smollm2 --dtype stored               as the file stores the weights
    python benchmarks/decoding_real.py pocket --dtype bfloat16
    python benchmarks/decoding_real.py FOLDER --dtype float32 --threads 1 --clock cpu
                                                                            on a machine that others use too
    python benchmarks/decoding_real.py FOLDER --keep NAME                   keeps the figures in benchmarks/results/

FOLDER holds a chat model as `save_pretrained` writes it, or is `smollm2` or `pocket`. Answers are greedy. In each
repetition the methods take turns on each question, in a random order, and a ratio is of times within one repetition.
Times are those from the first token to the last. One token at a time runs twice: what its second row differs from 1.0
is noise. A second question, much like the first, is asked with drafts from the answer to the first and without. With
`--clock cpu` the processor time of this process counts, which other programs change less: with one thread it is the
time that the engine would take on an idle core. The cost of rows is taken in turns too.

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
from rich.progress import track
from rich.table import Table

from stretto.local_engine.choosing.sampling import most_probable
from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.generation import Generation, Piece
from stretto.local_engine.kernels.compiling.jit import run_compiled
from stretto.local_engine.kernels.thread_team import limit_threads
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.flatten import flatten
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading.load import LoadedModel, load_model
from stretto.local_engine.model.loading.source import find_source
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

LETTER = """Dear Ms Brown,

thank you for your leter of 3 March. We are glad that you enjoyed your stay at our house by the lake, and we are sorry \
that the heating in your room did not work on the first evning. Our technician has replaced the pump since, and the \
other guests have told us that all rooms are warm now. If you come again this year, Ms Brown, we would like to offer \
you the room with the balcony at the price of the smaler one. Please tell us before the end of April whether this \
suits you. The boats are ready from the first of May, and breakfast is served on the terrace when the wether allows it.

With kind regards,
Anna Weber"""

WORKLOADS = {
    "repeat": f"Repeat this function exactly as it is, and write nothing else:\n\n```python\n{FUNCTION}\n```",
    "rename": f"Rename the variable total_distance to covered in this function. Write the whole function:\n\n"
    f"```python\n{FUNCTION}\n```",
    "correct": f"Correct the spelling of this text, and change nothing else:\n\n{LETTER}",
    "replace": f"Write this text again, with Mr Miller in place of Ms Brown:\n\n{LETTER}",
    "count": "Go on with this list up to item 60, and write nothing else:\n\nitem 1\nitem 2\nitem 3\nitem 4\nitem 5",
    "advice": "How do I look after a bicycle in winter? Give me advice in a few paragraphs.",
    "docstring": "Write a Python function that does what this docstring says:\n\n"
    '"""Return the median of a list of numbers, and None for an empty list."""',
}
SECOND = {
    "advice": ("How do I look after a bicycle in winter?", "How do I look after a bicycle in summer?"),
    "letter": (
        "Write a letter to my landlord that asks for a new kitchen window.",
        "Write a letter to my landlord that asks for a new bathroom door.",
    ),
    "code": (
        "Write a Python function that returns the mean of a list of numbers, with a docstring and an example.",
        "Write a Python function that returns the largest of a list of numbers, with a docstring and an example.",
    ),
    "again": ("What is photosynthesis? Explain it to a child.", "What is photosynthesis? Explain it to a student."),
}
"""Two questions each, the second much like the first."""

AGAIN = "one at a time, again"
"""The control: its ratio to one token at a time is what the machine's noise makes of 1.0."""
SINGLE = ("autoregressive", "prompt_lookup", "suffix", "aggressive")
METHODS = (*SINGLE, AGAIN, "auto")
EDITS = ("repeat", "rename", "correct", "replace")
ROWS = (1, 2, 4, 6, 8, 12, 16, 32)
MOST_OF_THE_BEST, MOST_OF_PLAIN = 1.05, 1.03
MOST_OF_LOOKUP = 0.85
"""Time of `auto` over prompt lookup, where a given text is written again with changes."""
MOST_OF_FORGETFUL = 0.8
"""Time of a second question with drafts from the answer to the first, over that without."""
MOST_OF_EIGHT_ROWS = 2.0
console = Console(width=120)
Clock = Callable[[], float]


@dataclass(frozen=True)
class Timed:
    """One answer: its tokens, milliseconds per token after the first one, and tokens and rows of a step."""

    tokens: tuple[int, ...]
    ms: float
    per_step: float
    rows: float


def answer(engine: Engine, ids: tuple[int, ...], method: str, length: int, clock: Clock, *, tenant: str = "") -> Timed:
    """Ask the engine once. Nothing is kept of the answer, unless it is for a ``tenant``."""
    handle = engine.submit(Generation(ids, length, decoding=method, end_ids=engine.model.ends, tenant=tenant))
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
    following = sum(counts[1:])
    if figures is None or following == 0:
        raise ValueError(f"an answer by {method} has no tokens to be timed")
    spent = 1e3 * (times[-1] - times[0]) / following
    return Timed(tuple(handle.sequence.generated), spent, figures.tokens / figures.steps, figures.rows / figures.steps)


def prompt(model: LoadedModel, question: str) -> tuple[int, ...]:
    """The question as the model's chat template writes it."""
    turns = [{"role": "user", "content": question}]
    return tuple(model.tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False))


def prompts(model: LoadedModel, wanted: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The questions by the names of their workloads."""
    return {name: prompt(model, WORKLOADS[name]) for name in wanted}


def compare(engine: Engine, options: argparse.Namespace, clock: Clock) -> list[dict[str, Any]]:
    """Time the methods in turns. Returns a row for each workload and method."""
    runs: dict[tuple[str, str], list[Timed]] = defaultdict(list)
    asked = prompts(engine.model, options.workloads)
    for repetition in track(range(options.repetitions), "answering", console=console, transient=True):
        for name, ids in asked.items():
            for method in random.Random(f"{repetition} {name}").sample(METHODS, len(METHODS)):  # noqa: S311 - an order
                used = "autoregressive" if method == AGAIN else method
                runs[name, method].append(answer(engine, ids, used, options.tokens, clock))
    rows = []
    for name in asked:
        plain = runs[name, "autoregressive"]
        for method in METHODS:
            own = runs[name, method]
            best = min(
                (runs[name, single] for single in SINGLE), key=lambda each: statistics.median(one.ms for one in each)
            )
            lookup = runs[name, "prompt_lookup"]
            rows.append(
                {
                    "workload": name,
                    "method": method,
                    "ms": vars(Spread.of([each.ms for each in own])),
                    "per_step": statistics.median(each.per_step for each in own),
                    "rows": statistics.median(each.rows for each in own),
                    "over_plain": _ratio(own, [each.ms for each in plain]),
                    "over_best": _ratio(own, [each.ms for each in best]),
                    "over_lookup": _ratio(own, [each.ms for each in lookup]),
                    "same": all(each.tokens == plain[0].tokens for each in own),
                }
            )
    return rows


def second_questions(engine: Engine, options: argparse.Namespace, clock: Clock) -> list[dict[str, Any]]:
    """Ask pairs of questions. Returns for each pair how long the second takes with drafts from the first answer."""
    rows = []
    for name, (first, second) in track(SECOND.items(), "asking pairs", console=console, transient=True):
        asked, after = prompt(engine.model, first), prompt(engine.model, second)
        runs: dict[str, list[Timed]] = defaultdict(list)
        for repetition in range(options.repetitions):
            tenant = f"{name} {repetition}"
            answer(engine, asked, "auto", options.tokens, clock, tenant=tenant)
            ways = {"with": ("auto", tenant), "without": ("auto", ""), "plain": ("autoregressive", "")}
            for way in random.Random(tenant).sample(list(ways), len(ways)):  # noqa: S311 - an order
                method, whose = ways[way]
                runs[way].append(answer(engine, after, method, options.tokens, clock, tenant=whose))
        without, plain = [each.ms for each in runs["without"]], [each.ms for each in runs["plain"]]
        rows.append(
            {
                "pair": name,
                "over_without": _ratio(runs["with"], without),
                "over_plain": _ratio(runs["with"], plain),
                "without_over_plain": _ratio(runs["without"], plain),
                "per_step": statistics.median(each.per_step for each in runs["with"]),
                "same": all(each.tokens == runs["plain"][0].tokens for own in runs.values() for each in own),
            }
        )
    return rows


def _ratio(own: Sequence[Timed], others: Sequence[float]) -> dict[str, float]:
    return vars(Spread.of([each.ms / other for each, other in zip(own, others, strict=True)]))


def cost_of_rows(
    model: LoadedModel, repetitions: int, clock: Clock, counts: Sequence[int] = ROWS
) -> dict[int, dict[str, float]]:
    """Milliseconds of a step after 128 tokens by its rows, in turns."""
    text = [7 + 13 * place % 4000 for place in range(129)]
    ids, places = torch.tensor([text[:-1]]), torch.arange(128)
    times: dict[int, list[float]] = defaultdict(list)
    with torch.inference_mode():
        cache = KeyValueCache(1)
        model.forward(Rows(ids, places[None], 128), cache, places[-1:])
        for repetition in range(repetitions + 1):
            for rows in counts:
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
    stored = None if dtype == "stored" else dtype
    model = load_model(find_source(f"local:{options.folder}"), dtype=stored, device="cpu", compiled=True)
    if options.threads:
        limit_threads(options.threads)
        torch.set_num_threads(options.threads)
    run_compiled(True)
    costs = cost_of_rows(model, options.row_repetitions, clock)
    engine = Engine(model, prefix_cache_bytes=0, threads=options.threads, measure=True, draft_history_tokens=20_000)
    try:
        engine.wait_measured()
        rows = compare(engine, options, clock)
        second = second_questions(engine, options, clock) if options.second else []
        table = engine.step_ms
        equal = None
        if options.transformers:
            asked = prompts(model, options.workloads)
            theirs = transformers_tokens(options.folder, asked, options.tokens)
            ours = {name: answer(engine, asked[name], "auto", options.tokens, clock).tokens for name in asked}
            equal = {name: ours[name] == theirs[name] for name in asked}
    finally:
        engine.close()
    return {
        "dtype": dtype,
        "rows": rows,
        "second": second,
        "costs": costs,
        "step_ms": table,
        "as_transformers_float32": equal,
    }


def show(found: dict[str, Any]) -> None:
    """Print the figures, and which bars they miss."""
    table = Table(title=f"{found['dtype']}: milliseconds per token")
    columns = ("workload", "method", "ms", "tokens/step", "rows/step", "over plain", "over lookup", "over best", "same")
    for column in columns:
        table.add_column(column, justify="left" if column in ("workload", "method") else "right")
    for row in found["rows"]:
        ratios = [_shown(row[f"over_{each}"]) for each in ("plain", "lookup", "best")]
        cells = (f"{row['per_step']:.2f}", f"{row['rows']:.1f}", *ratios)
        table.add_row(row["workload"], row["method"], _shown(row["ms"]), *cells, "yes" if row["same"] else "no")
    console.print(table)
    if found["second"]:
        table = Table("pair", "over without", "over plain", "without, over plain", "tokens/step", "same")
        table.title = "A second, similar question, by auto with drafts from the answer to the first"
        for row in found["second"]:
            ratios = [_shown(row[each]) for each in ("over_without", "over_plain", "without_over_plain")]
            table.add_row(row["pair"], *ratios, f"{row['per_step']:.2f}", "yes" if row["same"] else "no")
        console.print(table)
    one = found["costs"][1]["median"]
    costs = {rows: round(own["median"] / one, 2) for rows, own in found["costs"].items()}
    console.print(f"a step of 1 row: {_shown(found['costs'][1])} ms; of more, in steps of 1 row: {costs}")
    if found["as_transformers_float32"] is not None:
        console.print(f"as transformers in float32: {found['as_transformers_float32']}")
    for line in missed(found):
        console.print(f"[bold]missed:[/bold] {line}")


def missed(found: dict[str, Any]) -> list[str]:
    """The bars that the figures miss."""
    costs, lines = found["costs"], []
    if (ratio := costs[8]["median"] / costs[1]["median"]) > MOST_OF_EIGHT_ROWS:
        lines.append(f"8 rows cost {ratio:.2f} of one, more than {MOST_OF_EIGHT_ROWS}")
    for row in found["rows"]:
        if not row["same"]:
            lines.append(f"{row['workload']}: {row['method']} gives another answer")
        if row["method"] != "auto":
            continue
        for other, most in (("best", MOST_OF_THE_BEST), ("plain", MOST_OF_PLAIN), ("lookup", MOST_OF_LOOKUP)):
            ratio = row[f"over_{other}"]["median"]
            if ratio > most and (other != "lookup" or row["workload"] in EDITS):
                lines.append(f"{row['workload']}: auto takes {ratio:.2f} of {other}, more than {most}")
    for row in found["second"]:
        if not row["same"]:
            lines.append(f"second {row['pair']}: another answer")
        if (ratio := row["over_without"]["median"]) > MOST_OF_FORGETFUL:
            lines.append(f"second {row['pair']}: {ratio:.2f} of the time without, more than {MOST_OF_FORGETFUL}")
    return lines


def _shown(spread: dict[str, float]) -> str:
    return f"{spread['median']:.2f} ({spread['least']:.2f}-{spread['most']:.2f})"


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"], help="or stored: as the file has it")
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=WORKLOADS)
    parser.add_argument("--tokens", type=int, default=100, help="of an answer at most")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--row-repetitions", type=int, default=15)
    parser.add_argument("--threads", type=int, default=None, help="of a step; by default as the engine chooses")
    parser.add_argument("--clock", default="wall", choices=("wall", "cpu"))
    parser.add_argument("--no-second", dest="second", action="store_false", help="leave the second questions out")
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
