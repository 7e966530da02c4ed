"""What answers in parts cost others on a server of fixed capacity: offered load against throughput and time.

    python benchmarks/load.py                           the curve, its plot, both kinds of answers and points always
    python benchmarks/load.py --slots 6 --seconds 12 --loads 0.1 0.5 1.5

A scripted server in another process writes ``--slots`` answers at a time, each at the same rate; further requests wait
for their turn. It tells nobody how many it takes: the library assumes eight, and learns the rest from its calls.
Requests arrive at random moments (a seeded Poisson process), whether earlier ones are answered or not. Six of ten ask
for points, the others for prose; the straight answers to both are equally long. The same arrivals are answered by

- ``straight``: every answer in one call;
- ``auto``: the router decides for each, as it does without being told anything;
- ``points``: what asks for points is always written in points, whatever the load.

Load 1 is what the server can write of straight answers. Throughput counts answers that end within the time measured,
which begins after a warm-up of the same load; the time of an answer counts from its arrival.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import anyio
from measuring import IMAGES, machine, save, scripted_server
from plots import plot, recorded
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from stretto import AsyncStretto, Settings
from stretto.display.palette import Palette

POINTS, WORDS = 6, 16
FIRST_S, RATE = 0.12, 40.0  # few tokens a second: the client and the server share two cores
WAYS = ("straight", "auto", "points")
ASKS_POINTS = "What are the main benefits of regular exercise? Give me six tips. ({number})"
ASKS_PROSE = "Tell me the story of the bicycle and of the people who built it. ({number})"
SHARE = 0.6
console = Console()


@dataclass(frozen=True)
class Level:
    """One way at one load.

    Attributes:
        way: how the answers were written.
        load: offered, in straight answers that the server can write.
        offered: answers a second that arrived.
        throughput: answers a second that ended.
        median_s: of the times of answers, from arrival to end.
        p90_s: the time that nine of ten stayed below.
        first_s: median to the first text.
        in_parts: share of the answers that were written in parts.
        calls: an answer, on average.
    """

    way: str
    load: float
    offered: float
    throughput: float
    median_s: float
    p90_s: float
    first_s: float
    in_parts: float
    calls: float


def rules() -> list[tuple[str, str]]:
    """Patterns and replies: an outline, its points, and a straight answer as long as these."""
    titles = ["Heart", "Sleep", "Mood", "Bones", "Weight", "Memory"]
    texts = [
        f"Part{number}" + "".join(f" word{number}x{at}" for at in range(WORDS - 1)) + "."
        for number in range(1, POINTS + 1)
    ]
    numbered = [
        f"{number}. **{title}**: {text}" for number, (title, text) in enumerate(zip(titles, texts, strict=True), 1)
    ]
    outline = "\n".join(f"{number}. {title}" for number, title in enumerate(titles, 1))
    points = [(f"text of point {number},", text) for number, text in enumerate(texts, 1)]
    return [("Write only the outline", outline), *points, (".", "\n".join(numbered))]


def straight_s() -> float:
    """What one straight answer takes on an idle server; its words are its tokens."""
    return FIRST_S + len(rules()[-1][1].split()) / RATE


async def level(way: str, load: float, options: argparse.Namespace, progress: Progress) -> Level:
    """Offer one load for a while, and measure the second part of it."""
    draw = random.Random(f"{options.seed} {load}")  # noqa: S311 - the same arrivals for every way
    offered = load * options.slots / straight_s()
    warm, until = options.warm, options.warm + options.seconds
    arrivals, at = list[float](), draw.expovariate(offered)
    while at < until:
        arrivals.append(at)
        at += draw.expovariate(offered)
    kinds = [draw.random() < SHARE for _ in arrivals]
    ends: list[tuple[float, float, float, bool, int]] = []
    task = progress.add_task(f"{way} at {load:g}", total=until)

    async def ask(stretto: AsyncStretto, number: int, due: float, *, points: bool) -> None:
        await anyio.sleep(began + due - time.perf_counter())
        strategy = "direct" if way == "straight" else "skeleton" if way == "points" and points else "auto"
        first: float | None = None
        asked = (ASKS_POINTS if points else ASKS_PROSE).format(number=number)
        async with stretto.stream(asked, strategy=strategy) as stream:
            async for event in stream:
                if event.type == "text_delta" and first is None:
                    first = time.perf_counter() - began
        done, answer = time.perf_counter() - began, stream.answer
        assert first is not None
        ends.append((done, done - due, first - due, answer.strategy == "skeleton", answer.usage.calls))

    with scripted_server(rules(), time_to_first_token_s=FIRST_S, tokens_per_second=RATE, slots=options.slots) as url:
        settings = Settings(concurrent_calls=64)
        async with AsyncStretto("openai:scripted", base_url=url, api_key="benchmark", settings=settings) as stretto:
            await stretto.ask("Why?")  # imports, the router's model and a connection are no part of it
            began = time.perf_counter()
            with anyio.move_on_after(until):
                async with anyio.create_task_group() as tasks:
                    for number, (due, points) in enumerate(zip(arrivals, kinds, strict=True)):
                        tasks.start_soon(partial(ask, stretto, number, due, points=points))
                    while (now := time.perf_counter() - began) < until:
                        progress.update(task, completed=now)
                        await anyio.sleep(0.2)
    progress.update(task, completed=until)
    counted = [end for end in ends if end[0] >= warm]
    times = sorted(end[1] for end in counted)
    return Level(
        way,
        load,
        round(sum(at >= warm for at in arrivals) / options.seconds, 2),
        round(len(counted) / options.seconds, 2),
        round(statistics.median(times), 2),
        round(times[int(0.9 * len(times))], 2),
        round(statistics.median(end[2] for end in counted), 2),
        round(sum(end[3] for end in counted) / len(counted), 2),
        round(sum(end[4] for end in counted) / len(counted), 2),
    )


def told(levels: Sequence[Level]) -> Table:
    """All levels, with each way's throughput as a share of that of straight answers."""
    table = Table(box=None, header_style="dim")
    for name in (
        "load",
        "way",
        "offered/s",
        "done/s",
        "of straight",
        "median s",
        "90% s",
        "first s",
        "in parts",
        "calls",
    ):
        table.add_column(name, justify="left" if name == "way" else "right")
    straight = {each.load: each for each in levels if each.way == "straight"}
    for each in levels:
        base = straight[each.load].throughput
        table.add_row(
            f"{each.load:g}", each.way, f"{each.offered:.2f}", f"{each.throughput:.2f}",
            f"{each.throughput / base:.3f}" if base else "", f"{each.median_s:.2f}", f"{each.p90_s:.2f}",
            f"{each.first_s:.2f}", f"{each.in_parts:.0%}", f"{each.calls:.1f}",
        )  # fmt: skip
    return table


