"""Where in a source a text has arrived that copies it with changes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

__all__ = ["Alignment", "Guess", "Reason", "Replacement"]

_HERE = 2  # tokens written since the text left the source that have to stand near the expected place
_ANYWHERE = 3  # tokens that have to stand anywhere else
_BEFORE, _AHEAD = 8, 64  # of the expected place: what is near
_LONGEST = 16  # tokens compared
_BESIDE = 16  # places compared on either side of the expected one
_LONG = 8  # tokens of a change that is remembered, at most
_SOON = 8  # tokens after it left the source, during which it is guessed where the text goes on
_FAR = 64  # tokens after which no place is expected any more
_PRIOR = 1.0, 4.0  # changes, and source tokens, before any were seen
_CERTAIN = 4, 0.35  # tokens copied, and share of changes, with which a text is held to be a copy
_CLAIMS = 0.4, 0.3, 0.15  # of the last three reasons


class Reason(IntEnum):
    """Why the text may go on at a place of the source."""

    COPIES = 0
    """It has copied what stands before."""
    REPEATS = 1
    """It makes a change that it has made before."""
    FOUND = 2
    """Its last token stands before that place."""
    REPLACED = 3
    """As many tokens were replaced as were written."""
    INSERTED = 4
    """What was written is added."""


@dataclass(frozen=True, slots=True)
class Guess:
    """How the text may go on: some tokens, and then the source from a place on.

    Attributes:
        reason: why.
        claim: how likely that is.
        written: the tokens.
        place: in the source.
    """

    reason: Reason
    claim: float
    written: tuple[int, ...]
    place: int


@dataclass(slots=True)
class Replacement:
    """What was written in place of some tokens of the source.

    Attributes:
        replaced: these tokens.
        written: what was written.
        made: how often.
        passed: how often the same tokens were copied since.
    """

    replaced: tuple[int, ...]
    written: tuple[int, ...]
    made: int = 1
    passed: int = 0

    @property
    def claim(self) -> float:
        """How likely it is made again."""
        return self.made / (self.made + self.passed + 1)


class Alignment:
    """Follows a text through a source.

    While the text copies, its next token is the source's. With the first one that is not, it has left the source and
    is looked for: where the tokens that it has written since stand near the place that was expected, what lies between
    was replaced, inserted or deleted, and where its last three tokens stand anywhere else, it goes on there. Changes
    are remembered, since who renames a thing once does it again.

    Args:
        source: the given text.
        begins: whether the text is expected to begin where the source does.

    Attributes:
        length: tokens of the source.
        place: in the source, of the token that is next; if the text has left the source, of the one expected then.
        left: tokens written since the text left the source, 0 while it copies; ``None`` if no place is expected.
        run: tokens copied since it was found last.
        kept: tokens copied.
        changes: how often it left the source.
    """

    def __init__(self, source: Sequence[int], *, begins: bool = False) -> None:
        self._source = list(source)
        self._pairs: dict[tuple[int, int], list[int]] = {}  # places behind each two tokens
        for behind in range(2, len(self._source) + 1):
            self._pairs.setdefault((self._source[behind - 2], self._source[behind - 1]), []).append(behind)
        self._changes: dict[int, dict[tuple[int, ...], Replacement]] = {}  # by what is replaced, and by its first token
        self.length = len(self._source)
        self.place = 0
        self.left: int | None = 0 if begins else None
        self.run = self.kept = self.changes = 0

    @property
    def change_rate(self) -> float:
        """Share of the source's tokens at which the text leaves it."""
        return (self.changes + _PRIOR[0]) / (self.changes + self.kept + _PRIOR[1])

    @property
    def is_copy(self) -> bool:
        """Whether the text is a copy with changes, by what was seen of it; else it agrees by chance, here and there."""
        return self.kept >= _CERTAIN[0] and self.change_rate <= _CERTAIN[1]

    @property
    def is_near(self) -> bool:
        """Whether the text copies, or has left the source so lately that it is guessed where it goes on."""
        return self.left is not None and self.left <= _SOON

    def follow(self, text: Sequence[int], start: int) -> None:
        """Follow the text, which has grown, by its tokens from ``start`` on."""
        source = self._source
        for end in range(start + 1, len(text) + 1):
            if self.left == 0:
                if self.place < len(source) and source[self.place] == text[end - 1]:
                    if self._changes:
                        self._pass()
                    self.place += 1
                    self.run += 1
                    self.kept += 1
                    continue
                self.changes += 1
            if self.left is not None:
                self.left = self.left + 1 if self.left < _FAR else None
            self._find(text, end)

    def guesses(self, text: Sequence[int]) -> list[Guess]:
        """How the text may go on, with the likeliest first."""
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
        """The latest change of the tokens that stand at a place of the source."""
        source = self._source
        known = self._changes.get(source[place]) if place < len(source) else None
        for replaced, change in reversed(known.items() if known else ()):
            if tuple(source[place : place + len(replaced)]) == replaced:
                return change
        return None

    def source(self, place: int, count: int) -> list[int]:
        """Tokens of the source from a place on."""
        return self._source[place : place + count]

    def _find(self, text: Sequence[int], end: int) -> None:
        """Look for the place behind the text's last tokens; of several, where most agree, and then the nearest."""
        places = self._pairs.get((text[end - 2], text[end - 1])) if end > 1 else None
        if places is None:
            return
        if len(places) > 2 * _BESIDE:
            expected = bisect_left(places, self.place)
            places = places[max(expected - _BESIDE, 0) : expected + _BESIDE]
        best, chosen, agreed = (False, 0, 0), 0, 0
        for behind in places:
            length = self._agreeing(text, end, behind)
            since = min(length, self.left or 0)
            near = since >= _HERE and -_BEFORE <= behind - since - self.place <= _AHEAD
            rank = near, length, -abs(behind - self.place)
            if (near or length >= _ANYWHERE) and rank > best:
                best, chosen, agreed = rank, behind, since
        if not chosen:
            return
        if best[0]:
            self._remember(self._source[self.place : chosen - agreed], text[end - (self.left or 0) : end - agreed])
        self.place, self.left, self.run = chosen, 0, 0

    def _agreeing(self, text: Sequence[int], end: int, behind: int) -> int:
        source, most = self._source, min(_LONGEST, end, behind)
        return next((size for size in range(most) if text[end - 1 - size] != source[behind - 1 - size]), most)

    def _pass(self) -> None:
        """Note that tokens that were replaced before are copied now."""
        change = self.change_at(self.place)
        if change is not None:
            change.passed += 1

    def _remember(self, replaced: Sequence[int], written: Sequence[int]) -> None:
        """Note that the text says something else than the source, if it is short."""
        if not 0 < len(replaced) <= _LONG or len(written) > _LONG:
            return
        tokens, known = tuple(replaced), self._changes.setdefault(replaced[0], {})
        change = known.get(tokens)
        if change is None or change.written != tuple(written):
            known[tokens] = Replacement(tokens, tuple(written))
        else:
            change.made += 1
