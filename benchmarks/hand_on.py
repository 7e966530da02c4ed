"""What a doubted answer is worth as a draft: ``strategy="cascade"`` with and without ``hand_on``, on real models.

    python benchmarks/hand_on.py                     8 questions, two pairs of models
    python benchmarks/hand_on.py --questions 3

The small model's answer is never accepted here, so every question is answered by both. The large model is SmolLM2-135M
in float32. The small one is the pocket model, which writes in other words, or SmolLM2 with its weights in blocks of 4
bits, which writes nearly the same. Answers are greedy and equal in both ways. Counted are the forwards of the large
model, which are the same on every machine, and the processor time from its first token to its last.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from dataclasses import dataclass
from typing import Any

from measuring import IMAGES, machine, save
from plots import plot, recorded
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from stretto import AsyncStretto
from stretto.display.palette import Palette
from stretto.local import LocalBackend

MAIN = "local:smollm2"
PAIRS = ("local:pocket", "local:smollm2 in 4 bits")
QUESTIONS = (
    "How do I look after a bicycle?",
    "What is the largest ocean?",
    "Why is the sky blue?",
    "Name four ways to use less water at home.",
    "What should I know before I adopt a cat?",
    "How does a bill become a law?",
    "Write a short letter that thanks a neighbour.",
    "What is the difference between a virus and a bacterium?",
)
TOKENS = 80


@dataclass(frozen=True)
class Written:
    """One answer of the large model: its text, forwards for each token, and processor time for each token."""

    text: str
    forwards: float
    seconds: float


async def written(stretto: AsyncStretto, question: str, *, hand_on: bool) -> Written:
    """Answer a question in one of the two ways."""
    options = {"threshold": 0, "hand_on": hand_on}
    first = 0.0
    given: dict[str, Any] = {"temperature": 0.0, "max_tokens": TOKENS, "decoding": "auto"}
    async with stretto.stream(question, strategy="cascade", strategy_options=options, **given) as stream:
        async for event in stream:
            if event.type == "text_delta" and not first:
                first = time.process_time()
        seconds, answer = time.process_time() - first, stream.answer
    main = answer.branches[-1]
    assert main.decoding is not None, answer.warnings
    tokens = main.usage.completion_tokens
    return Written(answer.text, main.decoding.steps / tokens, seconds / tokens)


async def measured(given: argparse.Namespace) -> list[dict[str, Any]]:
    """All questions for both pairs, the ways in turns."""
    rows = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("answering", total=2 * len(PAIRS) * given.questions)
        for name in PAIRS:
            main = LocalBackend(MAIN, dtype="float32", draft_history_tokens=0, prefix_cache_bytes=0)
            small = LocalBackend(name.split()[0], draft_history_tokens=0)
            pairs: list[tuple[Written, Written]] = []
            async with AsyncStretto(main, roles={"small": small}) as stretto:
                await written(stretto, "Why?", hand_on=True)
                for question in QUESTIONS[: given.questions]:
                    found = {}
                    for hand_on in (False, True):
                        found[hand_on] = await written(stretto, question, hand_on=hand_on)
                        progress.advance(task)
                    pairs.append((found[False], found[True]))
            await main.aclose()
            await small.aclose()
            rows.append(
                {
                    "small": name,
                    "same": sum(plain.text == drafted.text for plain, drafted in pairs),
                    "questions": len(pairs),
                    "forwards": [drafted.forwards / plain.forwards for plain, drafted in pairs],
                    "seconds": [drafted.seconds / plain.seconds for plain, drafted in pairs],
                }
            )
    return rows


def spread(values: list[float]) -> str:
    """Median, least and most."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def draw(result: dict[str, Any]) -> None:
    """Each question's forwards with the draft, as a share of those without."""

    def drawn(plt: Any, colours: Palette) -> Any:
        figure, axes = plt.subplots(figsize=(6.4, 2.4))
        for at, row in enumerate(result["rows"]):
            axes.plot(row["forwards"], [at] * len(row["forwards"]), marker="o", linestyle="", alpha=0.7)
        axes.axvline(1, color=colours.field, zorder=0)
        axes.set_yticks(range(len(result["rows"])), [row["small"] for row in result["rows"]])
        axes.set_ylim(-0.6, len(result["rows"]) - 0.4)
        axes.set_xlim(left=0)
        axes.set_xlabel("forwards of the large model with hand_on, of those without")
        return figure

    plot(IMAGES / "hand-on", drawn)
    recorded("python benchmarks/redraw.py", ["hand-on.png"], "benchmarks/results/hand_on.json")


def main() -> None:
    """Measure, print, keep and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=len(QUESTIONS), choices=range(1, len(QUESTIONS) + 1))
    given = parser.parse_args()
    rows = asyncio.run(measured(given))
    table = Table("small model", "same text", "forwards, of without", "processor time, of without", box=None)
    for row in rows:
        table.add_row(
            row["small"], f"{row['same']} of {row['questions']}", spread(row["forwards"]), spread(row["seconds"])
        )
    Console().print(machine(), table)
    result = {"machine": machine(), "main": f"{MAIN} in float32", "tokens": TOKENS, "rows": rows}
    save("hand_on", result)
    draw(result)


if __name__ == "__main__":
    main()
