"""Lexical unit decoding: speed against agreement with greedy decoding, by alpha and by the length of a unit.

    python benchmarks/lexical.py                the pocket model with its adapter
    python benchmarks/lexical.py --update-docs  the same, and writes benchmarks/results/lexical.md
    python benchmarks/lexical.py --quick        a few short answers
    python benchmarks/lexical.py --model local:./folder --alphas 0.5 0.9 --units 2 4 --keep NAME
    python benchmarks/lexical.py --threads 1 --clock cpu
                                                on a machine that others use too

Every answer is greedy. Text: questions about topics of the pocket model's encyclopaedia; code: Python files that it was
not trained on, continued. `lexical` verifies and must agree; `lexical_lossy` takes what is more probable than alpha.
Repetitions alternate between the ways, and the first is not counted.

Agreement is the share of the greedy answer that is found again, in order. Changed is the share of the tokens that the
model, given the text before each, would have chosen otherwise. In bfloat16 sums of other lengths round otherwise, so
that an answer may change under a lossless method too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

import torch
from comparison.report import fill_block
from measuring import IMAGES, RESULTS, Spread, machine, save
from plots import plot
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from recipes.pocket.corpus import topics
from recipes.pocket.source import held_out_source
from stretto.display.palette import Palette
from stretto.local_engine.drafting.catalogue import DraftEquipment
from stretto.local_engine.drafting.protocol import Autoregressive
from stretto.local_engine.generation import Finished, Generation
from stretto.local_engine.kernels.thread_team import limit_threads
from stretto.local_engine.model.loading.load import LoadedModel, load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.research.lexical.lexical_drafter import Lexical
from stretto.local_engine.research.lexical.pads import attach
from stretto.local_engine.serving.engine import Engine
from stretto.values.errors import SettingsError

CODE_PROMPT = 1500
console = Console(width=118)


@dataclass(frozen=True)
class Way:
    """One way to decode: ``unit`` is k, ``alpha`` is `None` where everything is verified."""

    unit: int = 1
    alpha: float | None = None

    def __str__(self) -> str:
        if self.unit == 1:
            return "autoregressive"
        return f"lexical, k={self.unit}" if self.alpha is None else f"lossy, k={self.unit}, alpha={self.alpha:g}"

    def drafter(self, equipment: DraftEquipment) -> Autoregressive | Lexical:
        """For one request."""
        assert equipment.cost is not None
        return Autoregressive() if self.unit == 1 else Lexical(self.unit - 1, equipment.cost, alpha=self.alpha)


@dataclass
class Result:
    """What one way did on one workload."""

    milliseconds: list[float] = field(default_factory=list)  # a token, prompt left out; one for each repetition
    steps: int = 0
    rows: int = 0
    tokens: int = 0
    changed: int = 0
    answers: list[list[int]] = field(default_factory=list)


def prompts(model: LoadedModel, count: int) -> dict[str, list[tuple[int, ...]]]:
    """The prompts of both workloads."""
    every = topics()
    questions = [topic.questions[0] for topic in every[:: max(1, len(every) // count)]][:count]
    asked = [
        model.tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, return_dict=True
        )["input_ids"]
        for question in questions
    ]
    code = [model.tokenizer(text[:CODE_PROMPT]).input_ids for text in list(held_out_source().values())[:count]]
    return {"text": [tuple(ids) for ids in asked], "code": [tuple(ids) for ids in code]}


def run(
    engine: Engine, prompt: tuple[int, ...], way: str, options: argparse.Namespace
) -> tuple[Finished, list[int], float]:
    """One answer: its account, its tokens, and the milliseconds from the first piece of text to the end."""
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    handle = engine.submit(Generation(prompt, options.tokens, decoding=way, end_ids=engine.model.ends))
    first = 0.0
    for event in handle:
        first = first or clock()
        if isinstance(event, Finished):
            assert event.error is None, event.error
            return event, handle.sequence.generated, (clock() - first) * 1e3
    raise AssertionError("a generation ends with its account")


def measure(
    engine: Engine, ways: Sequence[Way], given: Sequence[tuple[int, ...]], options: argparse.Namespace, bar: Progress
) -> dict[Way, Result]:
    """All ways on one workload, one after the other, again and again."""
    results: dict[Way, Result] = defaultdict(Result)
    task = bar.add_task("answers", total=(options.repetitions + 1) * len(ways) * len(given))
    for repetition in range(options.repetitions + 1):
        for way in ways:
            result, spent, tokens = results[way], 0.0, 0
            for prompt in given:
                finished, answer, milliseconds = run(engine, prompt, str(way), options)
                spent += milliseconds
                assert finished.figures is not None
                tokens += finished.figures.tokens
                if repetition == 0:
                    result.steps += finished.figures.steps
                    result.rows += finished.figures.rows
                    result.tokens += finished.figures.tokens
                    result.changed += finished.figures.changed
                    result.answers.append(answer)
                bar.advance(task)
            if repetition:
                result.milliseconds.append(spent / tokens)
    bar.remove_task(task)
    return results


def agreement(answers: Sequence[list[int]], greedy: Sequence[list[int]]) -> float:
    """Share of the greedy answers' tokens that are found again, in order."""
    pairs = zip(greedy, answers, strict=True)
    found = sum(
        block.size
        for expected, got in pairs
        for block in SequenceMatcher(None, expected, got, autojunk=False).get_matching_blocks()
    )
    return found / sum(map(len, greedy))


