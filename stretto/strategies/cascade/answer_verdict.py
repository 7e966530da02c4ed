"""Decide whether to accept a smaller model's answer: by its format, log-probabilities, a self-check or a second sample.

The mean log-probability of the tokens costs no call; Gupta et al. (2404.10136) measured it for cascades. Self-checks:
Kadavath et al. (2207.05221). Agreement of samples: Wang et al. (2203.11171).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from stretto.backends.base import Backend, ModelRequest
from stretto.language.echoes import refuses
from stretto.local_engine.pocket import is_unknown
from stretto.strategies.direct import direct_spec, template_messages
from stretto.strategies.quality.words import overlap, words_of
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import PromptTarget
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.structured.bare_json import json_in, read_json
from stretto.strategies.structured.fitting import fit
from stretto.values.answer import REFUSALS
from stretto.values.request import Request

SAME = 0.5  # share of three-word runs that the shorter text has in common with the other
SCHEMA = {
    "type": "object",
    "properties": {"stands": {"type": "boolean"}},
    "required": ["stands"],
    "additionalProperties": False,
}
_CHECK_TOKENS = 16
_CHECK_THINKING = 2_000  # tokens of a reasoning model before it says yes or no
_SAMPLE_TEMPERATURE = 0.7

By = Literal["probability", "check", "agreement"]
"""How the confidence of a model in its answer is measured."""


@dataclass(frozen=True)
class Bound:
    """The lowest accepted score, and where the bound comes from, as the end of a sentence."""

    least: float
    source: str = ""


USUAL: Mapping[By, Bound] = {
    "probability": Bound(-0.5),  # natural logarithm: tokens that the model gave 0.6 on (geometric) average
    "check": Bound(1.0),
    "agreement": Bound(SAME),
}
"""The bounds if nothing was learned; that of probabilities is an assumption."""


@dataclass(frozen=True)
class Sureness:
    """The confidence of a model in its answer.

    Attributes:
        by: how it was measured.
        score: mean log-probability of a token; 1 for a check that says yes, 0 for no; the overlap of two answers, 0 to
            1. ``None``: the answer cannot be accepted.
        reason: the same as half a sentence.
    """

    by: By
    score: float | None
    reason: str

    def verdict(self, bound: Bound) -> tuple[bool, str]:
        """Return whether the answer is accepted, and why, as half a sentence."""
        if self.score is None:
            return False, self.reason
        needed = {
            "probability": f", and {bound.least:g} is needed",
            "check": "" if bound.least > 0 else ", and need not be",
            "agreement": f", and {bound.least:.0%} are needed",
        }[self.by]
        return self.score >= bound.least, f"{self.reason}{needed}{bound.source}"


def usual_way(backend: Backend) -> By:
    """Return the default measure of confidence: the cheapest that the backend can do."""
    able = backend.capabilities
    return "probability" if able.logprobs else "check" if able.json_schema else "agreement"


def can_measure(backend: Backend, by: By) -> bool:
    """Return whether a model's confidence can be measured in this way."""
    able = backend.capabilities
    return {"probability": able.logprobs, "check": able.json_schema, "agreement": True}[by]


