"""What the denoising models learn from: examples of the pocket model's corpus, in whole blocks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from tokenizers import Tokenizer

from recipes.denoise.blocks import cut_to_block
from recipes.packing import Arrays, Text, pack
from recipes.pocket import tokenizer as texts
from recipes.pocket.corpus import Corpus, Example, straight_answer, unseen_questions
from recipes.tuning import seeded

__all__ = ["MIX", "WEIGHTS", "Lessons"]

MIX = {
    "straight": 0.55,
    "point": 0.11,
    "outline": 0.03,
    "recognise": 0.12,
    "capitals": 0.02,
    "fact": 0.06,
    "unknown": 0.03,
    "item": 0.02,
    "items": 0.04,
    "transform": 0.02,
}
"""Which share of the tokens each task of `recipes.pocket.corpus` gets."""

WEIGHTS = {"recognise": 4.0, "capitals": 4.0, "fact": 2.0, "unknown": 2.0, "item": 3.0}
"""How much a learned token of a task counts, if not one: these learn few tokens, and which topic is meant with them."""


@dataclass(frozen=True)
class Lessons:
    """Makes the batch of each step; it can be sent to other processes.

    Attributes:
        folder: of the tokenizer.
        block: tokens of a block; texts are filled up to whole ones.
        rows: of a batch.
        length: tokens of a row.
        seed: of the whole run.
        mix: share of the tokens of each task.
        topics: how many of the encyclopaedia; all by default.
    """

    folder: Path
    block: int
    rows: int
    length: int
    seed: int
    mix: Mapping[str, float]
    topics: int | None = None

    def __call__(self) -> Callable[[int], Arrays]:
        """Read the corpus; the function from a step's number to its batch."""
        drawing = Drawing(self)
        return lambda number: pack(drawing.draw(seeded(self.seed, "step", number)), self.rows, self.length)

    def held_out(self, count: int) -> list[Arrays]:
        """Batches of straight answers to questions in words that no lesson has."""
        drawn = list(Drawing(self).unseen(count))
        return [pack(iter(drawn[at : at + self.rows]), self.rows, self.length) for at in range(0, count, self.rows)]


class Drawing:
    """Draws examples by the mix of some lessons."""

    def __init__(self, lessons: Lessons) -> None:
        self.lessons = lessons
        self.corpus = Corpus(with_source=False)
        if lessons.topics is not None:
            self.corpus = Corpus(topics=self.corpus.topics[: lessons.topics], with_source=False)
        self.tokenizer = Tokenizer.from_file(str(lessons.folder / "tokenizer.json"))
        self.end, self.mask = (texts.token_id(self.tokenizer, token) for token in (texts.END, texts.MASK))
        self._answer = lru_cache(maxsize=4096)(self._ids)  # many answers are the same, to other questions
        self.names = [name for name, share in lessons.mix.items() if share > 0]
        chance, rates = seeded(lessons.seed, "lengths"), []
        for name in self.names:
            lengths = [len(self.encoded(self.corpus.draw(name, chance)).tokens) for _ in range(30)]
            rates.append(lessons.mix[name] / (sum(lengths) / len(lengths)))
        self.cumulated = list(accumulate(rates))

    def _ids(self, text: str) -> list[int]:
        found: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return found

    def encoded(self, example: Example) -> Text:
        """An example in tokens."""
        prompt, answer = self._ids(texts.render_chat(example.turns)), self._answer(example.answer)
        whole = cut_to_block(
            prompt, [*answer, self.end], self.lessons.block,
            end=self.end, limit=example.limit, longest=self.lessons.length,
        )  # fmt: skip
        return Text(whole, min(len(prompt), len(whole) - 1), WEIGHTS.get(example.task, 1.0))

    def draw(self, chance: random.Random) -> Iterator[Text]:
        """Examples without end."""
        while True:
            task = chance.choices(self.names, cum_weights=self.cumulated)[0]
            yield self.encoded(self.corpus.draw(task, chance))

    def unseen(self, count: int) -> Iterator[Text]:
        """Straight answers to questions that are kept for measuring."""
        by_id = {topic.id: topic for topic in self.corpus.topics}
        asked = [(question, by_id[name]) for question, name in unseen_questions()[0] if name in by_id]
        for question, topic in seeded("unseen").sample(asked, min(count, len(asked))):
            yield self.encoded(Example("straight", (("user", question),), straight_answer(topic)))
