"""Branches for items, groups of items and samples: prompts, token limits, and the second prompt after a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from stretto.backends.base import ModelRequest
from stretto.language.folding import fold
from stretto.language.forms import words_wanted
from stretto.language.lists import listed
from stretto.request import Request
from stretto.strategies.branch import RunningBranch
from stretto.strategies.branch_spec import NOT_TEXT, BranchSpec, TextWatch
from stretto.strategies.direct import asked
from stretto.strategies.limits import ROOM, THINKING, TOKENS_PER_WORD, share_of
from stretto.strategies.runner import Runner

TITLE = 60  # characters
SHORTEST = 300  # tokens of an entry if the request names no length

_LONG_ENTRY = listed("long-entry")


@dataclass
class Calls:
    """Starts the branches of one request; all share its system prompt, history and documents."""

    request: Request
    runner: Runner
    effort: Literal["low"] | None = field(init=False)

    def __post_init__(self) -> None:
        self.effort = None if self.request.preference == "careful" else "low"

    @property
    def most(self) -> int:
        """Number of calls that may run in parallel within the budget."""
        slots = self.runner.capabilities.concurrent_calls
        budget = self.request.budget.max_calls
        return slots if budget is None else min(slots, budget)

    def start(self, name: str, kind: str, template: str, **given: Any) -> RunningBranch:
        """Start a branch from a template; the arguments are those of `spec`."""
        return self.runner.start(self.spec(name, kind, template, **given))

    def spec(
        self,
        name: str,
        kind: str,
        template: str,
        *,
        title: str = "",
        plainly: str = "",
        room: int = SHORTEST,
        parts: int = 1,
        schema: Mapping[str, Any] | None = None,
        watch: Callable[[], TextWatch] | None = None,
        **values: str,
    ) -> BranchSpec:
        """The branch that is written from a template.

        ``plainly``: the same request without the template, for the retry after a failure. ``room``: token limit.
        ``parts``: how many calls share ``max_tokens``. ``watch``: judges the text of each try.
        """
        room += THINKING if self.runner.capabilities.reasoning else 0
        most = room if kind in NOT_TEXT else share_of(self.request, room, parts)
        options = self.request.options.model_copy(update={"max_tokens": most, "stop": ()})

        def prompt() -> ModelRequest:
            return ModelRequest(
                asked(self.request, self.runner, template, **values), effort=self.effort, response_schema=schema
            )

        def fallback_prompt(received: str) -> ModelRequest | None:
            if not plainly:
                return None if received.strip() else prompt()
            if received.strip():
                messages = asked(self.request, self.runner, "continue", question=plainly, received=received)
            else:
                messages = asked(self.request, self.runner, "item_alone", question=plainly)
            return ModelRequest(messages, effort=self.effort)

        return BranchSpec(
            id=name,
            kind=kind,
            title=shortened(title),
            prompt=prompt,
            options=options,
            fallback_prompt=fallback_prompt,
            watch=watch,
            allow_refusal=kind == "plan",
        )

    def room(self, instruction: str, text: str = "") -> int:
        """Token limit of one entry: the caller's, else an estimate from the request."""
        if self.request.part_tokens:
            return self.request.part_tokens
        if words := words_wanted(fold(instruction)):
            return max(SHORTEST, int(words * TOKENS_PER_WORD * ROOM))
        return max(SHORTEST, len(text)) * (ROOM if _LONG_ENTRY.search(instruction) else 1)


def evenly(count: int, calls: int) -> list[int]:
    """Distribute ``count`` things evenly over that many calls."""
    return [count // calls + (number < count % calls) for number in range(calls)]


def shortened(text: str) -> str:
    """A text shortened to a title: one line, cut at a word boundary."""
    line = " ".join(text.split())
    return line if len(line) <= TITLE else line[:TITLE].rsplit(" ", 1)[0] + "…"
