"""Several requests at once: throughput and latency, against transformers' continuous batching, on one model.

    python benchmarks/batching.py                          1, 2, 4, 8, 16 requests on ``local:pocket``
    python benchmarks/batching.py --update-docs            and writes benchmarks/results/batching.md and its plot
    python benchmarks/batching.py --redraw --update-docs   the same from the kept figures
    python benchmarks/batching.py --quick                  a small run that shows that it works
    python benchmarks/batching.py --ours --model local:./model.gguf    only what `auto` gains over one token at a time

With ``--ours`` both methods take turns, first one and then the other; quotients of pairs are shown, of the time of day
and of the processor's, so it can run next to other work. Next to them is what `auto` does more than one token at a
time, which no other work can change: rows that a forward evaluates for each token, and the share of the time that goes
into looking for drafts. Requests come all at once, and so that prompts are read between
the steps of others: as many as there are at once go on, and the next one comes when one ends.

Same weights, prompts, dtype and number of new tokens, greedy, no end token; all requests come at once, and
repetitions alternate between the methods. The engine uses as many threads as it chooses itself, each peer at each size
one or all, whichever is faster in a trial. The peers are ``generate_batch``'s manager and, where that cannot run, or
as well, ``generate`` on a batch padded on the left. The manager's time counts from the first request it is given, so
that what it takes to set up is left out. No keys and values are kept from one repetition to the next.
Last, the points of one answer: all in one batch against one after the other.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import queue
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
import transformers
from batching_report import batching_markdown, draw_batching, print_ahead, print_rows
from comparison.report import fill_block
from measuring import IMAGES, RESULTS, Spread, machine, save
from prompts import mixed, points
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from stretto.local_engine.drafting.auto import Auto
from stretto.local_engine.generation import Figures, Finished, Generation, Piece
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.serving.engine import Engine

SIZES = (1, 2, 4, 8, 16)
OURS = ("autoregressive", "auto")
ALL_THREADS = torch.get_num_threads()
Prompts = Sequence[tuple[int, ...]]
console = Console(width=130)
hugging_face: Any = transformers  # untyped in part


@dataclass(frozen=True)
class Run:
    """Seconds from the arrival of all requests to the first token (of ours: the first text) and to the end of each."""

    firsts: list[float]
    ends: list[float]
    tokens: int
    answers: list[list[int]]
    figures: Sequence[Figures] = ()


@dataclass(frozen=True)
class Row:
    """One method with one number of requests, over all repetitions."""

    method: str
    requests: int
    peer: bool
    threads: int
    tokens_per_s: Spread
    end_median_s: Spread
    end_p95_s: Spread
    first_median_s: Spread
    same_answers: float

    @classmethod
    def of(cls, method: str, runs: Sequence[Run], expected: Sequence[list[int]], *, threads: int = 1) -> Row:
        """Medians over repetitions, with their spread."""
        same = statistics.mean(own == other for run in runs for own, other in zip(run.answers, expected, strict=True))
        return cls(
            method,
            len(expected),
            method not in OURS,
            threads,
            Spread.of([run.tokens / max(run.ends) for run in runs]),
            Spread.of([statistics.median(run.ends) for run in runs]),
            Spread.of([percentile(run.ends, 0.95) for run in runs]),
            Spread.of([statistics.median(run.firsts) for run in runs]),
            same,
        )


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least so large a share are not above."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def ours(engine: Engine, prompts: Prompts, tokens: int, decoding: str, *, together: bool = True) -> Run:
    """Run requests in our engine; all in one batch, or one after the other."""
    firsts, ends, ended = [0.0] * len(prompts), [0.0] * len(prompts), threading.Semaphore(0)

    def listener(number: int) -> Callable[[Piece | Finished], None]:
        def listen(event: Piece | Finished) -> None:
            now = time.perf_counter() - began
            firsts[number] = firsts[number] or now
            if isinstance(event, Finished):
                ends[number] = now
                ended.release()

        return listen

    asked = [Generation(prompt, tokens, decoding=decoding) for prompt in prompts]
    handles = []
    began = time.perf_counter()
    with engine.announced() if together else nullcontext():
        for number, request in enumerate(asked):
            handles.append(engine.submit(request, listener(number)))
            if not together:
                ended.acquire()
    for _ in asked if together else ():
        ended.acquire()
    answers = [handle.sequence.generated for handle in handles]
    return Run(firsts, ends, sum(map(len, answers)), answers, [handle.sequence.figures for handle in handles])


def in_turn(engine: Engine, prompts: Prompts, tokens: int, decoding: str, size: int) -> list[Figures]:
    """Answer all prompts, ``size`` of them at a time; answers are of different lengths. Returns what they took."""
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()

    def listen(event: Piece | Finished) -> None:
        if isinstance(event, Finished):
            ended.put(0)

    handles = []
    for number, prompt in enumerate(prompts):
        if number >= size:
            ended.get()
        asked = Generation(prompt, tokens - tokens * (number % 4) // 8, decoding=decoding)
        handles.append(engine.submit(asked, listen))
    for _ in range(size):
        ended.get()
    return [handle.sequence.figures for handle in handles]


@contextmanager
def looking_timed() -> Iterator[list[float]]:
    """Seconds that `auto` takes to look for drafts and to learn from them, each call; the list fills while it runs."""
    took: list[float] = []

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            began = time.thread_time()
            try:
                return method(*arguments)
            finally:
                took.append(time.thread_time() - began)

        return call

    whole = Auto.propose, Auto.learn
    try:
        Auto.propose, Auto.learn = timed(whole[0]), timed(whole[1])  # type: ignore[method-assign]  # while it runs
        yield took
    finally:
        Auto.propose, Auto.learn = whole  # type: ignore[method-assign]


def gains(options: argparse.Namespace) -> None:
    """Show what `auto` takes over one token at a time, in pairs of runs."""
    model = load_model(find_source(options.model), dtype=options.dtype)
    engine = Engine(model, threads=options.threads, batch_size=max(options.sizes), prefix_cache_bytes=0, measure=True)
    engine.wait_measured()
    family = "pocket" if options.model == "local:pocket" else "general"
    prompts = mixed(model, family, min(400, model.context_window - options.tokens - 1))
    if options.questions:
        prompts = prompts[::4]
    table = Table(title=f"{model.name}: auto over one token at a time, {options.repeats} pairs; {machine()}")
    for column in (
        "at once",
        "they come",
        "time of day",
        "processor time",
        "tokens a second",
        "rows a token",
        "looking",
    ):
        table.add_column(column, justify="right")
    shapes = [(size, come) for size in options.sizes for come in ("together", "in turn")]
    with Progress(console=console, transient=True) as progress, looking_timed() as looking:
        task = progress.add_task(model.name, total=len(shapes) * options.repeats)
        for size, come in shapes:
            walls, processor, paces = list[float](), list[float](), list[float]()
            rows, tokens, looked_s, auto_s = 0, 0, 0.0, 0.0
            for repetition in range(options.repeats):
                times = {}
                several = size * (3 if come == "in turn" else 1)
                first = size * repetition
                chosen = [prompts[(first + place) % len(prompts)] for place in range(several)]
                for method in OURS if repetition % 2 else reversed(OURS):
                    looking.clear()
                    began = time.perf_counter(), time.process_time()
                    if come == "together":
                        took = ours(engine, chosen, options.tokens, method).figures
                    else:
                        took = in_turn(engine, chosen, options.tokens, method, size)
                    times[method] = time.perf_counter() - began[0], time.process_time() - began[1]
                    written = sum(each.tokens for each in took)
                    if method == "auto":
                        rows, tokens = rows + sum(each.rows for each in took), tokens + written
                        looked_s, auto_s = looked_s + sum(looking), auto_s + times[method][0]
                walls.append(times["auto"][0] / times["autoregressive"][0])
                processor.append(times["auto"][1] / times["autoregressive"][1])
                paces.append(written / times["auto"][0])
                progress.advance(task)
            spreads = (str(Spread.of(each)) for each in (walls, processor, paces))
            table.add_row(str(size), come, *spreads, f"{rows / tokens:.3f}", f"{looked_s / auto_s:.1%}")
    engine.close()
    console.print(table)


def continuous(model: Any, prompts: Prompts, tokens: int) -> Run:
    """Run them by transformers' continuous batching."""
    settings = hugging_face.GenerationConfig(do_sample=False, max_new_tokens=tokens, eos_token_id=-1, pad_token_id=0)
    pages = sum(-(-(len(prompt) + tokens) // 256) for prompt in prompts)
    config = hugging_face.ContinuousBatchingConfig(
        num_blocks=pages + 4, max_batch_tokens=max(512, *map(len, prompts)), allow_block_sharing=False
    )
    results = model.generate_batch(
        [list(prompt) for prompt in prompts],
        generation_config=settings,
        continuous_batching_config=config,
        record_timestamps=True,
    )
    outputs = list(results.values())
    if len(outputs) != len(prompts) or any(output.error for output in outputs):
        raise RuntimeError(next((output.error for output in outputs if output.error), "requests were lost"))
    began = min(output.created_time for output in outputs)  # a request's life begins later, when it is scheduled
    return Run(
        [output.timestamps[0] - began for output in outputs],
        [output.timestamps[-1] - began for output in outputs],
        sum(len(output.generated_tokens) for output in outputs),
        [list(output.generated_tokens) for output in outputs],
    )


def padded(model: Any, prompts: Prompts, tokens: int) -> Run:
    """Run them by transformers' ``generate`` as one batch, padded on the left."""
    longest, moments = max(map(len, prompts)), []

    class Clock(transformers.StoppingCriteria):
        def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:  # noqa: ARG002
            moments.append(time.perf_counter())
            return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)

    began = time.perf_counter()
    ids = torch.tensor([[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts], device=model.device)
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=model.device)
    with torch.inference_mode():
        out = model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=tokens,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
            stopping_criteria=transformers.StoppingCriteriaList([Clock()]),
        )
    answers = out[:, longest:].tolist()
    count = len(prompts)
    return Run([moments[0] - began] * count, [moments[-1] - began] * count, sum(map(len, answers)), answers)


