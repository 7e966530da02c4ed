"""How much sooner an answer by points is there than a straight one of the same length.

    python benchmarks/skeleton.py                       both parts, a plot of each timeline
    python benchmarks/skeleton.py --points 5 --words 30 --time-to-first-token 0.5 --tokens-per-second 40

Over HTTP: the real OpenAI SDK against a scripted server in another process. Straight and skeleton
answers have the same points with the same texts; runs alternate. The critical path is worked out
from the server's parameters alone: the outline up to its last line, then the slowest point.

The first title and the first words below it are compared with two bounds. By the server's parameters, a time
to first token runs from the moment the server has read a request to the moment it writes; a call that
took no time itself could meet that. The other one is what a caller can have at best: the bare SDK reads
the same outline from the same server, in turns, and its time to the token that ends the first line, and
to the first token, are taken. A table (`way.py`) shows the parts of the difference.

On ``local:pocket``: a real model in this process; its answers differ in length, so tokens are shown.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import openai
import way
from measuring import IMAGES, RESULTS, Spread, machine, save, scripted_server
from plots import plot
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from stretto import Answer, AsyncStretto
from stretto.backends.providers.transport.http_clients import async_client
from stretto.backends.registry import open_backend
from stretto.backends.tenants import UNKNOWN, asked_for
from stretto.display.palette import Palette

QUESTION = "How do I look after a bicycle?"
KEY = "benchmark"
console = Console()


@dataclass
class Run:
    """One answer, when it was asked for (monotonic clock), and when its first pieces reached the reader, in seconds."""

    answer: Answer
    asked_s: float
    first_content_s: float
    first_title_s: float | None = None
    first_text_of_point_s: float | None = None


async def run(stretto: AsyncStretto, strategy: str, question: str = QUESTION) -> Run:
    """Ask once and watch the stream."""
    began = time.perf_counter()
    first: float | None = None
    title: float | None = None
    text: float | None = None
    options: dict[str, Any] = {"strategy_options": {"form": "points"}} if strategy == "skeleton" else {}
    async with stretto.stream(question, strategy=strategy, **options) as stream:
        async for event in stream:
            now = time.perf_counter() - began
            if event.type == "text_delta":
                first = first if first is not None else now
                if title is None:
                    title = now if strategy == "skeleton" else None
                elif text is None:
                    text = now
    assert first is not None
    return Run(stream.answer, began, first, title, text)


@dataclass(frozen=True)
class Script:
    """What the server writes: an outline and points of the same length."""

    points: int
    words: int

    @property
    def titles(self) -> list[str]:
        """Four words each."""
        return [f"Aspect number {number} considered" for number in range(1, self.points + 1)]

    def text(self, number: int) -> str:
        """The text of one point: words of its own, because points that say the same are left out.

        One that began like its title would be held until it differs, a token longer.
        """
        own = "".join(f" word{number}x{at}" for at in range(self.words - 7))
        return f"Part {number} has its own text{own}."

    @property
    def outline(self) -> str:
        """Numbered titles."""
        return "\n".join(f"{number}. {title}" for number, title in enumerate(self.titles, 1))

    def rules(self) -> list[tuple[str, str]]:
        """Patterns and replies for the scripted server."""
        straight = "\n".join(
            f"{number}. **{title}**: {self.text(number)}" for number, title in enumerate(self.titles, 1)
        )
        points = [(f"text of point {number},", self.text(number)) for number in range(1, self.points + 1)]
        return [("Write only the outline", self.outline), *points, (".", straight)]


async def over_http(options: argparse.Namespace, progress: Progress) -> dict[str, object]:
    """Straight and skeleton answers over HTTP, and the bare SDK reading the outline, in turns."""
    from openai import AsyncOpenAI  # noqa: PLC0415 - the peer of this part only

    script = Script(options.points, options.words)
    runs: dict[str, list[Run]] = {"direct": [], "skeleton": []}
    watched: list[tuple[way.Call, way.Call]] = []
    bare: list[way.Call] = []
    task = progress.add_task("over HTTP", total=2 * options.repeats)
    with (
        tempfile.TemporaryDirectory() as folder,
        scripted_server(
            script.rules(),
            time_to_first_token_s=options.time_to_first_token,
            tokens_per_second=options.tokens_per_second,
            record=Path(folder) / "times.jsonl",
        ) as url,
    ):
        backend = way.Watched(open_backend("openai:scripted", base_url=url, api_key=KEY))
        sdk = AsyncOpenAI(
            base_url=url, api_key=KEY, max_retries=0, http_client=async_client(openai)
        )  # kept for as long
        async with aclosing(backend), AsyncStretto(backend) as stretto, sdk:
            await run(stretto, "skeleton")  # imports and connections
            await way.read_bare(sdk)
            for _ in range(options.repeats):
                for strategy, done in runs.items():
                    done.append(await run(stretto, strategy))
                    progress.advance(task)
                watched.append((backend.call(way.OUTLINE), backend.call(way.FIRST_POINT)))
                bare.append(await way.read_bare(sdk))
            calls = len(backend.calls) + len(bare) + 1
            requests = await way.recorded(Path(folder) / "times.jsonl", calls)
    outline_tokens = [branch.usage.completion_tokens for branch in runs["skeleton"][0].answer.branches]
    ttft, rate = options.time_to_first_token, options.tokens_per_second
    # The last token of a stream of n comes (n - 1) token times after its first.
    critical = ttft + (outline_tokens[0] - 1) / rate + ttft + (max(outline_tokens[1:]) - 1) / rate
    pace = way.Pace(ttft, rate, outline_tokens[0] // options.points)
    figures = report("over HTTP", runs, critical=critical)
    figures |= {"timeline": timeline(runs)}
    return figures | first_pieces(runs["skeleton"], watched, bare, requests, pace)


def first_pieces(
    runs: list[Run],
    watched: list[tuple[way.Call, way.Call]],
    bare: list[way.Call],
    requests: list[way.Served],
    pace: way.Pace,
) -> dict[str, object]:
    """Print when the first title and the first words reached the reader, their bounds, and the parts on the way."""
    title = Spread.of([each.first_title_s or 0.0 for each in runs])
    words = Spread.of([each.first_text_of_point_s or 0.0 for each in runs])
    line = Spread.of([call.line_s - call.began_s for call in bare])
    token = Spread.of([call.first_s - call.began_s for call in bare])
    bounds = {
        "first_title": (title, pace.line_s, line.median),
        "first_text": (words, pace.line_s + pace.ttft_s, line.median + token.median),
    }
    figures: dict[str, object] = {}
    named = ("first title: time to first token, one line", "first words below it: one more time to first token")
    for (name, (seen, least, by_sdk)), label in zip(bounds.items(), named, strict=True):
        console.print(
            f"{label}: {seen}; by the server's parameters {least:.4f}, "
            f"by the bare SDK {by_sdk:.4f}, {(seen.median - by_sdk) * 1000:.1f} ms over that"
        )
        figures |= {f"{name}_s": seen, f"{name}_bound_s": least, f"{name}_by_sdk_s": by_sdk}
    to_title, to_words = [], []
    for each, (outline, point) in zip(runs, watched, strict=True):
        title_s, words_s = (
            each.asked_s + (each.first_title_s or 0.0),
            each.asked_s + (each.first_text_of_point_s or 0.0),
        )
        to_title.append(way.to_title(each.asked_s, title_s, outline, way.served(requests, outline), pace))
        to_words.append(way.to_words(words_s, outline, point, way.served(requests, point), pace))
    of_bare = [way.of_bare(call, way.served(requests, call), pace) for call in bare]
    parts = [way.medians(each) for each in (to_title, to_words, of_bare)]
    console.print(way.table(*parts))
    return figures | dict(zip(("to_title_ms", "to_words_ms", "bare_sdk_ms"), parts, strict=True))


def report(name: str, runs: dict[str, list[Run]], *, critical: float | None = None) -> dict[str, object]:
    """Print one table and return its figures."""
    table = Table(title=f"{name}: medians (least-most), seconds", title_justify="left")
    for column in ("strategy", "wall", "first content", "tokens read", "tokens written", "calls"):
        table.add_column(column, justify="right" if column != "strategy" else "left")
    figures: dict[str, object] = {}
    for strategy, done in runs.items():
        wall = Spread.of([each.answer.timeline.total_s for each in done])
        first = Spread.of([each.first_content_s for each in done])
        usage = done[0].answer.usage
        figures[strategy] = {"wall_s": wall, "first_content_s": first, "usage": usage.model_dump()}
        table.add_row(
            strategy, str(wall), str(first), str(usage.prompt_tokens), str(usage.completion_tokens), str(usage.calls)
        )
    console.print(table)
    pairs = zip(runs["direct"], runs["skeleton"], strict=True)
    speedup = Spread.of([d.answer.timeline.total_s / s.answer.timeline.total_s for d, s in pairs])
    console.print(f"speed-up of skeleton over direct: {speedup}")
    figures["speedup"] = speedup
    measured = Spread.of([s.answer.timeline.total_s / s.answer.timeline.critical_path_s for s in runs["skeleton"]])
    console.print(f"wall over critical path, as measured by the branches: {measured}")
    figures["wall_over_measured_path"] = measured
    if critical is not None:
        ratio = Spread.of([s.answer.timeline.total_s / critical for s in runs["skeleton"]])
        console.print(f"wall over critical path, from the server's parameters ({critical:.3f} s): {ratio}")
        figures |= {"critical_path_s": critical, "wall_over_critical_path": ratio}
    return figures


async def overhead(options: argparse.Namespace, progress: Progress) -> dict[str, object]:
    """What the library adds to a call: against the bare SDK on the same server, in turns."""
    from openai import AsyncOpenAI  # noqa: PLC0415 - the peer of this part only

    ours: list[float] = []
    bare: list[float] = []
    task = progress.add_task("overhead of a call", total=options.calls)
    with scripted_server([(".", "Yes, that is so.")], time_to_first_token_s=0, tokens_per_second=1e9) as url:
        backend = open_backend("openai:scripted", base_url=url, api_key=KEY)
        sdk = AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0)
        async with aclosing(backend), AsyncStretto(backend) as stretto, sdk:
            for turn in range(-10, options.calls):  # the first ten warm both up
                began = time.perf_counter()
                await stretto.ask(QUESTION, strategy="direct")
                middle = time.perf_counter()
                stream = await sdk.chat.completions.create(
                    model="scripted",
                    messages=[{"role": "user", "content": QUESTION}],
                    stream=True,
                    stream_options={"include_usage": True},
                )
                async with stream:
                    async for _ in stream:
                        pass
                if turn >= 0:
                    ours.append((middle - began) * 1000)
                    bare.append((time.perf_counter() - middle) * 1000)
                    progress.advance(task)
    added = [mine - theirs for mine, theirs in zip(ours, bare, strict=True)]
    console.print(
        f"overhead of a call: median {statistics.median(added):.2f} ms "
        f"(with Stretto {statistics.median(ours):.2f} ms, SDK {statistics.median(bare):.2f} ms, {len(added)} pairs)"
    )
    return {"added_ms": Spread.of(added), "stretto_ms": Spread.of(ours), "sdk_ms": Spread.of(bare)}


async def on_pocket(options: argparse.Namespace, progress: Progress) -> dict[str, object]:
    """The same on the pocket model: real text, real batch."""
    runs: dict[str, list[Run]] = {"direct": [], "skeleton": []}
    task = progress.add_task("local:pocket", total=2 * options.repeats)
    async with AsyncStretto("local:pocket") as stretto:
        with asked_for(UNKNOWN):  # or each answer would be drafted from those before it
            await run(stretto, "direct")  # loads the model
            for _ in range(options.repeats):
                for strategy, done in runs.items():
                    done.append(await run(stretto, strategy))
                    progress.advance(task)
    return report("local:pocket", runs) | {"timeline": timeline(runs)}


def timeline(runs: dict[str, list[Run]]) -> dict[str, Any]:
    """When each branch of the last answer in points began, wrote and ended, and how long both answers took."""
    answer, straight = runs["skeleton"][-1].answer, runs["direct"][-1].answer
    spans = [(branch.heading or branch.id, branch.span) for branch in answer.branches]
    rows = [[name, span.started_s, span.first_s, span.ended_s] for name, span in spans]
    return {"seconds": answer.timeline.total_s, "straight": straight.timeline.total_s, "branches": rows}


def draw(shown: Mapping[str, Any], name: str, title: str) -> None:
    """Draw when each branch of a `timeline` waited and wrote, and when the straight answer ended."""
    rows = [row for row in reversed(shown["branches"]) if row[1] is not None and row[3] is not None]

    def drawn(plt: Any, colours: Palette) -> Any:
        figure, axes = plt.subplots(figsize=(8, 0.35 * len(rows) + 1.75))
        for place, (_, started, first, ended) in enumerate(rows, 1):
            wrote = ended if first is None else first
            waits, writes = ("waits for its first token", "writes") if place == 1 else (None, None)
            axes.barh(place, wrote - started, left=started, color=colours.line, height=0.6, label=waits)
            axes.barh(place, ended - wrote, left=wrote, color=colours.accent, height=0.6, label=writes)
        axes.barh(0, shown["straight"], color=colours.field, height=0.6, label="the same answer in one piece")
        axes.set_yticks(range(len(rows) + 1), ["in one piece", *(name for name, *_ in rows)], fontsize=8)
        axes.set_xlim(0, shown["straight"] * 1.03)
        axes.set(xlabel="seconds", title=title)
        axes.legend(fontsize=8, frameon=False, loc="upper right")
        return figure

    plot(IMAGES / name, drawn)


def draw_all(result: Mapping[str, Any]) -> None:
    """Draw the timelines that a result keeps."""
    titles = {
        "http": "over HTTP: outline, then points in parallel",
        "pocket": "local:pocket: outline, then points in one batch",
    }
    for part, title in titles.items():
        if shown := result.get(part, {}).get("timeline"):
            draw(shown, f"skeleton-{part}", title)


async def picture(options: argparse.Namespace) -> None:
    """Ask once in each way, and keep and draw when what ran; the kept figures stay."""
    kept = json.loads((RESULTS / "skeleton.json").read_text(encoding="utf-8"))
    options.repeats = 1
    with Progress(console=console, transient=True) as progress:
        kept["http"] |= {"timeline": (await over_http(options, progress))["timeline"]}
        kept["pocket"] |= {"timeline": (await on_pocket(options, progress))["timeline"]}
    save("skeleton", kept)
    draw_all(kept)


async def main(options: argparse.Namespace) -> None:
    """Run the parts, print and keep the figures, draw the plots."""
    if options.picture:
        await picture(options)
        return
    console.print(machine())
    result: dict[str, object] = {"machine": machine(), "options": vars(options)}
    with Progress(console=console, transient=True) as progress:
        result["http"] = await over_http(options, progress)
        result["overhead"] = await overhead(options, progress)
        if not options.no_pocket:
            result["pocket"] = await on_pocket(options, progress)
    console.print(f"kept in {save('skeleton', result).name}")
    draw_all(result)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--points", type=int, default=8)
    parser.add_argument("--words", type=int, default=60, help="of each point")
    parser.add_argument("--time-to-first-token", type=float, default=0.3, metavar="SECONDS")
    parser.add_argument("--tokens-per-second", type=float, default=60.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--calls", type=int, default=200, help="for the overhead of a call")
    parser.add_argument("--no-pocket", action="store_true", help="leave the local model out")
    parser.add_argument(
        "--picture", action="store_true", help="one answer in each way, for the plots; keeps the figures"
    )
    return parser.parse_args()


if __name__ == "__main__":
    anyio.run(main, arguments())
