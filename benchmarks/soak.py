"""A thousand mixed requests against one engine, to see whether anything grows, leaks, hangs or comes out differently.

    python benchmarks/soak.py                              1,000 requests on ``local:pocket``
    python benchmarks/soak.py --update-docs                and writes what came of it and its plot into docs/batching.md
    python benchmarks/soak.py --requests 30                a slice, as in the tests

The requests are the strategies' own prompts and Python files, greedy and sampled, under several decodings, some with
stop texts, some of them chats that go on with their own answer. A part of them is cancelled, before the first token
or after a random number of pieces. Afterwards: every request has ended once, no thread and no slot of keys and values
is left, the memory of the process over the second half of the run has a slope, which is told, and the answers of
uncancelled greedy requests, a sample of them, are those that each gets alone.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from batching_report import draw_soak, soak_markdown
from comparison.report import fill_block
from measuring import IMAGES, ROOT, machine, save
from prompts import mixed
from rich.console import Console
from rich.progress import Progress

from stretto.local_engine.engine import Engine, Handle
from stretto.local_engine.generation import Finished, Generation, Piece
from stretto.local_engine.load import LoadedModel, load_model
from stretto.local_engine.source import find_source

DECODINGS = ("autoregressive", "auto", "suffix", "prompt_lookup", "lookahead", "token_recycling", "jacobi")
STOPS = ((), (), (), (". ",), ("\n\n", "def "))
console = Console()


@dataclass
class Asked:
    """One request, how it is to be cancelled, and what became of it."""

    request: Generation
    cancel_after: int | None  # pieces; None: not at all
    handle: Handle | None = None
    answer: list[int] = field(default_factory=list)
    pieces: int = 0
    ends: list[Finished] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """What is left to be judged after a run.

    Attributes:
        reasons: how requests ended, by number.
        ends_missing: requests that were not told of their end exactly once.
        slots_left: of keys and values, after the last request.
        threads_left: beyond those before the engine was made, after it was closed.
        compared: greedy requests that were asked again alone.
        different: those that got another answer.
        bytes_per_request: slope of the process's memory over the second half of the run.
        peak_mib: the most memory seen.
        seconds: for all requests.
        memory: of the process in bytes, by requests sent; some 200 samples.
    """

    reasons: dict[str, int]
    ends_missing: int
    slots_left: int
    threads_left: int
    compared: int
    different: int
    bytes_per_request: float
    peak_mib: float
    seconds: float
    memory: list[tuple[int, int]] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nothing was left over, lost or different; memory is for the reader to judge."""
        broken = self.ends_missing + self.slots_left + self.threads_left + self.different
        return not broken and "error" not in self.reasons


def requests(prompts: list[tuple[int, ...]], count: int, tokens: int, seed: int) -> list[Asked]:
    """Draw the requests."""
    chance, drawn = random.Random(seed), []  # noqa: S311 - chance, not secrets
    for number in range(count):
        heat = chance.choice((0.0, 0.0, 0.7, 1.2))
        request = Generation(
            chance.choice(prompts),
            chance.randint(1, tokens),
            temperature=heat,
            top_p=chance.choice((1.0, 0.9)),
            seed=number,
            stop=chance.choice(STOPS),
            repetition_penalty=chance.choice((1.0, 1.0, 1.1)),
            decoding=chance.choice(DECODINGS),
        )
        drawn.append(Asked(request, chance.randint(0, 12) if chance.random() < 0.3 else None))
    return drawn


