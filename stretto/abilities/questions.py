"""The questions of a check: for each ability some, with the judge of their answers.

Outlines, points and entries are asked for with the templates that strategies use, in each family of prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from stretto.abilities import judging
from stretto.abilities.judging import Judge
from stretto.abilities.kept import IN_LANGUAGE
from stretto.prompts import SMALL, Catalogue, Template
from stretto.prompts.weak_models import outline_ends, point_ends
from stretto.request import Message

__all__ = ["ADVICE", "BY_FAMILY", "NEEDED", "Question", "questions"]

BY_FAMILY = ("outline", "point")
NEEDED: Mapping[str, int] = {
    "outline": 2,
    "point": 2,
    "item": 3,
    "label": 8,
    "record": 2,
    "schema": 2,
    "length": 2,
    "language": 2,
    "nothing": 2,
    **dict.fromkeys(map(IN_LANGUAGE.format, ("de", "fr", "es", "it", "pt")), 2),
}
"""Right answers from which a model holds an ability."""

ADVICE = (
    ("How do I look after a bicycle?", "Oil the chain"),
    ("How can a beginner start running?", "Begin with short distances"),
    ("What are the advantages of working from home?", "Less time on the road"),
)
_ADVICE_IN = {
    "de": ("Wie pflege ich ein Fahrrad?", "Die Kette ölen"),
    "fr": ("Comment entretenir un vélo ?", "Huiler la chaîne"),
    "es": ("¿Cómo se cuida una bicicleta?", "Engrasar la cadena"),
    "it": ("Come si cura una bicicletta?", "Oliare la catena"),
    "pt": ("Como cuidar de uma bicicleta?", "Lubrificar a corrente"),
}
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
        stop: texts that end the answer.
        penalised: words that were said are made less likely, if the backend can.
    """

    ability: str
    messages: tuple[Message, ...]
    judge: Judge
    family: str | None = None
    most: int = 90
    schema: Mapping[str, Any] | None = None
    stop: tuple[str, ...] = ()
    penalised: bool = False


def questions(prompts: Catalogue, families: tuple[str, ...]) -> Iterator[Question]:
    """All questions, what matters most first."""
    for place in range(len(ADVICE)):
        for family in families:
            question, title = ADVICE[place]
            outline = _filled(prompts, "skeleton", family, question=question, number="3 to 6 points")
            judge = judging.is_outline(_text(outline))
            yield _as_sent(Question("outline", outline, judge, family, 80), prompts.get("skeleton", family))
            values = {"outline": f"1. {title}\n2. Ask a friend for advice", "index": "1", "title": title, "words": "40"}
            point = _filled(prompts, "point", family, question=question, **values)
            yield _as_sent(
                Question("point", point, judging.is_point(_text(point)), family), prompts.get("point", family)
            )
    for review, label in _REVIEWS:
        task = "Classify each review as positive or negative. Answer with one of these two words only."
        yield Question("label", _entry(prompts, families[0], task, review), judging.is_label(label), most=16)
    for country, capital in _COUNTRIES.items():
        task = "Name the capital city of each country. Write only its name."
        yield Question("item", _entry(prompts, families[0], task, country), judging.is_entry(capital), most=24)
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
    if families[0] == SMALL:  # others are taken to hold every language they are asked in
        yield from _in_languages(prompts)


def _in_languages(prompts: Catalogue) -> Iterator[Question]:
    """An outline and a point in each language that weak models have prompts for."""
    for language, (question, title) in _ADVICE_IN.items():
        name = IN_LANGUAGE.format(language)
        outline = _filled(prompts, "skeleton", SMALL, language=language, question=question)
        judge = judging.is_outline(_text(outline))
        template = prompts.get("skeleton", SMALL, language=language)
        yield _as_sent(Question(name, outline, judge, most=80), template)
        point = _filled(prompts, "point", SMALL, language=language, question=question, title=title)
        judge = judging.is_point_in(language, _text(point))
        yield _as_sent(Question(name, point, judge), prompts.get("point", SMALL, language=language))


def _as_sent(question: Question, template: Template) -> Question:
    """An outline or a point with what a skeleton sends beside its prompt to a weak model."""
    if template.family != SMALL:
        return question
    ends = point_ends if template.name == "point" else outline_ends
    return replace(question, stop=ends(template), penalised=True)


def _filled(
    prompts: Catalogue, name: str, family: str, *, language: str | None = None, **values: str
) -> tuple[Message, ...]:
    template = prompts.get(name, family, language=language)
    return template.messages(**dict.fromkeys(template.placeholders, "") | values)


def _entry(prompts: Catalogue, family: str, task: str, entry: str) -> tuple[Message, ...]:
    return _filled(prompts, "item", family, instruction=task, item=entry, question=task)


def _plain(text: str) -> tuple[Message, ...]:
    return (Message(role="user", content=text),)


def _text(messages: tuple[Message, ...]) -> str:
    return "\n".join(message.content for message in messages)
