"""Measuring how the pocket model reads documents: ``python -m recipes.reading.evaluate``.

Facts of all kinds are hidden in source code that no lesson was cut from, with words that no lesson has, and asked for
in several wordings, through the library as a user asks: by ``document``, in passages, and straight, the whole document
in one prompt, which a local model reads with its adapter for long prompts. As many questions ask for what is not there.
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
from stretto import AsyncStretto, Document, LocalBackend, StrettoError

__all__ = ["Count", "hidden", "main", "measure"]

_CHARACTERS = 3.2  # of source code in a token, about
_FACTS = 10


@dataclass
class Count:
    """What became of the questions about documents of one size, asked in one way.

    Attributes:
        way: ``document`` or ``direct``.
        windows: of the model that a document fills.
        asked: questions about what is there.
        found: of those, answered with the right value.
        missed: of those, answered with no value.
        wrong: of those, answered with another value.
        absent: questions about what is not there.
        invented: of those, answered with a value all the same.
        failed: ended in an error.
        seconds: of all.
    """

    way: str
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
    """A text of about so many characters with so many facts in it, all of different things."""
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


async def measure(way: str, windows: int, documents: int, *, questions: int, window: int, model: str) -> Count:
    """Ask about some documents of so many windows."""
    count, began = Count(way, windows), time.perf_counter()
    chance = random.Random(f"reading {windows}")  # noqa: S311 - no secrets
    async with AsyncStretto(LocalBackend(model)) as stretto:
        for number in range(documents):
            text, facts = hidden(chance, int(windows * window * _CHARACTERS), _FACTS)
            writer = Writer(chance, held_out=True)
            document = Document(title=f"source {number + 1}", text=text)
            for fact in facts[:questions]:
                said = await _said(stretto, writer.question(fact), document, way)
                count.asked += 1
                count.failed += said is None
                if said is not None and fact.value in said:
                    count.found += 1
                elif said is None or NOTHING in said:
                    count.missed += 1
                else:
                    count.wrong += 1
            for fact in _others(writer, facts, questions):
                said = await _said(stretto, writer.question(fact), document, way)
                count.absent += 1
                count.failed += said is None
                count.invented += said is not None and NOTHING not in said
    count.seconds = time.perf_counter() - began
    return count


def _others(writer: Writer, facts: Sequence[Fact], count: int) -> list[Fact]:
    """Facts that are not there, like those that are."""
    there, found = {(fact.kind, fact.about) for fact in facts}, list[Fact]()
    while len(found) < count:
        other = writer.near(facts[len(found) % len(facts)])
        if (other.kind, other.about) not in there:
            found.append(other)
    return found


async def _said(stretto: AsyncStretto, question: str, document: Document, way: str) -> str | None:
    """The answer; ``None`` where there is none, because the document is too long for this way."""
    try:
        return (await stretto.ask(question, documents=[document], strategy=way, max_tokens=60)).text
    except StrettoError:
        return None


def main(arguments: list[str] | None = None) -> None:
    """Measure how the pocket model reads documents."""
    parser = argparse.ArgumentParser(prog="python -m recipes.reading.evaluate", description=main.__doc__)
    parser.add_argument("--model", default="local:pocket")
    parser.add_argument("--window", type=int, default=2048, help="tokens of its context window (default %(default)s)")
    parser.add_argument("--windows", type=int, nargs="+", default=[10, 100], help="that a document fills")
    parser.add_argument("--ways", nargs="+", choices=("document", "direct"), default=["document", "direct"])
    parser.add_argument("--documents", type=int, default=3, help="of each size (default %(default)s)")
    parser.add_argument("--questions", type=int, default=10, help="of each sort and document (default %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts to FILE")
    chosen = parser.parse_args(arguments)
    console = Console()
    counts = []
    for windows in chosen.windows:
        for way in chosen.ways:
            counts.append(
                asyncio.run(
                    measure(
                        way, windows, chosen.documents,
                        questions=chosen.questions, window=chosen.window, model=chosen.model,
                    )
                )
            )  # fmt: skip
            console.print(counts[-1], highlight=False)
    table = Table("windows", "way", "found", "missed", "wrong", "invented", "seconds")
    for each in counts:
        table.add_row(
            str(each.windows), each.way, f"{each.found}/{each.asked}", str(each.missed), str(each.wrong),
            f"{each.invented}/{each.absent}", f"{each.seconds:.0f}",
        )  # fmt: skip
    console.print(table)
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(each) for each in counts], indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
