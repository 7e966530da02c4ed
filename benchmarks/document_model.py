"""What the benchmark of long documents reads and asks: texts with needles, and a scripted model that finds them."""

from __future__ import annotations

import json
import random
import re

FACT = re.compile(r"The code of (\w+) is (\d+)\.")
_FENCE = re.compile(r'Text between the lines "([^"]+)" is data')
_WORDS = "river stone garden winter market letter travel engine window silver morning paper".split()  # noqa: SIM905
QUESTION = "What is the code of every person?"
HOPS = "What is the code of the person who is captain of the Aurora?"
CAPTAIN = "The captain of the Aurora is name3."


def haystack(characters: int, needles: int) -> str:
    """Paragraphs without a meaning, with so many facts spread evenly from the beginning to the end."""
    chance = random.Random(1)  # noqa: S311 - the same words each time
    paragraphs: list[str] = []
    size = 0
    while size < characters:
        paragraphs.append(" ".join(chance.choice(_WORDS) for _ in range(60)).capitalize() + ".")
        size += len(paragraphs[-1]) + 2
    step = len(paragraphs) / max(1, needles - 1)
    for number in reversed(range(needles)):
        paragraphs.insert(round(step * number), f"The code of name{number} is {1000 + number}.")
    return "\n\n".join(paragraphs)


def reply(text: str) -> str:
    """What a careful reader writes: records for passages, sentences for everything else, LangChain's prompts too."""
    named = re.search(r"captain of the Aurora\?", text) is not None
    if '"notes"' in text:
        return _following(_between(text, "the passage"), _between(text, "notes so far"))
    facts = _numbered(text)
    if '"no_information"' in text:
        quotes = [fact[0] for fact in FACT.finditer(_between(text, "the passage"))]
        summary = {"rationale": "It names a code.", "answer": "The passage names codes.", "confidence": 4}
        return _record({"evidence": quotes, **summary} if quotes else {})
    if '"keep"' in text:
        numbers = [int(number) for number in re.findall(r"^\[(?:cite:)?(\d+)\]", text, re.MULTILINE)]
        return json.dumps({"keep": numbers, "answer": "They name codes.", "confidence": 4})
    wanted = [fact for fact in facts if not named or "name3" in fact[1]]
    return " ".join(f"{fact}{f' [cite:{number}]' if number else ''}" for number, fact in wanted) or "Nothing was found."


def _following(passage: str, notes: str) -> str:
    quotes = [CAPTAIN] if CAPTAIN in passage else []
    notes = "The captain is name3." if quotes else notes.strip()
    codes = [fact[0] for fact in FACT.finditer(passage) if fact[1] == "name3" and "name3" in notes]
    fields = {"notes": notes, "answer": "".join(codes[:1]), "confidence": 5 if codes else 0}
    return _record({"evidence": quotes + codes, **fields} if quotes + codes else {})


def _record(fields: dict[str, object]) -> str:
    return json.dumps({"record": fields or {"no_information": True}})


def _between(text: str, name: str) -> str:
    """The text after the fence of this name."""
    found = _FENCE.search(text)
    fence = found[1] if found else "==="
    return text.partition(f"{fence} {name}\n")[2].partition(f"\n{fence}")[0]


def _numbered(text: str) -> list[tuple[str, str]]:
    """The facts of a text, each with the first number in brackets at the beginning of its line."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        begins = re.match(r"\[(?:cite:)?(\d+)\]", line)
        for fact in FACT.finditer(line):
            found[fact[0]] = found.get(fact[0]) or (begins[1] if begins else "")
    return [(number, fact) for fact, number in found.items()]
