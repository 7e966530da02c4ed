"""A judge's preference between two answers, read blind and in both orders.

The criteria are those of the project's own evaluation (``docs/quality.md``). Judges are biased towards the answer they
read first, so each pair is shown twice, and a preference counts only if both readings agree.
"""

from __future__ import annotations

import json
import re
import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from string import Template
from typing import Any, Literal

import anyio
from pydantic import BaseModel, ConfigDict, computed_field

from stretto.client.async_client import AsyncStretto
from stretto.comparing.bookkeeping import total
from stretto.comparing.comparison_questions import Question
from stretto.comparing.question_sampling import HOPELESS
from stretto.strategies.runtime.parts import THINKING
from stretto.strategies.structured.bare_json import json_in, read_json
from stretto.values.answer import REFUSALS
from stretto.values.errors import StrettoError
from stretto.values.request import Message

MEANINGS = {
    "relevance": "answers what was asked, and keeps to it",
    "depth": "gives the reasons, details and examples that matter rather than generalities",
    "coherence": "reads as one text by one writer; its parts fit together and do not contradict each other",
    "non_repetition": "says nothing twice",
    "structure": "order and layout (paragraphs, steps, table, headings) fit the question",
    "prioritisation": "what matters most comes first and gets most room",
    "usefulness": "the person who asked can act on it, or knows what they wanted to know",
    "overall": "the answer that you would rather give to the person who asked",
}
CRITERIA = tuple(MEANINGS)
OVERALL = CRITERIA[-1:]
Choice = Literal["one", "other", "tie"]
Preference = Literal["one", "other", "tie", "flipped"]
MOST_TOKENS = 600  # of a reply
LONGEST_WHY, LONGEST_QUOTE = 600, 80  # characters of a reply that are stored

_OTHER_NAMES = {
    **dict.fromkeys(("prioritization", "priorities"), "prioritisation"),
    **dict.fromkeys(("overall_verdict", "overall_preference", "verdict", "winner", "preferred"), "overall"),
    **dict.fromkeys(("reason", "reasons", "reasoning", "explanation"), "why"),
    "nonrepetition": "non_repetition",
}
_TIE = re.compile(r"(?:an? )?(?:tied?|draw|equal(?:ly good)?|both|neither|same|none)\b")
_SIDE = re.compile(
    r"(?:the )?(?:(?:answer|assistant|response|text) )?(?P<side>a|b|first|second)(?: (?:answer|one))?"
    r"(?![ ,/]{0,3}(?:or )?(?:a|b|first|second)\b)"  # the choice itself, repeated: "A, B or tie"
    r" ?(?:$|[-–—(,.;:>}]|is\b|wins\b|slightly\b|clearly\b)"
)
_LINE = re.compile(r"[\W\d_]*(?P<name>[A-Za-z][A-Za-z _-]{1,24}[A-Za-z])[\"'*_` ]*[:=|](?P<value>.+)")
_DECORATION = re.compile(r"[\"'*_`|\s]+")


class JudgeReading(BaseModel):
    """A judge's reply to two answers in one order.

    Attributes:
        first: the answer shown first, as A.
        preferences: preferences by criterion, without those missing from its reply.
        strength: strength of the overall preference, "clear" or "slight"; empty if not given.
        why: its reason, in which A is the answer shown first.
        error: why it is not counted: the call failed, or the reply names no overall preference.
    """

    model_config = ConfigDict(frozen=True)

    first: Literal["one", "other"]
    preferences: dict[str, Choice] = {}
    strength: Literal["clear", "slight", ""] = ""
    why: str = ""
    error: str = ""


class JudgeVerdict(BaseModel):
    """A judge's preferences between two answers after reading both orders.

    Attributes:
        readings: one for each order.
        tokens: tokens read and written for them.
        cost_usd: cost of the judge; ``None`` if its price is unknown.
    """

    model_config = ConfigDict(frozen=True)

    readings: tuple[JudgeReading, ...] = ()
    tokens: int = 0
    cost_usd: float | None = None

    @computed_field  # type: ignore[prop-decorator]  # as pydantic recommends; mypy does not support decorated properties
    @property
    def preferences(self) -> dict[str, Preference]:
        """The preferences in both readings by criterion; "flipped" if the two orders contradict each other."""
        if len(self.readings) != len(_ORDERS):
            return {}
        one, other = (each.preferences for each in self.readings)
        return {name: _agreed(one[name], other[name]) for name in CRITERIA if name in one and name in other}

    @property
    def error(self) -> str:
        """Why there is no overall preference; empty if there is one."""
        return next((each.error for each in self.readings if each.error), "")


_ORDERS: tuple[Literal["one", "other"], ...] = ("one", "other")


def _agreed(one: Choice, other: Choice) -> Preference:
    if one == other:
        return one
    return "tie" if "tie" in (one, other) else "flipped"


