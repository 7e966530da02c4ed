"""What drafts yield: accepted tokens and rows per step, and the time of a step by given tables of step costs.

    python benchmarks/drafts.py                                    every method, some minutes
    python benchmarks/drafts.py --only auto "prompt lookup, resting" --machine pocket

The engine decodes with `local:pocket`, and no clock is read: a step costs what a table says. So the figures do not
depend on the load of the machine, and show what a method that adapts itself does on machines that are not at hand.
The last column is the time per token by the table, relative to one token at a time; looking for drafts is not in it.

The tables: `pocket` and `443M` are steps of the pocket model and of 443 million weights on 2 cores (docs/decoding.md),
`gpu 8B` those of 8 billion weights on an H100 (docs/gpu.md), and `free` is a machine on which rows cost nothing.

``prompt lookup, resting`` is `Auto` with the guesses of `PromptLookup`: what `auto` has to beat.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial

from comparison.ours import Ours
from comparison.run import Run, Task
from comparison.workloads import WORKLOADS, Workload, workloads
from rich.console import Console
from rich.table import Table

from stretto.local_engine.drafting.auto import Auto
from stretto.local_engine.drafting.calibration import Experience
from stretto.local_engine.drafting.catalogue import DRAFTERS, EQUIPPED, DraftEquipment
from stretto.local_engine.drafting.prompt_lookup import PromptLookup
from stretto.local_engine.drafting.protocol import Drafter
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.serving.engine import Engine

MACHINES = {
    "pocket": {1: 0.35, 2: 0.36, 4: 0.37, 8: 0.55, 16: 1.0, 32: 2.0, 64: 4.0},
    "443M": {1: 22.1, 2: 22.4, 4: 23.6, 8: 26.9, 16: 30.6, 32: 53.1, 64: 83.1},
    "gpu 8B": {1: 7.7, 64: 8.75},
    "free": {1: 20.0, 64: 20.0},
}
HEATS = (0.0, 0.7)
DRAFTING_MS = 0.06
ADAPTIVE = {"auto": None, "prompt lookup, resting": PromptLookup}
"""Methods that adapt themselves to the cost of a step, and the source of their guesses if it is not `Suffix`."""
COLUMNS = ("workload", "temperature", "machine", "method", "tokens/step", "rows/step", "time")


class FixedCost(StepCost):
    """The table and nothing else: no step and no draft is timed."""

    def __init__(self, table: dict[int, float]) -> None:
        super().__init__(table)
        self._drafting_ms = DRAFTING_MS

    def observe(self, rows: int, took_ms: float, drafting_ms: float = 0.0) -> None:
        """Keep the table."""

    def drafted(self, took_ms: float) -> None:
        """Keep the table."""


def drafters(machines: Sequence[str]) -> dict[str, Callable[[DraftEquipment], Drafter]]:
    """The methods, those that adapt themselves once for each machine."""
    found = {name: make for name, make in DRAFTERS.items() if name not in {*EQUIPPED, *ADAPTIVE}}
    for machine in machines:
        for name, source in ADAPTIVE.items():
            found[f"{name}, {machine}"] = partial(_resting, FixedCost(MACHINES[machine]), _fresh(), source)
    return found


def _fresh() -> tuple[Experience, Experience]:
    return Experience(), Experience()


def _resting(
    cost: StepCost, experience: tuple[Experience, Experience], source: type[PromptLookup] | None, _: DraftEquipment
) -> Drafter:
    return Auto(cost, experience=experience, source=source() if source else None)


def answers(engine: Engine, method: str, workload: Workload, heat: float, tokens: int) -> list[Run]:
    """Every prompt, greedily once and sampled with three seeds."""
    seeds = range(3 if heat else 1)
    return [
        Ours(engine, method).answer(Task(prompt, tokens, heat, seed=100 * seed + number))
        for seed in seeds
        for number, prompt in enumerate(workload.prompts)
    ]


def main(given: Sequence[str] | None = None) -> int:
    """Print a table; 1 where an answer differs from that of one token at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="METHOD")
    parser.add_argument("--machine", nargs="+", choices=MACHINES, default=list(MACHINES))
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--prompts", type=int, default=6, help="of each workload (6)")
    parser.add_argument("--tokens", type=int, default=112, help="of an answer at most (112)")
    options = parser.parse_args(given)
    model = load_model(find_source("local:pocket"), dtype="bfloat16")
    made = drafters(options.machine)
    engine = Engine(model, prefix_cache_bytes=0, drafters=made)
    console, wrong = Console(width=None if sys.stdout.isatty() else 110), 0
    table = Table(*COLUMNS)
    try:
        for workload in workloads(model.tokenizer, options.prompts, tuple(options.workload)):
            for heat in HEATS:
                plain = [run.tokens for run in answers(engine, "autoregressive", workload, heat, options.tokens)]
                for method in made:
                    base, comma, machine = method.rpartition(", ")
                    name = base if comma else method
                    if options.only and name not in options.only:
                        continue
                    runs = answers(engine, method, workload, heat, options.tokens)
                    wrong += [run.tokens for run in runs] != plain
                    steps = sum(run.steps for run in runs)
                    tokens, rows = sum(run.decoded for run in runs) / steps, sum(run.rows for run in runs) / steps
                    for each in [machine] if comma else options.machine:
                        cost = StepCost(MACHINES[each])
                        low = int(rows)
                        took = (cost(low) + (cost(low + 1) - cost(low)) * (rows - low)) / tokens / cost(1)
                        cells = workload.name, f"{heat:g}", each, name
                        table.add_row(*cells, f"{tokens:.2f}", f"{rows:.1f}", f"{took:.2f}")
    finally:
        engine.close()
    console.print(table)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