class Small:
    """The answer of a smaller model, withheld until it is accepted or rejected.

    Args:
        number: of the model among the smaller ones, from 1.
        by: how its confidence is measured.
        until_s: seconds after the request by which the model has to be done.
    """

    def __init__(
        self,
        role: str,
        backend: Backend,
        request: Request,
        runner: Runner,
        *,
        number: int = 1,
        by: By | None = None,
        until_s: float = math.inf,
    ) -> None:
        self.backend = backend
        self.by: By = by or usual_way(backend)
        self._request, self._runner = request, runner
        spec = direct_spec(request, runner)
        options = request.options
        if self.by == "probability" and options.logprobs is None:
            options = options.model_copy(update={"logprobs": 0})
        self._spec = replace(
            spec,
            id=role,
            label=f"The answer of {backend.name}",
            options=options,
            backend=backend,
            fallback_prompt=lambda *_: None,  # if it fails, a larger model answers
            standalone=False,
            version=number,
            deadline_s=until_s,
        )
        self.running = runner.start(self._spec)
        self.running.withhold()
        self._second: RunningBranch | None = None
        self._check: RunningBranch | None = None
        if self.by == "agreement":
            self._second = self._sampled()

    def cancel(self, reason: str) -> None:
        for running in self._calls():
            running.cancel(reason)

    def drop(self, reason: str) -> None:
        for running in self._calls():
            running.drop(reason)

    def _calls(self) -> list[RunningBranch]:
        return [running for running in (self.running, self._second, self._check) if running is not None]

    @property
    def is_whole(self) -> bool:
        """Whether the model wrote an answer, good or bad."""
        return self.running.branch is not None and self.running.exception is None and bool(self.running.text.strip())

    def keep(self) -> None:
        """Keep the answer, and count what was only written to judge it as discarded."""
        for running in self._calls()[1:]:
            running.drop("it served to judge the answer")
        running = self.running
        if self._request.options.logprobs is None and running.branch is not None:
            running.logprobs.clear()
            running.branch = running.branch.model_copy(update={"logprobs": ()})

    async def sureness(self) -> Sureness:
        """Wait for the answer, and return the model's confidence in it."""
        running = self.running
        await running.ended()
        if why := self._of_no_use():
            return self._cannot(why)
        if self.by == "probability" and running.logprobs:
            mean = sum(each.logprob for each in running.logprobs) / len(running.logprobs)
            return Sureness("probability", mean, f"the mean log-probability of its tokens is {mean:.2f}")
        if self.by != "agreement" and self.backend.capabilities.json_schema:
            return await self._checked()
        self._second = self._second or self._sampled()
        return await self._agreed(self._second)

    def _of_no_use(self) -> str:
        """Return why its answer is rejected whatever the confidence; empty if it is not."""
        running, options = self.running, self._request.options
        if running.exception is not None:
            return f"it failed: {str(running.exception).rstrip('.')}"
        if not running.text.strip():
            return f"it wrote nothing{' within max_tokens' if running.finish_reason == 'length' else ''}"
        if running.finish_reason in REFUSALS or refuses(running.text) or is_unknown(running.text):
            return "it refused"
        if running.finish_reason == "length" and options.max_tokens is None:
            return "it was cut by the limit of its model"
        if options.response_format is not None and (wrong := fit(running.text, options).wrong):
            return f"its answer does not fit response_format: {wrong}"
        return ""

    def _cannot(self, why: str, by: By | None = None) -> Sureness:
        return Sureness(by or self.by, None, why)

    async def _checked(self) -> Sureness:
        """Ask the model to judge its answer, constrained by a schema."""
        runner, text = self._runner, self.running.text

        def prompt(target: PromptTarget) -> ModelRequest:
            messages = template_messages(self._request, target, "cascade_check", received=text)
            return ModelRequest(messages, effort="low", response_schema=SCHEMA, in_words=())

        room = _CHECK_TOKENS + (_CHECK_THINKING if self.backend.capabilities.reasoning else 0)
        drawn = {"max_tokens": room, "temperature": 0.0, "top_p": None, "stop": (), "logprobs": None}
        spec = replace(
            self._spec,
            id=f"{self._spec.id}-check",
            kind="judgement",
            label=f"The check of {self.backend.name}",
            prompt=prompt,
            options=self._request.options.model_copy(update=drawn | {"response_format": None}),
            watch=None,
        )
        self._check = running = runner.start(spec)
        await running.ended()
        if running.exception is not None:
            return self._cannot(f"its check failed: {str(running.exception).rstrip('.')}", "check")
        verdicts = [each for each in map(_confirmed, json_in(running.text)) if each is not None]
        if len(set(verdicts)) != 1:
            return self._cannot("its check says neither yes nor no", "check")
        return Sureness("check", float(verdicts[0]), f"it is {'' if verdicts[0] else 'not '}sure of its answer")

    def _sampled(self) -> RunningBranch:
        """Start a second sample for the same prompt."""
        options = self._request.options
        seed = None if options.seed is None else options.seed + 1
        warmer = max(_SAMPLE_TEMPERATURE, options.temperature or 0.0)
        spec = replace(
            self._spec,
            id=f"{self._spec.id}-again",
            kind="judgement",
            label=f"The second answer of {self.backend.name}",
            options=options.model_copy(update={"temperature": warmer, "seed": seed, "logprobs": None}),
        )
        running = self._runner.start(spec)
        running.withhold()
        return running

    async def _agreed(self, second: RunningBranch) -> Sureness:
        """Measure whether a second answer says the same."""
        await second.ended()
        if second.exception is not None:
            return self._cannot(f"its second answer failed: {str(second.exception).rstrip('.')}", "agreement")
        shared = agreement(self.running.text, second.text, self._request.question)
        return Sureness("agreement", shared, f"two answers of it have {shared:.0%} in common")


def agreement(one: str, other: str, question: str = "") -> float:
    """Return how much two answers overlap in words, 0 to 1; short ones either agree or do not."""
    if words_of(one) == words_of(other):
        return 1.0
    return overlap(one, other, question)


def _confirmed(text: str) -> bool | None:
    """Return what a check says; ``None`` if it is malformed."""
    try:
        value = read_json(text)
    except (ValueError, RecursionError):
        return None
    confirmed = value.get("stands") if isinstance(value, dict) else None
    return confirmed if isinstance(confirmed, bool) else None
