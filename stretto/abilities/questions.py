"""The questions of a check: some for each ability, with functions that judge the answers.

Plans and entries are requested with the templates of the strategies, entries in each prompt family. Code judges whether
the answers have the requested form and content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stretto.prompts import Catalogue
from stretto.values.request import Message

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
"""Number of correct answers from which a model has an ability."""

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
_UNANSWERABLE = ("What does the soup cost?", "How old is the merchant?", "What is the name of the island?")
_ANIMALS = ("dog", "spider")
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "legs": {"type": "integer"}},
    "required": ["name", "legs"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Question:
    """One question of a check, whose answer has at most ``most`` tokens."""

    ability: str
    messages: tuple[Message, ...]
    judge: Judge
    family: str | None = None
    most: int = 90
    schema: Mapping[str, Any] | None = None


def questions(prompts: Catalogue, families: tuple[str, ...]) -> Iterator[Question]:
    """Yield all questions, the most important first."""
    for question in ADVICE:
        length = {"words": "250", "sections": "2", "longest": "140"}
        plan = _filled(prompts, "plan", families[0], question=question, **length)
        yield Question("plan", plan, is_plan, most=300)
    for review, label in _REVIEWS:
        task = "Classify each review as positive or negative. Answer with one of these two words only."
        yield Question("label", _entry(prompts, families[0], task, review), is_label(label), most=16)
    for country, capital in _COUNTRIES.items():
        task = "Name the capital city of each country. Write only its name."
        for family in families:
            yield Question("item", _entry(prompts, family, task, country), is_entry(capital), family, most=24)
    for question, fact in _FACTS:
        prompt = f"{PASSAGE}\n\nCopy the one sentence that answers this question, letter by letter: {question}"
        yield Question("record", _plain(prompt), is_quotation(PASSAGE, fact), most=60)
    for question in _UNANSWERABLE:
        prompt = f"{PASSAGE}\n\n{question}\nAnswer from the text above. If it does not say it, write only: NONE"
        yield Question("nothing", _plain(prompt), says_nothing, most=30)
    for animal in _ANIMALS:
        prompt = f'How many legs has a {animal}? Write one JSON object: {{"name": the animal, "legs": a whole number}}'
        judge = has_fields({"name": str, "legs": int})
        yield Question("schema", _plain(prompt), judge, most=60, schema=_SCHEMA)
    for thing in ("a river", "a library"):
        prompt = f"Describe {thing} in about 40 words."
        yield Question("length", _plain(prompt), has_length(20, 70), most=150)
    for language, prompt in (("de", "Warum ist der Himmel blau?"), ("es", "¿Por qué es azul el cielo?")):
        yield Question("language", _plain(prompt), in_language(language), most=50)


def _filled(prompts: Catalogue, name: str, family: str, **values: str) -> tuple[Message, ...]:
    template = prompts.get(name, family)
    return template.messages(**dict.fromkeys(template.placeholders, "") | values)


def _entry(prompts: Catalogue, family: str, task: str, entry: str) -> tuple[Message, ...]:
    return _filled(prompts, "item", family, instruction=task, item=entry, question=task)


def _plain(text: str) -> tuple[Message, ...]:
    return (Message(role="user", content=text),)


Judge = Callable[[str], bool]

_NUMBERED = re.compile(r"\d{1,2}[.):]\s*\S")
_WORD = re.compile(r"\w+")
_NOTHING = re.compile(r"\W*(none|nothing|no information|not (?:stated|mentioned|given))\b", re.IGNORECASE)
_SMALL_WORDS = {
    "de": "der die das und ist ein eine zu in den mit von nicht sie es auf für im dem",
    "es": "el la los las y es un una de que en con por no se para del al",
    "en": "the a an and is are of to in that it with for on as be this",
}
FUNCTION_WORDS: Mapping[str, frozenset[str]] = {
    language: frozenset(known.split()) for language, known in _SMALL_WORDS.items()
}


def words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return _WORD.findall(text.casefold())


def is_plan(answer: str) -> bool:
    """Check for an opening, and the headings of two sections or a line for each."""
    lines = [line.strip(" *_#->").casefold() for line in answer.splitlines()]
    opening = next((line for line in lines if line.startswith("opening:")), "")
    headings = next((line.count("|") + 1 for line in lines if line.startswith("sections:")), 0)
    return len(words(opening)) > 4 and max(headings, sum(_NUMBERED.match(line) is not None for line in lines)) > 1


def is_label(right: str) -> Judge:
    """Judge whether the answer is the right label and nothing else."""
    return lambda answer: words(answer) == words(right)


def is_entry(right: str, most: int = 4) -> Judge:
    """Judge whether the answer has at most ``most`` words, including the right one."""
    return lambda answer: right.casefold() in words(answer) and len(words(answer)) <= most


def is_quotation(passage: str, fact: str) -> Judge:
    """Judge whether the answer is a verbatim quotation from the passage that contains the fact."""

    def judge(answer: str) -> bool:
        quotation = answer.strip().strip("\"'“”").strip()
        return fact in quotation and quotation in passage and len(quotation) < len(passage) // 2

    return judge


def says_nothing(answer: str) -> bool:
    """Check whether the answer says that the text does not contain it."""
    return _NOTHING.match(answer) is not None


def has_fields(fields: Mapping[str, type]) -> Judge:
    """Judge whether the answer is a JSON object with exactly these fields."""

    def judge(answer: str) -> bool:
        try:
            found: Any = json.loads(answer)
        except (ValueError, RecursionError):
            return False
        return (
            isinstance(found, dict)
            and found.keys() == fields.keys()
            and all(isinstance(found[name], kind) for name, kind in fields.items())
        )

    return judge


def has_length(least: int, most: int) -> Judge:
    """Judge whether the number of words is within these limits."""
    return lambda answer: least <= len(words(answer)) <= most


def in_language(language: str) -> Judge:
    """Judge whether the answer has more function words of this language than of any other."""

    def judge(answer: str) -> bool:
        spoken = words(answer)
        counts = {name: _count(spoken, known) for name, known in FUNCTION_WORDS.items()}
        return counts[language] > 0 and counts[language] == max(counts.values())

    return judge


def _count(spoken: Collection[str], known: Collection[str]) -> int:
    return sum(word in known for word in spoken)
