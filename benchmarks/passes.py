"""Mask-predict on given texts: how many passes a block needs, on tasks whose answer is the prompt, changed.

    python benchmarks/passes.py                                local:pocket-diffusion beside local:pocket
    python benchmarks/passes.py --model local:build/diffusion --tasks 20
    python benchmarks/passes.py --threads 1 --clock cpu        on a machine that others use too

Half of the tasks transform a text (replace a word, turn it round, ...), half do one operation on each of several items;
the pocket model learned both kinds. The score is the share of answers that are right to the last character.
``mask_predict`` writes each block in the given number of forwards (Ghazvininejad et al., arXiv:1904.09324).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import anyio
from measuring import CLOCKS, Spread, machine, offer_clock, save
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from recipes.pocket import tasks
from recipes.pocket.corpus import outline_lines
from recipes.tuning import seeded
from stretto import AsyncStretto, StrettoError
from stretto.local import LocalBackend

PASSES = (1, 2, 3, 4, 6, 8, 10)
MOST_TOKENS = 200
console = Console(width=110)


@dataclass(frozen=True)
class Result:
    """All answers of one way; seconds of one answer."""

    way: str
    right: float
    tokens_a_forward: float
    seconds: Spread


def given(count: int) -> list[tuple[str, str]]:
    """Requests with their answers."""
    chance, found = seeded(30_000, "given texts"), []
    for number in range(count):
        if number % 2:
            say, pairs = tasks.item_task(chance.choice(tasks.ITEM_TASKS), chance.randrange(3, 7), chance)
            request = tasks.item_request(say, [item for item, _ in pairs], chance)
            found.append((request, outline_lines([answer for _, answer in pairs])))
        else:
            found.append(tasks.transform_task(chance))
    return found


async def measure(
    way: str, backend: LocalBackend, asked: Sequence[tuple[str, str]], clock: Callable[[], float], progress: Progress
) -> Result:
    """All tasks in one way. A failure is wrong."""
    bar = progress.add_task(way, total=len(asked))
    right, seconds, tokens, forwards = 0, [], 0, 0
    async with AsyncStretto(backend) as stretto:
        await stretto.ask("Hello", strategy="direct", max_tokens=8)
        for request, wanted in asked:
            began = clock()
            try:
                answer = await stretto.ask(request, strategy="direct", temperature=0.0, max_tokens=MOST_TOKENS)
            except StrettoError as error:
                console.print(f"[yellow]{way}: {error}")
                continue
            finally:
                progress.advance(bar)
            seconds.append(clock() - began)
            right += answer.text.strip() == wanted.strip()
            if answer.decoding is not None:
                tokens, forwards = tokens + answer.decoding.tokens, forwards + answer.decoding.steps
    return Result(way, right / len(asked), tokens / forwards if forwards else 1.0, Spread.of(seconds or [0.0]))


def main() -> None:
    """Measure, print and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:pocket-diffusion")
    parser.add_argument("--parent", default="local:pocket")
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--threads", type=int)
    offer_clock(parser)
    chosen = parser.parse_args()
    clock = CLOCKS[chosen.clock]

    def backend(decoding: str, model: str = chosen.model, **options: Any) -> LocalBackend:
        return LocalBackend(
            model, decoding=decoding, threads=chosen.threads, method_options={decoding: options} if options else {}
        )

    ways = {
        "causal, one token at a time": backend("autoregressive", chosen.parent),
        "threshold 0.9": backend("threshold", threshold=0.9),
        **{f"mask_predict, {passes}": backend("mask_predict", passes=passes) for passes in PASSES},
    }
    asked, results = given(chosen.tasks), []
    with Progress(console=console) as progress:
        for way, each in ways.items():
            results.append(anyio.run(measure, way, each, asked, clock, progress))
    shown = Table("way", "right", "tokens a forward", "seconds an answer")
    for one in results:
        shown.add_row(one.way, f"{one.right:.3f}", f"{one.tokens_a_forward:.2f}", str(one.seconds))
    console.print(f"{chosen.model}, {len(asked)} given texts, greedy, {chosen.clock} time; {machine()}")
    console.print(shown)
    found = {"model": chosen.model, "machine": machine(), "tasks": len(asked), "clock": chosen.clock}
    console.print(f"kept in {save('passes', {**found, 'results': [asdict(one) for one in results]}).name}")


if __name__ == "__main__":
    main()