async def judge(
    client: AsyncStretto, question: Question, one: str, other: str, criteria: Sequence[str] = CRITERIA
) -> JudgeVerdict:
    """Ask a judge about two answers, in both orders concurrently. Raises errors that would affect every pair."""
    readings: dict[str, JudgeReading] = {}
    costs: list[tuple[int, float | None]] = []
    hopeless: list[StrettoError] = []

    async def read(first: Literal["one", "other"]) -> None:
        texts = (one, other) if first == "one" else (other, one)
        able = client.backends["main"].capabilities
        try:
            answer = await client.ask(
                _messages(question.question, texts, criteria),
                strategy="direct",
                temperature=0.0,
                max_tokens=MOST_TOKENS + (THINKING if able.reasoning else 0),
                response_format=_schema(criteria) if able.json_schema else None,
            )
        except HOPELESS as error:
            hopeless.append(error)
        except StrettoError as error:
            readings[first] = JudgeReading(first=first, error=str(error))
        else:
            text = "" if answer.finish_reason in REFUSALS else answer.text
            readings[first] = reading_of(text, first, criteria)
            costs.append((answer.usage.total_tokens, None if answer.cost is None else answer.cost.usd))

    async with anyio.create_task_group() as tasks:
        for first in _ORDERS:
            tasks.start_soon(read, first)
    if hopeless:
        raise hopeless[0]
    return JudgeVerdict(
        readings=tuple(readings[first] for first in _ORDERS),
        tokens=sum(tokens for tokens, _ in costs),
        cost_usd=total(cost for _, cost in costs),
    )


def _messages(question: str, texts: tuple[str, str], criteria: Sequence[str]) -> tuple[Message, Message]:
    """Return the rules, and the material between unguessable markers, so that no answer can close its own."""
    template = files("stretto.comparing").joinpath("judge.md").read_text("utf-8")
    filled = Template(template).substitute(
        mark=secrets.token_hex(6),
        question=question,
        first=texts[0],
        second=texts[1],
        criteria="\n".join(f"- {name}: {MEANINGS[name]}" for name in criteria),
        form=json.dumps({"why": "...", **dict.fromkeys(criteria, "A, B or tie"), "strength": "clear or slight"}),
    )
    rules, _, material = filled.partition("\n--- user ---\n")
    return Message(role="system", content=rules), Message(role="user", content=material.strip())


def _schema(criteria: Sequence[str]) -> dict[str, Any]:
    """Return the schema of a reply, for servers that enforce one; the reason precedes the verdicts."""
    choices = {name: ["A", "B", "tie"] for name in criteria} | {"strength": ["clear", "slight"]}
    listed = {name: {"type": "string", "enum": values} for name, values in choices.items()}
    names = ["why", *criteria, "strength"]
    properties = {name: listed.get(name, {"type": "string"}) for name in names}
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


def reading_of(text: str, first: Literal["one", "other"], criteria: Sequence[str] = CRITERIA) -> JudgeReading:
    """Parse a judge's reply: JSON, possibly truncated or surrounded by text, or one line per criterion.

    Criteria with contradictory verdicts are left out.
    """
    sides: dict[str, Choice] = {"a": first, "b": "other" if first == "one" else "one"}
    sides |= {"first": sides["a"], "second": sides["b"]}
    choices: dict[str, set[Choice]] = defaultdict(set)
    why = strength = ""
    for name, value in _fields(text):
        if name == "why":
            why = why or value.strip().strip('"')[:LONGEST_WHY]
        elif name == "strength":
            strength = strength or next((each for each in ("clear", "slight") if each in value.casefold()), "")
        elif name in criteria and (choice := _choice(value, sides)):
            choices[name].add(choice)
    preferences = {name: choices[name].pop() for name in criteria if len(choices[name]) == 1}
    quoted = " ".join(text.split())[:LONGEST_QUOTE]
    error = "" if "overall" in preferences else f"The reply names no overall preference: {quoted!r}."
    return JudgeReading.model_validate(
        {"first": first, "preferences": preferences, "strength": strength, "why": why, "error": error}
    )


def _choice(value: str, sides: dict[str, Choice]) -> Choice | None:
    bare = _DECORATION.sub(" ", value.casefold()).strip()
    if _TIE.match(bare):
        return "tie"
    found = _SIDE.match(bare)
    return sides[found["side"]] if found else None


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of a reply by name."""
    values = [read_json(each) for each in json_in(text)]
    entries = [entry for value in values if isinstance(value, dict) for entry in _entries(value)]
    yield from entries or _lines(text)


def _entries(entries: dict[str, Any], within: str = "") -> Iterator[tuple[str, str]]:
    for key, value in entries.items():
        name = _name(key)
        if isinstance(value, dict) and not within:
            yield from _entries(value, name)
        elif isinstance(value, str):
            if within not in CRITERIA:
                yield name, value
            elif name not in ("why", "strength"):  # {"depth": {"verdict": "A", "why": ...}}
                yield within, value
            elif within == "overall":
                yield name, value


def _lines(text: str) -> Iterable[tuple[str, str]]:
    for line in re.split(r"\n|,\s*(?=\")", text):  # truncated JSON may be a single line
        if found := _LINE.match(line[: LONGEST_WHY * 2]):
            yield _name(found["name"]), found["value"]


def _name(key: str) -> str:
    name = "_".join(re.findall(r"[a-z]+", key.casefold()))
    return _OTHER_NAMES.get(name, name)
