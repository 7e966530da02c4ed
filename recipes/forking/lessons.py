"""Texts with the tags of Multiverse, made from the pocket model's encyclopaedia.

A whole text reads: the opening, an outline of each point, a path for each outline, and the closing as the conclusion
(Yang et al., "Multiverse", arXiv:2506.09991). It is learned in the pieces that it is written in: up to the last
outline; each path after that, without the other paths; and the conclusion after all paths. So no positions and no
masks change, as in ThreadWeaver (2025), and any server that continues a text can write it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from tokenizers import Tokenizer

from recipes.packing import Arrays, Text, pack
from recipes.pocket import tokenizer as texts
from recipes.pocket.corpus import Corpus, Topic, render, unseen_questions
from recipes.tuning import seeded

__all__ = ["MIX", "Forks", "conclusion", "forked", "goal", "path"]

MIX = {
    "fork_goal": 0.22,
    "fork_path": 0.26,
    "fork_join": 0.16,
    "straight": 0.12,
    "point": 0.06,
    "outline": 0.03,
    "recognise": 0.08,
    "fact": 0.03,
    "unknown": 0.02,
    "items": 0.01,
    "item": 0.01,
}
"""Which share of the tokens each task gets: most to the three pieces, the rest so that nothing else is forgotten."""

_WEIGHTS = {"recognise": 4.0, "fact": 2.0, "unknown": 2.0, "item": 3.0}


def goal(topic: Topic) -> str:
    """What is written before the paths."""
    outlines = "".join(
        f"<Outline>\n{number}: {point.title}\n</Outline>\n" for number, point in enumerate(topic.points, 1)
    )
    return f"{topic.opening}\n\n<Parallel>\n<Goal>\n{outlines}</Goal>"


def path(topic: Topic, at: int) -> tuple[str, str]:
    """How a path begins, and what is written in it."""
    point = topic.points[at]
    return f"\n<Path>\n{at + 1}:", f" **{point.title}**: {point.text}\n</Path>"


def conclusion(topic: Topic) -> tuple[str, str]:
    """How the conclusion begins, and what is written in it."""
    return "\n<Conclusion>", f"\n{topic.closing}\n</Conclusion>\n</Parallel>"


def forked(topic: Topic) -> str:
    """The whole text."""
    paths = "".join("".join(path(topic, at)) for at in range(len(topic.points)))
    return goal(topic) + paths + "".join(conclusion(topic))


@dataclass(frozen=True)
class Forks:
    """Makes the batch of each step; it can be sent to other processes.

    Attributes:
        folder: of the tokenizer.
        rows: of a batch.
        length: tokens of a row; what is longer is cut.
        seed: of the whole run.
        topics: how many of the encyclopaedia; all by default.
    """

    folder: Path
    rows: int
    length: int
    seed: int
    topics: int | None = None

    def __call__(self) -> Callable[[int], Arrays]:
        """Read the corpus; the function from a step's number to its batch."""
        drawing = _Drawing(self)
        cumulated = drawing.rates()

        def drawn(chance: random.Random) -> Iterator[Text]:
            while True:
                yield drawing.piece(chance.choices(tuple(MIX), cum_weights=cumulated)[0], chance)

        return lambda number: pack(drawn(seeded(self.seed, "step", number)), self.rows, self.length)

    def held_out(self, count: int) -> list[Arrays]:
        """Batches of all pieces of answers to questions in words that no lesson has."""
        drawn = list(_Drawing(self).unseen(count))
        return [
            pack(iter(drawn[at : at + self.rows]), self.rows, self.length) for at in range(0, len(drawn), self.rows)
        ]


class _Drawing:
    def __init__(self, forks: Forks) -> None:
        whole = Corpus(with_source=False)
        self.forks = forks
        self.corpus = whole if forks.topics is None else Corpus(topics=whole.topics[: forks.topics], with_source=False)
        self.tokenizer = Tokenizer.from_file(str(forks.folder / "tokenizer.json"))
        self.end = texts.token_id(self.tokenizer, texts.END)
        self._known = lru_cache(maxsize=4096)(self._ids)

    def _ids(self, text: str) -> list[int]:
        found: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return found

    def rates(self) -> list[float]:
        """How often each task is drawn, added up."""
        chance, rates = seeded(self.forks.seed, "lengths"), []
        for name, share in MIX.items():
            rates.append(share * 30 / sum(len(self.piece(name, chance).tokens) for _ in range(30)))
        return list(accumulate(rates))

    def piece(self, task: str, chance: random.Random) -> Text:
        """One example of a task."""
        if not task.startswith("fork_"):
            example = self.corpus.draw(task, chance)
            return self._encoded(example.turns, ["", example.answer], _WEIGHTS.get(task, 1.0), limit=example.limit)
        topic = chance.choice(self.corpus.topics)
        return self._fork(task, topic, self.corpus.question(topic, chance, hard=0.35), chance)

    def unseen(self, count: int) -> Iterator[Text]:
        """The pieces of answers to questions that are kept for measuring."""
        by_id = {topic.id: topic for topic in self.corpus.topics}
        asked = [(question, by_id[name]) for question, name in unseen_questions()[0] if name in by_id]
        chance = seeded("unseen")
        for question, topic in chance.sample(asked, min(count, len(asked))):
            for task in ("fork_goal", "fork_path", "fork_join"):
                yield self._fork(task, topic, question, chance)

    def _fork(self, task: str, topic: Topic, question: str, chance: random.Random) -> Text:
        turns = (("user", render("fork", question=question)),)
        if task == "fork_goal":
            return self._encoded(turns, ["", goal(topic)], ends=False)
        if task == "fork_path":
            begun, text = path(topic, chance.randrange(len(topic.points)))
            return self._encoded(turns, [goal(topic) + begun, text], ends=False)
        begun, text = conclusion(topic)
        return self._encoded(turns, [forked(topic)[: -len(text)], text])

    def _encoded(
        self,
        turns: Sequence[tuple[str, str]],
        answer: Sequence[str],
        weight: float = 1.0,
        *,
        ends: bool = True,
        limit: int | None = None,
    ) -> Text:
        given, learned = answer
        # What is given is the same for many questions, and so is what is learned.
        ids = self._ids(texts.render_chat(turns)) + self._known(given)
        own = self._known(learned)
        own = own[:limit] if limit is not None else [*own, self.end] if ends else own
        longest = self.forks.length
        return Text(tuple((ids + own)[:longest]), min(len(ids), longest - 1), weight)
