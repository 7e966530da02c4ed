"""The run of a calibration: asks all models of a ladder each question in turn, and learns from the answers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from stretto.abilities.kept import key_of
from stretto.backends.base import ask_servers
from stretto.calibrating.goodness import Goodness, goodness
from stretto.calibrating.measuring import Scored, ask_large, ask_small
from stretto.calibrating.questions import LabelledQuestion
from stretto.calibrating.report import Answered, Calibration
from stretto.calibrating.thresholds import learn_for
from stretto.client.async_client import FORKED, AsyncStretto
from stretto.comparing.bookkeeping import Ledger, Progress, Spending, Steps, total
from stretto.comparing.comparison_questions import named
from stretto.comparing.keeping import Kept
from stretto.comparing.pairwise_judging import OVERALL, JudgeVerdict
from stretto.comparing.pairwise_judging import judge as judged
from stretto.foundation.background import BackgroundLoop
from stretto.strategies.cascade.answer_verdict import By, can_measure, usual_way
from stretto.strategies.cascade.learned import Estimate, Learned, Step, keep_learned
from stretto.strategies.cascade.strategy import CascadeOptions
from stretto.values.errors import InvalidRequestError

GOAL = 0.95
LADDER: tuple[str, ...] = CascadeOptions().ladder


async def calibrate_async(
    questions: Iterable[LabelledQuestion | str],
    client: AsyncStretto,
    *,
    judge: AsyncStretto | None = None,
    goal: float = GOAL,
    by: By | None = None,
    options: Mapping[str, Any] | None = None,
    seed: int | None = 0,
    budget: Spending | None = None,
    keep: str | Path | None = None,
    progress: Progress | None = None,
    remember: bool = True,
) -> Calibration:
    """Learn when to accept answers of a client's smaller models, and save it for ``strategy="cascade"``.

    Args:
        questions: questions of the kind that will be asked.
        client: a client with the large model, and smaller ones as ``small``, or as ``smallest``, ``smaller`` and
            ``small``.
        judge: a client whose model compares longer answers, in both orders.
        goal: share of the answers that should be as good as those of the large model, below 1.
        by: how to measure the confidence of a smaller model: "probability", "check" or "agreement"; the cheapest by
            default.
        options: options for every answer, such as ``max_tokens``.
        seed: seed of the first question, incremented for each further one; ``None`` sends none.
        budget: limits at which the run ends early.
        keep: a file for finished work, from which an interrupted run continues.
        progress: called before every step.
        remember: save the result next to the settings.

    Raises:
        InvalidRequestError: a question or the ``keep`` file is invalid, there is no smaller model, or answers cannot be
            compared.
        AuthenticationError, ModelNotFoundError: no question could be answered.
        OSError: the result cannot be written.
    """
    every = named(questions, LabelledQuestion)
    if not 0 < goal < 1:
        raise InvalidRequestError(f"goal={goal!r} cannot be used: it is a share between 0 and 1, such as 0.95.")
    roles = [role for role in LADDER if role in client.backends]
    if not roles:
        raise InvalidRequestError("There is no smaller model to calibrate. Give the client one, roles={'small': ...}.")
    await ask_servers(client.backends.values())
    ways = {role: by or usual_way(client.backends[role]) for role in roles}
    for role, way in ways.items():
        if not can_measure(client.backends[role], way):
            name = client.backends[role].name
            raise InvalidRequestError(f"The confidence of {name} cannot be measured with by={way!r}. Leave it out.")
    described = {
        "questions": hashlib.sha256("\n".join(each.model_dump_json() for each in every).encode()).hexdigest()[:16],
        "models": {role: f"{key_of(client.backends[role])} by {way}" for role, way in ways.items()}
        | {"main": key_of(client.backends["main"])},
        "options": {name: repr(value) for name, value in sorted((options or {}).items())},
        "seed": seed,
    }
    run = _Run(client, ways, judge, dict(options or {}), Kept(keep, described, Scored, "calibration"))
    ledger, steps = Ledger(budget), Steps(len(every) * (len(roles) + 1), progress)
    answered: list[Answered] = []
    failed, why = 0, ""
    for number, question in enumerate(every):
        if not run.knows(question) and not ledger.allows_another:
            break
        found = await run.answers(question, None if seed is None else seed + number, steps)
        *smaller, main = found
        good = () if main.failed else await run.goodness_of(question, smaller, main)
        billed: list[Scored | JudgeVerdict] = [*found, *run.verdicts_on(question)]
        ledger.add(sum(each.tokens for each in billed), total(each.cost_usd for each in billed))
        if len(good) < len(roles):
            failed += 1
            why = why or next((warning for each in found if each.failed for warning in each.warnings), "")
            continue
        answered.append(Answered(question, tuple(smaller), main, good))
    result = Calibration(
        smaller=tuple(client.backends[role].name for role in roles),
        main=client.backends["main"].name,
        judge=None if judge is None else judge.backends["main"].name,
        goal=goal,
        answered=tuple(answered),
        asked=len(every),
        failed=failed,
        failure=why,
    )
    learned = await anyio.to_thread.run_sync(_learned, result, [*ways.items()], client)
    if learned is not None and remember:
        await anyio.to_thread.run_sync(keep_learned, learned)
    return replace(result, learned=learned)


def calibrate(
    questions: Iterable[LabelledQuestion | str],
    main: str | None = None,
    *,
    small: str,
    judge: str | None = None,
    goal: float = GOAL,
    by: By | None = None,
    options: Mapping[str, Any] | None = None,
    seed: int | None = 0,
    budget: Spending | None = None,
    keep: str | Path | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Calibrate two models in synchronous code; see `calibrate_async`, which also accepts longer ladders."""

    async def run() -> Calibration:
        async with AsyncExitStack() as clients:
            client = await clients.enter_async_context(AsyncStretto(main, roles={"small": small}, fallback=()))
            judging = None if judge is None else await clients.enter_async_context(AsyncStretto(judge))
            return await calibrate_async(
                questions,
                client,
                judge=judging,
                goal=goal,
                by=by,
                options=options,
                seed=seed,
                budget=budget,
                keep=keep,
                progress=progress,
            )

    with closing(BackgroundLoop(FORKED)) as loop:
        return loop.call(run)


