"""What the denoising models learn from: examples of the pocket model's corpus, in whole blocks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

from tokenizers import Tokenizer

from recipes.denoise.blocks import Blocked, batch_of, cut_to_block
from recipes.pocket import tokenizer as texts
from recipes.pocket.corpus import Corpus, Example, straight_answer, unseen_questions
from recipes.tuning import Arrays, seeded

__all__ = ["MIX", "WEIGHTS", "Lessons", "grouped"]

MIX = {
    "straight": 0.45,
    "point": 0.14,
    "outline": 0.04,
    "recognise": 0.13,
    "capitals": 0.02,
    "fact": 0.07,
    "unknown": 0.04,
    "item": 0.03,
    "items": 0.05,
    "transform": 0.03,
}
"""Which share of the tokens each task of `recipes.pocket.corpus` gets."""

WEIGHTS = {"recognise": 4.0, "capitals": 4.0, "fact": 2.0, "unknown": 2.0, "item": 3.0}
"""How much a learned token of a task counts, if not one: these learn few tokens, and which topic is meant with them."""

_CONTEXT = 1024
Drawn = TypeVar("Drawn")


@dataclass(frozen=True)
class Lessons:
    """Makes the batches of each step; it can be sent to other processes.

    Attributes:
        folder: of the tokenizer.
        block: tokens of a block.
        tokens: of a step.
        micro: rows of a batch.
        seed: of the whole run.
        mix: share of the tokens of each task.
        topics: how many of the encyclopaedia; all by default.
    """

    folder: Path
    block: int
    tokens: int
    micro: int
    seed: int
    mix: Mapping[str, float]
    topics: int | None = None

    def __call__(self) -> Callable[[int], list[Arrays]]:
        """Read the corpus; the function from a step's number to its batches."""
        drawing = Drawing(self)

        def step(number: int) -> list[Arrays]:
            chance = seeded(self.seed, "step", number)
            drawn = sorted(drawing.draw(chance), key=lambda each: each.rows(self.block))
            groups = grouped(drawn, self.micro, lambda each: each.rows(self.block))
            return [batch_of(group, self.block, drawing.mask, chance) for group in groups]

        return step

    def held_out(self, count: int) -> list[Arrays]:
        """Batches of straight answers to questions in words that no lesson has, with masks that stay the same."""
        drawing = Drawing(self)
        drawn = sorted(drawing.unseen(count), key=lambda each: each.rows(self.block))
        chance = seeded("held out")
        return [
            batch_of(group, self.block, drawing.mask, chance)
            for group in grouped(drawn, self.micro, lambda each: each.rows(self.block))
        ]


class Drawing:
    """Draws examples by the mix of some lessons."""

    def __init__(self, lessons: Lessons) -> None:
        self.lessons = lessons
        self.corpus = Corpus(with_source=False)
        if lessons.topics is not None:
            self.corpus = Corpus(topics=self.corpus.topics[: lessons.topics], with_source=False)
        self.tokenizer = Tokenizer.from_file(str(lessons.folder / "tokenizer.json"))
        self.end, self.mask = (texts.token_id(self.tokenizer, token) for token in (texts.END, texts.MASK))
        self.names = [name for name, share in lessons.mix.items() if share > 0]
        chance, rates = seeded(lessons.seed, "lengths"), []
        for name in self.names:
            lengths = [len(self.encoded(self.corpus.draw(name, chance)).tokens) for _ in range(30)]
            rates.append(lessons.mix[name] / (sum(lengths) / len(lengths)))
        self.cumulated = list(accumulate(rates))

    def encoded(self, example: Example) -> Blocked:
        """An example in tokens."""
        prompt = self.tokenizer.encode(texts.render_chat(example.turns), add_special_tokens=False).ids
        answer = self.tokenizer.encode(example.answer, add_special_tokens=False).ids
        whole = cut_to_block(
            prompt, [*answer, self.end], self.lessons.block, end=self.end, limit=example.limit, longest=_CONTEXT
        )
        return Blocked(whole, min(len(prompt), len(whole) - 1), WEIGHTS.get(example.task, 1.0))

    def draw(self, chance: random.Random) -> Iterator[Blocked]:
        """Examples of one step."""
        left = self.lessons.tokens
        while left > 0:
            task = chance.choices(self.names, cum_weights=self.cumulated)[0]
            drawn = self.encoded(self.corpus.draw(task, chance))
            left -= len(drawn.tokens)
            yield drawn

    def unseen(self, count: int) -> Iterator[Blocked]:
        """Straight answers to questions that are kept for measuring."""
        by_id = {topic.id: topic for topic in self.corpus.topics}
        asked = [(question, by_id[name]) for question, name in unseen_questions()[0] if name in by_id]
        for question, topic in seeded("unseen").sample(asked, min(count, len(asked))):
            yield self.encoded(Example("straight", (("user", question),), straight_answer(topic)))


def grouped(
    drawn: Sequence[Drawn], most: int, rows: Callable[[Drawn], int], *, ratio: float = 1.6
) -> Iterator[list[Drawn]]:
    """Split what is sorted by its rows into batches of at most ``most`` rows, none much longer than the shortest."""
    group: list[Drawn] = []
    for each in drawn:
        if group and ((len(group) + 1) * rows(each) > most or rows(each) > ratio * rows(group[0]) + 32):
            yield group
            group = []
        group.append(each)
    if group:
        yield group
