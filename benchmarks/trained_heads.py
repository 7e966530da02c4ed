"""A trained head on chat questions: `auto` with it and without it, and the head alone, over one token at a time.

    python benchmarks/trained_heads.py --head FOLDER                        SmolLM2
    python benchmarks/trained_heads.py --head FOLDER --model local:pocket
    python benchmarks/trained_heads.py --head FOLDER --threads 1 --clock cpu
                                                                            on a machine that others use too
    python benchmarks/trained_heads.py --head FOLDER --keep NAME            keeps the figures in benchmarks/results/

FOLDER holds a head as `recipes.heads.train` writes it. The questions are some that it was not trained on; answers are
greedy. In each repetition the ways take turns on each question, in a random order, and a ratio is of times within one
repetition. The first repetition is not counted: in it, `auto` learns what pays. Times are those from the first token to
the last. One token at a time runs twice: what its second row differs from 1.0 is noise. Every question on which the
head makes `auto` slower is named.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from measuring import CLOCKS, IMAGES, RESULTS, Spread, machine, offer_clock
from plots import plot
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from recipes.heads.questions import held_out
from stretto.display.palette import Palette
from stretto.local_engine.generation import Finished, Generation, Piece
from stretto.local_engine.kernels.thread_team import limit_threads
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.serving.engine import Engine
from stretto.values.errors import StrettoError

PLAIN, AGAIN, WITHOUT, WITH, ALONE = (
    "one at a time", "one at a time, again", "auto without the head", "auto with the head", "the head alone"
)  # fmt: skip
METHODS = {PLAIN: "autoregressive", AGAIN: "autoregressive", WITHOUT: "auto", WITH: "auto", ALONE: "head"}
SLOWER = 1.03
"""Of the time without the head; what takes more is named."""
LEAST_TOKENS_PER_STEP = 2.2
MOST_OF_AUTO = 0.8
console = Console(width=120)


@dataclass(frozen=True)
class Answer:
    """One answer: its tokens, milliseconds for each after the first, and tokens and rows of a step."""

    tokens: tuple[int, ...]
    ms: float
    per_step: float
    rows: float
    accepted: float


def answer(engine: Engine, prompt: tuple[int, ...], method: str, length: int, clock: Callable[[], float]) -> Answer:
    """Ask the engine once."""
    handle = engine.submit(Generation(prompt, length, decoding=method, end_ids=engine.model.ends))
    times: list[float] = []
    counts: list[int] = []
    for event in handle:
        if isinstance(event, Piece):
            times.append(clock())
            counts.append(len(event.tokens))
        if isinstance(event, Finished):
            if event.error is not None:
                raise event.error
            if event.figures is None or len(times) < 2:
                break
            figures = event.figures
            drafted, accepted = sum(figures.drafted.values()), sum(figures.accepted.values())
            return Answer(
                tuple(handle.sequence.generated),
                1e3 * (times[-1] - times[0]) / sum(counts[1:]),
                figures.tokens / figures.steps,
                figures.rows / figures.steps,
                accepted / drafted if drafted else 0.0,
            )
    raise ValueError(f"an answer by {method} has no tokens to be timed")


def compare(
    engines: Mapping[str, Engine], prompts: Sequence[tuple[int, ...]], options: argparse.Namespace
) -> dict[str, list[list[Answer]]]:
    """Answer every question by every way, in turns; by way and question, those of the repetitions that count."""
    clock = CLOCKS[options.clock]
    found: dict[str, list[list[Answer]]] = {way: [[] for _ in prompts] for way in engines}
    columns = (TextColumn("answering"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        shown = bar.add_task("answering", total=(options.repetitions + 1) * len(prompts) * len(engines))
        for repetition in range(options.repetitions + 1):
            for number, prompt in enumerate(prompts):
                for way in random.Random(f"{repetition} {number}").sample([*engines], len(engines)):  # noqa: S311 - an order
                    one = answer(engines[way], prompt, METHODS[way], options.tokens, clock)
                    if repetition:
                        found[way][number].append(one)
                    bar.advance(shown)
    return found


def summed(found: Mapping[str, Sequence[Sequence[Answer]]]) -> list[dict[str, Any]]:
    """A row for each way over all questions."""

    def over(way: str, other: str) -> Spread:
        """The median ratio of each question, and their spread."""
        pairs = zip(found[way], found[other], strict=True)
        return Spread.of([statistics.median(one.ms / two.ms for one, two in zip(*pair, strict=True)) for pair in pairs])

    rows = []
    for way, questions in found.items():
        every = [one for own in questions for one in own]
        same = [
            all(one.tokens == plain[0].tokens for one in own)
            for own, plain in zip(questions, found[PLAIN], strict=True)
        ]
        rows.append(
            {
                "way": way,
                "ms": Spread.of([statistics.median(one.ms for one in own) for own in questions]),
                "per_step": statistics.mean(one.per_step for one in every),
                "rows": statistics.mean(one.rows for one in every),
                "accepted": statistics.mean(one.accepted for one in every),
                "over_plain": over(way, PLAIN),
                "over_auto": over(way, WITHOUT),
                "same": sum(same),
                "questions": len(same),
            }
        )
    return rows


def slower(found: Mapping[str, Sequence[Sequence[Answer]]], asked: Sequence[str]) -> dict[str, float]:
    """The questions on which the head makes `auto` slower, and the ratio of times."""
    ratios = {
        text: statistics.median(one.ms / two.ms for one, two in zip(own, other, strict=True))
        for text, own, other in zip(asked, found[WITH], found[WITHOUT], strict=True)
    }
    return {text: ratio for text, ratio in sorted(ratios.items(), key=lambda pair: -pair[1]) if ratio > SLOWER}


def show(rows: Sequence[Mapping[str, Any]], losing: Mapping[str, float], asked: int) -> None:
    """Print the figures, the questions that lose, and which bars are missed."""
    table = Table("way", title="greedy chat answers: medians by question (least-most)", title_justify="left")
    for column in ("ms a token", "over plain", "over auto without", "tokens/step", "rows/step", "accepted", "same"):
        table.add_column(column, justify="right")
    for row in rows:
        spreads = (str(row[name]) for name in ("ms", "over_plain", "over_auto"))
        shares = (f"{row['per_step']:.2f}", f"{row['rows']:.1f}", f"{row['accepted']:.0%}")
        table.add_row(row["way"], *spreads, *shares, f"{row['same']} of {row['questions']}")
    console.print(table)
    console.print(f"slower with the head: {len(losing)} of {asked} questions")
    for text, ratio in losing.items():
        console.print(f"  {ratio:.2f}  {text[:90]!r}", highlight=False)
    own = {row["way"]: row for row in rows}
    if (reached := own[ALONE]["per_step"]) < LEAST_TOKENS_PER_STEP:
        console.print(f"[bold]missed:[/bold] {reached:.2f} tokens a step, less than {LEAST_TOKENS_PER_STEP}")
    if (reached := own[WITH]["over_auto"].median) > MOST_OF_AUTO:
        console.print(f"[bold]missed:[/bold] {reached:.2f} of the time of auto without, more than {MOST_OF_AUTO}")


def draw(found: Mapping[str, Sequence[Sequence[Answer]]], name: str) -> None:
    """For each question, tokens a step of the head alone against the time over `auto` without it."""

    def drawn(plt: Any, colours: Palette) -> Any:
        figure, axes = plt.subplots(figsize=(6, 3.6))
        for way in (WITH, ALONE):
            ratios = [
                statistics.median(one.ms / two.ms for one, two in zip(own, other, strict=True))
                for own, other in zip(found[way], found[WITHOUT], strict=True)
            ]
            steps = [statistics.mean(one.per_step for one in own) for own in found[way]]
            axes.plot(steps, ratios, marker="o", linestyle="", label=way)
        axes.axhline(1, color=colours.field, linewidth=0.8, linestyle="--")
        axes.set(xlabel="tokens a step", ylabel="time over auto without the head")
        axes.legend(fontsize=8)
        return figure

    plot(IMAGES / name, drawn)


def head_parser(description: str | None) -> argparse.ArgumentParser:
    """The arguments of every benchmark that asks a model with a head questions."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--head", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--model", default="local:smollm2")
    parser.add_argument("--dtype", default=None)
    parser.add_argument("--questions", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=120, help="of an answer at most")
    return parser


