"""Where the time of a step goes, part by part: what a draft costs before it has given anything.

    python benchmarks/step_parts.py                                 autoregressive and lexical, on questions
    python benchmarks/step_parts.py --workload code --methods autoregressive auto

The engine's own functions are timed while it answers, which takes some microseconds each. Steps are told apart by their
rows and how many of these are [PAD]s; medians, of those that came by often enough.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any
from unittest.mock import patch

from lexical import prompts, run
from measuring import machine
from rich.console import Console
from rich.progress import track
from rich.table import Table

from stretto.local_engine.drafting.catalogue import DRAFTERS
from stretto.local_engine.model import compiled as compiled_model
from stretto.local_engine.model.llama import LlamaForward
from stretto.local_engine.model.load import load_model
from stretto.local_engine.model.source import find_source
from stretto.local_engine.serving import batch as loop
from stretto.local_engine.serving.engine import Engine
from stretto.local_engine.serving.step import Step

PARTS: dict[str, tuple[Any, str]] = {
    "drafting": (loop.Batch, "_draft"),
    "laying rows out": (loop, "flatten"),
    "forward": (LlamaForward, "__call__"),
    "of it, what is compiled": (compiled_model, "share"),
    "choosing tokens": (loop, "verify"),
    "most probable tokens of each row": (loop, "_top"),
    "committing, with both": (loop.Batch, "_commit"),
}
BETWEEN, WHOLE = "between two steps", "all"
Kind = tuple[str, int, int]
console = Console(width=118)


class Parts:
    """Milliseconds of each part, by the kind of step: method, rows, [PAD]s."""

    def __init__(self) -> None:
        self.method = ""
        self.found: dict[Kind, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._step: dict[str, float] = defaultdict(float)
        self._ended = 0.0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Time what the engine does meanwhile."""
        with ExitStack() as stack:
            for name, (owner, attribute) in PARTS.items():
                stack.enter_context(patch.object(owner, attribute, self._timed(name, getattr(owner, attribute))))
            stack.enter_context(patch.object(loop.Batch, "advance", self._whole(loop.Batch.advance)))
            yield

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*given, **named)
            finally:
                self._step[name] += 1e3 * (time.perf_counter() - began)

        return timed

    def _whole(self, advance: Callable[[loop.Batch], list[Step]]) -> Callable[[loop.Batch], list[Step]]:
        def timed(batch: loop.Batch) -> list[Step]:
            self._step.clear()
            began = time.perf_counter()
            committed = advance(batch)
            ended = time.perf_counter()
            draft = committed[0].draft
            assert draft is not None  # a prompt was read before
            found = self.found[self.method, 1 + len(draft), sum(token < 0 for token in draft.tokens)]
            between = 1e3 * (began - self._ended)
            for name, spent in {**self._step, BETWEEN: between, WHOLE: 1e3 * (ended - began) + between}.items():
                found[name].append(spent)
            self._ended = ended
            return committed

        return timed


def report(found: dict[Kind, dict[str, list[float]]], least: int) -> None:
    """Print the medians."""
    table = Table(title="milliseconds of a step")
    table.add_column("part")
    kinds = [kind for kind in sorted(found) if len(found[kind][WHOLE]) >= least]
    for method, rows, pads in kinds:
        table.add_column(f"{method}\n{rows} rows, {pads} PAD", justify="right")
    for name in (*PARTS, BETWEEN, WHOLE):
        cells = [found[kind].get(name) for kind in kinds]
        table.add_row(name, *(f"{median(cell):.3f}" if cell else "" for cell in cells))
    table.add_row("steps", *(str(len(found[kind][WHOLE])) for kind in kinds))
    console.print(table)


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:pocket")
    parser.add_argument("--dtype", default=None)
    parser.add_argument("--methods", nargs="+", default=["autoregressive", "lexical"], choices=DRAFTERS)
    parser.add_argument("--workload", default="text", choices=("text", "code"))
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=160, help="of an answer at most")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--least", type=int, default=50, help="steps of a kind that is shown")
    options = parser.parse_args()
    model = load_model(find_source(options.model), dtype=options.dtype)
    engine, parts = Engine(model, measure=True), Parts()
    try:
        engine.wait_measured()
        given = prompts(model, options.prompts)[options.workload]
        with parts.watching():
            for repetition in track(range(options.repetitions + 1), "answers", console=console, transient=True):
                if repetition == 1:
                    parts.found.clear()
                for parts.method in options.methods:
                    for prompt in given:
                        run(engine, prompt, parts.method, options.tokens)
    finally:
        engine.close()
    report(parts.found, options.least)
    console.print(f"{model.name}, {model.dtype}, {machine()}")


if __name__ == "__main__":
    main()
