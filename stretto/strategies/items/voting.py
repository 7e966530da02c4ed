"""Items by consensus: several results of each item are written at once, and the one on which most agree is shown."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from stretto.foundation.queue import Queue
from stretto.strategies.consensus.ballots import Ballot, VoteReader
from stretto.strategies.consensus.stopping import decided
from stretto.strategies.items.items_offer import ItemsOptions
from stretto.strategies.quality.likeness import medoid
from stretto.strategies.runtime.branch import BranchWriter, RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.runtime.several import sampled
from stretto.values.answer import Decided
from stretto.values.events import BranchStarted, VoteCounted

__all__ = ["start_vote", "votes_within"]

_NEEDLESS = "it was not needed any more: the vote was decided without it"


def votes_within(options: ItemsOptions, items: int, calls: int | None) -> int:
    """How many results of each item a budget of calls allows; at least one."""
    return options.samples if calls is None else max(1, min(options.samples, calls // items))


def start_vote(spec: BranchSpec, runner: Runner, reading: VoteReader, samples: int, certainty: float) -> RunningBranch:
    """Start the branch of an item that several others vote for; its text is that of the winner.

    Each of these others is asked for as ``spec`` says, and has the fallbacks of the client.
    """
    vote = _Vote(spec, runner, reading, samples, certainty)
    return runner.start(replace(spec, work=vote.write, watch=None))


class _Vote:
    """The vote for one item."""

    def __init__(self, spec: BranchSpec, runner: Runner, reading: VoteReader, samples: int, certainty: float) -> None:
        self._spec, self._runner, self._reading, self._certainty = spec, runner, reading, certainty
        self._left = samples
        self._votes: Counter[str] = Counter()
        self._rule: Decided | None = None
        self._samples: list[RunningBranch] = []
        self._ended: list[tuple[RunningBranch, Ballot | None]] = []
        self._news = Queue[VoteCounted]()

    async def write(self, running: RunningBranch) -> None:
        """Ask for the samples, tell of their votes, and write the winner into the branch of the item."""
        runner, spec = self._runner, self._spec
        running.progress.started_s = runner.now_s()
        await runner.announce(BranchStarted(branch_id=running.spec.id, kind=spec.kind, **spec.about))
        try:
            self._samples += [runner.start(self._sample(place)) for place in range(self._left)]
            async for event in self._news:
                await runner.announce(event)
        finally:
            self._cancel()
        self._take(running)

    def _sample(self, place: int) -> BranchSpec:
        return replace(
            self._spec,
            id=f"{self._spec.id}-vote-{place + 1}",
            kind="vote",
            options=sampled(self._spec.options, self._runner.capabilities, place),
            fallback_prompt=lambda *_: None,  # the others decide
            on_end=self._count,
        )

    def _count(self, sample: RunningBranch) -> None:
        """Count a sample that has ended, before any other call can begin; cancel the others if that decides."""
        if self._rule is not None:  # it was cancelled
            return
        self._left -= 1
        whole = sample.exception is None and sample.finish_reason == "stop"
        ballot = self._reading.ballot(sample.text) if whole else None
        self._ended.append((sample, ballot))
        if ballot is not None:
            self._votes[ballot.key] += 1
        if self._left:
            self._rule = decided(self._votes, self._left, self._certainty)
        if ballot is not None:
            shown = {Ballot(key).shown: count for key, count in self._votes.most_common()}
            self._news.add(
                VoteCounted(
                    branch_id=sample.spec.id,
                    vote=ballot.shown,
                    votes=shown,
                    left=self._left,
                    decided_by=self._rule,
                )
            )
        if self._rule is not None:
            self._cancel()
        if self._rule is not None or not self._left:
            self._news.end()

    def _cancel(self) -> None:
        for each in self._samples:
            each.cancel(_NEEDLESS)

    def _take(self, running: RunningBranch) -> None:
        """Write the winner into the branch of the item; without one, what the last sample failed with."""
        most = max(self._votes.values(), default=0)
        leaders = [key for key, count in self._votes.items() if count == most]
        if len(leaders) > 1:
            self._runner.warn(
                f"The results for {self._spec.title!r} do not agree: {len(leaders)} have {most} votes each.", "votes"
            )
        voters = [sample for sample, ballot in self._ended if ballot is not None and ballot.key == leaders[0]]
        with_text = voters or [sample for sample, _ in self._ended if sample.text.strip()]
        if not with_text:
            failed = self._ended[-1][0]
            running.outcome = failed.outcome
            return
        winner = with_text[medoid([sample.text for sample in with_text])]
        running.writers.append(BranchWriter(winner.writers[-1].backend))
        running.outcome = replace(running.outcome, reason=winner.finish_reason)
        running.write(winner.text, self._runner.now_s())
        for each in self._samples:
            if each is not winner:
                each.drop("another result is shown")