class _Run:
    """The clients that answer and judge, and the work done so far."""

    def __init__(
        self,
        client: AsyncStretto,
        ways: Mapping[str, By],
        judge: AsyncStretto | None,
        options: dict[str, Any],
        kept: Kept[Scored],
    ) -> None:
        self._client, self._ways, self._judge, self._options, self._kept = client, ways, judge, options, kept
        self._warm = False

    def knows(self, question: LabelledQuestion) -> bool:
        """Return whether all models have already answered the question."""
        return all((question.id, role) in self._kept.samples for role in (*self._ways, "main"))

    async def answers(self, question: LabelledQuestion, seed: int | None, steps: Steps) -> list[Scored]:
        """Return the answers of each smaller model and the large one, asked one after the other."""
        if not self._warm and not self.knows(question):
            self._warm = True
            hello = LabelledQuestion(question="Hello", id="warm")
            for role in (*self._ways, "main"):  # so that no question includes the loading of a model
                await self._ask(role, hello, {"max_tokens": 1}, None)
        found = []
        for role in (*self._ways, "main"):
            steps.next(f"{question.id} {self._client.backends[role].name}")
            if (question.id, role) not in self._kept.samples:
                self._kept.add_sample(question, role, await self._ask(role, question, self._options, seed))
            found.append(self._kept.samples[question.id, role])
        return found

    async def _ask(self, role: str, question: LabelledQuestion, options: Mapping[str, Any], seed: int | None) -> Scored:
        if role == "main":
            return await ask_large(self._client, question, options, seed)
        return await ask_small(self._client, (role, self._ways[role]), question, options, seed)

    async def goodness_of(
        self, question: LabelledQuestion, smaller: Sequence[Scored], main: Scored
    ) -> tuple[Goodness, ...]:
        """Return whether each smaller answer is as good, without those that the judge left undecided."""
        found = [
            await goodness(
                question, small, main, None if self._judge is None else partial(self._prefers, question, role)
            )
            for role, small in zip(self._ways, smaller, strict=True)
        ]
        return tuple(each for each in found if each is not None)

    def verdicts_on(self, question: LabelledQuestion) -> list[JudgeVerdict]:
        """Return the judge's verdicts on a question."""
        return [verdict for role in self._ways if (verdict := self._kept.verdicts.get(self._key(question, role)))]

    def _key(self, question: LabelledQuestion, role: str) -> str:
        return f"{question.id} {role} {'' if self._judge is None else self._judge.backends['main'].name}"

    async def _prefers(self, question: LabelledQuestion, role: str) -> bool | None:
        """Return whether the judge does not prefer the large model's answer; ``None`` if it names no preference."""
        assert self._judge is not None  # noqa: S101 - the caller has checked; for the type checker
        key, samples = self._key(question, role), self._kept.samples
        if key not in self._kept.verdicts:
            one, other = samples[question.id, role].text, samples[question.id, "main"].text
            verdict = await judged(self._judge, question, one, other, OVERALL)
            if not verdict.preferences:  # asked again when the run continues
                return None
            self._kept.add_verdict(key, verdict)
        return self._kept.verdicts[key].preferences[OVERALL[0]] != "other"


def _learned(result: Calibration, ways: list[tuple[str, By]], client: AsyncStretto) -> Learned | None:
    """Return the result to save; ``None`` if there are too few questions."""
    at_goal = result.at_goal
    if len(result.answered) < result.needed or at_goal is None:
        return None
    thresholds = learn_for(result.goal, result.trials)
    steps = tuple(
        Step(model=key_of(client.backends[role]), by=way, threshold=threshold)
        for (role, way), threshold in zip(ways, thresholds, strict=True)
    )
    agreement, share = (
        Estimate(value=each.value, low=each.ends[0], high=each.ends[1]) for each in (at_goal.agreement, at_goal.share)
    )
    return Learned(
        steps=steps,
        main=key_of(client.backends["main"]),
        learned=date.today(),
        questions=len(result.answered),
        goal=result.goal,
        agreement=agreement,
        share=share,
    )
