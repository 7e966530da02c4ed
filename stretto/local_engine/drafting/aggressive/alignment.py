"""Tracking of the place in a source that a text, which copies it with changes, has reached."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

_HERE = 2  # tokens written since the text left the source that must be found near the expected place
_ANYWHERE = 3  # tokens that must be found anywhere else
_BEFORE, _AHEAD = 8, 64  # distance from the expected place that counts as near
_LONGEST = 16  # tokens compared
_EITHER_SIDE = 16  # places compared on either side of the expected one
_LONG = 8  # maximum number of tokens of a remembered change
_SOON = 8  # tokens since the text left the source, up to which its next place is guessed
_FAR = 64  # tokens after which no place is expected any more
_PRIOR = 1.0, 4.0  # prior counts of changes and source tokens
_CERTAIN = 4, 0.35  # minimum of copied tokens, and maximum change rate, of a text that counts as a copy
_CLAIMS = 0.4, 0.3, 0.15  # probabilities of the last three reasons


class Reason(IntEnum):
    """Reasons to expect that the text continues at a place in the source."""

    COPIES = 0
    """It has copied what comes before."""
    REPEATS = 1
    """It repeats an earlier change."""
    FOUND = 2
    """Its last token comes right before that place."""
    REPLACED = 3
    """As many tokens were replaced as were written."""
    INSERTED = 4
    """The tokens written were inserted."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A possible continuation of the text: some tokens, then the source from a place on.

    Attributes:
        reason: why it is expected.
        claim: its probability.
        written: the tokens.
        place: place in the source.
    """

    reason: Reason
    claim: float
    written: tuple[int, ...]
    place: int


@dataclass(slots=True)
class Replacement:
    """A change: tokens written in place of some tokens of the source.

    Attributes:
        replaced: the source's tokens.
        written: the tokens written instead.
        made: how often it was made.
        passed: how often the same source tokens were copied since.
    """

    replaced: tuple[int, ...]
    written: tuple[int, ...]
    made: int = 1
    passed: int = 0

    @property
    def claim(self) -> float:
        """Probability that it is repeated."""
        return self.made / (self.made + self.passed + 1)


class Alignment:
    """Tracks a text through a source.

    While the text copies, its next token is the source's. With the first token that differs, it has left the source,
    and its place is searched for. If the tokens written since then are found near the expected place, what lies
    between was replaced, inserted or deleted. If its last three tokens are found anywhere else, it continues there.
    Changes are remembered, since something that is renamed once is usually renamed again.

    Args:
        source: the given text.
        begins: whether the text is expected to begin where the source does.

    Attributes:
        length: number of tokens of the source.
        place: place of the next token in the source; if the text has left the source, of the one expected then.
        left: tokens written since the text left the source, 0 while it copies; ``None`` if no place is expected.
        run: tokens copied since its place was last found.
        kept: total number of tokens copied.
        changes: how often it left the source.
    """

    def __init__(self, source: Sequence[int], *, begins: bool = False) -> None:
        self._source = list(source)
        self._pairs: dict[tuple[int, int], list[int]] = {}  # places after each pair of tokens
        for after in range(2, len(self._source) + 1):
            self._pairs.setdefault((self._source[after - 2], self._source[after - 1]), []).append(after)
        self._changes: dict[int, dict[tuple[int, ...], Replacement]] = {}  # by the first replaced token, then all
        self.length = len(self._source)
        self.place = 0
        self.left: int | None = 0 if begins else None
        self.run = self.kept = self.changes = 0

    @property
    def change_rate(self) -> float:
        """Fraction of the source's tokens at which the text leaves it."""
        return (self.changes + _PRIOR[0]) / (self.changes + self.kept + _PRIOR[1])

    @property
    def is_copy(self) -> bool:
        """Whether the text so far looks like a copy with changes; otherwise it agrees here and there by chance."""
        return self.kept >= _CERTAIN[0] and self.change_rate <= _CERTAIN[1]

    @property
    def is_near(self) -> bool:
        """Whether the text copies, or has left the source so recently that its next place is guessed."""
        return self.left is not None and self.left <= _SOON

    def follow(self, text: Sequence[int], start: int) -> None:
        """Read the tokens of the text from ``start`` on."""
        source = self._source
        for end in range(start + 1, len(text) + 1):
            if self.left == 0:
                if self.place < len(source) and source[self.place] == text[end - 1]:
                    if self._changes and (change := self.change_at(self.place)) is not None:
                        change.passed += 1  # the tokens that were replaced before are copied now
                    self.place += 1
                    self.run += 1
                    self.kept += 1
                    continue
                self.changes += 1
            if self.left is not None:
                self.left = self.left + 1 if self.left < _FAR else None
            self._find(text, end)

    def guesses(self, text: Sequence[int]) -> list[Guess]:
        """Return possible continuations of the text, the most likely first."""
        if self.left is None or not self.is_near:
            return []
        if self.left == 0:
            return [Guess(Reason.COPIES, 1.0, (), self.place)]
        written = tuple(text[len(text) - self.left :])
        found, change = list[Guess](), self.change_at(self.place)
        if change is not None and change.written[: len(written)] == written:
            rest, place = change.written[len(written) :], self.place + len(change.replaced)
            found.append(Guess(Reason.REPEATS, change.claim, rest, place))
        near = self._source[self.place : self.place + _AHEAD]
        if written[-1] in near:
            found.append(Guess(Reason.FOUND, _CLAIMS[0], (), self.place + near.index(written[-1]) + 1))
        found.append(Guess(Reason.REPLACED, _CLAIMS[1], (), self.place + self.left))
        found.append(Guess(Reason.INSERTED, _CLAIMS[2], (), self.place))
        return found

    def change_at(self, place: int) -> Replacement | None:
        """Return the latest change of the tokens at a place in the source."""
        source = self._source
        known = self._changes.get(source[place]) if place < len(source) else None
        for replaced, change in reversed(known.items() if known else ()):
            if tuple(source[place : place + len(replaced)]) == replaced:
                return change
        return None

    def source(self, place: int, count: int) -> list[int]:
        """Return tokens of the source from a place on."""
        return self._source[place : place + count]

    def _find(self, text: Sequence[int], end: int) -> None:
        """Find the place after the text's last tokens; prefer near ones, then the longest match, then the nearest."""
        places = self._pairs.get((text[end - 2], text[end - 1])) if end > 1 else None
        if places is None:
            return
        if len(places) > 2 * _EITHER_SIDE:
            expected = bisect_left(places, self.place)
            places = places[max(expected - _EITHER_SIDE, 0) : expected + _EITHER_SIDE]
        best, chosen, agreed = (False, 0, 0), 0, 0
        for after in places:
            length = self._agreeing(text, end, after)
            since = min(length, self.left or 0)
            near = since >= _HERE and -_BEFORE <= after - since - self.place <= _AHEAD
            rank = near, length, -abs(after - self.place)
            if (near or length >= _ANYWHERE) and rank > best:
                best, chosen, agreed = rank, after, since
        if not chosen:
            return
        if best[0]:
            self._remember(self._source[self.place : chosen - agreed], text[end - (self.left or 0) : end - agreed])
        self.place, self.left, self.run = chosen, 0, 0

    def _agreeing(self, text: Sequence[int], end: int, after: int) -> int:
        source, most = self._source, min(_LONGEST, end, after)
        return next((size for size in range(most) if text[end - 1 - size] != source[after - 1 - size]), most)

    def _remember(self, replaced: Sequence[int], written: Sequence[int]) -> None:
        """Record a change, if it is short."""
        if not 0 < len(replaced) <= _LONG or len(written) > _LONG:
            return
        tokens, known = tuple(replaced), self._changes.setdefault(replaced[0], {})
        change = known.get(tokens)
        if change is None or change.written != tuple(written):
            known[tokens] = Replacement(tokens, tuple(written))
        else:
            change.made += 1
