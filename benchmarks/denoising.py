"""What writing several tokens at once costs in quality: a block diffusion model beside the causal one it came from.

    python benchmarks/denoising.py                                     local:pocket and local:pocket-diffusion
    python benchmarks/denoising.py --model local:build/distilled       a folder that recipes.denoise wrote
    python benchmarks/denoising.py --topics 10
    python benchmarks/denoising.py --threads 1 --clock cpu             on a machine that others use too

The pocket model's 100 topics are asked in known words, changed by code, as on its card; the score is the share of the
points of each topic that stand in the answer. The causal model writes one token a forward, and drafts several without
loss; the block diffusion model keeps what is likelier than a threshold. All write the same questions one after the
other. The last lines say how many tokens a forward keep 90, 95 and 99% of the causal model's score; AUP is the area
below score over tokens a forward, each score as a share of the causal one's. Then eight questions at once are held
against one, for the causal model too, and the first text against the first block.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import anyio
import plots
from measuring import CLOCKS, IMAGES, Spread, machine, offer_clock, save
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from recipes.denoise.evaluate import asked, points_present
from recipes.pocket.corpus import Corpus, Topic
from stretto import AsyncStretto, StrettoError
from stretto.display.palette import Palette
from stretto.local import LocalBackend

KEEPS = (0.90, 0.95, 0.99)
THRESHOLDS = (0.99, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.0)
USUAL = 0.9
MOST_TOKENS = 640
console = Console(width=110)
Clock = Callable[[], float]


@dataclass(frozen=True)
class Way:
    """One way to write; ``threshold`` of block diffusion, ``None`` for the causal model."""

    name: str
    model: str
    decoding: str
    threshold: float | None = None
    threads: int | None = None

    def backend(self) -> LocalBackend:
        """A model that writes so."""
        options = {} if self.threshold is None else {self.decoding: {"threshold": self.threshold}}
        return LocalBackend(self.model, decoding=self.decoding, method_options=options, threads=self.threads)


@dataclass(frozen=True)
class Result:
    """All answers of one way.

    Attributes:
        score: share of the points present.
        tokens_a_forward: of all answers together.
        seconds: of an answer.
        tokens_a_second: of all answers together.
        failed: answers that ended in an error; they score nothing.
    """

    way: str
    threshold: float | None
    score: float
    tokens_a_forward: float
    seconds: Spread
    tokens_a_second: float
    failed: int


async def measure(way: Way, questions: Sequence[tuple[Topic, str]], clock: Clock, progress: Progress) -> Result:
    """All questions, one after the other."""
    bar = progress.add_task(way.name, total=len(questions))
    texts, seconds, tokens, forwards, written, failed = [], [], 0, 0, 0, 0
    async with AsyncStretto(way.backend()) as stretto:
        await stretto.ask("Hello", strategy="direct", max_tokens=8)
        for _, question in questions:
            began = clock()
            try:
                answer = await stretto.ask(question, strategy="direct", temperature=0.0, max_tokens=MOST_TOKENS)
            except StrettoError as error:
                console.print(f"[yellow]{way.name}: {error}")
                texts.append("")
                failed += 1
                continue
            finally:
                progress.advance(bar)
            texts.append(answer.text)
            seconds.append(clock() - began)
            written += answer.usage.completion_tokens
            if answer.decoding is not None:
                tokens, forwards = tokens + answer.decoding.tokens, forwards + answer.decoding.steps
    return Result(
        way.name,
        way.threshold,
        points_present(questions, texts),
        tokens / forwards if forwards else 1.0,
        Spread.of(seconds or [0.0]),
        written / sum(seconds) if seconds else 0.0,
        failed,
    )


def most_kept(results: Sequence[Result], straight: float, share: float) -> Result | None:
    """The way with most tokens a forward that keeps this share of the straight score."""
    good = [each for each in results if each.score >= share * straight]
    return max(good, key=lambda each: each.tokens_a_forward, default=None)


def area(results: Sequence[Result], straight: float) -> float:
    """The area below score over tokens a forward, from one token on; scores as shares of the straight one's."""
    points = sorted((each.tokens_a_forward, min(1.0, each.score / straight)) for each in results)
    points = [(1.0, points[0][1]), *points] if points else []
    return sum((right - left) * (high + low) / 2 for (left, high), (right, low) in itertools.pairwise(points))


def table(results: Sequence[Result]) -> Table:
    """What is printed of each way."""
    shown = Table("way", "score", "of straight", "tokens a forward", "seconds an answer", "tokens/s", "failed")
    straight = results[0].score
    for each in results:
        share = each.score / straight if straight else 0.0
        cells = (
            each.way,
            f"{each.score:.3f}",
            f"{share:.1%}",
            f"{each.tokens_a_forward:.2f}",
            str(each.seconds),
            f"{each.tokens_a_second:.0f}",
            str(each.failed),
        )
        shown.add_row(*cells, style="bold" if share < KEEPS[1] else "")
    return shown


