"""Measuring how the pocket model reads documents: ``python -m recipes.reading.evaluate``.

Facts of all kinds are hidden in source code that no lesson used, with words that no lesson has. Questions in several
wordings ask for them through the library, as a user asks: with the strategy ``document``, in passages, and with
``direct``, the whole document in one prompt, which a local model reads with its adapter for long prompts. As many
questions ask for facts that are not there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from recipes.pocket.source import held_out_source
from recipes.reading.facts import Fact, Writer
from recipes.reading.lessons import NOTHING
from stretto import AsyncStretto, Document, StrettoError
from stretto.local import LocalBackend

__all__ = ["Count", "hidden", "main", "measure"]

_CHARACTERS = 3.2  # of source code in a token, approximately
_FACTS = 10


@dataclass
class Count:
    """Results of the questions about documents of one size, asked with one strategy.

    Attributes:
        strategy: ``document`` or ``direct``.
        windows: number of the model's windows that a document fills.
        asked: questions about facts in the document.
        found: of those, answered with the right value.
        missed: of those, answered with no value.
        wrong: of those, answered with another value.
        absent: questions about facts that are not in it.
        invented: of those, answered with a value.
        failed: ended in an error.
        seconds: of all.
    """

    strategy: str
    windows: int
    asked: int = 0
    found: int = 0
    missed: int = 0
    wrong: int = 0
    absent: int = 0
    invented: int = 0
    failed: int = 0
    seconds: float = 0.0


def hidden(chance: random.Random, characters: int, count: int) -> tuple[str, list[Fact]]:
    """Hide facts about different things in a text of about a number of characters."""
    lines = [line for text in held_out_source().values() for line in text.splitlines(keepends=True)]
    start, size, found = chance.randrange(len(lines)), 0, list[str]()
    while size < characters:
        found.append(lines[start % len(lines)])
        size += len(found[-1])
        start += 1
    facts = Writer(chance, held_out=True).facts(count)
    for fact in facts:
        found.insert(chance.randrange(len(found) + 1), f"{fact.sentence}\n")
    return "".join(found), facts


async def measure(strategy: str, windows: int, documents: int, *, questions: int, window: int, model: str) -> Count:
    """Ask about some documents of one size."""
    count, began = Count(strategy, windows), time.perf_counter()
    chance = random.Random(f"reading {windows}")  # noqa: S311 - no secrets
    async with AsyncStretto(LocalBackend(model)) as stretto:
        for number in range(documents):
            text, facts = hidden(chance, int(windows * window * _CHARACTERS), _FACTS)
            writer = Writer(chance, held_out=True)
            document = Document(title=f"source {number + 1}", text=text)
            for fact in facts[:questions]:
                answer = await _answer(stretto, writer.question(fact), document, strategy)
                count.asked += 1
                count.failed += answer is None
                if answer is not None and fact.value in answer:
                    count.found += 1
                elif answer is None or NOTHING in answer:
                    count.missed += 1
                else:
                    count.wrong += 1
            for fact in _others(writer, facts, questions):
                answer = await _answer(stretto, writer.question(fact), document, strategy)
                count.absent += 1
                count.failed += answer is None
                count.invented += answer is not None and NOTHING not in answer
    count.seconds = time.perf_counter() - began
    return count


def _others(writer: Writer, facts: Sequence[Fact], count: int) -> list[Fact]:
    """Facts that are not in the document, similar to those that are."""
    there, found = {(fact.kind, fact.about) for fact in facts}, list[Fact]()
    while len(found) < count:
        other = writer.near(facts[len(found) % len(facts)])
        if (other.kind, other.about) not in there:
            found.append(other)
    return found


async def _answer(stretto: AsyncStretto, question: str, document: Document, strategy: str) -> str | None:
    """The answer; ``None`` for an error, such as a document that is too long for the strategy."""
    try:
        return (await stretto.ask(question, documents=[document], strategy=strategy, max_tokens=60)).text
    except StrettoError:
        return None


def main(arguments: list[str] | None = None) -> None:
    """Measure how the pocket model reads documents."""
    parser = argparse.ArgumentParser(prog="python -m recipes.reading.evaluate", description=main.__doc__)
    parser.add_argument("--model", default="local:pocket")
    parser.add_argument("--window", type=int, default=2048, help="tokens of its context window (default %(default)s)")
    parser.add_argument("--windows", type=int, nargs="+", default=[10, 100], help="that a document fills")
    parser.add_argument("--strategies", nargs="+", choices=("document", "direct"), default=["document", "direct"])
    parser.add_argument("--documents", type=int, default=3, help="of each size (default %(default)s)")
    parser.add_argument("--questions", type=int, default=10, help="of each sort and document (default %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts to FILE")
    chosen = parser.parse_args(arguments)
    console = Console()
    counts = []
    for windows in chosen.windows:
        for strategy in chosen.strategies:
            counts.append(
                asyncio.run(
                    measure(
                        strategy, windows, chosen.documents,
                        questions=chosen.questions, window=chosen.window, model=chosen.model,
                    )
                )
            )  # fmt: skip
            console.print(counts[-1], highlight=False)
    table = Table("windows", "strategy", "found", "missed", "wrong", "invented", "seconds")
    for each in counts:
        table.add_row(
            str(each.windows), each.strategy, f"{each.found}/{each.asked}", str(each.missed), str(each.wrong),
            f"{each.invented}/{each.absent}", f"{each.seconds:.0f}",
        )  # fmt: skip
    console.print(table)
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(each) for each in counts], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
