"""``cascade``: a small model answers, and a larger one only where that answer does not stand.

After FrugalGPT (Chen et al., 2305.05176). New here: the answer's format is a check; with ``preference="fastest"`` all
models begin at once, and those that are not needed are cancelled; what a smaller model wrote is kept for the case that
no larger one can answer.
"""

from __future__ import annotations

import math
from dataclasses import replace

from stretto.answer import REFUSALS
from stretto.backends.base import Backend
from stretto.errors import InvalidRequestError
from stretto.request import Request
from stretto.route import Forecast, Route
from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.strategies.branch import RunningBranch
from stretto.strategies.cascade.options import CascadeOptions
from stretto.strategies.cascade.standing import Small
from stretto.strategies.direct import Direct, direct_spec, show
from stretto.strategies.needs import check_needs
from stretto.strategies.runner import Runner
from stretto.strategies.strategy_options import options_of

_SHARE = 0.5  # of the time that is left until the deadline, for each smaller model
_MOST_CALLS = 2  # of a smaller model: its answer, and the check of it


class Cascade:
    """Asks the models of a ladder one after the other, until the answer of one stands; chosen by its name only."""

    name = "cascade"
    options = CascadeOptions
    """What ``strategy_options`` may hold."""
    asks_several = True
    """The main model stays the main one, whatever is preferred."""

    def offer(self, case: Case) -> Offer | None:
        """Where it was asked for by name: what it costs at most, with a smaller model as slow as the main one.

        The router never takes it: only the caller knows what a wrong answer costs.
        """
        if case.request.strategy != self.name:
            return None
        alone, most = case.direct_forecast, 1 + _MOST_CALLS
        forecast = Forecast(seconds=alone.seconds * most, tokens=alone.tokens * most, calls=most)
        return Offer(confidence=1.0, reason="", forecast=forecast, eligible=False)

    async def run(self, request: Request, route: Route, runner: Runner) -> None:
        """Show the first answer that stands. Raises `InvalidRequestError` if there is no smaller model."""
        options = options_of(request, CascadeOptions)
        named = (role for role in options.ladder if role in runner.backends)
        ladder = {role: runner.backends[role] for role in named}
        if not ladder:
            raise InvalidRequestError(
                "strategy='cascade' needs a smaller model, and this client has none. Give it one as small=, or leave "
                "strategy out."
            )
        fit, unfit = _fit(request, ladder)
        runner.reason = " ".join(unfit)
        if not fit:
            await Direct().run(request, route, runner)
            return
        runner.strategy = self.name
        await _Cascade(request, runner, fit, options).run()


def _fit(request: Request, ladder: dict[str, Backend]) -> tuple[dict[str, Backend], list[str]]:
    """The models that can do what the request needs, and a sentence for each other one."""
    fit: dict[str, Backend] = {}
    unfit: list[str] = []
    for role, backend in ladder.items():
        try:
            check_needs(request, backend)
            fit[role] = backend
        except InvalidRequestError as error:
            unfit.append(f"{backend.name} was not asked: {error}")
    return fit, unfit


class _Cascade:
    """One run."""

    def __init__(self, request: Request, runner: Runner, ladder: dict[str, Backend], options: CascadeOptions) -> None:
        self.request, self.runner, self.ladder, self.options = request, runner, ladder, options
        self.at_once = request.preference == "fastest"
        self.smalls: list[Small] = []
        self.doubts: list[str] = []
        self.main: RunningBranch | None = None

    async def run(self) -> None:
        if self.at_once:
            while self._affords_next():
                self._start_next()
            self.main = self._start_main()
            self.main.withhold()
        for number in range(len(self.ladder)):
            if number == len(self.smalls):
                if not self._affords_next():
                    break
                self._start_next()
            small = self.smalls[number]
            verdict = await small.verdict(self.options.threshold)
            if self._main_is_whole():
                break
            if verdict.stands:
                await self._show_small(small, verdict.why)
                return
            self.doubts.append(f"{small.backend.name} was asked first, and {verdict.why}.")
        await self._show_main()

    def _affords_next(self) -> bool:
        """Whether there is a next smaller model, and calls for it, its check and the main model."""
        if len(self.smalls) == len(self.ladder):
            return False
        left, backend = self.runner.ledger.calls_left, list(self.ladder.values())[len(self.smalls)]
        needed = 2 if backend.capabilities.logprobs else 3
        started = 2 * len(self.smalls) if self.at_once else 0  # whose calls are not sent yet
        if left is None or left - started >= needed:
            return True
        self.doubts.append(
            f"{backend.name} was not asked: budget max_calls={self.request.budget.max_calls} is too low."
        )
        return False

    def _start_next(self) -> None:
        number, now, deadline = len(self.smalls), self.runner.now_s(), self.request.deadline_s
        role, backend = list(self.ladder.items())[number]
        until_s = math.inf if deadline is None else now + (deadline - now) * _SHARE
        self.smalls.append(Small(role, backend, self.request, self.runner, number=number + 1, until_s=until_s))

    def _start_main(self) -> RunningBranch:
        spec = direct_spec(self.request, self.runner)
        return self.runner.start(
            replace(spec, standalone=False, on_end=lambda _: self._end_lost()) if self.at_once else spec
        )

    def _main_is_whole(self) -> bool:
        main = self.main
        whole = main is not None and main.branch is not None and main.exception is None
        return whole and main is not None and main.finish_reason not in REFUSALS

    def _end_lost(self) -> None:
        """Stop the smaller models once the main one has answered."""
        if self._main_is_whole():
            for small in self.smalls:
                small.cancel("the main model was there first")

    async def _show_small(self, small: Small, why: str) -> None:
        lost = "an answer of a smaller model stands"
        if self.main is not None:
            self.main.drop(lost)
        for other in self.smalls:
            if other is not small:
                other.drop(lost)
        self._tell(f"{small.backend.name} answered: {why}.")
        small.keep()
        await show(self.request, self.runner, small.running)
        await self.runner.merge.finish()

    async def _show_main(self) -> None:
        if self.main is None:
            self.main = self._start_main()
        elif self._main_is_whole() and len(self.doubts) < len(self.smalls):
            self.doubts.append("The main model was there first.")
        self._tell()
        main = await show(self.request, self.runner, self.main)
        left = [each for each in self.smalls if each.is_whole]
        if main.exception is not None and not main.text.strip() and left:
            small = left[-1]
            self.runner.warn(
                f"The answer is that of {small.backend.name}, which does not stand, because the main model failed: "
                f"{main.exception}"
            )
            main.drop("it failed")
            small.keep()
            self.runner.merge.add_branch(small.running)
            self.smalls.remove(small)
        for each in self.smalls:
            each.drop("the main model answered")
        await self.runner.merge.finish()
        self.runner.extra = main.extra

    def _tell(self, said: str = "") -> None:
        self.runner.reason = " ".join(filter(None, (self.runner.reason, *self.doubts, said)))
