"""When a vote is decided: as soon as no vote can change it, or as soon as its leader is certain enough.

With vote counts only, the second rule is that of Adaptive-Consistency (Aggarwal et al., arXiv 2305.11860): the two
answers with the most votes are treated as a coin with an unknown bias and a uniform prior. After ``first`` votes for
one side and ``second`` for the other, the probability that the leader is the more probable side is that of a
Beta(first + 1, second + 1) variable above 1/2.

With the model's confidence in each sample, it can be that of CGES (Aghazadeh et al., arXiv 2511.02603): a sample with
confidence c names the right answer with probability c, and each other candidate with an equal share of the rest. The
prior is uniform over all candidates, including one that no sample has named.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from stretto.foundation.queue import Queue
from stretto.strategies.consensus.ballots import Ballot
from stretto.values.answer import Decided
from stretto.values.events import VoteCounted

_LEAST_SURE, _MOST_SURE = 0.01, 0.99  # the confidence in one sample decides nothing by itself
_FEWEST_VOTES = 2  # for the answer of a confident vote


def certainty(first: int, second: int) -> Fraction:
    """Return the exact probability that more samples would keep the leader in front."""
    flips = first + second + 1
    return Fraction(sum(math.comb(flips, heads) for heads in range(first + 1)), 2**flips)


def decided(votes: Counter[str], left: int, enough: float) -> Decided | None:
    """Return the rule by which a vote is decided before its end; ``None`` if it is open.

    Args:
        votes: so far, by answer.
        left: samples that can still vote.
        enough: certainty at which the leader has won; 1: only once no vote can change the outcome.
    """
    first, second = ([count for _, count in votes.most_common(2)] + [0, 0])[:2]
    if first - second > left:
        return "unchangeable"
    return "certain" if first > second and certainty(first, second) >= enough else None


class Tally:
    """Votes, counted as samples end, before any other call can begin.

    ``left`` samples can still vote. ``decide`` returns the rule that decides the vote; then ``cancel`` ends the others.
    """

    def __init__(self, left: int, decide: Callable[[], Decided | None], cancel: Callable[[], None]) -> None:
        self.votes: Counter[str] = Counter()
        self.left, self._decide, self._cancel = left, decide, cancel
        self.rule: Decided | None = None
        self.news = Queue[VoteCounted]()

    def count(self, branch_id: str, ballot: Ballot | None) -> None:
        """Count a sample, and cancel the others once that decides the vote."""
        self.left -= 1
        if ballot is not None:
            self.votes[ballot.key] += 1
        if self.left:  # one that failed leaves the others more weight
            self.rule = self._decide()
        if ballot is not None:
            vote, shown = ballot.shown, self.shown()
            self.news.add(
                VoteCounted(branch_id=branch_id, vote=vote, votes=shown, left=self.left, decided_by=self.rule)
            )
        if self.rule is not None:
            self._cancel()
        if self.rule is not None or not self.left:
            self.news.end()

    def shown(self) -> dict[str, int]:
        """Return the votes as shown to the reader."""
        shown: Counter[str] = Counter()
        for key, count in self.votes.most_common():
            shown[Ballot(key).shown] += count
        return dict(shown)


def posterior(votes: Sequence[tuple[str, float]]) -> Mapping[str, float]:
    """Return the probability that each answer is right, given the votes and the model's confidence in each.

    Args:
        votes: the answers, each with a probability from 0 to 1.
    """
    candidates = dict.fromkeys(answer for answer, _ in votes)
    others = len(candidates)  # for each candidate: the remaining ones, and one that no sample has named
    logs = dict.fromkeys([*candidates, None], 0.0)
    for answer, sure in votes:
        bounded = min(max(sure, _LEAST_SURE), _MOST_SURE)
        for each in logs:
            logs[each] += math.log(bounded if each == answer else (1 - bounded) / others)
    top = max(logs.values())
    weights = {answer: math.exp(value - top) for answer, value in logs.items()}
    total = sum(weights.values())
    return {answer: weights[answer] / total for answer in candidates}


def confident(votes: Sequence[tuple[str, float]], enough: float) -> bool:
    """Return whether one answer is right with this certainty; at least two samples must name it."""
    if enough >= 1 or not votes:
        return False
    answer, probability = max(posterior(votes).items(), key=lambda each: each[1])
    return probability >= enough and sum(vote == answer for vote, _ in votes) >= _FEWEST_VOTES
