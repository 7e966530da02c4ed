"""Several requests at once: throughput and latency, against transformers' continuous batching, on one model.

    python benchmarks/batching.py                          1, 2, 4, 8, 16 requests on ``local:pocket``
    python benchmarks/batching.py --quick                  a small run that shows that it works

Same weights, prompts, dtype and number of new tokens, greedy, no end token; all requests come at once, and
repetitions alternate between the methods. The peers are ``generate_batch``'s manager and, where that cannot run, or
beside it, ``generate`` on a batch padded on the left. The manager's time counts from the first request it is given, so
that what it takes to set up is left out. No keys and values are kept from one repetition to the next.
Last, the points of one answer: all in one batch against one after the other.
"""

from __future__ import annotations

import argparse
import logging
import math
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
import transformers
from measuring import IMAGES, Spread, machine, save
from prompts import mixed, points
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from stretto.local_engine.engine import Engine
from stretto.local_engine.generation import Finished, Generation, Piece
from stretto.local_engine.load import LoadedModel, load_model
from stretto.local_engine.source import find_source

SIZES = (1, 2, 4, 8, 16)
OURS = ("autoregressive", "auto")
Prompts = Sequence[tuple[int, ...]]
console = Console(width=110)
hugging_face: Any = transformers  # untyped in part


@dataclass(frozen=True)
class Run:
    """Seconds from the arrival of all requests to the first token (of ours: the first text) and to the end of each."""

    firsts: list[float]
    ends: list[float]
    tokens: int
    answers: list[list[int]]


@dataclass(frozen=True)
class Row:
    """One method with one number of requests, over all repetitions."""

    method: str
    requests: int
    tokens_per_s: Spread
    end_median_s: Spread
    end_p95_s: Spread
    first_median_s: Spread
    same_answers: float

    @classmethod
    def of(cls, method: str, runs: Sequence[Run], expected: Sequence[list[int]]) -> Row:
        """Medians over repetitions, with their spread."""
        same = statistics.mean(own == other for run in runs for own, other in zip(run.answers, expected, strict=True))
        return cls(
            method,
            len(expected),
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
    return Run(firsts, ends, sum(map(len, answers)), answers)


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
    except Exception as error:  # noqa: BLE001 - whatever keeps the peer from running here is told
        console.print(f"transformers' generate_batch cannot run here: {type(error).__name__}: {error}")
    else:
        found["transformers generate_batch"] = partial(continuous, peer, tokens=tokens)
    return found


def show(rows: Sequence[Row]) -> None:
    """Print one table."""
    table = Table(title="medians (least-most) over repetitions", title_justify="left")
    for column in ("requests", "method", "tokens/s", "end s", "end s, p95", "first token s", "same"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for row in rows:
        last = row is rows[-1] or rows[rows.index(row) + 1].requests != row.requests
        table.add_row(
            *(str(row.requests), row.method, f"{row.tokens_per_s.median:.0f}", str(row.end_median_s)),
            *(str(row.end_p95_s), str(row.first_median_s), f"{row.same_answers:.2f}"),
            end_section=last,
        )
    console.print(table)


def draw(rows: Sequence[Row], title: str) -> None:
    """Draw throughput and the median time to the end by the number of requests."""
    import matplotlib as mpl  # noqa: PLC0415 - slow to import

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of canvas

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.4))
    names = dict.fromkeys(row.method for row in rows)
    colours = dict(zip(names, ("#2f6f9f", "#123a57", "#c98b3a", "#b04a3a"), strict=False))
    shown = (("tokens_per_s", "tokens per second"), ("end_median_s", "seconds to the end, median"))
    for axes, (name, label) in zip(panels, shown, strict=True):
        for method, colour in colours.items():
            own = [row for row in rows if row.method == method]
            sizes, spreads = [row.requests for row in own], [getattr(row, name) for row in own]
            axes.plot(sizes, [spread.median for spread in spreads], "o-", color=colour, label=method, ms=4)
            low, high = [spread.least for spread in spreads], [spread.most for spread in spreads]
            axes.fill_between(sizes, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_xlabel("requests at once")
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(fontsize=7, frameon=False)
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    IMAGES.mkdir(exist_ok=True)
    figure.savefig(IMAGES / "batching.png", dpi=110)


def measure(model: LoadedModel, peer: Any, options: argparse.Namespace) -> tuple[list[Row], dict[str, Spread]]:
    """All methods at all sizes, and the points of one answer."""
    engine = Engine(model, max_batch=max(*options.sizes, 8), prefix_cache_bytes=0)
    torch.set_num_threads(model.threads or torch.get_num_threads())  # the peer has what our engine has
    family = "pocket" if options.model == "local:pocket" else "general"
    prompts = mixed(model, family, min(400, model.context_window - options.tokens - 1))
    compared, rows = methods(engine, peer, options.tokens), []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("requests at once", total=len(options.sizes) * len(compared) * (options.repeats + 1))
        for size in options.sizes:
            chosen = (prompts * (size // len(prompts) + 1))[:size]
            runs: dict[str, list[Run]] = {name: [] for name in compared}
            for repetition in range(options.repeats + 1):  # the first is not counted
                for name, run in compared.items():
                    done = run(chosen)
                    runs[name] += [done] if repetition else []
                    progress.advance(task)
            rows += [Row.of(name, done, runs["autoregressive"][0].answers) for name, done in runs.items()]
        own = points(model, family)
        task = progress.add_task("the points of one answer", total=2 * len(OURS) * options.repeats)
        walls: dict[str, list[float]] = {}
        for _ in range(options.repeats):
            for decoding in OURS:
                for together in (True, False):
                    done = ours(engine, own, options.tokens, decoding, together=together)
                    name = f"{decoding}, {'one batch' if together else 'one after another'}"
                    walls.setdefault(name, []).append(max(done.ends))
                    progress.advance(task)
    engine.close()
    return rows, {name: Spread.of(times) for name, times in walls.items()}


def main() -> None:
    """Measure, show, draw and save."""
    options = arguments()
    hugging_face.utils.logging.set_verbosity_error()
    hugging_face.utils.logging.disable_progress_bar()
    logging.getLogger("ContinuousBatchingLogger").setLevel(logging.CRITICAL)  # on a CPU it misses psutil, each time
    source = find_source(options.model)
    model = load_model(source, dtype=options.dtype)
    peer = hugging_face.AutoModelForCausalLM.from_pretrained(source.where, dtype=model.dtype).to(model.device).eval()
    rows, walls = measure(model, peer, options)
    show(rows)
    console.print(f"the {len(points(model, 'pocket'))} points of one answer, seconds:")
    for name, wall in walls.items():
        console.print(f"  {name}: {wall}")
    title = f"{model.name}, {model.dtype}, {machine()}"
    console.print(title)
    if not options.quick:
        draw(rows, title)
        saved = {"machine": machine(), "dtype": str(model.dtype), "options": vars(options)}
        save("batching", saved | {"rows": [asdict(row) for row in rows], "points": walls})


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:pocket")
    parser.add_argument("--dtype", default=None)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="few requests, few tokens; neither plot nor file")
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.tokens, options.repeats = [1, 3], 8, 2
    return options


if __name__ == "__main__":
    main()
