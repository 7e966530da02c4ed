"""``cascade``: a small model answers, and a larger one only if that answer is rejected.

After FrugalGPT (Chen et al., 2305.05176). New here: the answer's format is a check; with ``preference="fastest"`` all
models begin at once, and those that are not needed are cancelled; a smaller model's answer is kept in case no larger
one can answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from stretto.backends.base import Backend
from stretto.router.affordable import cost_of, sum_of
from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.strategies.base import StrategyResult
from stretto.strategies.cascade.answer_verdict import USUAL, Bound, By, Small, can_measure, usual_way
from stretto.strategies.cascade.learned import Learned, learned_for
from stretto.strategies.direct import Direct, direct_spec, show
from stretto.strategies.items import Items
from stretto.strategies.items.items_offer import items_forecast
from stretto.strategies.runtime.branch import BranchWriter, Outcome, RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec
from stretto.strategies.runtime.fallback import check_needs
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.skeleton import Skeleton
from stretto.strategies.skeleton.skeleton_offer import forecast_of as skeleton_forecast_of
from stretto.strategies.strategy_options import options_of
from stretto.values.answer import REFUSALS
from stretto.values.errors import InvalidRequestError
from stretto.values.request import Request
from stretto.values.route import Forecast, Route

_SHARE = 0.5  # of the time left until the deadline, for each smaller model
_MOST_CALLS = 2  # of a smaller model: its answer, and the check of it
_PARTS = ("section", "item")  # kinds of branches that a smaller model writes first
LogProbability = Annotated[float, Field(le=0)]


class CascadeOptions(BaseModel):
    """Options of ``cascade``.

    Attributes:
        ladder: roles of the models that answer before the main one, smallest first. Those that the client does not have
            are left out.
        threshold: lowest mean log-probability of the tokens of an accepted answer, if its model reports any; one for
            all models, or one by role. By default what `stretto calibrate` learned for these models, or else -0.5.
        by: how a model's confidence is measured: by the log-probabilities of its tokens ("probability"), by asking it
            to judge its answer ("check"), or by a second answer ("agreement"). By default what was learned, or else the
            first of these that the model can do.
        parts: "skeleton" or "items": the answer is written in points or items, each by a cascade. Only the
            log-probabilities of the last model of the ladder decide.
        hand_on: a local main model drafts from the last rejected answer, and verifies every token. Its answer stays the
            same, but comes sooner if both models write alike, as two of one family do.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ladder: tuple[str, ...] = ("smallest", "smaller", "small")
    threshold: LogProbability | Mapping[str, LogProbability] | None = None
    by: By | None = None
    parts: Literal["skeleton", "items"] | None = None
    hand_on: bool = False

    @model_validator(mode="after")
    def _roles(self) -> CascadeOptions:
        if isinstance(self.threshold, Mapping) and (unknown := [*self.threshold.keys() - set(self.ladder)]):
            raise ValueError(
                f"threshold names {unknown[0]!r}, which is no role of the ladder ({', '.join(self.ladder)})"
            )
        return self

    def threshold_of(self, role: str) -> float | None:
        return self.threshold.get(role) if isinstance(self.threshold, Mapping) else self.threshold