def draw(result: Mapping[str, Any]) -> None:
    """Score over that of straight answers, beside tokens a forward."""
    results = [Result(**row | {"seconds": Spread(**row["seconds"])}) for row in result["results"]]
    model, straight = result["model"], results[0].score

    def drawn(plt: Any, colours: Palette) -> Any:
        figure, axes = plt.subplots(figsize=(8, 4.5))
        diffusion = sorted((each for each in results if each.threshold is not None), key=lambda e: e.tokens_a_forward)
        axes.plot(
            [each.tokens_a_forward for each in diffusion],
            [each.score / straight for each in diffusion],
            "o-",
            label=f"{model}, by threshold",
        )
        for each in diffusion:
            axes.annotate(
                f"{each.threshold:g}",
                (each.tokens_a_forward, each.score / straight),
                xytext=(4, 4),
                textcoords="offset points",
            )
        for each in results:
            if each.threshold is None:
                axes.plot([each.tokens_a_forward], [each.score / straight], "x", label=each.way)
        for share in KEEPS:
            axes.axhline(share, color=colours.line, linewidth=1, zorder=0)
        axes.set(xlabel="tokens a forward", ylabel="score over straight", title="Quality by tokens a forward")
        axes.legend()
        return figure

    plots.plot(IMAGES / "denoising", drawn)


@dataclass(frozen=True)
class Together:
    """Several questions at once, beside one; medians of rounds in turn.

    Attributes:
        one: seconds of one answer.
        all: seconds until the last of all answers.
        first: seconds until the first text of one answer.
    """

    one: Spread
    all: Spread
    first: Spread


async def together(way: Way, question: str, clock: Clock, count: int = 8, rounds: int = 5) -> Together:
    """Ask one question once, and the same question so many times at once: equally many forwards each."""
    one, all_, first = [], [], []
    async with AsyncStretto(way.backend()) as stretto:

        async def answer() -> float:
            found = await stretto.ask(question, strategy="direct", temperature=0.0, max_tokens=MOST_TOKENS)
            return found.timeline.first_text_s or 0.0

        await answer()
        for _ in range(rounds):
            begun = clock()
            first.append(await answer())
            one.append(clock() - begun)
            begun = clock()
            async with anyio.create_task_group() as tasks:
                for _ in range(count):
                    tasks.start_soon(answer)
            all_.append(clock() - begun)
    return Together(Spread.of(one), Spread.of(all_), Spread.of(first))


async def run(ways: Sequence[Way], questions: Sequence[tuple[Topic, str]], clock: Clock) -> list[Result]:
    """All ways, one after the other."""
    with Progress(console=console) as progress:
        return [await measure(way, questions, clock, progress) for way in ways]


def main() -> None:
    """Measure, print, keep the result and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:pocket-diffusion", help="the block diffusion model")
    parser.add_argument("--parent", default="local:pocket", help="the causal model that it came from")
    parser.add_argument("--topics", type=int, default=40)
    parser.add_argument("--thresholds", type=float, nargs="+", default=THRESHOLDS)
    parser.add_argument("--threads", type=int, help="of the engine")
    offer_clock(parser)
    chosen = parser.parse_args()
    clock = CLOCKS[chosen.clock]
    questions = asked(Corpus(with_source=False))[: chosen.topics]
    ways = [
        Way("causal, one token at a time", chosen.parent, "autoregressive", threads=chosen.threads),
        Way("causal, drafts without loss", chosen.parent, "auto", threads=chosen.threads),
        *(Way(f"threshold {each:g}", chosen.model, "threshold", each, chosen.threads) for each in chosen.thresholds),
    ]
    results = anyio.run(run, ways, questions, clock)
    straight, diffusion = results[0].score, [each for each in results if each.threshold is not None]
    console.print(
        f"{chosen.model} beside {chosen.parent}, {len(questions)} questions, greedy, {chosen.clock} time; {machine()}"
    )
    console.print(table(results))
    kept = {}
    for share in KEEPS:
        best = most_kept(diffusion, straight, share)
        kept[f"{share:.0%}"] = None if best is None else asdict(best)
        said = "none" if best is None else f"{best.tokens_a_forward:.2f} ({best.way}, {best.seconds} s an answer)"
        console.print(f"most tokens a forward that keep {share:.0%} of the straight score: {said}")
    console.print(
        f"AUP {area(diffusion, straight):.2f}; median time over straight, best at 95%: {_ratio(results, kept)}"
    )
    usual = next((each for each in ways if each.threshold == USUAL), ways[-1])
    batches = {each.name: anyio.run(together, each, questions[0][1], clock) for each in (ways[0], usual)}
    for name, batch in batches.items():
        ratio = batch.all.median / batch.one.median
        console.print(f"8 at once over one, {name}: {ratio:.2f} ({batch.all} s over {batch.one} s)")
        console.print(f"first text of one: {batch.first} s of wall time")
    file = save(
        "denoising",
        {
            "model": chosen.model,
            "parent": chosen.parent,
            "machine": machine(),
            "topics": len(questions),
            "results": [asdict(each) for each in results],
            "kept": kept,
            "aup": area(diffusion, straight),
            "8 at once": {name: asdict(batch) for name, batch in batches.items()},
        },
    )
    console.print(f"kept in {file.name}")


def _ratio(results: Sequence[Result], kept: dict[str, Any]) -> str:
    best = kept["95%"]
    return "none" if best is None else f"{best['seconds']['median'] / results[0].seconds.median:.2f}"


if __name__ == "__main__":
    main()
