"""Branches for items, groups of items and samples: their prompts, their room, the other way after a failure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from stretto.answer import BranchKind
from stretto.backends.base import Prompt
from stretto.request import Request
from stretto.strategies.branch import BranchSpec, Running
from stretto.strategies.direct import asked
from stretto.strategies.fan_out import FanOut

POCKET = "pocket"  # a family of small models trained on one item at a time; it understands no plan and no group
THINKING = 2_000  # tokens a reasoning model may spend before it writes; they count as answer tokens
TITLE = 60  # characters
TOKENS_PER_WORD = 2.0
ROOM = 3  # an entry may run to this many times the length asked for before it is cut
SHORTEST = 300  # tokens an entry may have where the request says nothing of its length

_WORDS = re.compile(r"\b(\d{1,4})[- ]?(?:words?|wörter[n]?|palabras|mots|parole|palavras|woorden)\b", re.IGNORECASE)
_LONG = re.compile(
    r"\b(?:paragraphs?|essays?|articles?|detailed|in detail|poems?|stories|descriptions?"
    r"|profiles?|e-?mails?|letters?|absätze?|párrafos?|paragraphes?)\b",
    re.IGNORECASE,
)


@dataclass
class Calls:
    """Starts branches for one request; all of them carry its system prompt, history and documents."""

    request: Request
    runner: FanOut
    effort: Literal["low"] | None = field(init=False)

    def __post_init__(self) -> None:
        self.effort = None if self.request.preference == "careful" else "low"

    @property
    def most(self) -> int:
        """Calls that may run side by side, and that the budget allows."""
        slots = max(1, self.runner.capabilities.parallel_slots)
        budget = self.request.budget.max_calls
        return slots if budget is None else min(slots, budget)

    def start(
        self,
        name: str,
        kind: BranchKind,
        template: str,
        *,
        title: str = "",
        plainly: str = "",
        room: int = SHORTEST,
        schema: Mapping[str, Any] | None = None,
        **values: str,
    ) -> Running:
        """Start a branch from a template.

        ``plainly``: the same demand without the template, for a second try after a failure. ``room``: tokens.
        """
        options = self.request.options.model_copy(
            update={"max_tokens": room + (THINKING if self.runner.capabilities.reasoning else 0), "stop": ()}
        )

        def prompt() -> Prompt:
            return Prompt(
                asked(self.request, self.runner, template, **values), effort=self.effort, response_schema=schema
            )

        def another_way(received: str) -> Prompt | None:
            if not plainly:
                return None if received.strip() else prompt()
            if received.strip():
                messages = asked(self.request, self.runner, "continue", question=plainly, received=received)
            else:
                messages = asked(self.request, self.runner, "item_alone", question=plainly)
            return Prompt(messages, effort=self.effort)

        return self.runner.start(
            BranchSpec(
                id=name,
                kind=kind,
                title=shortened(title),
                prompt=prompt,
                options=options,
                another_way=another_way,
                accepts_refusal=kind == "plan",
            )
        )

    def room(self, instruction: str, text: str = "") -> int:
        """Tokens that one entry may have: what the caller allows, else what the request lets expect."""
        if self.request.options.max_tokens:
            return self.request.options.max_tokens
        if found := _WORDS.search(instruction):
            return max(SHORTEST, int(int(found[1]) * TOKENS_PER_WORD * ROOM))
        return max(SHORTEST, len(text)) * (ROOM if _LONG.search(instruction) else 1)


def evenly(count: int, calls: int) -> list[int]:
    """How many of ``count`` things each of so many calls gets."""
    return [count // calls + (number < count % calls) for number in range(calls)]


def shortened(text: str) -> str:
    """A text as a title: on one line, cut at a word."""
    line = " ".join(text.split())
    return line if len(line) <= TITLE else line[:TITLE].rsplit(" ", 1)[0] + "…"
