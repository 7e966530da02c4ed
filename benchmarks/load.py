"""What answers in parts cost others on a server of fixed capacity: offered load against throughput and time.

    python benchmarks/load.py                           simulated: the curve, its plot, several hundred answers a cell
    python benchmarks/load.py --clock wall              in real time, over HTTP
    python benchmarks/load.py --shared                  a server that begins every call at once, and slows all of them

The server writes ``--slots`` answers at a time, each at the same rate; further calls wait for their turn. It does
not report how many it takes: the library assumes eight, and learns the rest from its calls. Requests arrive at random
moments (a seeded Poisson process), whether earlier ones are answered or not. Six of ten ask for points, the others for
prose; the straight answers to both are equally long. The same arrivals are answered by

- ``straight``: every answer in one call;
- ``auto``: the router decides for each, as it does by default;
- ``points``: what asks for points is always written in points, whatever the load.

Load 1 is what the server can write of straight answers. Each cell is ``--episodes`` times a new client on an idle
server, at that load for a while, of which the first part is left out. Throughput counts answers that end within the
time measured; times are those of all answers that arrive within it, from arrival to end.

By default the time is simulated (`leaping`): the library as it is runs over a server in its own process, computing
takes no time, and waiting takes none of yours. With ``--clock wall`` the server is another process that speaks HTTP.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import anyio
import leaping  # before stretto
from measuring import IMAGES, machine, save, scripted_server
from plots import plot, recorded
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from stretto import AsyncStretto, Settings
from stretto.backends.base import Backend, Capabilities, Chunk, ModelRequest
from stretto.backends.resilience.resilient import Resilience, resilient
from stretto.display.palette import Palette
from stretto.values.answer import Usage
from stretto.values.request import GenerationOptions

POINTS, WORDS = 6, 16
FIRST_S, RATE = 0.12, 40.0
TOKENS_A_CHUNK = 4  # of a simulated stream; a token each would take minutes
WAYS = ("straight", "auto", "points")
ASKS_POINTS = "What are the main benefits of regular exercise? Give me six tips. ({number})"
ASKS_PROSE = "Tell me the story of the bicycle and of the people who built it. ({number})"
SHARE = 0.6
console = Console(width=130)


@dataclass(frozen=True)
class Level:
    """One way at one load.

    Attributes:
        way: how the answers were written.
        load: offered, in straight answers that the server can write.
        answers: that arrived in the time measured.
        throughput: answers a second that ended.
        median_s: of the times of answers, from arrival to end.
        p90_s: the time that nine of ten stayed below.
        points_s: median of those that ask for points.
        prose_s: median of those that ask for prose, and are straight in all ways.
        first_s: median to the first text.
        in_parts: share of the answers that were written in parts.
        calls: an answer, on average.
    """

    way: str
    load: float
    answers: int
    throughput: float
    median_s: float
    p90_s: float
    points_s: float
    prose_s: float
    first_s: float
    in_parts: float
    calls: float


@dataclass(frozen=True)
class Ended:
    """One answer; times in seconds since its episode began."""

    due: float
    first: float
    end: float
    points: bool
    in_parts: bool
    calls: int


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


@dataclass(eq=False)
class FixedCapacity:
    """A server in this process. Calls wait for one of its slots, or, if it is ``shared``, slow each other."""

    slots: int
    shared: bool
    name: str = "simulated:server"
    capabilities: Capabilities = field(default_factory=lambda: Capabilities(concurrent_calls=8))
    running: int = 0
    replies: Sequence[tuple[str, str]] = field(default_factory=rules)

    def __post_init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(10**6 if self.shared else self.slots)

    @asynccontextmanager
    async def stream(self, prompt: ModelRequest, _: GenerationOptions) -> AsyncGenerator[AsyncIterator[Chunk]]:
        """One call."""
        async with self._limiter:
            self.running += 1
            try:
                yield self._written(prompt)
            finally:
                self.running -= 1

    async def _written(self, prompt: ModelRequest) -> AsyncIterator[Chunk]:
        text = "\n".join(message.content for message in prompt.messages)
        words = next(reply for pattern, reply in self.replies if pattern == "." or pattern in text).split(" ")
        await anyio.sleep(FIRST_S * self._slowed())
        for at in range(0, len(words), TOKENS_A_CHUNK):
            piece = words[at : at + TOKENS_A_CHUNK]
            await anyio.sleep(len(piece) / RATE * self._slowed())
            yield Chunk(("" if at == 0 else " ") + " ".join(piece))
        tokens = sum(len(word.split()) for word in words)
        yield Chunk(usage=Usage(prompt_tokens=len(text) // 4, completion_tokens=tokens, calls=1), finish_reason="stop")

    def _slowed(self) -> float:
        return max(1.0, self.running / self.slots) if self.shared else 1.0

    async def count_tokens(self, prompt: ModelRequest) -> int:
        """Four characters are one token here."""
        return sum(len(message.content) for message in prompt.messages) // 4

    async def aclose(self) -> None:
        """Nothing is open."""


@contextmanager
def served(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A server of fixed capacity; gives the arguments of a client for it."""
    if options.clock == "simulated":
        backend: Backend = resilient(FixedCapacity(options.slots, options.shared), Resilience(concurrent_calls=64))
        yield {"model": backend}
        return
    with scripted_server(rules(), time_to_first_token_s=FIRST_S, tokens_per_second=RATE, slots=options.slots) as url:
        yield {"model": "openai:scripted", "base_url": url, "api_key": "benchmark"}