def report(workload: str, results: Mapping[Way, Result], dtype: str) -> list[dict[str, object]]:
    """Print one table and return its rows."""
    base = results[Way()]
    table = Table(title=workload, title_justify="left")
    for column in ("way", "tokens/step", "rows/step", "ms/token", "speed-up", "agreement", "changed"):
        table.add_column(column, justify="left" if column == "way" else "right")
    rows: list[dict[str, object]] = []
    for way, result in results.items():
        spread, agrees = Spread.of(result.milliseconds), agreement(result.answers, base.answers)
        per_step, changed = result.tokens / result.steps, result.changed / result.tokens
        assert way.alpha is not None or agrees == 1 or "float32" not in dtype, (way, workload)
        speed_up = Spread.of(base.milliseconds).median / spread.median
        rows.append(
            {
                "workload": workload,
                "way": str(way),
                "unit": way.unit,
                "alpha": way.alpha,
                "tokens_per_step": per_step,
                "rows_per_step": result.rows / result.steps,
                "ms_per_token": spread,
                "speed_up": speed_up,
                "agreement": agrees,
                "changed": changed,
            }
        )
        cells = (f"{per_step:.2f}", f"{result.rows / result.steps:.1f}", str(spread), f"{speed_up:.2f}")
        table.add_row(str(way), *cells, f"{agrees:.1%}", f"{changed:.1%}")
    console.print(table)
    return rows


def markdown(rows: Sequence[Mapping[str, object]], about: str) -> str:
    """The tables for the documentation."""
    lines = [about, ""]
    for workload in dict.fromkeys(row["workload"] for row in rows):
        lines += [f"| {workload} | tokens a step | rows a step | ms a token | speed-up | agreement | changed |"]
        lines += ["|---|---:|---:|---:|---:|---:|---:|"]
        lines += [
            f"| {row['way']} | {row['tokens_per_step']:.2f} | {row['rows_per_step']:.1f} | {row['ms_per_token']} "
            f"| {row['speed_up']:.2f} | {row['agreement']:.1%} | {row['changed']:.1%} |"
            for row in rows
            if row["workload"] == workload
        ]
        lines += [""]
    return "\n".join(lines)


