"""Items by consensus: several results of each item are written at once, and the one on which most agree is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stretto.events import BranchStarted, VoteCounted
from stretto.foundation.queue import Queue
from stretto.strategies.branch import BranchSpec, RunningBranch
from stretto.strategies.consensus.ballots import Ballot, Reading
from stretto.strategies.consensus.medoid import medoid
from stretto.strategies.consensus.stopping import decided
from stretto.strategies.items.options import ItemsOptions
from stretto.strategies.runner import Runner
from stretto.strategies.sampling import sampled

__all__ = ["start_vote", "votes_within"]

_NEEDLESS = "the vote was decided without it"


def votes_within(options: ItemsOptions, items: int, calls: int | None) -> int:
    """How many results of each item a budget of calls allows; at least one."""
    return options.samples if calls is None else max(1, min(options.samples, calls // items))


def start_vote(spec: BranchSpec, runner: Runner, reading: Reading, samples: int, certainty: float) -> RunningBranch:
    """Start the branch of an item that several others vote for; its text is that of the winner.

    Each of these others is asked for as ``spec`` says, and has the fallbacks of the client.
    """
    vote = _Vote(spec, runner, reading, samples, certainty)
    return runner.start(replace(spec, work=vote.write, watch=None))


@dataclass(eq=False)
class _Vote:
    """The vote for one item."""

    spec: BranchSpec
    runner: Runner
    reading: Reading
    samples: int
    certainty: float
    votes: Counter[str] = field(default_factory=Counter)

    async def write(self, running: RunningBranch) -> None:
        """Count the votes until the outcome is certain, and write the winner into the branch of the item."""
        runner, spec = self.runner, self.spec
        running.started_s = runner.now_s()
        await runner.announce(BranchStarted(branch_id=running.spec.id, kind=spec.kind, title=spec.title))
        ends = Queue[RunningBranch]()
        started = [runner.start(self._sample(place, ends)) for place in range(self.samples)]
        ended: list[tuple[RunningBranch, Ballot | None]] = []
        try:
            while len(ended) < len(started):
                sample = await anext(ends)
                whole = sample.exception is None and sample.finish_reason == "stop"
                ballot = self.reading.ballot(sample.text) if whole else None
                ended.append((sample, ballot))
                if ballot is not None and await self._is_decided(sample, ballot, len(started) - len(ended)):
                    break
        finally:
            for each in started:
                each.cancel(_NEEDLESS)
        self._take(running, ended, started)

    def _sample(self, place: int, ends: Queue[RunningBranch]) -> BranchSpec:
        return replace(
            self.spec,
            id=f"{self.spec.id}-vote-{place + 1}",
            kind="vote",
            options=sampled(self.spec.options, self.runner.capabilities, place),
            fallback_prompt=lambda _: None,  # the others decide
            on_end=ends.add,
        )

    async def _is_decided(self, sample: RunningBranch, ballot: Ballot, left: int) -> bool:
        self.votes[ballot.key] += 1
        rule = decided(self.votes, left, self.certainty) if left else None
        shown = {Ballot(key).shown: count for key, count in self.votes.most_common()}
        await self.runner.announce(
            VoteCounted(branch_id=sample.spec.id, vote=ballot.shown, votes=shown, left=left, decided_by=rule)
        )
        return rule is not None

    def _take(
        self,
        running: RunningBranch,
        ended: Sequence[tuple[RunningBranch, Ballot | None]],
        started: Sequence[RunningBranch],
    ) -> None:
        """Write the winner into the branch of the item; without one, what the last sample failed with."""
        most = max(self.votes.values(), default=0)
        leaders = [key for key, count in self.votes.items() if count == most]
        if len(leaders) > 1:
            self.runner.warn(
                f"The results for {self.spec.title!r} do not agree: {len(leaders)} have {most} votes each."
            )
        voters = [sample for sample, ballot in ended if ballot is not None and ballot.key == leaders[0]]
        with_text = voters or [sample for sample, _ in ended if sample.text.strip()]
        if not with_text:
            failed = ended[-1][0]
            running.exception, running.finish_reason = failed.exception, failed.finish_reason
        else:
            winner = with_text[medoid([sample.text for sample in with_text])]
            running.finish_reason = winner.finish_reason
            running.write(winner.text, self.runner.now_s())
            for each in started:
                if each is not winner:
                    each.drop("another result is shown")
