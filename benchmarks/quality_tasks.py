"""Tasks whose answers code can check, of several sizes: the larger, the more of the answer can be written at once.

The idea is ParallelBench's (arXiv 2510.04767): find how much parallelism a model bears before its answers get worse.
The tasks are made here, by a seeded generator.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

ANIMALS = ("cat", "dog", "horse", "cow", "sheep", "goat", "lion", "tiger", "wolf", "bear", "fox", "deer", "mouse")
FRUIT = ("apple", "pear", "plum", "cherry", "grape", "lemon", "orange", "banana", "peach", "mango", "kiwi", "fig")
NAMES = ("Anna", "Berta", "Carl", "Dora", "Emil", "Frieda", "Gustav", "Hanna", "Ida", "Jakob", "Karla", "Leo")
COLOURS = ("red", "green", "yellow", "black", "white", "brown")
ADJECTIVES = ("cold", "small", "old", "dark", "quiet", "long", "narrow", "heavy")
PLACES = ("lake", "house", "road", "table", "garden", "room", "bridge", "door")
MOST = len(NAMES)  # parts of a task
_ENTRY = re.compile(r"^\s*(?:\d{1,2}[.):]|[-*•])\s*")


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        kind: of task.
        size: entries, points or facts; as many parts can be written at once.
        seed: of the generator.
        prompt: what is asked.
        passage: the document that belongs to it; empty where there is none.
        strategies: those that can write it in parts.
        score: from 0 to 1, of an answer.
    """

    kind: str
    size: int
    seed: int
    prompt: str
    strategies: tuple[str, ...]
    score: Callable[[str], float]
    passage: str = ""


def tasks(sizes: Sequence[int], seeds: int) -> Iterator[Task]:
    """Every kind in every size, with so many seeds."""
    for seed in range(seeds):
        for size in sizes:
            for kind, make in KINDS.items():
                yield make(kind, size, seed, random.Random(f"{kind}-{size}-{seed}"))  # noqa: S311 - a seeded generator


def _entries(instruction: str, given: Sequence[str]) -> str:
    return instruction + "\n" + "\n".join(f"{number}. {entry}" for number, entry in enumerate(given, 1))


def _lines(text: str) -> list[str]:
    return [_ENTRY.sub("", line).strip() for line in text.splitlines() if line.strip()]


def by_line(expected: Sequence[str]) -> Callable[[str], float]:
    """The share of lines that hold what is expected of them, as whole words, in its place."""
    patterns = [re.compile(rf"(?<!\w){re.escape(each)}(?!\w)", re.IGNORECASE) for each in expected]

    def score(text: str) -> float:
        lines = _lines(text)
        if len(lines) > len(patterns):  # a sentence before the list
            lines = lines[-len(patterns) :]
        return sum(bool(pattern.search(line)) for pattern, line in zip(patterns, lines, strict=False)) / len(patterns)

    return score


def _of_entries(
    instruction: str, entry: Callable[[random.Random], tuple[str, str]]
) -> Callable[[str, int, int, random.Random], Task]:
    def make(kind: str, size: int, seed: int, draw: random.Random) -> Task:
        both = [entry(draw) for _ in range(size)]
        prompt = _entries(instruction, [given for given, _ in both])
        return Task(kind, size, seed, prompt, ("items",), by_line([expected for _, expected in both]))

    return make


def _copied(draw: random.Random) -> tuple[str, str]:
    text = f"The {draw.choice(COLOURS)} {draw.choice(ANIMALS)} and the {draw.choice(COLOURS)} {draw.choice(ANIMALS)}"
    return text, text


def _sorted(draw: random.Random) -> tuple[str, str]:
    numbers = draw.sample(range(1, 60), 3)
    return ", ".join(map(str, numbers)), ", ".join(map(str, sorted(numbers)))


def _inserted(draw: random.Random) -> tuple[str, str]:
    adjective, place = draw.choice(ADJECTIVES), draw.choice(PLACES)
    return f"a {adjective} {place}", f"a very {adjective} {place}"


def _replaced(draw: random.Random) -> tuple[str, str]:
    animal, colour = draw.choice(ANIMALS), draw.choice(COLOURS)
    return f"The {animal} is {colour}.", f"The {animal} is blue"