def draw(rows: Sequence[Mapping[str, Any]], name: str = "lexical") -> None:
    """Speed-up against agreement, a line for each k over alpha, and the verified ways as stars."""
    workloads = list(dict.fromkeys(row["workload"] for row in rows))

    def drawn(plt: Any, colours: Palette) -> Any:
        figure, panels = plt.subplots(1, len(workloads), figsize=(9, 3.6), sharey=True, squeeze=False)
        for axes, workload in zip(panels[0], workloads, strict=True):
            own = [row for row in rows if row["workload"] == workload]
            for number, unit in enumerate(sorted({row["unit"] for row in own if row["unit"] > 1})):
                ways = [row for row in own if row["unit"] == unit]
                lossy = sorted((row for row in ways if row["alpha"] is not None), key=lambda row: row["alpha"])
                agreed, speeds = [row["agreement"] for row in lossy], [row["speed_up"] for row in lossy]
                axes.plot(agreed, speeds, marker=".", color=f"C{number}", label=f"k={unit}, lossy by alpha")
                for row in lossy:
                    place = (row["agreement"], row["speed_up"])
                    axes.annotate(f"{row['alpha']:g}", place, fontsize=7, textcoords="offset points", xytext=(3, 3))
                for row in ways:
                    if row["alpha"] is None:
                        style = {"marker": "*", "markersize": 11, "color": f"C{number}"}
                        axes.plot([row["agreement"]], [row["speed_up"]], linestyle="", **style)
            axes.axhline(1, color=colours.field, linewidth=0.8, linestyle="--")
            axes.set(title=f"{workload} (star: verified)", xlabel="agreement with greedy")
        panels[0][0].set_ylabel("speed-up over autoregressive")
        panels[0][-1].legend(fontsize=7)
        return figure

    plot(IMAGES / name, drawn)


def main() -> None:
    """Measure, show, save and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:pocket")
    parser.add_argument("--dtype", default=None)
    parser.add_argument("--alphas", nargs="+", type=float, default=[0.3, 0.5, 0.7, 0.9, 0.97])
    parser.add_argument("--units", nargs="+", type=int, default=None, help="k; by default from 2 to what was trained")
    parser.add_argument("--prompts", type=int, default=8, help="of each workload")
    parser.add_argument("--tokens", type=int, default=160, help="of an answer at most")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--threads", type=int, default=None, help="of a step; by default as the engine chooses")
    parser.add_argument("--clock", default="wall", choices=("wall", "cpu"))
    parser.add_argument("--keep", default="lexical", metavar="NAME", help="of results, plot and page (default lexical)")
    parser.add_argument("--update-docs", action="store_true", help="write the page in benchmarks/results")
    parser.add_argument("--quick", action="store_true", help="little of everything; writes no result and no plot")
    options = parser.parse_args()
    if options.quick:
        options.prompts, options.tokens, options.repetitions, options.alphas = 2, 32, 1, options.alphas[-2:-1]
    if options.threads:
        limit_threads(options.threads)
        torch.set_num_threads(options.threads)
    model = load_model(find_source(options.model), dtype=options.dtype, device="cpu")
    try:
        most = attach(model) + 1
    except SettingsError as error:
        sys.exit(str(error))
    units = [unit for unit in options.units or range(2, most + 1) if 2 <= unit <= most]
    ways = [Way(), *(Way(unit, alpha) for unit in units for alpha in (None, *options.alphas))]
    engine = Engine(model, drafters={str(way): way.drafter for way in ways}, measure=True, threads=options.threads)
    engine.wait_measured()
    results: dict[str, dict[Way, Result]] = {}
    rows: list[dict[str, object]] = []
    try:
        with Progress(console=console, transient=True) as bar:
            for workload, given in prompts(model, options.prompts).items():
                results[workload] = measure(engine, ways, given, options, bar)
                rows += report(workload, results[workload], str(model.dtype))
    finally:
        engine.close()
    console.print(f"{model.name}, {model.dtype}, {machine()}")
    if not options.quick:
        about = {"machine": machine(), "model": model.name, "dtype": str(model.dtype), "options": vars(options)}
        console.print(f"kept in {save(options.keep, {**about, 'rows': rows}).name}")
        draw(rows, options.keep)
        if options.update_docs:
            fill_block(
                RESULTS / f"{options.keep}.md", markdown(rows, f"{machine()}; {model.name}, {model.dtype}"), "lexical"
            )


if __name__ == "__main__":
    main()