def main() -> None:
    """Measure and show."""
    parser = head_parser(__doc__)
    parser.add_argument("--repetitions", type=int, default=3, help="that count")
    parser.add_argument("--threads", type=int, default=None, help="of a step; by default as the engine chooses")
    offer_clock(parser)
    parser.add_argument("--keep", metavar="NAME", help="keep the figures as benchmarks/results/NAME.json, and a plot")
    options = parser.parse_args()
    if options.threads:
        limit_threads(options.threads)
        torch.set_num_threads(options.threads)
    every = [turns[-1][1] for turns in held_out(pocket=options.model.removeprefix("local:") == "pocket")]
    asked = every[:: max(1, len(every) // options.questions)][: options.questions]
    engines: dict[str, Engine] = {}
    try:
        model = load_model(find_source(options.model), dtype=options.dtype, device="cpu", compiled=True)
        for head, ways in ((None, (PLAIN, AGAIN, WITHOUT)), (options.head, (WITH, ALONE))):
            engine = Engine(model, head=head, prefix_cache_bytes=0, threads=options.threads, measure=True)
            engines |= dict.fromkeys(ways, engine)
            engine.equip("auto" if head is None else "head")
            engine.wait_measured()
        prompts = [
            tuple(
                model.tokenizer.apply_chat_template(
                    [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
                )
            )
            for text in asked
        ]
        found = compare(engines, prompts, options)
    except StrettoError as error:
        sys.exit(str(error))
    finally:
        for engine in set(engines.values()):
            engine.close()
    rows, losing = summed(found), slower(found, asked)
    console.print(f"{model.name}, {model.dtype}, {machine()}", highlight=False)
    show(rows, losing, len(asked))
    if options.keep:
        head = {"machine": machine(), "model": model.name, "clock": options.clock, "threads": options.threads}
        head |= {name: getattr(options, name) for name in ("questions", "tokens", "repetitions")}
        file = RESULTS / f"{options.keep}.json"
        kept = head | {"rows": rows, "slower": losing}
        file.write_text(json.dumps(kept, indent=1, default=vars) + "\n", encoding="utf-8")
        draw(found, options.keep)


if __name__ == "__main__":
    main()
