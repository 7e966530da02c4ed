"""The questions of a check: for each ability some, with the judge of their answers.

Plans and entries are asked for with the templates that strategies use, entries in each family of prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stretto.abilities import judging
from stretto.abilities.judging import Judge
from stretto.prompts import Catalogue
from stretto.values.request import Message

__all__ = ["ADVICE", "BY_FAMILY", "NEEDED", "Question", "questions"]

BY_FAMILY = ("item",)
NEEDED: Mapping[str, int] = {
    "plan": 2,
    "item": 3,
    "label": 8,
    "record": 2,
    "schema": 2,
    "length": 2,
    "language": 2,
    "nothing": 2,
}
"""Right answers from which a model holds an ability."""

ADVICE = (
    "How do I look after a bicycle?",
    "How can a beginner start running?",
    "What are the advantages of working from home?",
)
_COUNTRIES = {"France": "Paris", "Italy": "Rome", "Japan": "Tokyo", "Spain": "Madrid"}
_REVIEWS = (
    ("The tent stayed dry in a storm. I love it.", "positive"),
    ("The zip broke on the first day.", "negative"),
    ("Excellent value, I would buy it again.", "positive"),
    ("It smells terrible and the colour is wrong.", "negative"),
    ("Arrived late, damaged, and nobody answered my mail.", "negative"),
    ("The best shoes I have ever worn.", "positive"),
    ("A complete waste of money.", "negative"),
    ("My children play with it every day and are happy.", "positive"),
    ("The screen went black after an hour. Very disappointing.", "negative"),
    ("Fast delivery and wonderful quality.", "positive"),
)
PASSAGE = (
    "The house at the harbour was built by a merchant from Bremen. It has three floors and a roof of blue slate. "
    "The door code is 4471. In summer the garden is open to visitors until eight in the evening. "
    "The roof was repaired by Anna Berg in 1987. A boat to the island leaves every second hour. "
    "Dogs have to stay outside. The café serves soup and bread."
)
_FACTS = (
    ("What is the door code?", "4471"),
    ("Who repaired the roof?", "Anna Berg"),
    ("How often does a boat leave?", "every second hour"),
)
_UNTOLD = ("What does the soup cost?", "How old is the merchant?", "What is the name of the island?")
_ANIMALS = ("dog", "spider")
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "legs": {"type": "integer"}},
    "required": ["name", "legs"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Question:
    """One question of a check.

    Attributes:
        ability: what it asks for.
        messages: the prompt.
        judge: of the answer.
        family: of the prompts, where that matters.
        most: tokens of the answer.
        schema: that the answer is held to, if the backend can.
    """

    ability: str
    messages: tuple[Message, ...]
    judge: Judge
    family: str | None = None
    most: int = 90
    schema: Mapping[str, Any] | None = None


def questions(prompts: Catalogue, families: tuple[str, ...]) -> Iterator[Question]:
    """All questions, what matters most first."""
    for question in ADVICE:
        length = {"words": "250", "sections": "2", "longest": "140"}
        plan = _filled(prompts, "plan", families[0], question=question, **length)
        yield Question("plan", plan, judging.is_plan, most=300)
    for review, label in _REVIEWS:
        task = "Classify each review as positive or negative. Answer with one of these two words only."
        yield Question("label", _entry(prompts, families[0], task, review), judging.is_label(label), most=16)
    for country, capital in _COUNTRIES.items():
        task = "Name the capital city of each country. Write only its name."
        for family in families:
            yield Question("item", _entry(prompts, family, task, country), judging.is_entry(capital), family, most=24)
    for question, fact in _FACTS:
        asked = f"{PASSAGE}\n\nCopy the one sentence that answers this question, letter by letter: {question}"
        yield Question("record", _plain(asked), judging.is_quotation(PASSAGE, fact), most=60)
    for question in _UNTOLD:
        asked = f"{PASSAGE}\n\n{question}\nAnswer from the text above. If it does not say it, write only: NONE"
        yield Question("nothing", _plain(asked), judging.says_nothing, most=30)
    for animal in _ANIMALS:
        asked = f'How many legs has a {animal}? Write one JSON object: {{"name": the animal, "legs": a whole number}}'
        judge = judging.has_fields({"name": str, "legs": int})
        yield Question("schema", _plain(asked), judge, most=60, schema=_SCHEMA)
    for thing in ("a river", "a library"):
        asked = f"Describe {thing} in about 40 words."
        yield Question("length", _plain(asked), judging.has_length(20, 70), most=150)
    for language, asked in (("de", "Warum ist der Himmel blau?"), ("es", "¿Por qué es azul el cielo?")):
        yield Question("language", _plain(asked), judging.in_language(language), most=50)


def _filled(prompts: Catalogue, name: str, family: str, **values: str) -> tuple[Message, ...]:
    template = prompts.get(name, family)
    return template.messages(**dict.fromkeys(template.placeholders, "") | values)


def _entry(prompts: Catalogue, family: str, task: str, entry: str) -> tuple[Message, ...]:
    return _filled(prompts, "item", family, instruction=task, item=entry, question=task)


def _plain(text: str) -> tuple[Message, ...]:
    return (Message(role="user", content=text),)