class Cascade:
    """Asks the models of a ladder one after the other until an answer is accepted; used by name only."""

    name = "cascade"
    options = CascadeOptions
    asks_several = True
    """Whether the strategy asks multiple models; the main one then stays the main one, whatever the preference."""

    def offer(self, case: Case) -> Offer | None:
        """Offer it at its highest cost if it was asked for by name, with smaller models as slow as the main one.

        The router never chooses it: only the caller knows what a wrong answer costs.
        """
        if case.request.strategy != self.name:
            return None
        options = options_of(case.request, CascadeOptions)
        ladder = [case.backends[role] for role in options.ladder if role in case.backends]
        if options.parts is not None and ladder:
            return _offer_of_parts(case, options.parts, ladder[-1])
        alone, most = case.direct_forecast, 1 + _MOST_CALLS * (len(ladder) or 1)
        read, written = case.prompt_tokens, case.answer_tokens
        costs = [cost_of(case, case.backend, read=read, written=written, calls=1)]
        costs += [
            cost_of(case, each, read=_MOST_CALLS * read, written=_MOST_CALLS * written, calls=_MOST_CALLS)
            for each in ladder
        ]
        total_s = round(alone.seconds * most, 2)
        forecast = Forecast(seconds=total_s, tokens=alone.tokens * most, calls=most, cost=sum_of(costs))
        return Offer(confidence=1.0, reason="", forecast=forecast, eligible=False)

    async def run(self, request: Request, route: Route, runner: Runner) -> StrategyResult:
        """Show the first accepted answer. Raises `InvalidRequestError` if there is no smaller model."""
        options = options_of(request, CascadeOptions)
        named = (role for role in options.ladder if role in runner.backends)
        ladder = {role: runner.backends[role] for role in named}
        if not ladder:
            raise InvalidRequestError(
                "strategy='cascade' needs a smaller model, and this client has none. Give it one, "
                "roles={'small': ...}, or leave strategy out."
            )
        steps, unfit = _steps(request, ladder, runner.backends["main"], options)
        if not steps:
            result = await Direct().run(request, route, runner)
        elif options.parts is not None:
            result = await _in_parts(request, route, runner, steps[-1], options.parts)
        else:
            result = await _Cascade(request, runner, steps, hand_on=options.hand_on).run()
        return replace(result, reason=" ".join(filter(None, (*unfit, result.reason))))


def _offer_of_parts(case: Case, strategy: str, small: Backend) -> Offer:
    """Offer an answer in parts at its highest cost: the main model and the smaller one both write all of it."""
    if strategy == "skeleton":
        once = skeleton_forecast_of(case)
    else:
        once = items_forecast(case.speed, case.prompt_tokens, case.answer_tokens, max(2, case.items))
    parts = once.calls - 1 if strategy == "skeleton" else once.calls  # the main model writes the outline
    written = once.written or 0
    costs = [
        cost_of(case, each, read=once.tokens - written, written=written, calls=calls)
        for each, calls in ((case.backend, once.calls), (small, parts))
    ]
    total_s = round(2 * once.seconds, 2)  # the models write a part one after the other
    forecast = Forecast(seconds=total_s, tokens=2 * once.tokens, calls=once.calls + parts, cost=sum_of(costs))
    return Offer(confidence=1.0, reason="", forecast=forecast, eligible=False)


async def _in_parts(request: Request, route: Route, runner: Runner, step: _Step, strategy: str) -> StrategyResult:
    """Write the answer in parts, each by a cascade. Raises `InvalidRequestError` without log-probabilities."""
    if not can_measure(step.backend, "probability"):
        raise InvalidRequestError(
            f"strategy_options= holds parts={strategy!r}, and {step.backend.name} reports no log-probabilities, which "
            "decide whether a part is accepted. Leave parts out, or give another model as roles={'small': ...}."
        )
    if request.options.response_format is not None:
        raise InvalidRequestError("response_format holds an answer as a whole. Leave parts or the format out.")
    parts = _PartsFirst(runner, step.role, step.backend, step.bounds["probability"])
    runner.before = parts.before
    request = request.model_copy(update={"strategy_options": {}})  # these are the cascade's
    result = await (Skeleton() if strategy == "skeleton" else Items()).run(request, route, runner)
    return replace(result, reason=" ".join(filter(None, (result.reason, parts.summary))))


@dataclass(frozen=True)
class _Step:
    """A smaller model, and the score at which its answer is accepted."""

    role: str
    backend: Backend
    by: By
    bounds: Mapping[By, Bound]
    """The bound of `by`, and those for a server that unexpectedly reports no log-probabilities."""


def _steps(
    request: Request, ladder: dict[str, Backend], main: Backend, options: CascadeOptions
) -> tuple[list[_Step], list[str]]:
    """Return the models to ask, and a sentence for each of the others."""
    steps: list[_Step] = []
    unfit: list[str] = []
    together = learned_for([*ladder.values()], main)
    for place, (role, backend) in enumerate(ladder.items()):
        learned, at = (together, place) if together is not None else (learned_for([backend], main), 0)
        try:
            check_needs(request, backend)
            steps.append(_step(role, backend, options, learned, at))
        except InvalidRequestError as error:
            unfit.append(f"{backend.name} was not asked: {error}")
    return steps, unfit


