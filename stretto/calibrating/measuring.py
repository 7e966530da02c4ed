"""Asking one model of the ladder one question, as the cascade would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stretto.calibrating.questions import LabelledQuestion
from stretto.client.async_client import AsyncStretto
from stretto.comparing import Sample, Side
from stretto.comparing.question_sampling import sample
from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.strategies.base import StrategyResult
from stretto.strategies.cascade.answer_verdict import By, Small, Sureness
from stretto.strategies.runtime.runner import Runner
from stretto.values.errors import InvalidRequestError
from stretto.values.request import Request
from stretto.values.route import Route


class Scored(Sample):
    """The answer of one model, and its confidence.

    Attributes:
        by: how the confidence was measured; ``None`` for the large model, which has none.
        score: see `Sureness`; ``None`` if the answer cannot be accepted.
    """

    by: By | None = None
    score: float | None = None


class _Asking:
    """A strategy that lets one smaller model answer, and measures its confidence."""

    name = "calibrate"
    asks_several = True
    writes_whole = True
    """Allows answers with a format."""

    def __init__(self, role: str, by: By) -> None:
        self._role, self._by = role, by
        self.sureness: Sureness | None = None

    def offer(self, case: Case) -> Offer | None:  # noqa: ARG002 - it is requested by name
        return None

    async def run(self, request: Request, route: Route, runner: Runner) -> StrategyResult:  # noqa: ARG002 - every strategy gets its route
        small = Small(self._role, runner.backends[self._role], request, runner, by=self._by)
        self.sureness = await small.sureness()
        small.keep()
        runner.merge.add_branch(small.running)
        await runner.merge.finish()
        return StrategyResult(strategy=self.name)


async def ask_small(
    client: AsyncStretto,
    model: tuple[str, By],
    question: LabelledQuestion,
    options: Mapping[str, Any],
    seed: int | None,
) -> Scored:
    """Return the scored answer of a smaller model, given by its role and its measure of confidence.

    A failed answer has no score; see `sample` for what is raised.
    """
    role, by = model
    asking = _Asking(role, by)
    found = await sample(Side(role, client, _options(question, options) | {"strategy": asking}), question, seed)
    sureness = asking.sureness
    score = None if sureness is None or found.failed else sureness.score
    if sureness is not None and score is not None and sureness.by != by:
        raise InvalidRequestError(
            f"{client.backends[role].name} reported no log-probabilities, although its server can. "
            f"Name by={sureness.by!r}."
        )
    return Scored(**found.model_dump(), by=by, score=score)


async def ask_large(
    client: AsyncStretto, question: LabelledQuestion, options: Mapping[str, Any], seed: int | None
) -> Scored:
    """Return the direct answer of the large model."""
    found = await sample(Side("main", client, _options(question, options) | {"strategy": "direct"}), question, seed)
    return Scored(**found.model_dump())


def _options(question: LabelledQuestion, options: Mapping[str, Any]) -> dict[str, Any]:
    form = {} if question.response_format is None else {"response_format": question.response_format}
    return {**options, **form}