async def episode(way: str, load: float, number: int, options: argparse.Namespace, on_answer: Any) -> list[Ended]:
    """Offer one load for a while to an idle server with a new client, and wait for all answers."""
    draw = random.Random(f"{options.seed} {load} {number}")  # noqa: S311 - the same arrivals for every way
    offered = load * options.slots / straight_s()
    until = options.warm + options.seconds
    arrivals, at = list[float](), draw.expovariate(offered)
    while at < until:
        arrivals.append(at)
        at += draw.expovariate(offered)
    kinds = [draw.random() < SHARE for _ in arrivals]
    ends: list[Ended] = []

    async def ask(stretto: AsyncStretto, number: int, due: float, *, points: bool) -> None:
        await anyio.sleep(max(0.0, began + due - time.perf_counter()))
        strategy = "direct" if way == "straight" else "skeleton" if way == "points" and points else "auto"
        first: float | None = None
        asked = (ASKS_POINTS if points else ASKS_PROSE).format(number=number)
        options: dict[str, Any] = {"strategy_options": {"form": "points"}} if strategy == "skeleton" else {}
        async with stretto.stream(asked, strategy=strategy, **options) as stream:
            async for event in stream:
                if event.type == "text_delta" and first is None:
                    first = time.perf_counter() - began
        end, answer = time.perf_counter() - began, stream.answer
        assert first is not None
        ends.append(Ended(due, first, end, points, answer.strategy == "skeleton", answer.usage.calls))
        on_answer()

    with served(options) as client:
        async with AsyncStretto(**client, settings=Settings(concurrent_calls=64)) as stretto:
            await stretto.ask("Why?")  # imports, the router's model and a connection are no part of it
            began = time.perf_counter()
            async with anyio.create_task_group() as tasks:
                for place, (due, points) in enumerate(zip(arrivals, kinds, strict=True)):
                    tasks.start_soon(partial(ask, stretto, place, due, points=points))
    return [ended for ended in ends if ended.end >= options.warm]


