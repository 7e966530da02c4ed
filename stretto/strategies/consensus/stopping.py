"""When a vote is decided: as soon as no vote can change it, or as soon as its leader is certain enough.

By the numbers of votes, the second rule is that of Adaptive-Consistency (Aggarwal et al., arXiv 2305.11860): the two
answers with the most votes are taken for a coin with an unknown bias, all of which are equally probable at first. After
``first`` votes for one side and ``second`` for the other, the probability that the leader is the more probable side is
that of a Beta(first + 1, second + 1) variable above 1/2.

Where the model says how sure it is of each sample, it can be that of CGES (Aghazadeh et al., arXiv 2511.02603): a
sample of which the model is sure with probability c names the right answer with probability c, and each other candidate
with an equal part of the rest. All candidates are equally probable at first, one that nobody has named among them.
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

_LEAST_SURE, _MOST_SURE = 0.01, 0.99  # what a model says of one sample decides nothing by itself
_FEWEST_VOTES = 2  # for the answer of a confident vote


def certainty(first: int, second: int) -> Fraction:
    """The probability that more samples would keep the leader in front, exactly."""
    flips = first + second + 1
    return Fraction(sum(math.comb(flips, heads) for heads in range(first + 1)), 2**flips)


def decided(votes: Counter[str], left: int, enough: float) -> Decided | None:
    """By which rule a vote is decided before its end; ``None``: it is open.

    Args:
        votes: so far, by answer.
        left: samples that may still vote.
        enough: certainty from which the leader has won; 1 leaves only what no vote can change.
    """
    first, second = ([count for _, count in votes.most_common(2)] + [0, 0])[:2]
    if first - second > left:
        return "unchangeable"
    return "certain" if first > second and certainty(first, second) >= enough else None


class Tally:
    """Votes, counted as samples end, before any other call can begin.

    ``left`` samples may still vote. ``decide`` says by which rule the vote is decided; then ``cancel`` ends the others.
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
            said, shown = ballot.shown, self.shown()
            self.news.add(
                VoteCounted(branch_id=branch_id, vote=said, votes=shown, left=self.left, decided_by=self.rule)
            )
        if self.rule is not None:
            self._cancel()
        if self.rule is not None or not self.left:
            self.news.end()

    def shown(self) -> dict[str, int]:
        """The votes as a reader is told of them."""
        shown: Counter[str] = Counter()
        for key, count in self.votes.most_common():
            shown[Ballot(key).shown] += count
        return dict(shown)


def posterior(votes: Sequence[tuple[str, float]]) -> Mapping[str, float]:
    """The probability that each answer is the right one, by what was voted for and how sure the model was of it.

    Args:
        votes: the answers, each with a probability from 0 to 1.
    """
    candidates = dict.fromkeys(answer for answer, _ in votes)
    others = len(candidates)  # for each candidate: the remaining ones, and one that nobody has named
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
    """Whether one answer is right with so much certainty; at least two samples have to name it."""
    if enough >= 1 or not votes:
        return False
    answer, probability = max(posterior(votes).items(), key=lambda each: each[1])
    return probability >= enough and sum(vote == answer for vote, _ in votes) >= _FEWEST_VOTES