def methods(engine: Engine, peer: Any, tokens: int) -> dict[str, Callable[[Prompts], Run]]:
    """Everything that is compared, by name; peers that cannot run here say why and are left out."""
    found: dict[str, Callable[[Prompts], Run]] = {}
    for decoding in OURS:
        found[decoding] = partial(ours, engine, tokens=tokens, decoding=decoding)
    found["transformers generate, padded"] = partial(padded, peer, tokens=tokens)
    try:
        continuous(peer, [(5, 6, 7)], 4)
    except Exception as error:  # noqa: BLE001 - whatever keeps the peer from running here is printed
        console.print(f"transformers' generate_batch cannot run here: {type(error).__name__}: {error}")
    else:
        found["transformers generate_batch"] = partial(continuous, peer, tokens=tokens)
    return found


def faster(run: Callable[[Prompts], Run], prompts: Prompts) -> int:
    """Threads with which a peer is faster: one, or all."""
    paces = {}
    for threads in sorted({1, ALL_THREADS}):
        torch.set_num_threads(threads)
        run(prompts)  # the first of a shape may be slower
        paces[threads] = max(run(prompts).ends)
    return min(paces, key=lambda threads: paces[threads])


def compare(engine: Engine, peer: Any, prompts: Prompts, options: argparse.Namespace, progress: Progress) -> list[Row]:
    """All methods at all sizes."""
    compared, rows = methods(engine, peer, options.tokens), []
    task = progress.add_task("requests at once", total=len(options.sizes) * len(compared) * (options.repeats + 1))
    for size in options.sizes:
        chosen = (prompts * (size // len(prompts) + 1))[:size]
        runs: dict[str, list[Run]] = {name: [] for name in compared}
        threads = dict.fromkeys(compared, engine.model.threads or ALL_THREADS)
        for name, run in compared.items():
            if name in OURS:
                run(chosen)
            else:
                threads[name] = faster(run, chosen)
            progress.advance(task)
        for _ in range(options.repeats):
            for name, run in compared.items():
                torch.set_num_threads(threads[name])
                runs[name].append(run(chosen))
                progress.advance(task)
        expected = runs["autoregressive"][0].answers
        rows += [Row.of(name, done, expected, threads=threads[name]) for name, done in runs.items()]
    return rows


def compare_points(engine: Engine, own: Prompts, options: argparse.Namespace, progress: Progress) -> dict[str, Spread]:
    """The points of one answer in one batch, and one after another."""
    task = progress.add_task("the points of one answer", total=2 * len(OURS) * (options.repeats + 1))
    walls: dict[str, list[float]] = {}
    for repetition in range(options.repeats + 1):  # the first is not counted
        for decoding in OURS:
            for together in (True, False):
                done = ours(engine, own, options.tokens, decoding, together=together)
                name = f"{decoding}, {'one batch' if together else 'one after another'}"
                walls.setdefault(name, []).extend([max(done.ends)] if repetition else [])
                progress.advance(task)
    return {name: Spread.of(times) for name, times in walls.items()}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run everything; the results as they are kept."""
    source = find_source(options.model)
    model = load_model(source, dtype=options.dtype)
    peer = hugging_face.AutoModelForCausalLM.from_pretrained(source.where, dtype=model.dtype).to(model.device).eval()
    engine = Engine(model, batch_size=max(*options.sizes, 8), prefix_cache_bytes=0, measure=True)
    engine.wait_measured()
    family = "pocket" if options.model == "local:pocket" else "general"
    prompts, own = mixed(model, family, min(400, model.context_window - options.tokens - 1)), points(model, family)
    with Progress(console=console, transient=True) as progress:
        rows = compare(engine, peer, prompts, options, progress)
        walls = compare_points(engine, own, options, progress)
    engine.close()
    return {
        "machine": machine(),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "model": model.name,
        "dtype": str(model.dtype),
        "options": vars(options),
        "rows": [asdict(row) for row in rows],
        "points_of_an_answer": len(own),
        "points": {name: asdict(wall) for name, wall in walls.items()},
    }


def main() -> None:
    """Measure, show, draw and save."""
    options = arguments()
    if options.ours:
        gains(options)
        return
    hugging_face.utils.logging.set_verbosity_error()
    hugging_face.utils.logging.disable_progress_bar()
    logging.getLogger("ContinuousBatchingLogger").setLevel(logging.CRITICAL)  # on a CPU it misses psutil, each time
    results = json.loads((RESULTS / "batching.json").read_text()) if options.redraw else measure(options)
    print_rows(console, results["rows"])
    print_ahead(console, results["rows"])
    console.print(f"the {results['points_of_an_answer']} points of one answer, seconds:")
    for name, wall in results["points"].items():
        console.print(f"  {name}: {Spread(**wall)}")
    console.print(f"{results['model']}, {results['dtype']}, {results['machine']}")
    if options.quick:
        return
    if not options.redraw:
        save("batching", results)
    draw_batching(results, IMAGES / "batching")
    if options.update_docs:
        fill_block(RESULTS / "batching.md", batching_markdown(results), "batching")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:pocket")
    parser.add_argument("--dtype", default=None)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ours", action="store_true", help="only what auto gains over one token at a time")
    parser.add_argument("--threads", type=int, help="with --ours; 1 next to other work: several wait for each other")
    parser.add_argument("--questions", action="store_true", help="with --ours, only questions: text that is new")
    parser.add_argument("--redraw", action="store_true", help="measure nothing; use the kept figures")
    parser.add_argument("--update-docs", action="store_true", help="write benchmarks/results/batching.md")
    parser.add_argument("--quick", action="store_true", help="few requests, few tokens; neither plot nor file")
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.tokens, options.repeats = [1, 3], 8, 2
    return options


if __name__ == "__main__":
    main()
