"""Documents with needles, and questions about them: lessons for the projections of focus reading."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recipes.pocket import tasks
from recipes.pocket.corpus import Corpus, straight_answer
from recipes.reading.facts import Fact, Writer
from recipes.reading.lessons import NOTHING
from stretto.local_engine.model.loading.load import LoadedModel
from stretto.strategies.runtime.fencing import fence_for
from stretto.values.errors import SettingsError

__all__ = ["NAMES", "Haystack", "Job", "Lesson", "Lessons", "asked_for", "passkey", "pocket_texts", "texts_in"]

NAMES = (
    "Ada", "Anna", "Arthur", "Boris", "Clara", "Daniel", "David", "Edith", "Emma", "Erik", "Frank", "Greta",
    "Hannah", "Henry", "Hugo", "Ida", "Irene", "Ivan", "Jack", "Jane", "John", "Jonas", "Julia", "Karl",
    "Kate", "Laura", "Lena", "Leo", "Lucy", "Maria", "Mark", "Martin", "Max", "Mia", "Nina", "Nora", "Olga",
    "Oscar", "Otto", "Paul", "Peter", "Rosa", "Ruth", "Sam", "Sara", "Simon", "Sofia", "Tara", "Tom", "Ute",
    "Vera", "Victor", "Wanda", "Yara", "Zoe",
)  # fmt: skip
_FILES = ("*.txt", "*.md", "*.py")
_SHORT = 40
_SPAN = 32  # tokens of a local context that repeats or continues
_LESS = 0.1  # weight of a token that the memory hardly helps to predict
_PASSKEYS = 0.75  # of the facts
_DENSE = 3  # needles in a chunk at most
_ABSENT = 0.7  # of the lessons, those with a question whose answer is not there
_FENCED = 0.3  # of the questions
_LENGTHS = (64, 96, 128, 192, 256, 384, 512)


Draw = Callable[[random.Random, float], str]
"""Draws a text; the number says how easy it is to read, from 1 down to 0."""


@dataclass(frozen=True)
class Job:
    """One local context with the tokens that are learned.

    Attributes:
        loss: its kind: ``question``, ``repetition`` or ``continuation``.
        tokens: local context and learned tokens.
        learned: index of the first learned token.
        appended: number of tokens before the first learned one that are appended to each chunk.
        source: the chunk that helps to predict them; -1 for none.
        weight: how much its tokens count.
        recalled: the range of tokens that only the memory can give, such as a code; empty where all learned tokens are
            alike.
    """

    loss: str
    tokens: tuple[int, ...]
    learned: int
    appended: int
    source: int
    weight: float = 1.0
    recalled: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Lesson:
    """One document and the jobs on it.

    Attributes:
        chunks: the tokens of each; all have the same length.
        jobs: local contexts.
        ranks: positions of the chunks' candidates among all, rising; gaps are chunks that are left out.
        total: number of candidates of the whole document, left out ones included.
        head: tokens that begin every text, before each chunk and before all candidates.
        lookups: questions about needles, each only for the chunk with the answer.
    """

    chunks: tuple[tuple[int, ...], ...]
    jobs: tuple[Job, ...]
    ranks: tuple[int, ...]
    total: int
    head: tuple[int, ...] = ()
    lookups: tuple[Job, ...] = ()


def pocket_texts() -> Draw:
    """Draw texts of the pocket model's corpus: prose of the encyclopaedia, later also source code and random words."""
    corpus = Corpus()
    prose = [straight_answer(topic) for topic in corpus.topics]
    points = [point.text for topic in corpus.topics for point in topic.points]

    def draw(chance: random.Random, ease: float) -> str:
        kind = chance.random() * (1 - ease)
        if kind < 0.6:
            return chance.choice(points)
        if kind < 0.75:
            return chance.choice(prose)
        if kind < 0.9:
            return " ".join(tasks.any_word(chance) for _ in range(_SHORT)) + "."
        return corpus.draw("code", chance).answer

    return draw


