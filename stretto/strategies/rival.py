"""The direct answer that runs beside an answer in parts: of the two, the one that is there first is shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import anyio

from stretto.foundation.token_estimates import typical_tokens
from stretto.request import Request
from stretto.strategies.attempts import going_on
from stretto.strategies.branch import RunningBranch
from stretto.strategies.branch_spec import BranchSpec, TextWatch
from stretto.strategies.direct import Direct, direct_spec
from stretto.strategies.harm.watch import Watch
from stretto.strategies.runner import Runner

MOST_COST = 1.3  # of a second call beside a first one, in times of the first one alone
FEWEST_SLOTS = 4
SHORT = 150  # characters of an answer that no points are worth asking for
SHORT_LIST = 300  # characters of a list that is nearly whole by the time it is longer than that
_ENTRY = re.compile(r"\s*(?:\d{1,2}[.)]|[-*•])\s+\S")


class Rival:
    """The direct answer, started and held back.

    Args:
        request: to answer.
        runner: starts it.
        ended: called when it has ended, in any way.
        wanted: points that the question asks for; ``None`` where it leaves that open.
    """

    def __init__(
        self, request: Request, runner: Runner, ended: Callable[[], None], *, wanted: int | None = None
    ) -> None:
        self._request, self._runner, self._wanted = request, runner, wanted
        self._warnings: list[str] = []
        self._taken = False
        self._long = anyio.Event()
        self._ended = ended
        spec = direct_spec(request, runner, self._tell)
        self.running: RunningBranch = runner.start(
            replace(spec, on_end=lambda _: self._end(), watch=lambda: self._watch(spec), standalone=False, rival=1)
        )

    @property
    def is_whole(self) -> bool:
        """Whether it has ended well."""
        return self.running.branch is not None and self.running.exception is None

    @property
    def failed(self) -> bool:
        """Whether it has ended, and not well."""
        return self.running.branch is not None and self.running.exception is not None

    async def is_long(self) -> None:
        """Wait until it is no short answer, or has ended."""
        await self._long.wait()

    async def show(self) -> None:
        """It is the answer: what it has to warn of counts from here on."""
        self._taken = True
        for text in self._warnings:
            self._runner.warn_once(text)
        self._runner.strategy = Direct.name
        self._runner.merge.add_branch(self.running)
        await self._runner.merge.finish()

    async def go_on(self) -> bool:
        """It was stopped, and is the answer after all: show it, and write its rest.

        Returns:
            whether that was done: False where it had failed, and where the model cannot go on from a text that was
            begun, or would leave the log-probabilities of its beginning out.
        """
        begun, spec = self.running.text, direct_spec(self._request, self._runner)
        able = self._runner.capabilities.continues and self._request.options.logprobs is None
        if not (able and self.running.discarded and begun.strip()):
            return False
        if (prompt := going_on(spec.prompt(), begun)) is None:
            return False
        options, most = spec.options, spec.options.max_tokens
        if most is not None:
            options = options.model_copy(update={"max_tokens": max(1, most - typical_tokens(len(begun)))})
        self._runner.strategy = Direct.name
        self._runner.merge.add(begun)
        rest = replace(
            spec,
            prompt=lambda: prompt,
            fallback_prompt=lambda received: spec.fallback_prompt(begun + received),
            options=options,
            allow_empty=True,
        )
        self._runner.merge.add_branch(self._runner.start(rest))
        await self._runner.merge.finish()
        return True

    def _tell(self, text: str) -> None:
        if self._taken:
            self._runner.warn_once(text)
        else:
            self._warnings.append(text)

    def _watch(self, spec: BranchSpec) -> TextWatch:
        return _Length(spec.watch() if spec.watch else Watch(), self._long, self._wanted)

    def _end(self) -> None:
        self._long.set()
        self._ended()


class _Length:
    """Tells once a text is long; else it does what another watch does."""

    def __init__(self, inner: TextWatch, long: anyio.Event, wanted: int | None) -> None:
        self._inner, self._long, self._wanted = inner, long, wanted
        self._begun = ""
        self.fault = ""

    def feed(self, text: str) -> str:
        """See `TextWatch`."""
        if not self._long.is_set():
            self._begun += text
            if len(self._begun) > SHORT and not is_short_list(self._begun, self._wanted):
                self._long.set()
        return self._passed(self._inner.feed(text))

    def finish(self) -> str:
        """See `TextWatch`."""
        return self._passed(self._inner.finish())

    def _passed(self, text: str) -> str:
        self.fault = self._inner.fault
        return text


def is_short_list(text: str, wanted: int | None) -> bool:
    """Whether a text that was begun is a list of so many short lines, of which two are whole: it ends soon."""
    *whole, _ = text.strip().splitlines() or [""]
    lines = [line for line in whole if line.strip()]
    if wanted is None or len(lines) < 2 or not all(map(_ENTRY.match, lines)):
        return False
    return max(len(text), wanted * max(map(len, lines))) <= SHORT_LIST


def may_begin(request: Request) -> bool:
    """Whether a request leaves room for a direct answer that may not be shown."""
    budget = request.budget
    return request.n == 1 and budget.max_tokens_total is None and budget.max_calls is None


def is_worth_it(request: Request, runner: Runner) -> bool:
    """Whether a rival bounds what a weak model's outline may cost, and costs little itself.

    A machine that computes everything has its price for each call; where that was not measured, there is no rival.
    """
    able = runner.capabilities
    if able.concurrent_calls < FEWEST_SLOTS or not may_begin(request):
        return False
    cost = runner.known.cost_of(2)
    return cost is not None and cost <= MOST_COST
