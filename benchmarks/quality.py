"""What parallel writing and decoding do to the quality of answers, on tasks that code can check.

    python benchmarks/quality.py                                the built-in model
    python benchmarks/quality.py --model local:smollm2          a general model; also any other, openai:NAME, ...
    python benchmarks/quality.py --model local:./q.gguf --no-decoding
    python benchmarks/quality.py --model llamacpp:NAME --sizes 2 4 8 --seeds 5 --update-docs
    python benchmarks/quality.py --model local:pocket-diffusion --parent local:pocket
                                                                a model that writes blocks at once, by its thresholds

Every task is written straight and by each strategy that can write it in parts. A local model also writes the tasks of
the middle size with every decoding method. A score is compared with that of the straight answers to the same tasks, and
with parallelism: tokens of the answer over those on its longest chain of calls, or tokens a step of a decoding
method. The last table says how many parts a strategy bears before its score falls below 90, 95 and 99% of straight.
A model that writes blocks at once is compared with the straight answers of its causal parent, at several thresholds;
the last table says how many tokens a forward it bears.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import anyio
import plots
from measuring import IMAGES, machine, save
from quality_tasks import MOST, Task, tasks
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from stretto import Answer, AsyncStretto, StrettoError
from stretto.backends.tenants import UNKNOWN, asked_for
from stretto.display.palette import Palette
from stretto.local import LocalBackend
from stretto.local_engine.drafting.catalogue import DRAFTERS, EQUIPPED

KEEPS = (0.90, 0.95, 0.99)
MOST_TOKENS = 400
THRESHOLDS = (0.99, 0.95, 0.9, 0.7, 0.5, 0.3, 0.0)
console = Console(width=110)


@dataclass(frozen=True)
class Row:
    """One answer."""

    kind: str
    size: int
    seed: int
    asked: str  # for this strategy, or decoding method
    written: str  # by this one in the end
    score: float
    seconds: float
    calls: int
    tokens: int
    parallelism: float


def parallelism(answer: Answer) -> float:
    """Tokens of an answer over those of its longest chain: an outline, then the longest part."""
    parts = [branch for branch in answer.branches if branch.kind in ("section", "item", "passage")]
    before = sum(branch.usage.completion_tokens for branch in answer.branches if branch not in parts)
    chain = before + max((branch.usage.completion_tokens for branch in parts), default=0)
    whole = before + sum(branch.usage.completion_tokens for branch in parts)
    return whole / chain if chain else 1.0


async def ask(stretto: AsyncStretto, task: Task, asked: str, **options: Any) -> Row:
    """One answer to a task. A failure scores nothing."""
    documents = [task.passage] if task.passage else None
    prompt = task.prompt
    if task.passage and options["strategy"] == "direct":
        prompt, documents = f"{task.passage}\n\n{task.prompt}", None
    try:
        with asked_for(UNKNOWN):  # or each way would be drafted from those before it
            answer = await stretto.ask(prompt, documents=documents, max_tokens=MOST_TOKENS, temperature=0.0, **options)
    except StrettoError as error:
        console.print(f"[yellow]{task.kind}, {task.size}, {asked}: {error}")
        return Row(task.kind, task.size, task.seed, asked, "failed", 0.0, 0.0, 0, 0, 1.0)
    decoding = answer.decoding
    by_steps = asked.startswith(("decoding", "threshold")) and decoding
    at_once = decoding.tokens_per_step if by_steps and decoding else parallelism(answer)
    return Row(
        task.kind,
        task.size,
        task.seed,
        asked,
        answer.strategy,
        task.score(answer.text),
        answer.timeline.total_s,
        answer.usage.calls,
        answer.usage.completion_tokens,
        at_once or 1.0,
    )


async def measure(model: str, base_url: str | None, sizes: list[int], seeds: int, *, decoding: bool) -> list[Row]:
    """All answers, one after the other."""
    every = list(tasks(sizes, seeds))
    middle = sizes[len(sizes) // 2]
    methods = [name for name in DRAFTERS if name not in EQUIPPED and name != "autoregressive"] if decoding else []
    rows: list[Row] = []
    async with AsyncStretto(model, base_url=base_url) as stretto:
        await stretto.ask("Hello", strategy="direct", max_tokens=1)
        with Progress(console=console) as progress:
            bar = progress.add_task(model, total=len(every))
            for task in every:
                for asked, options in ways(
                    task, methods if task.size == middle and task.seed == 0 else [], local=decoding
                ):
                    row = await ask(stretto, task, asked, **options)
                    rows.append(row)
                progress.advance(bar)
    return rows


async def measure_blocks(model: str, parent: str, sizes: list[int], seeds: int) -> list[Row]:
    """The parent's straight answers to all tasks, then those of a model that writes blocks, by threshold."""
    every, rows = list(tasks(sizes, seeds)), list[Row]()
    written: dict[str, LocalBackend] = {"direct": LocalBackend(parent, decoding="autoregressive")}
    for threshold in THRESHOLDS:
        options = {"threshold": {"threshold": threshold}}
        written[f"threshold {threshold:g}"] = LocalBackend(model, decoding="threshold", method_options=options)
    with Progress(console=console) as progress:
        bar = progress.add_task(model, total=len(every) * len(written))
        for asked, backend in written.items():
            async with AsyncStretto(backend) as stretto:
                await stretto.ask("Hello", strategy="direct", max_tokens=1)
                for task in every:
                    rows.append(await ask(stretto, task, asked, strategy="direct"))
                    progress.advance(bar)
    return rows


