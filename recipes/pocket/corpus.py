"""What the pocket model learns from: the encyclopaedia, the facts, the tasks made by code and the source, as examples.

An example is a conversation and the answer that belongs to it.  Which examples there are follows from the task's name
and a random generator alone.  ``questions_unseen`` of the data is for measuring only: nothing here reads it except
:func:`unseen_questions`.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from string import Template
from typing import Any

from recipes.pocket import augment, source, tasks
from stretto.local_engine.pocket import UNKNOWN

__all__ = [
    "Corpus",
    "Example",
    "Fact",
    "Point",
    "Topic",
    "outline_lines",
    "render",
    "straight_answer",
    "unknown_questions",
    "unseen_questions",
]


@dataclass(frozen=True)
class Point:
    """One point of a topic."""

    title: str
    text: str


@dataclass(frozen=True)
class Topic:
    """One topic of the encyclopaedia with all its training wordings and keywords."""

    id: str
    subject: str
    questions: tuple[str, ...]
    keywords: tuple[str, ...]
    opening: str
    points: tuple[Point, ...]
    closing: str

    @property
    def outline(self) -> str:
        """The outline as the model writes it."""
        return outline_lines([point.title for point in self.points])


@dataclass(frozen=True)
class Fact:
    """One short fact."""

    id: str
    questions: tuple[str, ...]
    answer: str


@dataclass(frozen=True)
class Example:
    """A conversation and the answer to learn; ``limit`` cuts the answer after so many tokens (no end is learned).

    A ``raw`` example is no conversation: its answer is learned from the beginning, or from where it follows ``given``.
    """

    task: str
    turns: tuple[tuple[str, str], ...]
    answer: str
    limit: int | None = None
    raw: bool = False
    given: str = ""


def outline_lines(titles: list[str]) -> str:
    """Titles as the numbered lines of an outline."""
    return "\n".join(f"{number}. {title}" for number, title in enumerate(titles, 1))


def straight_answer(topic: Topic) -> str:
    """The whole answer to a question on ``topic``."""
    points = "\n".join(f"{number}. **{point.title}**: {point.text}" for number, point in enumerate(topic.points, 1))
    return f"{topic.opening}\n\n{points}\n\n{topic.closing}"


@cache
def _template(name: str) -> Template:
    text = resources.files("stretto").joinpath(f"prompts/templates/pocket/v1/{name}.md").read_text(encoding="utf-8")
    return Template(text.partition("--- user ---\n")[2].rstrip("\n"))


def render(name: str, **values: object) -> str:
    """The user message of the library's own template ``name`` (skeleton, point or item), filled in."""
    return _template(name).substitute(values)


def _rows(name: str) -> list[dict[str, Any]]:
    text = resources.files(__package__).joinpath(f"data/{name}").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _added_wordings() -> dict[str, tuple[list[str], list[str]]]:
    """The further wordings and keywords by topic, from the ``wordings_*.txt`` files."""
    found: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    folder = resources.files(__package__).joinpath("data")
    for entry in sorted(folder.iterdir(), key=lambda path: path.name):
        if not entry.name.startswith("wordings_"):
            continue
        current = ""
        for line in entry.read_text(encoding="utf-8").splitlines():
            if line.startswith("# "):
                current = line[2:].strip()
            elif line.startswith(": "):
                found[current][1].extend(line[2:].split())
            elif line.strip():
                found[current][0].append(line.strip())
    return found


def topics() -> tuple[Topic, ...]:
    """All topics with their training wordings: those of the encyclopaedia and those added here."""
    added = _added_wordings()
    found = []
    for row in _rows("topics.jsonl"):
        wordings, keywords = added[row["id"]]
        found.append(
            Topic(
                id=row["id"],
                subject=row["subject"],
                questions=tuple(dict.fromkeys([*row["questions"], *wordings])),
                keywords=tuple(dict.fromkeys(keywords)),
                opening=row["opening"],
                points=tuple(Point(point["title"], point["text"]) for point in row["points"]),
                closing=row["closing"],
            )
        )
    return tuple(found)


def facts() -> tuple[Fact, ...]:
    """All short facts."""
    added = _added_wordings()
    return tuple(
        Fact(row["id"], tuple(dict.fromkeys([*row["questions"], *added[f"fact {row['id']}"][0]])), row["answer"])
        for row in _rows("facts.jsonl")
    )


