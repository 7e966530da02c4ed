"""One run of ``consensus``: count the votes as samples end, cancel the rest, and show the winner."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from stretto.backends.base import Backend, ModelRequest
from stretto.language.echoes import refuses
from stretto.strategies.base import StrategyResult
from stretto.strategies.consensus.ballots import Ballot, VoteReader, of_value
from stretto.strategies.consensus.consensus_options import JUDGE_TOKENS, ConsensusOptions
from stretto.strategies.consensus.samples import Sample, mean_of, most_samples, start_samples
from stretto.strategies.consensus.stopping import Tally, confident, decided, posterior
from stretto.strategies.quality.words import medoid
from stretto.strategies.runtime.branch_spec import BranchSpec
from stretto.strategies.runtime.fencing import numbered
from stretto.strategies.runtime.parts import THINKING
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.runtime.several import backend_for
from stretto.strategies.runtime.shortfall import cut
from stretto.strategies.strategy_options import options_of
from stretto.strategies.structured.fitting import fit
from stretto.strategies.structured.in_form import warn_of_misfit
from stretto.values.answer import REFUSALS, Agreement, Decided
from stretto.values.errors import BackendError, InvalidRequestError, StrettoError
from stretto.values.generation_options import GenerationOptions
from stretto.values.request import Request

NEEDLESS = "it was not needed any more: the vote was decided without it"


async def write_consensus(request: Request, runner: Runner) -> StrategyResult:
    """Write samples until the vote is decided, and show the winner. Raises `StrettoError` if all fail."""
    options = options_of(request, ConsensusOptions)
    if options.rule == "confidence" and not runner.capabilities.logprobs:
        raise InvalidRequestError(
            f"strategy_options= holds rule='confidence', and {runner.model} reports no log-probabilities. Leave it out."
        )
    number = most_samples(request, options.samples, other_calls=options.judge is not None)
    if number < options.samples:
        runner.warn(f"The budget leaves {number} of {options.samples} samples.", "budget")
    if request.options.temperature == 0:
        runner.warn("temperature=0 makes all samples alike: leave it out, or ask with strategy='direct'.", "option")
    return await _Vote(request, runner, options, number).run()


class _Vote:
    """The vote of one answer's samples.

    Attributes:
        voters: samples with a vote, in the order in which they were counted.
    """

    def __init__(self, request: Request, runner: Runner, options: ConsensusOptions, number: int) -> None:
        self.request, self.runner, self.options = request, runner, options
        self._judge = None if options.judge is None else backend_for(runner, options.judge, "judge")
        self._reading = VoteReader(request.question, runner.language, options.compare, options.choices)
        self.voters: list[Sample] = []
        self._tally = Tally(number, self._decided, self._cancel)
        self._ended: list[Sample] = []  # in the order of their ends, which can differ from that of counting
        self._counted = 0
        self.samples = start_samples(request, runner, options, number, self._take)

    async def run(self) -> StrategyResult:
        """Count until the vote is decided; then show the winner and drop the others."""
        async for event in self._tally.news:
            await self.runner.announce(event)
        begun = sum(sample.running.progress.started_s is not None for sample in self.samples)
        winner, rule, share = await self._winner()
        agreement = Agreement(
            votes=self._tally.shown(),
            share=share,
            decided_by=rule,
            samples=self.options.samples,
            begun=begun,
            finished=sum(sample.is_whole for sample in self.samples),
            failed=sum(sample.has_failed for sample in self.samples),
            cancelled=sum(sample.running.discarded and not (sample.weak or sample.looping) for sample in self.samples),
            weak=sum(sample.weak for sample in self.samples),
        )
        self._warn_of_failures(winner)
        for sample in self.samples:
            if sample is not winner:
                sample.running.drop("another sample is the answer")
        parsed = await self._show(winner)
        return StrategyResult(
            strategy="consensus",
            reason=_decided(agreement),
            agreement=agreement,
            parsed=parsed,
            thoughts=winner.running.metadata.thoughts,
            extra=winner.running.metadata.extra,
        )

    # --- counting: runs at the end of each sample, before any other call can begin

    def _take(self, sample: Sample) -> None:
        """Count a sample that has ended; in sample order if the request is to be reproducible."""
        if not self.request.reproducible:
            self._count(sample)
            return
        self._ended.append(sample)
        while self._counted < len(self.samples) and self.samples[self._counted] in self._ended:
            self._counted += 1
            self._count(self.samples[self._counted - 1])

    def _count(self, sample: Sample) -> None:
        if self._tally.rule is not None:  # it was cancelled
            return
        if sample.is_whole:
            sample.text = sample.running.text
            sample.ballot = self._ballot(sample)
        if sample.ballot is not None:
            self.voters.append(sample)
        self._tally.count(sample.running.spec.id, sample.ballot)

    def _cancel(self) -> None:
        for sample in self.samples:
            sample.running.cancel(NEEDLESS)

    def _decided(self) -> Decided | None:
        """Return the rule by which the vote is decided now."""
        if (votes := self._confidences()) is None:
            return decided(self._tally.votes, self._tally.left, self.options.certainty)
        return "certain" if confident(votes, self.options.certainty) else None

    def _confidences(self) -> list[tuple[str, float]] | None:
        """Return the votes with the model's confidence in each; ``None`` if that does not count or is unknown."""
        if self.options.rule == "votes":
            return None
        sure = [
            (sample.ballot.key, math.exp(sample.trace.mean))
            for sample in self.voters
            if sample.ballot is not None and sample.trace.mean is not None
        ]
        return sure if len(sure) == len(self.voters) else None

    def _ballot(self, sample: Sample) -> Ballot | None:
        options = self.request.options
        if options.response_format is None:
            return self._reading.ballot(sample.text)
        found = fit(sample.text, options)
        if found.wrong:
            return None
        sample.text = found.text
        return Ballot(found.text) if isinstance(options.response_format, str) else of_value(found.value)

    # --- choosing

    async def _winner(self) -> tuple[Sample, Decided, float]:
        """Return the winning sample, the rule that chose it, and its share of the votes."""
        if not self.voters:
            return self._without_votes(), "only_one", 0.0
        if len(self.voters) == 1:
            return self.voters[0], "only_one", 1.0
        texts = [sample for sample in self.voters if sample.ballot and not sample.ballot.comparable]
        votes, rule = self._tally.votes, self._tally.rule
        most = max(votes.values())
        if rule is None and most == 1 and 2 * len(texts) > len(self.voters):
            return await self._of_texts(self.voters)
        leaders = [key for key, count in votes.items() if count == most]
        if (sure := self._confidences()) is not None:
            probable = posterior(sure)
            leaders = [max(probable, key=lambda each: probable[each])]
        groups = [[sample for sample in self.voters if sample.ballot and sample.ballot.key == key] for key in leaders]
        if len(groups) > 1:
            self.runner.warn(
                f"The samples do not agree: {len(groups)} answers have {most} of {len(self.voters)} votes each.",
                "votes",
            )
        # Ties go to the most confident sample, or to the first one counted if no confidence is reported.
        group = max(groups, key=lambda samples: mean_of(samples) or 0.0)
        return _spokesman(group), rule or "all_votes", len(group) / len(self.voters)

    async def _of_texts(self, samples: Sequence[Sample]) -> tuple[Sample, Decided, float]:
        """Choose among longer texts: the one the judge prefers, or else the one most similar to the others."""
        texts = [sample.text for sample in samples]
        if self._judge is not None:
            chosen = await _judged(self.request, self.runner, self._judge, texts)
            if chosen is not None:
                return samples[chosen], "judge", 0.0
        return samples[medoid(texts)], "similarity", 0.0

    def _without_votes(self) -> Sample:
        """Choose what to show if no sample has a vote: a whole one, else a partial one, else a refused or cut one."""
        whole = [sample for sample in self.samples if sample.is_whole]
        if whole:
            if self.request.options.response_format is None:
                self.runner.warn(
                    "No sample names what is voted on, so the one that is most like the others is shown.", "votes"
                )
            return whole[medoid([sample.text for sample in whole])]
        partial = [sample for sample in self.samples if sample.running.text.strip() and not sample.running.discarded]
        if partial:
            chosen = max(partial, key=lambda sample: len(sample.running.text))
            chosen.text = chosen.running.text
            return chosen
        without_text = [sample for sample in self.samples if sample.refuses or sample.is_cut]
        if without_text:
            return max(without_text, key=lambda sample: sample.refuses)
        raise self._failure()

    def _failure(self) -> StrettoError:
        """Return one error for all samples: their own if they agree, or else one that counts the causes."""
        failed = [sample.running.exception for sample in self.samples if sample.running.exception is not None]
        causes = Counter(map(str, failed))
        if len(causes) == 1:
            return failed[0]
        listed = "; ".join(f"{count} of {len(failed)}: {cause.rstrip('.')}" for cause, count in causes.most_common(3))
        return BackendError(f"No sample could be written. {listed}.", backend=self.runner.model)

    # --- showing

    def _warn_of_failures(self, winner: Sample) -> None:
        """Warn about samples that failed and so have no vote, with the cause of the first."""
        failed = [sample for sample in self.samples if sample.has_failed and sample is not winner]
        if failed:
            first = failed[0].running
            how = cut(first, self.request)
            cause = str(first.exception or (f"it was cut {how}" if how else f"it ended with {first.finish_reason!r}"))
            several = len(failed) > 1
            self.runner.warn(
                f"{len(failed)} of {len(self.samples)} samples failed and {'have' if several else 'has'} no vote; "
                f"{'the first one' if several else 'the cause'}: {cause.rstrip('.')}.",
                "votes",
            )

    async def _show(self, winner: Sample) -> Any:
        """Show a sample as the answer; return its value."""
        runner, parsed = self.runner, None
        if self.request.options.response_format is None:
            runner.merge.add_branch(winner.running)
        else:
            found = fit(winner.text or winner.running.text, self.request.options)
            parsed = found.value
            warn_of_misfit(runner, found if winner.is_whole else replace(found, wrong=""))
            runner.merge.add(found.text)
        await runner.merge.finish()
        return parsed