def ways(task: Task, methods: list[str], *, local: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """How a task is answered: straight, by each strategy that can write it in parts, by each decoding method."""
    plain = {"decoding": "autoregressive"} if local else {}
    for strategy in ("direct", *task.strategies):
        by_points: dict[str, Any] = {"strategy_options": {"form": "points"}} if strategy == "skeleton" else {}
        yield strategy, {"strategy": strategy, **by_points, **plain}
    for method in methods:
        yield f"decoding {method}", {"strategy": "direct", "decoding": method}


@dataclass(frozen=True)
class Summary:
    """Answers of one way and size, next to the straight answers to the same tasks."""

    asked: str
    kind: str
    size: int
    answers: int
    in_parts: int
    score: float
    straight: float
    parallelism: float
    time_ratio: float


def summaries(rows: list[Row], *, by_kind: bool) -> list[Summary]:
    """A summary for each way, size and, if wanted, kind of task."""
    straight = {(row.kind, row.size, row.seed): row for row in rows if row.asked == "direct"}

    def key(row: Row) -> tuple[str, str, int]:
        return row.asked, row.kind if by_kind else "all", row.size

    found = []
    for (asked, kind, size), group in groupby(sorted((row for row in rows if row.asked != "direct"), key=key), key):
        own = list(group)
        baseline = [straight[row.kind, row.size, row.seed] for row in own]
        ratios = [row.seconds / other.seconds for row, other in zip(own, baseline, strict=True) if other.seconds]
        found.append(
            Summary(
                asked,
                kind,
                size,
                len(own),
                sum(row.written == row.asked for row in own),
                statistics.fmean(row.score for row in own),
                statistics.fmean(row.score for row in baseline),
                statistics.fmean(row.parallelism for row in own),
                statistics.median(ratios) if ratios else 0.0,
            )
        )
    return found


def most_kept(found: list[Summary], asked: str, share: float) -> int | None:
    """The largest size up to which every size keeps this share of the straight score; ``None`` if none does."""
    kept = None
    for each in sorted((each for each in found if each.asked == asked), key=lambda each: each.size):
        if each.straight == 0 or each.score < share * each.straight:
            return kept
        kept = each.size
    return kept


def most_at_once(found: list[Summary], share: float) -> Summary | None:
    """The threshold with most tokens a forward that keeps this share of the straight score, over all sizes."""
    good = [each for each in overall(found) if each.straight and each.score >= share * each.straight]
    return max(good, key=lambda each: each.parallelism, default=None)


def overall(found: list[Summary]) -> list[Summary]:
    """One summary for each way, over all sizes."""
    whole = []
    for asked, group in groupby(sorted(found, key=lambda each: each.asked), key=lambda each: each.asked):
        own = list(group)
        names = ("score", "straight", "parallelism", "time_ratio")
        means = [statistics.fmean(getattr(each, name) for each in own) for name in names]
        counts = (sum(each.answers for each in own), sum(each.in_parts for each in own))
        whole.append(Summary(asked, "all", 0, *counts, *means))
    return whole


def table_of_blocks(found: list[Summary]) -> Table:
    """How many tokens a forward keep a share of the straight score."""
    shown = Table(
        "share",
        "tokens a forward",
        "way",
        "time over straight",
        title="the most tokens a forward that keep a share of the straight score",
    )
    for share in KEEPS:
        best = most_at_once(found, share)
        cells = ("none", "", "") if best is None else (f"{best.parallelism:.2f}", best.asked, f"{best.time_ratio:.2f}")
        shown.add_row(f"{share:.0%}", *cells)
    return shown


def tables(found: list[Summary], by_kind: list[Summary]) -> list[Table]:
    """What is printed."""
    first = Table(
        "way",
        "size",
        "answers",
        "in parts",
        "score",
        "straight",
        "parallelism",
        "time over straight",
        title="by way and size",
    )
    for each in found:
        style = "bold" if each.score < each.straight else ""
        first.add_row(*_cells(each), style=style)
    second = Table("way", "kind", "score", "straight", title="strategies by kind of task, all sizes")
    kinds = [each for each in by_kind if not each.asked.startswith("decoding")]
    for (asked, kind), group in groupby(sorted(kinds, key=lambda e: (e.asked, e.kind)), lambda e: (e.asked, e.kind)):
        own = list(group)
        score, straight = (statistics.fmean(getattr(e, name) for e in own) for name in ("score", "straight"))
        second.add_row(asked, kind, f"{score:.2f}", f"{straight:.2f}", style="bold" if score < straight else "")
    if any(each.asked.startswith("threshold") for each in found):
        return [first, second, table_of_blocks(found)]
    third = Table(
        "way", *(f"{share:.0%}" for share in KEEPS), title="the most parts that keep a share of the straight score"
    )
    for asked in sorted({each.asked for each in found if not each.asked.startswith("decoding")}):
        third.add_row(asked, *(str(most_kept(found, asked, share) or "none") for share in KEEPS))
    return [first, second, third]


def _cells(each: Summary) -> tuple[str, ...]:
    return (
        each.asked,
        str(each.size),
        str(each.answers),
        "" if each.asked.startswith("decoding") else str(each.in_parts),
        f"{each.score:.2f}",
        f"{each.straight:.2f}",
        f"{each.parallelism:.2f}",
        f"{each.time_ratio:.2f}",
    )


def plot(found: list[Summary], model: str, file: Path) -> None:
    """Score over that of straight answers, by parallelism."""

    def drawn(plt: Any, colours: Palette) -> Any:
        figure, axes = plt.subplots(figsize=(8, 4.5))
        if blocks := [each for each in overall(found) if each.asked.startswith("threshold") and each.straight]:
            blocks.sort(key=lambda each: each.parallelism)
            shares = [each.score / each.straight for each in blocks]
            axes.plot([each.parallelism for each in blocks], shares, "o-", label=f"{model}, by threshold")
            for each, share in zip(blocks, shares, strict=True):
                note = each.asked.removeprefix("threshold ")
                axes.annotate(note, (each.parallelism, share), xytext=(4, 4), textcoords="offset points")
        for asked in sorted({each.asked for each in found if not each.asked.startswith("threshold")}):
            own = [each for each in found if each.asked == asked and each.straight > 0]
            own.sort(key=lambda each: each.parallelism)
            shares = [each.score / each.straight for each in own]
            at_once = [each.parallelism for each in own]
            if asked.startswith("decoding"):
                label = "decoding methods" if "auto" in asked else None
                axes.plot(at_once, shares, "x", color=colours.field, label=label)
                continue
            axes.plot(at_once, shares, "o-", label=asked)
            for each, share in zip(own, shares, strict=True):
                axes.annotate(str(each.size), (each.parallelism, share), xytext=(4, 4), textcoords="offset points")
        for share in KEEPS:
            axes.axhline(share, color=colours.line, linewidth=1, zorder=0)
        axes.axhline(1, color=colours.text, linewidth=1, zorder=0)
        title = f"{model}: quality by parallelism"
        axes.set(xlabel="tokens written at once", ylabel="score over straight", title=title)
        axes.legend()
        return figure

    plots.plot(file, drawn)


def draw(result: Mapping[str, Any]) -> None:
    """Draw a kept result."""
    plot([Summary(**each) for each in result["summaries"]], result["model"], IMAGES / name_of(result["model"]))


def name_of(model: str) -> str:
    """The name of the result and the plot of a model."""
    last = model.rpartition(":")[2].rpartition("/")[2].removesuffix(".gguf")
    return "quality-" + "".join(each if each.isalnum() else "-" for each in last)


def main() -> None:
    """Measure, print, keep the result and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:pocket")
    parser.add_argument("--base-url")
    parser.add_argument("--parent", help="the causal parent of a model that writes blocks at once")
    parser.add_argument("--sizes", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--seeds", type=int, default=3, help="tasks of each kind and size")
    parser.add_argument("--no-decoding", action="store_true", help="leave out the decoding methods of a local model")
    parser.add_argument("--update-docs", action="store_true", help="write the plot into docs/img")
    arguments = parser.parse_args()
    if not all(2 <= size <= MOST for size in arguments.sizes):
        parser.error(f"--sizes: tasks have 2 to {MOST} parts")
    local, sizes, seeds = arguments.model.startswith("local:"), arguments.sizes, arguments.seeds
    decoding = local and not arguments.no_decoding
    if arguments.parent:
        rows = anyio.run(measure_blocks, arguments.model, arguments.parent, sizes, seeds)
    else:
        rows = anyio.run(lambda: measure(arguments.model, arguments.base_url, sizes, seeds, decoding=decoding))
    found, by_kind = summaries(rows, by_kind=False), summaries(rows, by_kind=True)
    console.print(f"{arguments.model}, greedy, at most {MOST_TOKENS} tokens; {machine()}")
    for table in tables(found, by_kind):
        console.print(table)
    name = name_of(arguments.model)
    file = save(
        name,
        {
            "model": arguments.model,
            "machine": machine(),
            "sizes": arguments.sizes,
            "seeds": arguments.seeds,
            "summaries": [asdict(each) for each in found],
            "by_kind": [asdict(each) for each in by_kind],
            "most_kept": {
                asked: {f"{share:.0%}": most_kept(found, asked, share) for share in KEEPS}
                for asked in sorted({each.asked for each in found})
            },
            "rows": [asdict(row) for row in rows],
        },
    )
    console.print(f"kept in {file.name}")
    if arguments.update_docs:
        plot(found, arguments.model, IMAGES / name)


if __name__ == "__main__":
    main()