def _step(role: str, backend: Backend, options: CascadeOptions, learned: Learned | None, place: int) -> _Step:
    """Return how to judge a model's answer: as the caller says, or else as learned, or else by default.

    Raises `InvalidRequestError` if it need not be asked, or its confidence cannot be measured.
    """
    named = options.threshold_of(role)
    if named is None and learned is not None:
        by = learned.steps[place].by
        if options.by in (None, by) and can_measure(backend, by):
            bound = learned.bound(place)
            if bound is None:
                raise InvalidRequestError(f"it does not pay{learned.source}.")
            return _Step(role, backend, by, {**USUAL, by: bound})
    if options.by is not None and not can_measure(backend, options.by):
        raise InvalidRequestError(f"its confidence cannot be measured with by={options.by!r}.")
    bounds = USUAL if named is None else {**USUAL, "probability": Bound(named)}
    return _Step(role, backend, options.by or usual_way(backend), bounds)


class _Cascade:
    def __init__(self, request: Request, runner: Runner, steps: list[_Step], *, hand_on: bool) -> None:
        self.request, self.runner, self.steps, self.hand_on = request, runner, steps, hand_on
        self.at_once = request.preference == "fastest"
        self.smalls: list[Small] = []
        self.doubts: list[str] = []
        self.main: RunningBranch | None = None

    async def run(self) -> StrategyResult:
        if self.at_once:
            while self._affords_next():
                self._start_next()
            self.main = self._start_main()
            self.main.withhold()
        for number, step in enumerate(self.steps):
            if number == len(self.smalls):
                if not self._affords_next():
                    break
                self._start_next()
            small = self.smalls[number]
            sureness = await small.sureness()
            accepted, why = sureness.verdict(step.bounds[sureness.by])
            if self._main_is_whole():
                break
            if accepted:
                return await self._show_small(small, why)
            self.doubts.append(f"{small.backend.name} was asked {'next' if number else 'first'}, and {why}.")
        return await self._show_main()

    def _affords_next(self) -> bool:
        """Return whether there is a next smaller model, and budget for it, its check and the main model."""
        if len(self.smalls) == len(self.steps):
            return False
        left, step = self.runner.ledger.calls_left, self.steps[len(self.smalls)]
        needed = 2 if step.by == "probability" else 3
        started = 2 * len(self.smalls) if self.at_once else 0  # their calls are not sent yet
        if left is None or left - started >= needed:
            return True
        self.doubts.append(
            f"{step.backend.name} was not asked: budget max_calls={self.request.budget.max_calls} is too low."
        )
        return False

    def _start_next(self) -> None:
        number, now, deadline = len(self.smalls), self.runner.now_s(), self.request.deadline_s
        step = self.steps[number]
        until_s = math.inf if deadline is None else now + (deadline - now) * _SHARE
        small = Small(
            step.role, step.backend, self.request, self.runner, number=number + 1, by=step.by, until_s=until_s
        )
        self.smalls.append(small)

    def _start_main(self) -> RunningBranch:
        spec = direct_spec(self.request, self.runner)
        if self.at_once:
            return self.runner.start(replace(spec, standalone=False, on_end=lambda _: self._end_lost()))
        return self.runner.start(self._drafted(spec))

    def _drafted(self, spec: BranchSpec) -> BranchSpec:
        """Return the spec with drafts from the last rejected answer, if that is wanted and the main model can."""
        written = [small.running.text for small in self.smalls if small.is_whole]
        if not (self.hand_on and written and "auto" in self.runner.capabilities.decodings):
            return spec
        return replace(
            spec,
            prompt=lambda target: replace(spec.prompt(target), draft=written[-1]),
            options=spec.options.model_copy(update={"decoding": "auto"}),
        )

    def _main_is_whole(self) -> bool:
        main = self.main
        if main is None or main.branch is None or main.exception is not None:
            return False
        return main.finish_reason not in REFUSALS

    def _end_lost(self) -> None:
        """Stop the smaller models once the main one has answered."""
        if self._main_is_whole():
            for small in self.smalls:
                small.cancel("the main model was there first")

    async def _show_small(self, small: Small, why: str) -> StrategyResult:
        lost = "an answer of a smaller model was accepted"
        if self.main is not None:
            self.main.drop(lost)
        for other in self.smalls:
            if other is not small:
                other.drop(lost)
        small.keep()
        _, parsed = await show(self.request, self.runner, small.running)
        await self.runner.merge.finish()
        reason = " ".join((*self.doubts, f"{small.backend.name} answered: {why}."))
        return StrategyResult(strategy=Cascade.name, reason=reason, parsed=parsed)

    async def _show_main(self) -> StrategyResult:
        if self.main is None:
            self.main = self._start_main()
        elif self._main_is_whole() and len(self.doubts) < len(self.smalls):
            self.doubts.append("The main model was there first.")
        main, parsed = await show(self.request, self.runner, self.main)
        left = [each for each in self.smalls if each.is_whole]
        if main.exception is not None and not main.text.strip() and left:
            small = left[-1]
            self.runner.warn(
                f"The answer is the rejected one of {small.backend.name}, because the main model failed: "
                f"{main.exception}",
                "fallback",
            )
            main.drop("it failed")
            small.keep()
            self.runner.merge.add_branch(small.running)
            self.smalls.remove(small)
        for each in self.smalls:
            each.drop("the main model answered")
        await self.runner.merge.finish()
        return StrategyResult(
            strategy=Cascade.name, reason=" ".join(self.doubts), parsed=parsed, extra=main.metadata.extra
        )