def run(
    model: LoadedModel, prompts: list[tuple[int, ...]], count: int, *, tokens: int, seed: int, sample: int
) -> Report:
    """Send ``count`` requests, up to 24 at once, and look at what is left."""
    threads = threading.active_count()
    engine = Engine(model, max_batch=8, prefix_cache_bytes=2**24, remember_answers=5000)
    drawn, chance = requests(prompts, count, tokens, seed), random.Random(seed + 1)  # noqa: S311 - chance
    memory, finished = [], threading.Semaphore(24)
    began = time.perf_counter()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("requests", total=count)
        for number, asked in enumerate(drawn):
            finished.acquire()
            earlier = drawn[number - 24] if number >= 24 else None
            if earlier is not None and earlier.ends:
                _let_go(earlier)
                if chance.random() < 0.3:
                    _go_on(asked, earlier, model.context_window)
            _send(engine, asked, finished)
            memory.append(_resident_bytes())
            progress.advance(task)
        for _ in range(24):
            finished.acquire()
    seconds = time.perf_counter() - began
    for asked in drawn:
        _let_go(asked)
    slots, different, greedy = engine.occupancy.slots, 0, [asked for asked in drawn if _comparable(asked)]
    chosen = chance.sample(greedy, min(sample, len(greedy)))
    engine.close()
    alone = Engine(model, max_batch=1, prefix_cache_bytes=0)
    for asked in chosen:
        handle = alone.submit(replace(asked.request, decoding="autoregressive"))
        list(handle)
        different += handle.sequence.generated != asked.answer
    alone.close()
    return Report(
        reasons=dict(Counter(end.reason for asked in drawn for end in asked.ends)),
        ends_missing=sum(len(asked.ends) != 1 for asked in drawn),
        slots_left=slots,
        threads_left=threading.active_count() - threads,
        compared=len(chosen),
        different=different,
        bytes_per_request=_slope(memory[len(memory) // 2 :]),
        peak_mib=max(memory) / 2**20,
        seconds=seconds,
        memory=[*enumerate(memory)][:: max(1, count // 200)],
    )


def _send(engine: Engine, asked: Asked, finished: threading.Semaphore) -> None:
    def listen(event: Piece | Finished) -> None:
        if isinstance(event, Finished):
            asked.ends.append(event)
            finished.release()
            return
        asked.pieces += 1
        if asked.cancel_after == asked.pieces and asked.handle is not None:
            asked.handle.cancel()

    asked.handle = engine.submit(asked.request, listen)
    if asked.cancel_after == 0:
        asked.handle.cancel()


def _let_go(asked: Asked) -> None:
    """Keep the answer of a request that has ended and nothing else: what grows is then the engine's."""
    if asked.handle is not None and asked.ends:
        asked.answer, asked.handle = asked.handle.sequence.generated, None


def _go_on(asked: Asked, earlier: Asked, window: int) -> None:
    """Make a request the next turn of an earlier one."""
    prompt = (*earlier.request.prompt, *earlier.answer, *asked.request.prompt[:8])
    if len(prompt) + asked.request.max_new_tokens < min(window, 700):
        asked.request = replace(asked.request, prompt=prompt)


def _comparable(asked: Asked) -> bool:
    return asked.request.temperature == 0 and all(end.reason in ("stop", "length") for end in asked.ends)


def _resident_bytes() -> int:
    """Memory of this process; where the system does not tell, the most it ever had."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource  # noqa: PLC0415 - not on every system

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _slope(values: list[int]) -> float:
    """Bytes that each request adds, by least squares."""
    return float(np.polyfit(np.arange(len(values)), np.array(values, dtype=float), 1)[0]) if len(values) > 1 else 0.0


def main() -> int:
    """Run, print and save; 1 where something was left over, lost or different."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:pocket")
    parser.add_argument("--dtype", default="float32", help="in bfloat16, sums of other lengths round otherwise")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=120, help="of an answer at most")
    parser.add_argument("--sample", type=int, default=50, help="greedy answers that are compared")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--update-docs", action="store_true", help="write what came of it into docs/batching.md")
    options = parser.parse_args()
    model = load_model(find_source(options.model), dtype=options.dtype)
    family = "pocket" if options.model == "local:pocket" else "general"
    prompts = mixed(model, family, min(300, model.context_window // 2))
    gc.collect()
    report = run(model, prompts, options.requests, tokens=options.tokens, seed=options.seed, sample=options.sample)
    for name, value in asdict(report).items():
        if name == "memory":
            continue
        console.print(f"{name.replace('_', ' ')}: {round(value, 1) if isinstance(value, float) else value}")
    console.print(f"{'clean' if report.clean else 'NOT CLEAN'}; {model.name}, {model.dtype}, {machine()}")
    if options.requests >= 1000:
        results = {"machine": machine(), "torch": torch.__version__, "options": vars(options), **asdict(report)}
        save("soak", results)
        draw_soak(results, IMAGES / "soak.png")
        if options.update_docs:
            fill_block(ROOT / "docs" / "batching.md", soak_markdown(results), "soak")
    return 0 if report.clean else 1


if __name__ == "__main__":
    sys.exit(main())
