"""When may a vote end? The rules of `consensus`, played over the same samples of a real model.

    python benchmarks/consensus.py                              SmolLM2-135M, 16 samples of each of 50 questions
    python benchmarks/consensus.py --model local:pocket --questions 20

The questions are those of ``cascade_questions.jsonl`` of which the pocket model has never heard; all have a right
answer. Each is asked ``--samples`` times. Every rule then reads the same samples in several random orders, one after
the other, and stops where it would stop; so the rules differ in nothing but when they stop and what wins. Calls are
those of an answer that asks for one sample after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from measuring import IMAGES, machine, save
from plots import plot, recorded
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from stretto import AsyncStretto
from stretto.calibrating import LabelledQuestion
from stretto.calibrating.goodness import is_right
from stretto.comparing import questions_in
from stretto.display.palette import Palette
from stretto.strategies.consensus.ballots import VoteReader
from stretto.strategies.consensus.stopping import confident, decided, posterior

QUESTIONS = Path(__file__).with_name("cascade_questions.jsonl")
ORDERS = 20  # in which the samples of a question are read
TOKENS = 32
console = Console()


@dataclass(frozen=True)
class Vote:
    """One sample: what it votes for, how sure the model is of it, and whether it is right."""

    key: str
    sure: float
    right: bool


Rule = Callable[[Sequence[Vote], int], bool]
"""Whether the vote ends, by the votes so far and the samples that are left."""


def by_votes(enough: float) -> Rule:
    """The number of votes: unchangeable, or certain enough after Adaptive-Consistency."""
    return lambda votes, left: decided(Counter(vote.key for vote in votes), left, enough) is not None


def by_confidence(enough: float) -> Rule:
    """How sure the model is of each sample, after CGES."""
    return lambda votes, _: confident([(vote.key, vote.sure) for vote in votes], enough)


def never(_: Sequence[Vote], __: int) -> bool:
    """All samples are written."""
    return False


RULES: dict[str, tuple[Rule, bool]] = {
    "all samples": (never, False),
    "unchangeable": (by_votes(1.0), False),
    "votes, 0.95": (by_votes(0.95), False),
    "votes, 0.99": (by_votes(0.99), False),
    "confidence, 0.95": (by_confidence(0.95), True),
    "confidence, 0.99": (by_confidence(0.99), True),
}
"""Each with whether the surest answer wins, instead of the one with the most votes."""


def winner(votes: Sequence[Vote], *, surest: bool) -> Vote:
    """The vote that is shown."""
    if surest:
        probable = posterior([(vote.key, vote.sure) for vote in votes])
        key = max(probable, key=lambda each: probable[each])
    else:
        key = Counter(vote.key for vote in votes).most_common(1)[0][0]
    return next(vote for vote in votes if vote.key == key)


def played(rule: Rule, votes: Sequence[Vote], *, surest: bool) -> tuple[int, Vote]:
    """How many samples a rule asks for, and what it shows."""
    for number in range(1, len(votes)):
        if rule(votes[:number], len(votes) - number):
            return number, winner(votes[:number], surest=surest)
    return len(votes), winner(votes, surest=surest)


async def sampled(stretto: AsyncStretto, question: LabelledQuestion, samples: int) -> list[Vote]:
    """So many samples at once."""
    reading = VoteReader(question.question, question.language_wanted)
    votes: list[Vote] = []

    async def one(seed: int) -> None:
        answer = await stretto.ask(
            question.question, strategy="direct", temperature=0.7, seed=seed, max_tokens=TOKENS, logprobs=0
        )
        ballot = reading.ballot(answer.text)
        if ballot is not None and answer.logprobs:
            mean = statistics.mean(each.logprob for each in answer.logprobs)
            votes.append(Vote(ballot.key, math.exp(mean), is_right(answer.text, question)))

    async with anyio.create_task_group() as tasks:
        for seed in range(samples):
            tasks.start_soon(one, seed)
    return votes


def rows_of(asked: Sequence[Sequence[Vote]]) -> list[dict[str, Any]]:
    """Each rule over all questions, in the same orders."""
    rows = []
    for name, (rule, surest) in RULES.items():
        draw = random.Random(1)  # noqa: S311 - the same orders for every rule
        calls, right, same = list[int](), list[bool](), list[bool]()
        for votes in asked:
            whole = winner(votes, surest=False).key
            for _ in range(ORDERS):
                number, shown = played(rule, draw.sample(votes, len(votes)), surest=surest)
                calls.append(number)
                right.append(shown.right)
                same.append(shown.key == whole)
        means = {"calls": statistics.mean(calls), "right": statistics.mean(right), "as_all": statistics.mean(same)}
        rows.append({"rule": name, **means})
    return rows


def table_of(rows: Sequence[dict[str, Any]]) -> Table:
    """The rows as a table."""
    table = Table("rule", "calls", "right", "as all samples", box=None, header_style="dim")
    for row in rows:
        table.add_row(row["rule"], f"{row['calls']:.2f}", f"{row['right']:.1%}", f"{row['as_all']:.1%}")
    return table


def draw(result: dict[str, Any]) -> None:
    """What each rule asks for, and how often it is right."""

    def drawn(plt: Any, _: Palette) -> Any:
        figure, axes = plt.subplots(figsize=(6.4, 3.4))
        for row in result["rows"]:
            axes.plot([row["calls"]], [100 * row["right"]], marker="o", linestyle="")
            axes.annotate(row["rule"], (row["calls"], 100 * row["right"]), xytext=(5, 5), textcoords="offset points")
        axes.set_xlabel("samples that are asked for, on average")
        axes.set_ylabel("% of answers that are right")
        axes.margins(0.2)
        axes.set_title(f"{result['model']}, {result['questions']} questions, up to {result['samples']} samples")
        return figure

    plot(IMAGES / "consensus", drawn)
    recorded("python benchmarks/redraw.py", ["consensus.png"], "benchmarks/results/consensus.json")


async def asked_all(given: argparse.Namespace) -> list[list[Vote]]:
    """The samples of all questions."""
    questions = [each for each in questions_in(QUESTIONS, LabelledQuestion) if each.id.startswith("g")]
    questions = questions[: given.questions]
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("asking", total=len(questions))
        found = []
        async with AsyncStretto(given.model) as stretto:
            for question in questions:
                found.append(await sampled(stretto, question, given.samples))
                progress.advance(task)
    return [votes for votes in found if len(votes) > 1]


def main() -> None:
    """Ask, play, print, keep and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:smollm2")
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--questions", type=int, default=50)
    given = parser.parse_args()
    asked = asyncio.run(asked_all(given))
    rows = rows_of(asked)
    console.print(machine(), table_of(rows))
    result = {"machine": machine(), "model": given.model, "samples": given.samples, "questions": len(asked)}
    save("consensus", {**result, "rows": rows})
    draw({**result, "rows": rows})


if __name__ == "__main__":
    main()