_WHY: dict[Decided, str] = {
    "unchangeable": ", and no vote could change that",
    "certain": ", which is certain enough",
    "similarity": "Of {} samples, the one that is most like the others",
    "judge": "Of {} samples, the one that the judge preferred",
    "only_one": "No more than one sample has a vote",
}


def _decided(agreement: Agreement) -> str:
    """Return the deciding rule as a sentence."""
    why = _WHY.get(agreement.decided_by, "")
    if agreement.decided_by in ("similarity", "judge", "only_one"):
        return f"{why.format(agreement.finished)}."
    return f"{agreement.share:.0%} of {sum(agreement.votes.values())} samples agree{why}."


def _spokesman(group: Sequence[Sample]) -> Sample:
    """Choose among samples that say the same: the most confident, or else the one most similar to the others."""
    measured = [sample for sample in group if sample.trace.mean is not None]
    if measured:
        return max(measured, key=lambda sample: sample.trace.mean or 0.0)
    return group[medoid([sample.text for sample in group])]


_HOW_MANY = re.compile(r"\b\d{1,3}\s+answers\b", re.IGNORECASE)
_FIRST = re.compile(r"\W*(?:answer\W*)?(\d{1,3})\s*(?:[:;*)\]\n]|[.,](?!\d)|$)", re.IGNORECASE)
_NAMED = re.compile(r"(?<!\d)(?<!\d[.,])\d{1,3}(?!\d|[.,]\d)")