class _PartsFirst:
    """Has a smaller model write each part of an answer first.

    Only log-probabilities decide here whether a part is accepted: a check or a second text for each part would cost the
    calls that the smaller model saves.

    Args:
        bound: lowest mean log-probability of the tokens of an accepted part.
    """

    def __init__(self, runner: Runner, role: str, backend: Backend, bound: Bound) -> None:
        self._runner, self._role, self._backend, self._bound = runner, role, backend, bound
        self._accepted: list[bool] = []

    @property
    def summary(self) -> str:
        """The outcome of the parts, as a sentence; empty if there were none."""
        if not self._accepted:
            return ""
        needed = f"a mean log-probability of {self._bound.least:g} was needed{self._bound.source}"
        return f"{self._backend.name} wrote {sum(self._accepted)} of {len(self._accepted)} parts: {needed}."

    def before(self, spec: BranchSpec) -> BranchSpec:
        """Return the spec, changed to take the smaller model's text if that is accepted."""
        if spec.kind not in _PARTS or spec.backend is not None:
            return spec
        trial = self._runner.start(
            replace(
                spec,
                id=f"{spec.id}-{self._role}",
                kind="trial",
                options=spec.options.model_copy(update={"logprobs": spec.options.logprobs or 0, "decoding": None}),
                fallback_prompt=lambda *_: None,
                on_end=lambda _: None,
                backend=self._backend,
            )
        )
        trial.withhold()
        trial.use, trial.reported = "dropped", True  # its text is shown as that of the part, if at all
        return replace(spec, after=(*spec.after, trial), written=lambda running: self._takes(running, trial))

    def _takes(self, running: RunningBranch, trial: RunningBranch) -> bool:
        """Return whether the smaller model's text is accepted, after writing it into the part."""
        text, scores = trial.text, trial.logprobs
        whole = trial.exception is None and trial.finish_reason not in (*REFUSALS, "length") and bool(text.strip())
        mean = sum(each.logprob for each in scores) / len(scores) if scores else None
        accepted = whole and mean is not None and mean >= self._bound.least
        self._accepted.append(accepted)
        if accepted:
            running.writers.append(BranchWriter(self._backend))
            running.outcome = Outcome(trial.finish_reason)
            running.write(text, self._runner.now_s())
        else:
            trial.drop("it was not accepted")
        return accepted