def texts_in(folder: Path) -> Draw:
    """Draw pieces of the text files in a folder. Raises `SettingsError` for one without text."""
    files = sorted(file for kind in _FILES for file in folder.rglob(kind))
    texts = [text for file in files if len(text := file.read_text(encoding="utf-8", errors="ignore")) > 50]
    if not texts:
        raise SettingsError(
            f"The folder {str(folder)!r} holds no text: no {', '.join(_FILES)} of 50 characters and more."
        )

    def draw(chance: random.Random, ease: float) -> str:  # noqa: ARG001 - all of them are as hard
        text = chance.choice(texts)
        start = text.rfind("\n", 0, chance.randrange(len(text))) + 1
        return text[start : start + 2000] or text[:2000]

    return draw


class Haystack:
    """Writes needles and questions in the tokens of one model.

    Args:
        model: gives the tokenizer and the chat template, if it has one.
        draw: draws a text of the hay.
    """

    def __init__(self, model: LoadedModel, draw: Draw) -> None:
        self._tokenizer, self._draw = model.tokenizer, draw
        self._end = model.tokenizer.eos_token or "\n"
        bos = model.tokenizer.bos_token
        self.head: tuple[int, ...] = self.encode(bos) if bos else ()
        self._suffix = "\n"
        if getattr(model.tokenizer, "chat_template", None) is not None:
            mark = "qzxj"
            turns = [{"role": "user", "content": mark}]
            text = str(model.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
            self._suffix = text.rpartition(mark)[2]

    def encode(self, text: str) -> tuple[int, ...]:
        """The tokens of a text between others."""
        found: Any = self._tokenizer(text, add_special_tokens=False, verbose=False).input_ids
        return tuple(found)

    def hay(self, chance: random.Random, count: int, ease: float = 0.0) -> list[int]:
        """Draw a number of tokens of text."""
        found: list[int] = []
        while len(found) < count:
            found += self.encode(" " + self._draw(chance, ease).strip())
        return found[:count]

    def needle(self, fact: Fact) -> tuple[int, ...]:
        """The hidden sentence."""
        return self.encode(f" {fact.sentence}")

    def question(self, text: str) -> tuple[int, ...]:
        """The end of a prompt that asks a question."""
        return self.encode(f"\n\n{text}{self._suffix}")

    def answer(self, sentence: str) -> tuple[int, ...]:
        """The answer to it, and what ends an answer."""
        return self.encode(f"{sentence}{self._end}")


@dataclass(frozen=True)
class Lessons:
    """Draws lessons.

    Attributes:
        haystack: writes them.
        losses: kinds of jobs, all of them in every lesson.
        chunk: tokens of a chunk at most.
        appended: tokens after each chunk at most.
        tokens: of all chunks of a lesson, approximately.
        total: candidates of a document at most.
        lookups: questions at most about the chunk with the answer alone; they cost little.
        jobs: questions of a lesson at most. Every lesson has a repeated span and a continuation too.
    """

    haystack: Haystack
    losses: Sequence[str]
    chunk: int = 256
    appended: int = 64
    tokens: int = 1024
    total: int = 1400
    jobs: int = 8
    lookups: int = 12

    def draw(self, chance: random.Random, ease: float = 0.0) -> Lesson:
        """Draw a lesson. ``ease`` falls from 1 to 0; a high one makes chunks few and short."""
        longest = max(min(64, self.chunk), int(self.chunk * (1 - ease)))
        length = chance.choice([size for size in _LENGTHS if size <= longest] or [longest])
        most = max(2, min(int(4 + 60 * (1 - ease)), self.tokens // length))
        count = chance.randint(most - int(most * (1 - ease) / 2), most)
        total = max(count, int(self.total ** chance.uniform(0, 1 - ease)))
        hidden = chance.randint(count - int(count * (1 - ease) / 2), count)
        writer = Writer(chance)
        facts = self._facts(chance, writer, _DENSE * hidden)
        places = [place for place in range(count) for _ in range(_DENSE)]  # some have none
        chance.shuffle(places)
        where: dict[Fact, int] = {}
        chunks: list[tuple[int, ...]] = []
        follows: tuple[int, ...] = ()
        for place in range(count):
            here = [fact for fact, own in zip(facts, places, strict=False) if own == place]
            needles: list[tuple[int, ...]] = []
            for fact in here:
                needle = self.haystack.needle(fact)
                if sum(map(len, needles)) + len(needle) < max(length // 2, 24):
                    needles.append(needle)
                    where[fact] = place
            chunk, follows = self._chunk(chance, length, needles, ease)
            chunks.append(chunk)
        jobs: list[Job] = []
        if "question" in self.losses:
            asked = chance.sample([*where], min(self.jobs, len(where)))
            jobs += [self._question(chance, writer, fact, where[fact]) for fact in asked]
            if chance.random() < _ABSENT:
                jobs.append(self._absent(chance, writer, {(fact.kind, fact.about) for fact in facts}))
        if "repetition" in self.losses:
            place = chance.randrange(count)
            start = chance.randrange(max(1, length - _SPAN))
            span = chunks[place][start : start + _SPAN]
            jobs.append(Job("repetition", span, len(span) // 2, self.appended, place, _LESS))
        if "continuation" in self.losses:
            jobs.append(Job("continuation", follows, _SPAN // 2, self.appended, count - 1, _LESS))
        ranks = tuple(sorted(chance.sample(range(total), count)))
        lookups = [self._question(chance, writer, fact, place, alone=True) for fact, place in where.items()]
        lookups = lookups if "question" in self.losses else []
        return Lesson(tuple(chunks), tuple(jobs), ranks, total, self.haystack.head, tuple(lookups[: self.lookups]))

    def _chunk(
        self, chance: random.Random, length: int, needles: Sequence[tuple[int, ...]], ease: float
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """A chunk with needles in it, and the text that follows it."""
        head = self.haystack.head
        count = length - len(head) - sum(map(len, needles))
        if count < 0:
            raise SettingsError(f"A chunk of {length} tokens cannot hold a needle. Use longer chunks.")
        hay = self.haystack.hay(chance, count + _SPAN, ease)
        ends = sorted(chance.randint(0, count) for _ in needles)
        found, start = [*head], 0
        for needle, end in zip(needles, ends, strict=True):
            found += [*hay[start:end], *needle]
            start = end
        return (*found, *hay[start:count]), tuple(hay[count:])

    def _facts(self, chance: random.Random, writer: Writer, count: int) -> list[Fact]:
        """Draw facts about different things: codes as in the benchmark, and others."""
        found: dict[tuple[str, str], Fact] = {}
        for name in chance.sample(NAMES, min(count, len(NAMES))):
            fact = passkey(chance, name) if chance.random() < _PASSKEYS else writer.fact()
            found.setdefault((fact.kind, fact.about), fact)
        return [*found.values()]

    def _asked(self, chance: random.Random, writer: Writer, fact: Fact) -> str:
        """A question for a fact."""
        plain = fact.kind == "code" and chance.random() < 0.5
        return asked_for(fact) if plain else writer.question(fact)

    def _before(self, chance: random.Random) -> tuple[int, ...]:
        """What precedes a question in the local context: nothing, or the end of the document and of its fence."""
        hay = self.haystack.hay(chance, chance.choice((0, 0, 0, 16, self.appended // 2)))
        fence = self.haystack.encode(f"\n{fence_for(str(chance.random()))} end") if chance.random() < _FENCED else ()
        return (*hay, *fence)

    def _question(self, chance: random.Random, writer: Writer, fact: Fact, place: int, *, alone: bool = False) -> Job:
        encode = self.haystack.encode
        asked, answer = self.haystack.question(self._asked(chance, writer, fact)), self.haystack.answer(fact.sentence)
        before = () if alone else self._before(chance)
        appended = chance.randint(len(asked), max(len(asked), self.appended))
        start = len(before) + len(asked)
        given, value, _ = fact.sentence.rpartition(fact.value)
        first, last = len(encode(given.rstrip())), len(encode(given + value))
        return Job(
            "question", (*before, *asked, *answer), start, appended, place, recalled=(start + first, start + last)
        )

    def _absent(self, chance: random.Random, writer: Writer, there: Set[tuple[str, str]]) -> Job:
        """A question whose answer is not in the document."""
        while ((fact := passkey(chance, chance.choice(NAMES))).kind, fact.about) in there:
            pass
        asked, before = self.haystack.question(self._asked(chance, writer, fact)), self._before(chance)
        tokens = (*before, *asked, *self.haystack.answer(NOTHING))
        return Job("question", tokens, len(before) + len(asked), self.appended, -1)


def passkey(chance: random.Random, name: str) -> Fact:
    """The code of a person."""
    code = str(chance.randrange(10_000, 100_000))
    return Fact("code", name, code, f"The code of {name} is {code}.")


def asked_for(fact: Fact) -> str:
    """The question for a passkey."""
    return f"What is the code of {fact.about}?"
