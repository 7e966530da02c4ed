"""What shorter passages bring where a text is dense in what is asked for: ``python benchmarks/document_narrowing.py``.

The reader is a script that lists the first ten things of a passage and misses the rest. The rule is compared with two
controls: without it, and with as many calls, all passages equally shorter.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from statistics import median
from typing import Any, Literal
from unittest import mock

from measuring import machine, save

from stretto import AsyncStretto, Document
from stretto.backends.base import Capabilities, ModelRequest
from stretto.strategies.document import strategy
from stretto.testing import ScriptedBackend

LISTED = 10  # things of a passage at most
PARAGRAPHS, FACTS = 1_500, 240
KINDS = {
    "spread evenly": 0.0,
    "two thirds in six places": 2 / 3,
    "all in six places": 1.0,
    "one in every paragraph": -1.0,
}
PLACES = 6
QUESTION = "Which invoices were paid late?"
SLOTS, WINDOW = 16, 128_000
PREFERENCES: tuple[Literal["balanced", "careful"], ...] = ("balanced", "careful")
_WORDS = "river stone garden winter market letter travel engine window silver morning paper".split()  # noqa: SIM905
_FACT = re.compile(r"Invoice \d+ of the \w+ company was paid late\.")
_FENCE = re.compile(r'Text between the lines "([^"]+)" is data')


def report(kind: str, seed: int) -> str:
    """Paragraphs without a meaning, with facts among them; or one in each."""
    chance = random.Random(seed)  # noqa: S311 - the same words each time

    def words(number: int) -> str:
        return " ".join(chance.choice(_WORDS) for _ in range(number)).capitalize() + "."

    def fact(number: int) -> str:
        return f"Invoice {number} of the {chance.choice(_WORDS)} company was paid late."

    grouped = KINDS[kind]
    if grouped < 0:
        return "\n\n".join(f"{fact(number)} {words(60)}" for number in range(4 * PARAGRAPHS))
    paragraphs = [words(60) for _ in range(PARAGRAPHS)]
    each = round(FACTS * grouped) // PLACES
    for place in range(PLACES):
        at = chance.randrange(len(paragraphs))
        paragraphs[at:at] = [f"{fact(place * each + number)} {words(20)}" for number in range(each)]
    for number in range(each * PLACES, FACTS):
        paragraphs.insert(chance.randrange(len(paragraphs)), fact(number))
    return "\n\n".join(paragraphs)


def reply(prompt: ModelRequest) -> str:
    """The first ten facts of a passage."""
    text = "\n".join(message.content for message in prompt.messages)
    fence = _FENCE.search(text)
    if '"no_information"' not in text or fence is None:
        return json.dumps({"keep": [1], "answer": "Some were.", "confidence": 3})
    passage = text.partition(f"{fence[1]} the passage\n")[2].partition(f"\n{fence[1]}")[0]
    quotes = _FACT.findall(passage)[:LISTED]
    record = {"evidence": quotes, "rationale": "", "answer": "Some were.", "confidence": 3}
    return json.dumps({"record": record if quotes else {"no_information": True}})


def found(
    document: Document, preference: Literal["balanced", "careful"], *, rule: bool, passage: int | None = None
) -> tuple[int, int]:
    """How many facts are found, and in how many passages."""
    able = Capabilities(context_window=WINDOW, concurrent_calls=SLOTS, json_schema=True, passage_tokens=passage)
    without = mock.patch.object(strategy, "narrowed", lambda _, places: list(places))

    async def ask() -> tuple[int, int]:
        async with AsyncStretto(ScriptedBackend(reply, capabilities=able)) as stretto:
            answer = await stretto.ask(QUESTION, strategy="document", documents=[document], preference=preference)
        return len({each.quote for record in answer.passages for each in record.evidence}), len(answer.passages)

    with nullcontext() if rule else without:
        return asyncio.run(ask())


def shorter(document: Document, preference: Literal["balanced", "careful"], calls: int) -> tuple[int, int]:
    """The same without the rule, all passages so short that there are as many, or a few more."""
    passage = len(document.text) // 3 // calls
    while True:
        facts, passages = found(document, preference, rule=False, passage=passage)
        if passages >= calls:
            return facts, passages
        passage = passage * 97 // 100


def _spread(values: Sequence[int]) -> dict[str, float]:
    return {"median": median(values), "least": min(values), "most": max(values)}


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5, help="documents of each kind")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for kind in KINDS:
        documents = [Document(text=report(kind, seed), title="report") for seed in range(options.repeats)]
        there = len(_FACT.findall(documents[0].text))
        for preference in PREFERENCES:
            ways: dict[str, list[tuple[int, int]]] = {"without": [], "with": [], "equally_shorter": []}
            for document in documents:
                ways["without"].append(found(document, preference, rule=False))
                ways["with"].append(found(document, preference, rule=True))
                ways["equally_shorter"].append(shorter(document, preference, ways["with"][-1][1]))
            row = {
                way: {"found": _spread([each[0] for each in runs]), "passages": _spread([each[1] for each in runs])}
                for way, runs in ways.items()
            }
            rows.append({"facts": kind, "preference": preference, "there": there} | row)
    result = {"machine": machine(), "listed": LISTED, "slots": SLOTS, "repeats": options.repeats, "rows": rows}
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    save("document_narrowing", result)


if __name__ == "__main__":
    main()
