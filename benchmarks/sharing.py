"""What finding out the number of threads is worth: against always one and always all, on a machine that is also busy.

    python benchmarks/sharing.py

The built-in model in float32 writes 150 tokens, one at a time. It is alone, next to a program that keeps one core busy,
next to one that keeps all of them busy, or next to another engine that does the same. Printed: milliseconds a token,
the median of the rounds and their spread. The three ways take turns within a round.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from measuring import Spread, machine
from rich.console import Console
from rich.progress import track
from rich.table import Table

from stretto.local_engine.generation import Generation
from stretto.local_engine.kernels.sharing import Sharing
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.serving.engine import Engine

TOKENS, ROUNDS = 150, 7
PROMPT = tuple(range(100, 140))
WAYS = ("one", "all", "found out")
BUSY = {"alone": 0, "one busy core": 1, "all cores busy": os.cpu_count() or 1}
_found_out = Sharing.parts


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """Keep so many cores busy."""
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def use(way: str) -> None:
    """Choose how many threads work on a step from now on."""
    fixed = {"one": lambda _, __, ___: 1, "all": lambda _, __, most: most}
    Sharing.parts = fixed.get(way, _found_out)  # type: ignore[method-assign]  # what is compared


def pace(engines: Sequence[Engine]) -> float:
    """Milliseconds a token, of the slowest engine."""
    began = time.perf_counter()
    handles = [engine.submit(Generation(PROMPT, TOKENS, end_ids=frozenset())) for engine in engines]
    for handle in handles:
        list(handle)
        assert len(handle.sequence.generated) == TOKENS
    return 1e3 * (time.perf_counter() - began) / TOKENS


def measured(engines: Sequence[Engine], name: str, rounds: int) -> dict[str, Spread]:
    """The paces of the three ways; each engine's first tokens of a way do not count."""
    paces: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in track(range(rounds + 1), description=name):
        for way in WAYS:
            use(way)
            took = pace(engines)
            if number:
                paces[way].append(took)
    return {way: Spread.of(each) for way, each in paces.items()}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    source = find_source("local:pocket")
    engines = [
        Engine(load_model(source, dtype="float32", device="cpu", compiled=True), prefix_cache_bytes=0) for _ in "12"
    ]
    rows = {}
    try:
        for name, cores in BUSY.items():
            with busy(cores):
                rows[name] = measured(engines[:1], name, rounds)
        rows["two engines"] = measured(engines, "two engines", rounds)
    finally:
        for engine in engines:
            engine.close()
    table = Table("ms a token", *WAYS, title=machine())
    for name, found in rows.items():
        table.add_row(name, *map(str, found.values()))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
