"""The straight answer that runs beside an answer in parts: of the two, the one that is there first is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stretto.prompts import SMALL
from stretto.request import Request
from stretto.strategies.branch import RunningBranch
from stretto.strategies.direct import direct_spec
from stretto.strategies.runner import Runner

MOST_COST = 1.3  # of a second call beside a first one, in times of the first one alone
FEWEST_SLOTS = 4


class Rival:
    """The straight answer, started and held back.

    Args:
        request: to answer.
        runner: starts it.
        ended: called when it has ended, in any way.
    """

    def __init__(self, request: Request, runner: Runner, ended: Callable[[], None]) -> None:
        self._runner = runner
        self._warnings: list[str] = []
        self._taken = False
        spec = direct_spec(request, runner, self._tell)
        self.running: RunningBranch = runner.start(replace(spec, on_end=lambda _: ended(), standalone=False, rival=1))

    @property
    def is_whole(self) -> bool:
        """Whether it has ended well."""
        return self.running.branch is not None and self.running.exception is None

    @property
    def failed(self) -> bool:
        """Whether it has ended, and not well."""
        return self.running.branch is not None and self.running.exception is not None

    def take(self) -> None:
        """It is the answer: what it has to warn of counts from here on."""
        self._taken = True
        for text in self._warnings:
            self._runner.warn_once(text)

    def _tell(self, text: str) -> None:
        if self._taken:
            self._runner.warn_once(text)
        else:
            self._warnings.append(text)


def is_worth_it(request: Request, runner: Runner) -> bool:
    """Whether a rival bounds what a weak model's outline may cost, and costs little itself.

    A machine that computes everything has its price for each call; where that was not measured, there is no rival.
    """
    able, budget = runner.capabilities, request.budget
    if able.prompt_family != SMALL or able.concurrent_calls < FEWEST_SLOTS or request.n > 1:
        return False
    if budget.max_tokens_total is not None or budget.max_calls is not None:
        return False
    cost = runner.cost_of(2)
    return cost is not None and cost <= MOST_COST
