"""A judge's preference between two answers, asked in both orders.

The criteria are those that the paper on Skeleton-of-Thought reports (Ning et al. 2023, arXiv 2307.15337): general
quality by itself, and relevance, depth, coherence, diversity, immersion and integrity. A judge prefers what it reads
first more often than it should, so each pair is shown twice, and a preference counts only if both readings agree.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any, Literal

import anyio
from pydantic import BaseModel, ConfigDict

from stretto.client import AsyncStretto
from stretto.comparing.questions import Question
from stretto.errors import StrettoError

CRITERIA = ("general", "relevance", "depth", "coherence", "diversity", "immersion", "integrity")
HALVES = (CRITERIA[:1], CRITERIA[1:])
MEANINGS = {
    "general": "which answer helps the person who asked more, all in all",
    "relevance": "keeps to what was asked",
    "depth": "gives reasons, details and examples rather than generalities",
    "coherence": "reads as one text: its parts fit together and do not contradict or repeat each other",
    "diversity": "looks at the question from different sides",
    "immersion": "keeps the voice or role that the question asks for",
    "integrity": "is honest and harmless",
}
Preference = Literal["one", "other", "tie"]
MOST_TOKENS = 200  # of a judgement
_SHOWN: Mapping[str, Preference] = {"first": "one", "second": "other", "tie": "tie"}


class Verdict(BaseModel):
    """What a judge prefers, by criterion; a preference that the other order contradicts is a tie.

    Attributes:
        preferences: by criterion; one that the judge did not give in both orders is missing.
        tokens: read and written for it.
        cost_usd: what the judge cost; ``None`` where its price is unknown.
        error: why some are missing.
    """

    model_config = ConfigDict(frozen=True)

    preferences: dict[str, Preference] = {}
    tokens: int = 0
    cost_usd: float | None = None
    error: str = ""


async def judge(
    client: AsyncStretto, question: Question, one: str, other: str, halves: Sequence[tuple[str, ...]] = HALVES
) -> Verdict:
    """Ask a judge about two answers: each half of the criteria, in both orders, at the same time."""
    readings: dict[tuple[int, bool], _Reading] = {}

    async def read(half: int, swapped: bool) -> None:
        texts = (other, one) if swapped else (one, other)
        readings[half, swapped] = await _read(client, question, texts, halves[half])

    async with anyio.create_task_group() as tasks:
        for half in range(len(halves)):
            for swapped in (False, True):
                tasks.start_soon(read, half, swapped)
    preferences: dict[str, Preference] = {}
    for half, criteria in enumerate(halves):
        straight, swapped_back = readings[half, False].found, _swapped(readings[half, True].found)
        for name in criteria:
            if name in straight and name in swapped_back:
                preferences[name] = straight[name] if straight[name] == swapped_back[name] else "tie"
    costs = [each.cost_usd for each in readings.values()]
    return Verdict(
        preferences=preferences,
        tokens=sum(each.tokens for each in readings.values()),
        cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
        error=next((each.error for each in readings.values() if each.error), ""),
    )


class _Reading(BaseModel):
    """What a judge said when it read two answers in one order."""

    found: dict[str, Preference] = {}
    tokens: int = 0
    cost_usd: float | None = None
    error: str = ""


async def _read(
    client: AsyncStretto, question: Question, texts: tuple[str, str], criteria: tuple[str, ...]
) -> _Reading:
    prompt = _prompt(question.question, texts, criteria)
    try:
        answer = await client.ask(
            prompt, strategy="direct", temperature=0.0, max_tokens=MOST_TOKENS, response_format=_schema(criteria)
        )
    except StrettoError as error:
        return _Reading(error=str(error))
    found = _preferences(answer.text, criteria)
    return _Reading(
        found=found,
        tokens=answer.usage.total_tokens,
        cost_usd=None if answer.cost is None else answer.cost.usd,
        error="" if found else "The judge's reply does not have the form that it was asked for.",
    )


def _prompt(question: str, texts: tuple[str, str], criteria: tuple[str, ...]) -> str:
    """The question to the judge. The mark around the texts cannot be guessed, so no answer can close it."""
    template = Template(files("stretto.comparing").joinpath("judge.md").read_text("utf-8"))
    return template.substitute(
        mark=secrets.token_hex(6),
        question=question,
        first=texts[0],
        second=texts[1],
        criteria="\n".join(f"- {name}: {MEANINGS[name]}" for name in criteria),
    )


def _schema(criteria: tuple[str, ...]) -> dict[str, Any]:
    choice = {"type": "string", "enum": list(_SHOWN)}
    return {
        "type": "object",
        "properties": dict.fromkeys(criteria, choice),
        "required": list(criteria),
        "additionalProperties": False,
    }


def _preferences(text: str, criteria: tuple[str, ...]) -> dict[str, Preference]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: _SHOWN[value] for name in criteria if isinstance(value := found.get(name), str) and value in _SHOWN}


def _swapped(found: Mapping[str, Preference]) -> dict[str, Preference]:
    back: Mapping[Preference, Preference] = {"one": "other", "other": "one", "tie": "tie"}
    return {name: back[preference] for name, preference in found.items()}
