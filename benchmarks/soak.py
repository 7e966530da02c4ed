"""A thousand mixed requests against one engine, to see whether anything grows, leaks, hangs or comes out differently.

    python benchmarks/soak.py                              1,000 requests on ``local:pocket``
    python benchmarks/soak.py --update-docs                and writes benchmarks/results/batching.md and a plot
    python benchmarks/soak.py --requests 30                a slice, as in the tests
    python benchmarks/soak.py --minutes 5                  the server instead, with bad requests: `poisoned.py`

The requests are the strategies' own prompts and Python files, greedy and sampled, under several decodings, some with
stop texts, some of them chats that go on with their own answer. A part of them is cancelled, before the first token
or after a random number of pieces. Afterwards: every request has ended once, no thread and no slot of keys and values
is left, and the answers of uncancelled greedy requests, a sample of them, are those that each gets alone.

Memory is reported for the thousand only. Before them go 500 of the same kind, in which caches fill and the
allocator's heaps come to their size. This program itself keeps nothing of a request that has ended, but for the sample
and for the last few, which others go on from.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

import torch
from batching_report import draw_soak, soak_markdown
from comparison.report import fill_block
from measuring import IMAGES, RESULTS, machine, save
from memory import Slope, given_out, resident_bytes
from poisoned import soak, soak_server_markdown
from prompts import mixed
from rich.console import Console
from rich.progress import Progress

from stretto.local_engine.generation import Finished, Generation, Piece
from stretto.local_engine.model.loading.load import LoadedModel, load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.serving.engine import Engine, Handle

AT_ONCE = 24
DECODINGS = ("autoregressive", "auto", "suffix", "prompt_lookup", "lookahead", "jacobi")
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
        ends_missing: requests whose end was not reported exactly once.
        slots_left: of keys and values, after the last request.
        threads_left: beyond those before the engine was made, after it was closed.
        compared: greedy requests that were asked again alone.
        different: those that got another answer.
        resident: bytes of the process, what each request adds.
        blocks: of memory that Python has given out, what each request adds.
        quarters_mib: of the process, the medians of the first and of the last quarter.
        at_rest_mib: given out by malloc while nothing ran, before and after, without the keys and values that are
            kept for later prompts; empty where malloc does not report it.
        peak_mib: the most memory seen.
        seconds: for all requests, without the warm-up.
        memory: of the process in bytes, by requests sent, those of the warm-up below 0; some 300 samples.
    """

    reasons: dict[str, int]
    ends_missing: int
    slots_left: int
    threads_left: int
    compared: int
    different: int
    resident: Slope
    blocks: Slope
    quarters_mib: tuple[float, float]
    at_rest_mib: list[float]
    peak_mib: float
    seconds: float
    memory: list[tuple[int, int]] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nothing was left over, lost or different; memory is for the reader to judge."""
        broken = self.ends_missing + self.slots_left + self.threads_left + self.different
        return not broken and "error" not in self.reasons


@dataclass
class Watch:
    """What memory did, request by request, and while nothing ran."""

    resident: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    at_rest: list[int] = field(default_factory=list)

    def look(self) -> None:
        """Note it once more."""
        self.resident.append(resident_bytes())
        self.blocks.append(sys.getallocatedblocks())

    def rest(self, kept: int) -> None:
        """Note what malloc has given out, but for ``kept`` bytes."""
        if (given := given_out()) is not None:
            self.at_rest.append(given - kept)


class Ledger:
    """Which requests run, and what is kept of those that have ended: how they did, and a sample to compare.

    Args:
        count: of all requests.
        sample: to keep, of those that can be compared; each is as likely to be in it as any other.
        seed: of the choice.

    Attributes:
        end_counts: how often the end of each request, by number, was reported.
        reasons: how they ended.
        recent: the last that ended.
    """

    def __init__(self, count: int, sample: int, seed: int) -> None:
        self.end_counts = bytearray(count)
        self.reasons: Counter[str] = Counter()
        self.sample: list[Asked] = []
        self.recent: deque[Asked] = deque(maxlen=AT_ONCE)
        self._size, self._comparable = sample, 0
        self._chance = random.Random(seed)  # noqa: S311 - chance, not secrets
        self._running: list[Asked] = []
        self._free = threading.Semaphore(AT_ONCE)

    def send(self, engine: Engine, asked: Asked, number: int) -> None:
        """Send a request."""

        def listen(event: Piece | Finished) -> None:
            if isinstance(event, Finished):
                asked.ends.append(event)
                self.end_counts[number] += 1
                self._free.release()
                return
            asked.pieces += 1
            if asked.cancel_after == asked.pieces and asked.handle is not None:
                asked.handle.cancel()

        asked.handle = engine.submit(asked.request, listen)
        if asked.cancel_after == 0:
            asked.handle.cancel()
        self._running.append(asked)

    def wait(self, *, until_all: bool = False) -> None:
        """Wait until one more can be sent, or until all have ended; note those that have."""
        for _ in range(AT_ONCE if until_all else 1):
            self._free.acquire()
        if until_all:
            self._free.release(AT_ONCE)
        for asked in [each for each in self._running if each.ends]:
            self._running.remove(asked)
            self._note(asked)

    def _note(self, asked: Asked) -> None:
        self.reasons.update(end.reason for end in asked.ends)
        if asked.handle is not None:
            asked.answer, asked.handle = asked.handle.sequence.generated, None
        self.recent.append(asked)
        if not _comparable(asked):
            return
        self._comparable += 1
        if len(self.sample) < self._size:
            self.sample.append(asked)
        elif (place := self._chance.randrange(self._comparable)) < self._size:
            self.sample[place] = asked


def requests(prompts: list[tuple[int, ...]], count: int, tokens: int, seed: int) -> Iterator[Asked]:
    """Draw the requests."""
    chance = random.Random(seed)  # noqa: S311 - chance, not secrets
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
        yield Asked(request, chance.randint(0, 12) if chance.random() < 0.3 else None)


def run(
    model: LoadedModel,
    prompts: list[tuple[int, ...]],
    count: int,
    *,
    tokens: int,
    seed: int,
    sample: int,
    warm_up: int = 0,
) -> Report:
    """Send ``warm_up`` requests and then ``count``, up to 24 at once, and look at what is left of all of them."""
    threads = set(threading.enumerate())
    engine = Engine(model, batch_size=8, prefix_cache_bytes=2**24, draft_history_tokens=5000)
    chance, began = random.Random(seed + 1), time.perf_counter()  # noqa: S311 - chance, not secrets
    ledger, watch = Ledger(warm_up + count, sample, seed + 2), Watch()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("requests", total=warm_up + count)
        for number, asked in enumerate(requests(prompts, warm_up + count, tokens, seed)):
            if number == warm_up:
                ledger.wait(until_all=True)
                watch.rest(engine.occupancy.prefix_bytes)
                began = time.perf_counter()
            ledger.wait()
            if ledger.recent and chance.random() < 0.3:
                _go_on(asked, ledger.recent[0], model.context_window)
            ledger.send(engine, asked, number)
            watch.look()
            progress.advance(task)
        ledger.wait(until_all=True)
    seconds = time.perf_counter() - began
    watch.rest(engine.occupancy.prefix_bytes)
    slots, different = engine.occupancy.slots, 0
    engine.close()
    alone = Engine(model, batch_size=1, prefix_cache_bytes=0)
    for asked in ledger.sample:
        handle = alone.submit(replace(asked.request, decoding="autoregressive"))
        list(handle)
        different += handle.sequence.generated != asked.answer
    alone.close()
    resident, quarter = watch.resident[warm_up:], max(1, count // 4)
    return Report(
        reasons=dict(ledger.reasons),
        ends_missing=sum(times != 1 for times in ledger.end_counts),
        slots_left=slots,
        threads_left=len(set(threading.enumerate()) - threads),
        compared=len(ledger.sample),
        different=different,
        resident=Slope.of(resident),
        blocks=Slope.of(watch.blocks[warm_up:]),
        quarters_mib=(median(resident[:quarter]) / 2**20, median(resident[-quarter:]) / 2**20),
        at_rest_mib=[given / 2**20 for given in watch.at_rest],
        peak_mib=max(watch.resident) / 2**20,
        seconds=seconds,
        memory=[*enumerate(watch.resident, -warm_up)][:: max(1, (warm_up + count) // 300)],
    )


def _go_on(asked: Asked, earlier: Asked, window: int) -> None:
    """Make a request the next turn of an earlier one."""
    prompt = (*earlier.request.prompt, *earlier.answer, *asked.request.prompt[:8])
    if len(prompt) + asked.request.max_new_tokens < min(window, 700):
        asked.request = replace(asked.request, prompt=prompt)


def _comparable(asked: Asked) -> bool:
    return asked.request.temperature == 0 and all(end.reason in ("stop", "length") for end in asked.ends)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return round(value, 1) if isinstance(value, float) else value


def _soak_server(minutes: float, seed: int, *, update_docs: bool) -> int:
    """Print and save what came of the clients of a server; 1 where a good one failed or an answer was left."""
    report = asyncio.run(soak(minutes, seed)).report(minutes)
    for name, value in report.items():
        console.print(f"{name.replace('_', ' ')}: {value}")
    if minutes >= 5:
        save("soak-server", report)
        if update_docs:
            fill_block(RESULTS / "server.md", soak_server_markdown(report), "soak")
    return 1 if report["failed"] or report["left"] else 0


def main() -> int:
    """Run, print and save; 1 where something was left over, lost or different."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:pocket")
    parser.add_argument("--dtype", default="float32", help="in bfloat16, sums of other lengths round otherwise")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--warm-up", type=int, default=500, help="requests before those whose memory is reported")
    parser.add_argument("--tokens", type=int, default=120, help="of an answer at most")
    parser.add_argument("--sample", type=int, default=50, help="greedy answers that are compared")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, help="of good clients and bad requests at the server instead")
    parser.add_argument("--update-docs", action="store_true", help="write what came of it into the docs")
    options = parser.parse_args()
    if options.minutes:
        return _soak_server(options.minutes, options.seed, update_docs=options.update_docs)
    model = load_model(find_source(options.model), dtype=options.dtype)
    family = "pocket" if options.model == "local:pocket" else "general"
    prompts = mixed(model, family, min(300, model.context_window // 2))
    gc.collect()
    how = {"tokens": options.tokens, "seed": options.seed, "sample": options.sample, "warm_up": options.warm_up}
    report = run(model, prompts, options.requests, **how)
    for name, value in asdict(report).items():
        if name != "memory":
            console.print(f"{name.replace('_', ' ')}: {_rounded(value)}")
    console.print(f"{'clean' if report.clean else 'NOT CLEAN'}; {model.name}, {model.dtype}, {machine()}")
    if options.requests >= 1000:
        results = {"machine": machine(), "torch": torch.__version__, "options": vars(options), **asdict(report)}
        save("soak", results)
        draw_soak(results, IMAGES / "soak")
        if options.update_docs:
            fill_block(RESULTS / "batching.md", soak_markdown(results), "soak")
    return 0 if report.clean else 1


if __name__ == "__main__":
    sys.exit(main())
