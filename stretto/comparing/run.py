"""Asks every question both ways, one after the other, so that neither side slows the other down."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from stretto.client import FORKED, AsyncStretto
from stretto.comparing.judging import judge as judged
from stretto.comparing.keeping import Kept
from stretto.comparing.questions import Question, named
from stretto.comparing.report import Comparison, Pair
from stretto.comparing.sampling import Side, sample
from stretto.errors import InvalidRequestError, StrettoError
from stretto.foundation.background import BackgroundLoop

Progress = Callable[[int, int, str], None]
"""Called with the steps that are done, all steps, and what comes next."""


@dataclass(frozen=True)
class Spending:
    """The most that a comparison may spend, both sides and the judge together; ``None`` is no limit.

    A question whose expected price, that of the dearest question so far, does not fit any more is not begun.

    Attributes:
        tokens: read and written.
        usd: US dollars, for models whose price is known.
    """

    tokens: int | None = None
    usd: float | None = None


async def compare_async(
    questions: Iterable[Question | str],
    one: Side,
    other: Side,
    *,
    judge: AsyncStretto | None = None,
    seed: int | None = 0,
    budget: Spending | None = None,
    keep: str | Path | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare two ways of answering.

    Args:
        questions: to both sides.
        one: the side that is tried, for instance with ``strategy="auto"``.
        other: the side that it is measured against, for instance with ``strategy="direct"``.
        judge: a client whose model says which answer it prefers; without one, code alone measures.
        seed: of the first question; each further question has the next one. ``None`` gives none.
        budget: ends the comparison early.
        keep: a file that holds what is done; a comparison that was interrupted goes on from it.
        progress: called before every step.

    Raises:
        InvalidRequestError: a question or the kept file cannot be used, or both sides have one name.
        AuthenticationError, ModelNotFoundError: no question could be answered.
    """
    every = named(questions)
    if one.name == other.name:
        raise InvalidRequestError(f"Both sides are called {one.name!r}. Give each a name of its own.")
    described = _described(every, one, other, judge, seed)
    kept = Kept(keep, described)
    steps = _Steps(len(every) * (3 if judge else 2), progress or (lambda *_: None))
    ledger = _Ledger(budget or Spending())
    warm = False
    pairs: list[Pair] = []
    for number, question in enumerate(every):
        known = (question.id, one.name) in kept.samples and (question.id, other.name) in kept.samples
        if not known and not ledger.allows_another:
            break
        if not known and not warm:
            await _warm(one, other)
            warm = True
        order = (one, other) if number % 2 == 0 else (other, one)  # what runs first may find a colder cache
        for side in order:
            steps.next(f"{question.id} {side.name}")
            if (question.id, side.name) not in kept.samples:
                kept.add_sample(
                    question, side.name, await sample(side, question, None if seed is None else seed + number)
                )
        pair = Pair(question, kept.samples[question.id, one.name], kept.samples[question.id, other.name])
        if judge is not None:
            steps.next(f"{question.id} judge")
            if pair.differs and question.id not in kept.verdicts:
                kept.add_verdict(question, await judged(judge, question, pair.one.text, pair.other.text))
            pair = Pair(question, pair.one, pair.other, kept.verdicts.get(question.id))
        ledger.add(pair)
        pairs.append(pair)
    return Comparison(
        sides=(one.name, other.name),
        models=(one.described, other.described),
        judge=None if judge is None else judge.backends["main"].name,
        seed=seed,
        pairs=tuple(pairs),
        asked=len(every),
    )


def compare(
    questions: Iterable[Question | str],
    model: str | None = None,
    *,
    strategy: str = "auto",
    against: str = "direct",
    judge: str | None = None,
    seed: int | None = 0,
    budget: Spending | None = None,
    keep: str | Path | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare two strategies of one model in synchronous code; see `compare_async`, which also takes two models."""

    async def run() -> Comparison:
        async with AsyncExitStack() as clients:
            client = await clients.enter_async_context(AsyncStretto(model))
            judging = None if judge is None else await clients.enter_async_context(AsyncStretto(judge))
            one, other = (Side(name, client, {"strategy": name}) for name in (strategy, against))
            return await compare_async(
                questions, one, other, judge=judging, seed=seed, budget=budget, keep=keep, progress=progress
            )

    loop = BackgroundLoop(_nothing, FORKED)
    try:
        return loop.call(run)
    finally:
        loop.close()


async def _nothing() -> None:
    """Each client of a comparison is closed where it was opened."""


def _described(
    questions: tuple[Question, ...], one: Side, other: Side, judge: AsyncStretto | None, seed: int | None
) -> dict[str, object]:
    """What a kept file belongs to."""
    texts = "\n".join(each.model_dump_json() for each in questions)
    return {
        "questions": hashlib.sha256(texts.encode()).hexdigest()[:16],
        "sides": {each.name: each.described for each in (one, other)},
        "judge": None if judge is None else judge.backends["main"].name,
        "seed": seed,
    }


async def _warm(*sides: Side) -> None:
    """Load models and open connections, so that no question pays for it. Failures show in the questions."""
    clients = {id(side.client): side.client for side in sides}
    for client in clients.values():
        try:
            await client.ask("Hello", strategy="direct", max_tokens=1)
        except StrettoError:
            continue


class _Steps:
    def __init__(self, whole: int, progress: Progress) -> None:
        self._done, self._whole, self._progress = 0, whole, progress

    def next(self, doing: str) -> None:
        self._progress(self._done, self._whole, doing)
        self._done += 1


class _Ledger:
    """What was spent, and whether the dearest question so far still fits."""

    def __init__(self, budget: Spending) -> None:
        self._budget = budget
        self._tokens: list[int] = []
        self._usd: list[float] = []

    def add(self, pair: Pair) -> None:
        self._tokens.append(pair.tokens)
        if pair.cost_usd is None and self._budget.usd is not None:
            raise InvalidRequestError(
                "The budget is in US dollars, and the price of a model is unknown. Give a budget in tokens."
            )
        self._usd.append(pair.cost_usd or 0.0)

    @property
    def allows_another(self) -> bool:
        if not self._tokens:
            return True
        tokens, usd = self._budget.tokens, self._budget.usd
        return (tokens is None or sum(self._tokens) + max(self._tokens) <= tokens) and (
            usd is None or sum(self._usd) + max(self._usd) <= usd
        )