async def _judged(request: Request, runner: Runner, judge: Backend, texts: Sequence[str]) -> int | None:
    """Return the index of the text that the judge prefers; ``None``, with a warning, if it names none.

    If it names none for whatever cause, including a refusal, each fallback of the client is asked in turn.
    """
    fence, answers = numbered(texts, "answer")
    messages = runner.target.template("consensus_judge").messages(
        question=request.question, answers=answers, fence=fence, count=str(len(texts))
    )
    causes: list[str] = []
    judges = [judge, *(each for each in runner.fallback.models if each is not judge)]
    for backend in judges:
        spec = BranchSpec(
            id="judge",
            kind="judgement",
            title="Judge",
            label="The judge",
            prompt=lambda _: ModelRequest(messages),
            options=GenerationOptions(max_tokens=JUDGE_TOKENS + (THINKING if backend.capabilities.reasoning else 0)),
            backend=backend,
            successors=(),
            allow_refusal=True,
        )
        running = runner.start(spec)
        await running.ended()
        answered = running.exception is None and running.finish_reason not in REFUSALS
        number = chosen_by(running.text) if answered else None
        if number is not None and 1 <= number <= len(texts):
            if causes:
                runner.warn(
                    f"{backend.name} was the judge, because another one chose no answer: {'; '.join(causes)}.", "votes"
                )
            return number - 1
        causes.append(str(running.exception or f"it answered {' '.join(running.text.split())[:60]!r}").rstrip("."))
    runner.warn(
        f"The judge chose no answer, so the one that is most like the others is shown: {'; '.join(causes)}.", "votes"
    )
    return None


def chosen_by(text: str) -> int | None:
    """Return the number that a judge begins with, or the only one it names; ``None``: it names none or several."""
    if refuses(text):
        return None
    if first := _FIRST.match(text):
        return int(first[1])
    named = set(map(int, _NAMED.findall(_HOW_MANY.sub("", text))))
    return named.pop() if len(named) == 1 else None