def level(way: str, load: float, options: argparse.Namespace, progress: Progress) -> Level:
    """All episodes of one way at one load; in real time side by side, each with a server of its own."""
    task = progress.add_task(f"{way} at {load:g}", total=None)
    ends: list[Ended] = []

    async def one(number: int) -> None:
        ends.extend(await episode(way, load, number, options, partial(progress.advance, task)))

    async def all_of_them() -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(options.episodes):
                tasks.start_soon(one, number)

    if options.clock == "simulated":
        for number in range(options.episodes):
            leaping.run(partial(one, number))
    else:
        anyio.run(all_of_them)
    progress.remove_task(task)
    until = options.warm + options.seconds
    done = sum(each.end <= until for each in ends)
    counted = [each for each in ends if each.due >= options.warm]
    times = sorted(each.end - each.due for each in counted)
    points, prose = ([each.end - each.due for each in counted if each.points is asked] for asked in (True, False))
    return Level(
        way,
        load,
        len(counted),
        round(done / options.seconds / options.episodes, 3),
        round(statistics.median(times), 3),
        round(times[int(0.9 * len(times))], 3),
        round(statistics.median(points), 3),
        round(statistics.median(prose), 3),
        round(statistics.median(each.first - each.due for each in counted), 3),
        round(sum(each.in_parts for each in counted) / len(counted), 3),
        round(sum(each.calls for each in counted) / len(counted), 2),
    )


def levels_table(levels: Sequence[Level]) -> Table:
    """All levels, with each way's throughput as a share of that of straight answers."""
    table = Table(box=None, header_style="dim", padding=(0, 1))
    for name in (
        *("load", "way", "answers", "done/s", "of straight", "median s", "of straight", "90% s", "points s"),
        *("prose s", "first s", "in parts", "calls"),
    ):
        table.add_column(name, justify="left" if name == "way" else "right")
    straight = {each.load: each for each in levels if each.way == "straight"}
    for each in levels:
        base = straight.get(each.load, each)
        table.add_row(
            f"{each.load:g}", each.way, str(each.answers), f"{each.throughput:.2f}",
            f"{each.throughput / base.throughput:.3f}" if base.throughput else "", f"{each.median_s:.2f}",
            f"{each.median_s / base.median_s:.3f}", f"{each.p90_s:.2f}", f"{each.points_s:.2f}", f"{each.prose_s:.2f}",
            f"{each.first_s:.2f}", f"{each.in_parts:.0%}", f"{each.calls:.1f}",
        )  # fmt: skip
    return table


def draw(levels: Sequence[dict[str, Any]]) -> None:
    """The curve: load against throughput, and against the time of an answer."""

    def figure(plt: Any, colours: Palette) -> Any:
        made, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.4))
        for way in dict.fromkeys(each["way"] for each in levels):
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
    parser.add_argument("--clock", choices=("simulated", "wall"), default="simulated")
    parser.add_argument("--shared", action="store_true", help="calls slow each other instead of waiting")
    parser.add_argument("--slots", type=int, default=6, help="answers that the server writes at full speed")
    parser.add_argument("--seconds", type=float, default=60.0, help="measured of each episode")
    parser.add_argument("--warm", type=float, default=10.0, help="before that, at the same load")
    parser.add_argument("--episodes", type=int, default=5, help="of each way and load")
    parser.add_argument("--loads", type=float, nargs="+", default=[0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.shared and options.clock == "wall":
        parser.error("the server over HTTP has slots: leave out --shared, or --clock wall")
    with Progress(console=console, transient=True) as progress:
        levels = [level(way, load, options, progress) for load in options.loads for way in options.ways]
    console.print(machine())
    console.print(levels_table(levels))
    if {"straight", "auto"} <= set(options.ways) and options.clock == "simulated" and not options.shared:
        kept = [asdict(each) for each in levels]
        setting = {name: getattr(options, name) for name in ("clock", "slots", "seconds", "warm", "episodes", "seed")}
        save("load", {"machine": machine(), "first_s": FIRST_S, "tokens_per_s": RATE, **setting, "levels": kept})
        draw(kept)


if __name__ == "__main__":
    main()