def draw(levels: Sequence[dict[str, Any]]) -> None:
    """The curve: load against throughput, and against the time of an answer."""

    def figure(plt: Any, colours: Palette) -> Any:
        made, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.4))
        for way in WAYS:
            own = [each for each in levels if each["way"] == way]
            loads = [each["load"] for each in own]
            left.plot(loads, [each["throughput"] for each in own], marker="o", label=way)
            right.plot(loads, [each["median_s"] for each in own], marker="o", label=way)
        for axes, name in ((left, "answers a second"), (right, "seconds an answer, median")):
            axes.axvline(1, color=colours.field, zorder=0)
            axes.set_xlabel("offered load, in straight answers the server can write")
            axes.set_ylabel(name)
            axes.set_ylim(bottom=0)
        left.legend()
        return made

    plot(IMAGES / "load", figure)
    recorded("python benchmarks/redraw.py", ["load.png"], "benchmarks/results/load.json")


def main() -> None:
    """Measure, print, keep and draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--slots", type=int, default=6, help="answers that the server writes at a time")
    parser.add_argument("--seconds", type=float, default=15.0, help="measured for each way and load")
    parser.add_argument("--warm", type=float, default=6.0, help="before that, at the same load")
    parser.add_argument("--loads", type=float, nargs="+", default=[0.1, 0.3, 0.6, 0.9, 1.2, 1.5])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with Progress(console=console, transient=True) as progress:
        levels = [anyio.run(level, way, load, options, progress) for load in options.loads for way in options.ways]
    console.print(machine())
    console.print(told(levels))
    if options.ways == list(WAYS):
        kept = [asdict(each) for each in levels]
        setting = {"slots": options.slots, "first_s": FIRST_S, "tokens_per_s": RATE, "seconds": options.seconds}
        save("load", {"machine": machine(), **setting, "levels": kept})
        draw(kept)


if __name__ == "__main__":
    main()
