"""What a model is asked, to learn from its own answers, and what it is measured on."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from importlib.resources import files

from recipes.pocket.corpus import Corpus, facts, topics, unknown_questions, unseen_questions

__all__ = ["Turns", "asked", "held_out"]

Turns = Sequence[tuple[str, str]]
"""A conversation: who speaks, and what is said."""

_TASKS = {"straight": 8, "point": 12, "outline": 3, "fact": 2, "item": 2, "items": 1, "transform": 2, "unknown": 1}
"""How often the pocket model is given each of its tasks."""

_TASKS_ASKED = 8000


def asked(*, pocket: bool, seed: int = 1) -> list[Turns]:
    """Questions to learn from: of the pocket model its tasks, of others those of our recipes' data, none held out."""
    if pocket:
        chance, corpus = random.Random(seed), Corpus()  # noqa: S311 - no secrets
        tasks = chance.choices([*_TASKS], [*_TASKS.values()], k=_TASKS_ASKED)
        return [corpus.draw(task, chance).turns for task in tasks]
    found = {question for topic in topics() for question in topic.questions}
    found |= {question for fact in facts() for question in fact.questions}
    found |= {*unknown_questions(held_out=False), *_prompts("labelled.jsonl"), *_prompts("authored.jsonl")}
    return [_turn(question) for question in sorted(found - {*_prompts("held_out.jsonl")})]


def held_out(*, pocket: bool) -> list[Turns]:
    """Questions that nothing is trained on: of the pocket model other wordings of what it knows."""
    if pocket:
        return [_turn(question) for question, _ in unseen_questions()[0]]
    return [_turn(prompt) for prompt in _prompts("held_out.jsonl")]


def _turn(question: str) -> Turns:
    return (("user", question),)


def _prompts(name: str) -> Iterator[str]:
    """The prompts alone: `recipes.router.rows` also reads their labels, for which it imports the router itself."""
    with files("recipes.router").joinpath("data", name).open(encoding="utf-8") as lines:
        yield from (json.loads(line)["prompt"] for line in lines)
