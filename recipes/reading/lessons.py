"""Lessons in reading: the library's prompts for documents over texts with hidden facts, and the right answers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from recipes.pocket import tasks
from recipes.pocket.corpus import Corpus, straight_answer
from recipes.reading.facts import Fact, Writer
from stretto.prompts import Catalogue
from stretto.strategies.runtime.fencing import fence_for, fenced
from stretto.values.document import Document

__all__ = ["NOTHING", "Hay", "Lesson", "Lessons", "no_record", "record", "training_hay"]

Hay = Callable[[random.Random, int], list[str]]
"""Draws pieces of text with about a number of characters in all; a fact may be put between any two of them."""

NOTHING = "The documents do not tell it."
"""The answer where nothing was found."""

_FAMILY = "pocket"
_QUESTIONS = 6  # about one passage
_THERE = 0.65  # of the questions about a text with facts, those whose answer is there
_TITLES = ("report", "notes", "letters", "minutes", "journal", "manual.txt", "part 2", "main.py", "chapter 7", "terms")


@dataclass(frozen=True)
class Lesson:
    """A conversation; every turn of the assistant is learned."""

    task: str
    turns: tuple[tuple[str, str], ...]


def record(quotes: Sequence[str], answer: str) -> str:
    """The record of a passage with a finding."""
    found = {"evidence": list(quotes), "rationale": "The passage says it.", "answer": answer}
    return json.dumps({**found, "confidence": 5, "no_information": False}, ensure_ascii=False)


def no_record() -> str:
    """The record of a passage without a finding."""
    found = {"evidence": [], "rationale": "", "answer": "", "confidence": 0, "no_information": True}
    return json.dumps(found)


@cache
def _catalogue() -> Catalogue:
    return Catalogue()


def filled(template: str, **values: str) -> str:
    """The user's message of one of the library's templates for the pocket model."""
    (message,) = _catalogue().get(template, _FAMILY).messages(**values)
    return message.content


def training_hay() -> Hay:
    """Draw pieces of the encyclopaedia, of source code, and random words."""
    corpus = Corpus()
    prose = [straight_answer(topic) for topic in corpus.topics]

    def sentences(chance: random.Random) -> list[str]:
        words = chance.choice(prose).replace("\n", " \n").split(". ")
        start = chance.randrange(len(words))
        return [word + ". " for word in words[start:]]

    def lines(chance: random.Random) -> list[str]:
        return corpus.draw("code", chance).answer.splitlines(keepends=True)

    def nonsense(chance: random.Random) -> list[str]:
        return [
            " ".join(tasks.any_word(chance) for _ in range(chance.randrange(4, 14))).capitalize() + ". "
            for _ in range(chance.randrange(2, 12))
        ]

    kinds = (sentences, sentences, lines, lines, nonsense)

    def draw(chance: random.Random, size: int) -> list[str]:
        found: list[str] = []
        kind = chance.choice(kinds)
        while size > 0:
            for piece in kind(chance):
                found.append(piece)
                size -= len(piece)
                if size <= 0:
                    break
            kind = chance.choice((kind, *kinds))
        return found

    return draw


class Lessons:
    """Draws lessons.

    Args:
        hay: draws the text that facts are hidden in.
        longest: characters of a passage at most.
    """

    def __init__(self, hay: Hay, longest: int = 1300) -> None:
        self._hay, self._longest = hay, longest

    def draw(self, chance: random.Random, ease: float = 0.0) -> Lesson:
        """Draw a lesson. ``ease`` falls from 1 to 0; a high one makes texts short."""
        kind = chance.choices(("map", "answer", "whole", "collapse", "straight"), (68, 12, 8, 3, 9))[0]
        longest = max(300, self._longest * (1 - ease))
        size = int(60 * (longest / 60) ** chance.random())
        lesson: Lesson = getattr(self, f"_{kind}")(chance, Writer(chance), size)
        return lesson

    def _map(self, chance: random.Random, writer: Writer, size: int) -> Lesson:
        text, facts = self.text(chance, writer, size)
        turns: list[tuple[str, str]] = []
        for _ in range(_QUESTIONS):  # the first prompt as it is, then more questions
            fact, there = self._asked(chance, writer, facts)
            question = writer.question(fact)
            if turns:
                asked = f"Question:\n{question}\n\nWrite the record of the passage."
            else:
                asked = filled(
                    "document_map", fence=fence_for(text, str(chance.random())), number=str(chance.randrange(1, 200)),
                    total="200", passage=text, question=question,
                )  # fmt: skip
            turns += [("user", asked), ("assistant", record([fact.sentence], fact.sentence) if there else no_record())]
        return Lesson("map", tuple(turns))

    def _answer(self, chance: random.Random, writer: Writer, size: int) -> Lesson:  # noqa: ARG002 - findings are short
        facts = writer.facts(chance.choice((0, 1, 1, 1, 2, 2, 3, 5)))
        fact, there = self._asked(chance, writer, facts)
        if not there and facts and chance.random() < 0.3:
            facts = []
        records = self._findings(chance, facts) if facts else "Nothing in the passages bears on the question."
        fence, question = fence_for(records, str(chance.random())), writer.question(fact)
        asked = filled("document_answer", fence=fence, records=records, question=question)
        return Lesson("answer", (("user", asked), ("assistant", self._cited(fact, facts, there=there and bool(facts)))))

    def _collapse(self, chance: random.Random, writer: Writer, size: int) -> Lesson:  # noqa: ARG002 - findings are short
        facts = writer.facts(chance.randrange(2, 7))
        fact, there = self._asked(chance, writer, facts)
        records, question = self._findings(chance, facts), writer.question(fact)
        asked = filled(
            "document_collapse", fence=fence_for(records, str(chance.random())), records=records, question=question
        )
        if there:
            kept = {"keep": [facts.index(fact) + 1], "answer": fact.sentence, "confidence": 5}
        else:
            kept = {"keep": [], "answer": "", "confidence": 0}
        return Lesson("collapse", (("user", asked), ("assistant", json.dumps(kept, ensure_ascii=False))))

    def _whole(self, chance: random.Random, writer: Writer, size: int) -> Lesson:
        text, facts = self.text(chance, writer, size)
        passages = self._passages(chance, text, facts)
        records = f'Document "{chance.choice(_TITLES)}":\n\n' + "\n\n".join(
            f"[{number}] {passage.strip()}" for number, passage in enumerate(passages, start=1)
        )
        fact, there = self._asked(chance, writer, facts)
        asked = filled(
            "document_whole",
            fence=fence_for(records, str(chance.random())),
            records=records,
            question=writer.question(fact),
        )
        if there:
            number = next(at for at, passage in enumerate(passages, start=1) if fact.sentence in passage)
            answer = f"{fact.sentence.removesuffix('.')} [{number}]."
        else:
            answer = NOTHING
        return Lesson("whole", (("user", asked), ("assistant", answer)))

    def _straight(self, chance: random.Random, writer: Writer, size: int) -> Lesson:
        text, facts = self.text(chance, writer, size)
        turns: list[tuple[str, str]] = []
        for _ in range(_QUESTIONS):
            fact, there = self._asked(chance, writer, facts)
            question = writer.question(fact)
            if not turns:
                question = f"{fenced((Document(title=chance.choice(_TITLES), text=text),))}\n\n{question}"
            turns += [("user", question), ("assistant", fact.sentence if there else NOTHING)]
        return Lesson("straight", tuple(turns))

    def text(self, chance: random.Random, writer: Writer, size: int) -> tuple[str, list[Fact]]:
        """Draw a text of about a number of characters with some facts in it."""
        most = 1 + size // 150
        facts = writer.facts(min(7, chance.choice((0, 1, 2, 2, 3, most))))
        if facts and chance.random() < 0.5:
            near = writer.near(facts[0])
            if (near.kind, near.about) not in {(fact.kind, fact.about) for fact in facts}:
                facts.append(near)
        pieces = self._hay(chance, size)
        for fact in facts:
            at = chance.randrange(len(pieces) + 1)
            ends = (pieces[at - 1] if at else "\n")[-1:]
            gap = "" if ends in (" ", "\n") else " "
            pieces.insert(at, gap + fact.sentence + ("\n" if ends == "\n" and chance.random() < 0.7 else " "))
        return "".join(pieces).strip(), facts

    def _asked(self, chance: random.Random, writer: Writer, facts: Sequence[Fact]) -> tuple[Fact, bool]:
        """What is asked for, and whether it is there."""
        if facts and chance.random() < _THERE:
            return chance.choice(facts), True
        there = {(fact.kind, fact.about) for fact in facts}
        while True:
            fact = writer.near(chance.choice(facts)) if facts and chance.random() < 0.7 else writer.fact()
            if (fact.kind, fact.about) not in there:
                return fact, False

    def _findings(self, chance: random.Random, facts: Sequence[Fact]) -> str:
        title = chance.choice(_TITLES)
        parts = []
        for number, fact in enumerate(facts, start=1):
            start = chance.randrange(100_000)
            where = f"p. {start % 300 + 1}" if chance.random() < 0.3 else f"chars {start}-{start + len(fact.sentence)}"
            parts.append(
                f'Finding, confidence 5 of 5: {fact.sentence}\n[{number}] ({title}, {where}) "{fact.sentence}"'
            )
        return "\n\n".join(parts)

    def _cited(self, fact: Fact, facts: Sequence[Fact], *, there: bool) -> str:
        return f"{fact.sentence.removesuffix('.')} [{[*facts].index(fact) + 1}]." if there else NOTHING

    def _passages(self, chance: random.Random, text: str, facts: Sequence[Fact]) -> list[str]:
        """A text in parts, no fact cut in two."""
        ends = [at for at, sign in enumerate(text) if sign in "\n "]
        sentences = [(at, at + len(fact.sentence)) for fact in facts if (at := text.find(fact.sentence)) >= 0]
        ends = [end for end in ends if not any(start < end < stop for start, stop in sentences)]
        parts, start = [], 0
        while start < len(text):
            size = chance.randrange(250, 520)
            end = next((end for end in ends if end >= start + size), len(text))
            parts.append(text[start:end])
            start = end
        return parts