def unseen_questions() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The wordings kept for measuring, as pairs of question and id: those of the topics, then those of the facts."""
    return (
        [(question, row["id"]) for row in _rows("topics.jsonl") for question in row["questions_unseen"]],
        [(question, row["id"]) for row in _rows("facts.jsonl") for question in row.get("questions_unseen", ())],
    )


def unknown_questions(*, held_out: bool) -> list[str]:
    """The authored questions the model cannot answer: those to train on, or those held out."""
    return [row["question"] for row in _rows("unknown.jsonl") if row["held_out"] == held_out]


@dataclass
class Corpus:
    """Everything there is to learn; :meth:`draw` makes one example of a task.

    Attributes:
        topics: with their questions, points and texts.
        facts: short ones.
        unknown: questions that cannot be answered.
        with_source: whether to read the standard library's source.
        again: ids of topics that are drawn every fourth time, because they were changed after a run.
    """

    topics: tuple[Topic, ...] = field(default_factory=topics)
    facts: tuple[Fact, ...] = field(default_factory=facts)
    unknown: list[str] = field(default_factory=lambda: unknown_questions(held_out=False))
    with_source: bool = True
    again: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Count in how many topics each word is used, and read the source."""
        self._changed = [topic for topic in self.topics if topic.id in self.again]
        if len(self._changed) != len(self.again):
            raise ValueError(f"there is no topic {', '.join(set(self.again) - {topic.id for topic in self.topics})}")
        telling: Counter[str] = Counter()
        for topic in self.topics:
            texts = [*topic.questions, topic.subject, " ".join(topic.keywords)]
            telling.update({word.lower() for text in texts for word in augment.words_of(text)})
        self.telling = telling
        self.misleading = sorted(word for word, count in telling.items() if count <= 30)
        self.strange = sorted(
            {
                word
                for text in self.unknown
                for word in augment.words_of(text)
                if word.lower() not in telling and len(word) > 3
            }
        )
        self.vocabulary = sorted({word for text in self.texts() for word in text.split()})
        self.source = list(training_text().values()) if self.with_source else ["pass\n"]
        self._source_ends = []
        total = 0
        for text in self.source:
            total += len(text)
            self._source_ends.append(total)

    def texts(self) -> list[str]:
        """All prose of the corpus, for the tokenizer."""
        found: list[str] = []
        for topic in self.topics:
            found += [*topic.questions, topic.subject, " ".join(topic.keywords), straight_answer(topic), topic.outline]
        for fact in self.facts:
            found += [*fact.questions, fact.answer]
        return [*found, *self.unknown, UNKNOWN]

    # --- questions ------------------------------------------------------------------------------------------

    def question(self, topic: Topic, chance: random.Random, *, hard: float) -> str:
        """A question on ``topic``: one of its wordings, changed; with the share ``hard`` but a handful of words."""
        if chance.random() >= hard:
            text = chance.choice(topic.questions)
            return text if chance.random() < 0.3 else augment.light(text, chance)
        kind = chance.random()
        if kind < 0.4:
            words = augment.words_of(chance.choice(topic.questions))
            if chance.random() < 0.4:  # the beginning of one wording and the end of another
                other = augment.words_of(chance.choice(topic.questions))
                words = words[: -(-len(words) // 2)] + other[len(other) // 2 :]
            words = augment.thin(words, self.telling, chance)
            for _ in range(chance.choice((0, 1, 1, 2))):
                words.insert(chance.randrange(len(words) + 1), chance.choice(topic.keywords))
            if chance.random() < 0.3:
                words.insert(chance.randrange(len(words) + 1), chance.choice(self.misleading))
            return augment.finish(words, chance)
        if kind < 0.55:
            words = augment.words_of(chance.choice(topic.questions))
        elif kind < 0.8:
            words = chance.sample(topic.keywords, min(len(topic.keywords), chance.randrange(1, 5)))
            if chance.random() < 0.5:
                words += augment.words_of(chance.choice(topic.questions))[: chance.randrange(1, 6)]
        elif kind < 0.9:
            words = augment.words_of(chance.choice([topic.subject, *(point.title for point in topic.points)]))
            words += augment.words_of(topic.subject) if chance.random() < 0.6 else []
        else:
            words = augment.words_of(
                chance.choice([topic.opening, topic.closing, *(point.text for point in topic.points)])
            )
            at = chance.randrange(len(words))
            words = [*words[at : at + chance.randrange(4, 10)], chance.choice(topic.keywords)]
        return augment.scramble(words, self.telling, chance, self.strange)

    # --- examples -------------------------------------------------------------------------------------------

    def draw(self, task: str, chance: random.Random) -> Example:
        """One example of ``task``, a name of :data:`recipes.pocket.schedule.PHASES`."""
        example: Example = getattr(self, f"_draw_{task}")(chance)
        if not example.raw and chance.random() < 0.05:
            example = self._with_history(example, chance)
        return example

    def _topic(self, chance: random.Random) -> Topic:
        return chance.choice(self._changed if self._changed and chance.random() < 0.25 else self.topics)

    def _with_history(self, example: Example, chance: random.Random) -> Example:
        turns = example.turns
        if chance.random() < 0.5:
            fact = chance.choice(self.facts)
            turns = (("user", chance.choice(fact.questions)), ("assistant", fact.answer), *turns)
        else:
            says = (
                "You are a helpful assistant.",
                "Answer in British English.",
                "You are Stretto's pocket model.",
                "Be brief and clear.",
            )
            turns = (("system", chance.choice(says)), *turns)
        return Example(example.task, turns, example.answer, example.limit)

    def _draw_recognise(self, chance: random.Random) -> Example:
        """A hard question and only the start of its answer: the cheapest lesson in telling topics apart."""
        topic = self._topic(chance)
        return self._start("recognise", topic, self.question(topic, chance, hard=0.7), chance)

    def _draw_capitals(self, chance: random.Random) -> Example:
        """The same for a question in capitals, or with every word capitalised: other tokens than those read so far."""
        topic = self._topic(chance)
        question = self.question(topic, chance, hard=0.3)
        return self._start("capitals", topic, chance.choice((str.upper, str.upper, str.title))(question), chance)

    def _start(self, task: str, topic: Topic, question: str, chance: random.Random) -> Example:
        if chance.random() < 0.55:
            return Example(task, (("user", question),), topic.opening, limit=4)
        return Example(task, (("user", render("skeleton", question=question)),), topic.outline, limit=4)

    def _draw_opening(self, chance: random.Random) -> Example:
        topic = self._topic(chance)
        # Cut inside the opening: its last token would be another one than where the answer goes on.
        return Example("opening", (("user", self.question(topic, chance, hard=0.5)),), straight_answer(topic), limit=14)

    def _draw_straight(self, chance: random.Random) -> Example:
        topic = self._topic(chance)
        return Example("straight", (("user", self.question(topic, chance, hard=0.35)),), straight_answer(topic))

    def _draw_outline(self, chance: random.Random) -> Example:
        topic = self._topic(chance)
        question = self.question(topic, chance, hard=0.35)
        return Example("outline", (("user", render("skeleton", question=question)),), topic.outline)

    def _draw_point(self, chance: random.Random) -> Example:
        topic = self._topic(chance)
        point = chance.choice(topic.points)
        title = point.title
        if chance.random() < 0.12:
            title = chance.choice((str.lower, str.title, str.upper))(title)
        prompt = render("point", question=self.question(topic, chance, hard=0.4), title=title)
        return Example("point", (("user", prompt),), point.text)

    def _draw_fact(self, chance: random.Random) -> Example:
        fact = chance.choice(self.facts)
        question = chance.choice(fact.questions)
        kind = chance.random()
        if kind < 0.45:
            question = augment.light(question, chance)
        elif kind < 0.7:
            words = augment.words_of(chance.choice(fact.questions))
            if len(words) > 3:
                del words[chance.randrange(len(words))]
            if chance.random() < 0.5:
                words.insert(chance.randrange(len(words) + 1), chance.choice(augment.words_of(fact.answer)))
            question = " ".join(words)
        return Example("fact", (("user", question),), fact.answer)

    def _draw_item(self, chance: random.Random) -> Example:
        """One operation on one item, under the library's item prompt."""
        kind = chance.choice((*tasks.ITEM_TASKS, "definition", "plural", "opposite"))
        instruction, pairs = tasks.item_task(kind, 1, chance)
        instruction += chance.choice(("", "", "", ".", ":", "?"))
        if chance.random() < 0.1:
            instruction = instruction.lower()
        return Example("item", (("user", render("item", instruction=instruction, item=pairs[0][0])),), pairs[0][1])

    def _draw_items(self, chance: random.Random) -> Example:
        """One operation on a list of items, asked straight."""
        kind = chance.choice((*tasks.ITEM_TASKS, "definition", "plural", "opposite"))
        instruction, pairs = tasks.item_task(kind, chance.randrange(2, 11), chance)
        prompt = tasks.item_request(instruction, [item for item, _ in pairs], chance)
        if chance.random() < 0.1:
            prompt = prompt[0].lower() + prompt[1:]
        return Example("items", (("user", prompt),), outline_lines([answer for _, answer in pairs]))

    def _draw_transform(self, chance: random.Random) -> Example:
        prompt, answer = tasks.transform_task(chance)
        return Example("transform", (("user", prompt),), answer)

    def _draw_copy(self, chance: random.Random) -> Example:
        """Words in no order that could be known, and the same again: they can only be copied."""
        chosen = [
            tasks.any_word(chance) if chance.random() < 0.5 else chance.choice(self.vocabulary)
            for _ in range(chance.choice((4, 6, 8, 12, 16, 24, 40)))
        ]
        text = chance.choice((" ", " ", " ", ", ", "\n")).join(chosen) + "\n"
        return Example("copy", (), text * chance.choice((1, 1, 2, 3)), raw=True, given=text)

    def _draw_unknown(self, chance: random.Random) -> Example:
        question = tasks.unknown_question(chance, self.unknown)
        if chance.random() < 0.4:
            question = augment.light(question, chance)
        if chance.random() < 0.35:
            question = render("skeleton", question=question)
        return Example("unknown", (("user", question),), UNKNOWN, limit=6 if chance.random() < 0.7 else None)

    def _draw_code(self, chance: random.Random) -> Example:
        """A piece of a source file, from the start of one of its lines."""
        size = chance.choice((600, 1200, 1200, 2400, 2400, 4800))  # characters
        text = chance.choices(self.source, cum_weights=self._source_ends)[0]
        at = chance.randrange(max(1, len(text) - size // 2)) if chance.random() < 0.85 else 0
        at = text.rfind("\n", 0, at) + 1 if at else 0
        return Example("code", (), text[at : at + size], raw=True)


@cache
def training_text() -> dict[str, str]:
    """The source to train on, read once."""
    return source.training_source()
