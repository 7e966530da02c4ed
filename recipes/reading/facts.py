"""Facts that can be looked up in a text: sentences that state them, and questions that ask for them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from recipes.pocket import tasks

__all__ = ["KINDS", "Fact", "Writer"]

_EVENTS = (
    "meeting", "fair", "concert", "conference", "match", "exhibition", "election", "trial", "launch", "reunion",
    "wedding", "marathon", "auction", "festival", "inspection",
)  # fmt: skip
_ROOMS = (
    "cellar", "attic", "library", "kitchen", "office", "garage", "hall", "archive", "vault", "workshop", "stable",
    "chapel", "laundry", "studio", "greenhouse",
)  # fmt: skip
_STATED = {
    "code": (
        "The code of {a} is {v}.",
        "The code of {a} is {v}.",
        "{a}'s code is {v}.",
        "{a} has the code {v}.",
        "The code for {a} is {v}.",
    ),
    "date": (
        "The {a} is on {v}.",
        "The {a} takes place on {v}.",
        "The date of the {a} is {v}.",
        "The {a} was moved to {v}.",
    ),
    "home": ("{a} lives in {v}.", "{a} has moved to {v}.", "The home of {a} is in {v}."),
    "place": ("The {a} is kept in the {v}.", "The {a} stands in the {v}.", "The {a} can be found in the {v}."),
    "amount": (
        "The {a} costs {v} euros.",
        "The price of the {a} is {v} euros.",
        "The {a} was sold for {v} euros.",
    ),
}
_ASKED = {
    "code": (
        "What is the code of {a}?",
        "What is the code of {a}?",
        "What is {a}'s code?",
        "Which code does {a} have?",
        "Tell me the code of {a}.",
        "What code belongs to {a}?",
        "Give me the code for {a}.",
    ),
    "date": (
        "When is the {a}?",
        "What is the date of the {a}?",
        "On which day does the {a} take place?",
        "Tell me when the {a} is.",
        "Which date does the {a} have?",
    ),
    "home": (
        "Where does {a} live?",
        "In which city does {a} live?",
        "What is the home of {a}?",
        "Where is {a} at home?",
    ),
    "place": (
        "Where is the {a}?",
        "Where is the {a} kept?",
        "Where can the {a} be found?",
        "In which room is the {a}?",
        "Tell me where the {a} is.",
    ),
    "amount": (
        "What does the {a} cost?",
        "How much is the {a}?",
        "What is the price of the {a}?",
        "How many euros does the {a} cost?",
        "Tell me the price of the {a}.",
    ),
}
KINDS = tuple(_STATED)
"""Kinds of facts: codes, dates, homes, places and amounts."""

_EVERY = 5  # one word in so many is kept out of training
_INVENTED = 0.35  # of the words in lessons, those that are invented: looking up has to work for any word
_STARTS = ("b", "br", "c", "d", "dr", "f", "g", "gr", "h", "k", "kl", "l", "m", "n", "p", "r", "s", "st", "t", "v", "z")
_VOWELS = ("a", "e", "i", "o", "u", "ia", "ai")
_ENDS = ("", "", "n", "r", "s", "l", "x", "nd", "rk")


@dataclass(frozen=True)
class Fact:
    """One fact.

    Attributes:
        kind: one of `KINDS`.
        about: the person or thing.
        value: of the fact.
        sentence: that states it.
    """

    kind: str
    about: str
    value: str
    sentence: str


class Writer:
    """Draws facts and questions.

    Args:
        chance: the random source.
        held_out: draw from the words that no lesson has.
    """

    def __init__(self, chance: random.Random, *, held_out: bool = False) -> None:
        self._chance, self._held_out = chance, held_out

    def facts(self, count: int, kind: str | None = None) -> list[Fact]:
        """Draw a number of facts about different things."""
        found: dict[tuple[str, str], Fact] = {}
        while len(found) < count:
            fact = self.fact(kind)
            found.setdefault((fact.kind, fact.about), fact)
        return list(found.values())

    def fact(self, kind: str | None = None, about: str | None = None) -> Fact:
        """Draw one fact."""
        kind = kind or self._chance.choice(("code", *KINDS))
        about, value = about or self._about(kind), self._value(kind)
        return Fact(kind, about, value, self._chance.choice(_STATED[kind]).format(a=about, v=value))

    def near(self, fact: Fact) -> Fact:
        """Draw a fact that may be mistaken for another: of its kind, or about the same thing."""
        same = {"code": "home", "home": "code", "place": "amount", "amount": "place"}
        if fact.kind in same and self._chance.random() < 0.3:
            return self.fact(same[fact.kind], fact.about)
        while (found := self.fact(fact.kind)).about == fact.about:
            pass
        return found

    def question(self, fact: Fact) -> str:
        """Draw a question that it answers."""
        return self._chance.choice(_ASKED[fact.kind]).format(a=fact.about)

    def _about(self, kind: str) -> str:
        if kind in ("code", "home"):
            first = self._name() if self._chance.random() < 0.3 else self._word("first_names")
            return first if self._chance.random() < 0.7 else f"{first} {self._word('surnames')}"
        if kind == "date":
            return f"{self._word('cities')} {self._chance.choice(self._part(_EVENTS))}"
        return f"{self._word('colours')} {self._word('products')}"

    def _value(self, kind: str) -> str:
        chance = self._chance
        if kind == "code":
            return str(chance.randrange(10 ** chance.choice((3, 4, 4)), 100_000))
        if kind == "date":
            return f"{chance.randrange(1, 29)} {chance.choice(tasks.lists()['months'])} {chance.randrange(1950, 2060)}"
        if kind == "home":
            return self._word("cities")
        if kind == "place":
            room = chance.choice(self._part(_ROOMS))
            return room if chance.random() < 0.6 else f"{room} of {self._word('first_names')}"
        return (
            f"{chance.randrange(2, 100)},{chance.randrange(1000):03}"
            if chance.random() < 0.3
            else str(chance.randrange(3, 2000))
        )

    def _word(self, name: str) -> str:
        if not self._held_out and self._chance.random() < _INVENTED:
            word = self._name()
            return word.lower() if name in ("colours", "products") else word
        return self._chance.choice(self._part(tasks.lists()[name]))

    def _part(self, words: Sequence[str]) -> list[str]:
        return [word for at, word in enumerate(sorted(words)) if (at % _EVERY == 0) == self._held_out]

    def _name(self) -> str:
        """Make up a name."""
        chance = self._chance
        parts = (chance.choice(_STARTS) + chance.choice(_VOWELS) for _ in range(chance.choice((1, 2, 2))))
        return ("".join(parts) + chance.choice(_ENDS)).capitalize() + chance.choice(("", "", "a", "o"))
