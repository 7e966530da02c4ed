"""Branches for items, groups of items and samples: prompts, token limits, and the second prompt after a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from stretto.backends.base import ModelRequest
from stretto.language.folding import fold
from stretto.language.forms import words_wanted
from stretto.language.lists import listed
from stretto.strategies.direct import shared_by_all, template_messages
from stretto.strategies.items.labels import one_of, schema_of
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import NOT_TEXT, BranchSpec, PromptTarget, TextWatch
from stretto.strategies.runtime.parts import ROOM, THINKING, part_options, room_of, share_of, title_from
from stretto.strategies.runtime.runner import Runner
from stretto.values.request import Request

SHORTEST = 300  # tokens of an entry if the request names no length

_LONG_ENTRY = listed("long-entry")


@dataclass
class Calls:
    """Starts the branches of one request; all share its system prompt, history and documents."""

    request: Request
    runner: Runner

    @property
    def most(self) -> int:
        """The number of calls that can run in parallel within the budget."""
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
        labels: Sequence[str] = (),
        **values: str,
    ) -> BranchSpec:
        """Return the spec of a branch from a template.

        ``plainly``: the same request without the template, for the retry after a failure. ``room``: token limit.
        ``parts``: how many calls share ``max_tokens``. ``watch``: checks the text of each try.
        ``labels``: the only allowed texts.
        """
        room += THINKING if self.runner.capabilities.reasoning else 0
        most = room if kind in NOT_TEXT else share_of(self.request, room, parts)
        effort: Literal["low"] | None = None if self.request.preference == "careful" else "low"

        def prompt(target: PromptTarget) -> ModelRequest:
            messages = template_messages(self.request, target, template, **values)
            # The text before the entries, or before the angle of a sample, is the same in all calls of the answer.
            own = next((values[name] for name in ("item", "items", "angle") if values.get(name)), "")
            shared = max(0, messages[-1].content.rfind(own)) if own else shared_by_all(self.request, messages)
            asked_for = ModelRequest(
                messages,
                effort=effort,
                response_schema=schema,
                in_words=(),
                shared=shared if kind != "plan" else 0,
            )
            return _constrained(asked_for, target, labels)

        def fallback_prompt(target: PromptTarget, received: str) -> ModelRequest | None:
            if not plainly:
                return None if received.strip() else prompt(target)
            if received.strip() and not labels:
                messages = template_messages(self.request, target, "continue", question=plainly, received=received)
            else:
                messages = template_messages(self.request, target, "item_alone", question=plainly)
            return _constrained(ModelRequest(messages, effort=effort), target, labels, again=True)

        return BranchSpec(
            id=name,
            kind=kind,
            title=title_from(title),
            prompt=prompt,
            options=part_options(self.request, most),
            fallback_prompt=fallback_prompt,
            watch=watch,
            allow_refusal=kind == "plan",
        )

    def room(self, instruction: str, text: str = "") -> int:
        """Return the token limit of one entry: the caller's, else an estimate from the request."""
        if self.request.part_tokens:
            return self.request.part_tokens
        if words := words_wanted(fold(instruction)):
            return max(SHORTEST, room_of(words))
        return max(SHORTEST, len(text)) * (ROOM if _LONG_ENTRY.search(instruction) else 1)


def _constrained(
    prompt: ModelRequest, target: PromptTarget, labels: Sequence[str], *, again: bool = False
) -> ModelRequest:
    """Return the prompt, constrained to labels if the backend supports it; with a schema only for a retry."""
    if labels and target.capabilities.regex:
        return replace(prompt, response_regex=one_of(labels))
    if labels and again and target.capabilities.json_schema:
        return replace(prompt, response_schema=schema_of(labels), in_words=())
    return prompt


def evenly(count: int, calls: int) -> list[int]:
    """Distribute ``count`` things evenly over ``calls`` calls."""
    return [count // calls + (number < count % calls) for number in range(calls)]
