"""Whether the answer of a smaller model stands: by its format, its probabilities, its own judgement, a second sample.

The mean log-probability of the tokens costs no call; Gupta et al. (2404.10136) measured it for cascades. A model's own
judgement: Kadavath et al. (2207.05221). Agreement of samples: Wang et al. (2203.11171).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stretto.answer import REFUSALS
from stretto.backends.base import Backend, ModelRequest
from stretto.request import Request
from stretto.strategies.bare_json import json_in, read_json
from stretto.strategies.branch import RunningBranch
from stretto.strategies.direct import asked, direct_spec
from stretto.strategies.fitting import fit
from stretto.strategies.harm.overlap import SAME, overlap
from stretto.strategies.harm.words import words_of
from stretto.strategies.runner import Runner

SCHEMA = {
    "type": "object",
    "properties": {"stands": {"type": "boolean"}},
    "required": ["stands"],
    "additionalProperties": False,
}
_CHECK_TOKENS = 16
_CHECK_THINKING = 2_000  # of a reasoning model, before it says yes or no
_SAMPLE_TEMPERATURE = 0.7


@dataclass(frozen=True)
class Verdict:
    """Whether an answer stands, and why, as half a sentence."""

    stands: bool
    why: str


class Small:
    """The answer of a smaller model, withheld until it is known whether it stands.

    Args:
        role: of the model in the client.
        backend: the model.
        request: to answer.
        runner: starts the calls.
        number: of the model among the smaller ones, from 1.
        until_s: seconds after the request at which the model has to be done.
    """

    def __init__(
        self, role: str, backend: Backend, request: Request, runner: Runner, *, number: int, until_s: float
    ) -> None:
        self.backend = backend
        self._request, self._runner = request, runner
        able = backend.capabilities
        self._scored = able.logprobs
        spec = direct_spec(request, runner)
        options = request.options
        if self._scored and options.logprobs is None:
            options = options.model_copy(update={"logprobs": 0})
        self._spec = replace(
            spec,
            id=role,
            label=f"The answer of {backend.name}",
            options=options,
            backend=backend,
            fallback_prompt=lambda _: None,  # where it fails, a larger model answers
            standalone=False,
            rival=number,
            deadline_s=until_s,
        )
        self.running = runner.start(self._spec)
        self.running.withhold()
        self._second: RunningBranch | None = None
        self._check: RunningBranch | None = None
        if not (self._scored or able.json_schema):
            self._second = self._sampled()

    def cancel(self, reason: str) -> None:
        """End what is under way."""
        for running in (self.running, self._second, self._check):
            if running is not None:
                running.cancel(reason)

    def drop(self, reason: str) -> None:
        """Discard everything that was written."""
        for running in (self.running, self._second, self._check):
            if running is not None:
                running.drop(reason)

    @property
    def is_whole(self) -> bool:
        """Whether there is an answer, whatever it is worth."""
        return self.running.branch is not None and self.running.exception is None and bool(self.running.text.strip())

    def keep(self) -> None:
        """The answer is shown: what was only written to judge it counts as discarded."""
        for running in (self._second, self._check):
            if running is not None:
                running.drop("it served to judge the answer")
        running = self.running
        if self._request.options.logprobs is None and running.branch is not None:
            running.logprobs.clear()
            running.branch = running.branch.model_copy(update={"logprobs": ()})

    async def verdict(self, threshold: float) -> Verdict:
        """Wait for the answer, and judge it; ``threshold`` is the least mean log-probability of its tokens."""
        running = self.running
        await running.ended()
        if running.exception is not None:
            return Verdict(False, f"it failed: {str(running.exception).rstrip('.')}")
        if running.finish_reason in REFUSALS:
            return Verdict(False, "it refused")
        if self._request.options.response_format is not None:
            found = fit(running.text, self._request.options)
            if found.wrong:
                return Verdict(False, f"its answer does not fit response_format: {found.wrong}")
        if running.logprobs:
            mean = sum(each.logprob for each in running.logprobs) / len(running.logprobs)
            said = f"the mean log-probability of its tokens is {mean:.2f}, and {threshold:g} is needed"
            return Verdict(mean >= threshold, said)
        if self.backend.capabilities.json_schema:
            return await self._checked()
        self._second = self._second or self._sampled()
        return await self._agreed(self._second)

    async def _checked(self) -> Verdict:
        """Its own judgement, held by a schema."""
        runner, text = self._runner, self.running.text

        def prompt() -> ModelRequest:
            messages = asked(self._request, runner, "cascade_check", received=text)
            return ModelRequest(messages, effort="low", response_schema=SCHEMA)

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
        running.reported = True
        if running.exception is not None:
            return Verdict(False, f"its check failed: {str(running.exception).rstrip('.')}")
        said = [each for each in map(_stands, json_in(running.text)) if each is not None]
        if len(set(said)) != 1:
            return Verdict(False, "its check says neither yes nor no")
        return Verdict(said[0], "it is sure of its answer" if said[0] else "it is not sure of its answer")

    def _sampled(self) -> RunningBranch:
        """A second answer to the same prompt, drawn anew."""
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

    async def _agreed(self, second: RunningBranch) -> Verdict:
        """Whether a second answer says the same."""
        await second.ended()
        second.reported = True
        if second.exception is not None:
            return Verdict(False, f"its second answer failed: {str(second.exception).rstrip('.')}")
        shared = agreement(self.running.text, second.text, self._request.question)
        said = f"two answers of it have {shared:.0%} in common, and {SAME:.0%} are needed"
        return Verdict(shared >= SAME, said)


def agreement(one: str, other: str, question: str = "") -> float:
    """How much two answers say in the same words, 0 to 1; short ones either agree or do not."""
    if words_of(one) == words_of(other):
        return 1.0
    return overlap(one, other, question)


def _stands(text: str) -> bool | None:
    """What a check says; ``None`` where it is not of its form."""
    try:
        said = read_json(text)
    except (ValueError, RecursionError):
        return None
    stands = said.get("stands") if isinstance(said, dict) else None
    return stands if isinstance(stands, bool) else None
