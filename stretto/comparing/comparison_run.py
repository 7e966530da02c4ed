"""The run of a comparison: every question is asked both ways in turn, so neither side slows down the other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import AsyncExitStack, closing
from pathlib import Path

from stretto.client.async_client import FORKED, AsyncStretto
from stretto.comparing.bookkeeping import Ledger, Progress, Spending, Steps
from stretto.comparing.comparison_questions import Question, named
from stretto.comparing.comparison_report import Comparison, Pair
from stretto.comparing.keeping import Kept
from stretto.comparing.pairwise_judging import judge as judged
from stretto.comparing.question_sampling import Sample, Side, sample
from stretto.foundation.background import BackgroundLoop
from stretto.values.errors import InvalidRequestError, StrettoError


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
        questions: the questions for both sides.
        one: the tested side, for instance with ``strategy="auto"``.
        other: the baseline, for instance with ``strategy="direct"``.
        judge: a client whose model compares both answers blind, in both orders; without one, only code measures.
        seed: seed of the first question, incremented for each further one; ``None`` sends none.
        budget: limits at which the comparison ends early.
        keep: a file for finished work, from which an interrupted comparison continues.
        progress: called before every step.

    Raises:
        InvalidRequestError: a question or the ``keep`` file is invalid, or both sides have the same name.
        AuthenticationError, ModelNotFoundError: no question could be answered.
    """
    every = named(questions)
    if one.name == other.name:
        raise InvalidRequestError(f"Both sides are called {one.name!r}. Give each a name of its own.")
    described = _described(every, one, other, judge, seed)
    kept = Kept(keep, described, Sample)
    steps = Steps(len(every) * (3 if judge else 2), progress)
    ledger = Ledger(budget)
    warm = False
    pairs: list[Pair] = []
    for number, question in enumerate(every):
        known = (question.id, one.name) in kept.samples and (question.id, other.name) in kept.samples
        if not known and not ledger.allows_another:
            break
        if not known and not warm:
            await _warm(one, other)
            warm = True
        order = (one, other) if number % 2 == 0 else (other, one)  # the first to run may find a colder cache
        for side in order:
            steps.next(f"{question.id} {side.name}")
            if (question.id, side.name) not in kept.samples:
                kept.add_sample(
                    question, side.name, await sample(side, question, None if seed is None else seed + number)
                )
        pair = Pair(question, kept.samples[question.id, one.name], kept.samples[question.id, other.name])
        if judge is not None:
            steps.next(f"{question.id} judge")
            verdict = kept.verdicts.get(question.id)
            if pair.differs and verdict is None:
                verdict = await judged(judge, question, pair.one.text, pair.other.text)
                if not verdict.error:  # otherwise asked again when the comparison continues
                    kept.add_verdict(question.id, verdict)
            pair = Pair(question, pair.one, pair.other, verdict)
        ledger.add(pair.tokens, pair.cost_usd)
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
    """Compare two strategies of one model in synchronous code; see `compare_async`, which also accepts two models."""

    async def run() -> Comparison:
        async with AsyncExitStack() as clients:
            client = await clients.enter_async_context(AsyncStretto(model))
            judging = None if judge is None else await clients.enter_async_context(AsyncStretto(judge))
            one, other = (Side(name, client, {"strategy": name}) for name in (strategy, against))
            return await compare_async(
                questions, one, other, judge=judging, seed=seed, budget=budget, keep=keep, progress=progress
            )

    with closing(BackgroundLoop(FORKED)) as loop:
        return loop.call(run)


def _described(
    questions: tuple[Question, ...], one: Side, other: Side, judge: AsyncStretto | None, seed: int | None
) -> dict[str, object]:
    """Return a description of the run that a file of finished work belongs to."""
    texts = "\n".join(each.model_dump_json() for each in questions)
    return {
        "questions": hashlib.sha256(texts.encode()).hexdigest()[:16],
        "sides": {each.name: each.described for each in (one, other)},
        "judge": None if judge is None else judge.backends["main"].name,
        "seed": seed,
    }


async def _warm(*sides: Side) -> None:
    """Load models and open connections, to exclude that from the measured times. Failures show in the questions."""
    clients = {id(side.client): side.client for side in sides}
    for client in clients.values():
        try:
            await client.ask("Hello", strategy="direct", max_tokens=1)
        except StrettoError:
            continue