def _counted(draw: random.Random) -> tuple[str, str]:
    words = draw.choices(ANIMALS, k=draw.randint(2, 6))
    return " ".join(words), str(len(words))


def _summed(draw: random.Random) -> tuple[str, str]:
    one, other = draw.randint(1, 9), draw.randint(1, 9)
    return f"{one} + {other}", str(one + other)


def _looked_up(kind: str, size: int, seed: int, draw: random.Random) -> Task:
    prices = {fruit: draw.randint(2, 90) for fruit in draw.sample(FRUIT, size)}
    table = ", ".join(f"{fruit} {price}" for fruit, price in prices.items())
    asked = list(prices)
    draw.shuffle(asked)
    prompt = _entries(f"Prices in cents: {table}. Write the price of each fruit.", asked)
    return Task(kind, size, seed, prompt, ("items",), by_line([str(prices[fruit]) for fruit in asked]))


def _distinct(kind: str, size: int, seed: int, draw: random.Random) -> Task:
    noun = draw.choice(("animals", "fruits", "countries", "colours", "jobs"))
    prompt = f"Write {size} different {noun}, one word on each line."

    def score(text: str) -> float:
        entries = {line.casefold().strip(" .") for line in _lines(text) if 0 < len(line.split()) <= 3}
        return min(len(entries), size) / size

    return Task(kind, size, seed, prompt, ("items",), score)


def _named(kind: str, size: int, seed: int, draw: random.Random) -> Task:
    baker, dog = draw.sample(NAMES, 2)
    prompt = (
        f"Write a story in {size} short paragraphs about a baker called {baker} and her dog called {dog}. "
        "Use both names in every paragraph."
    )

    def score(text: str) -> float:
        parts = [part for part in re.split(r"\n\s*\n|\n(?=\d{1,2}[.)])", text) if part.strip()][:size]
        return sum((baker in part) + (dog in part) for part in parts) / (2 * size)

    return Task(kind, size, seed, prompt, ("skeleton",), score)


def _reasons(kind: str, size: int, seed: int, draw: random.Random) -> Task:
    topic = draw.choice(("reading books", "learning to cook", "walking every day", "growing vegetables"))
    prompt = f"Give {size} reasons for {topic}."

    def score(text: str) -> float:
        """The share of points asked for that are there and share under half of their words with an earlier one."""
        points = [line for line in _lines(text) if len(line.split()) > 3][:size]
        kept: list[set[str]] = []
        for point in points:
            words = set(re.findall(r"\w{4,}", point.casefold())) - set(topic.split())
            if all(len(words & other) < max(1, min(len(words), len(other))) / 2 for other in kept):
                kept.append(words)
        return len(kept) / size

    return Task(kind, size, seed, prompt, ("skeleton",), score)


def _facts(kind: str, size: int, seed: int, draw: random.Random) -> Task:
    codes = {name: draw.randint(100, 999) for name in draw.sample(NAMES, size)}
    filler = " ".join(
        f"The {draw.choice(ADJECTIVES)} {draw.choice(PLACES)} is near the {draw.choice(PLACES)}." for _ in range(20)
    )
    sentences = [f"The code of {name} is {code}." for name, code in codes.items()]
    passage = filler + " " + " ".join(sentences) + " " + filler
    asked = draw.choice(list(codes))
    prompt = f"What is the code of {asked}?"
    code = re.compile(rf"\b{codes[asked]}\b")
    return Task(kind, size, seed, prompt, ("document",), lambda text: float(bool(code.search(text))), passage)


KINDS: dict[str, Callable[[str, int, int, random.Random], Task]] = {
    "copy": _of_entries("Copy each line exactly as it is.", _copied),
    "sort": _of_entries("Put the numbers of each line in ascending order.", _sorted),
    "insert": _of_entries("Put the word 'very' before the adjective of each line.", _inserted),
    "replace": _of_entries("Replace the colour in each line by 'blue'.", _replaced),
    "count": _of_entries("Write how many words each line has.", _counted),
    "arithmetic": _of_entries("Calculate each line.", _summed),
    "look up": _looked_up,
    "list without repetition": _distinct,
    "reasons": _reasons,
    "names in a story": _named,
    "fact of a passage": _facts,
}
