"""A suffix automaton that grows token by token and counts how often what it holds occurred."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Cursor", "SuffixAutomaton"]


class SuffixAutomaton:
    """All substrings of a token sequence, at most two states for each token.

    A state is a set of substrings that end at the same places, so one is a suffix of the next longer one; its
    link leads to the longest suffix that ends at more places. Appending costs O(1) amortised, whatever the length.

    Blumer et al., "The smallest automaton recognizing the subwords of a text", 1985.

    A count belongs to every suffix of the text, and in a text that loops they are as many states as it has loops;
    so only substrings of up to ``counted`` tokens are counted, and appending stays O(1).

    Attributes:
        length: of the longest substring of each state.
        link: the state of the longest suffix that ends elsewhere too; -1 for the empty one, which is state 0.
        following: the state that each next token leads to, in the order in which the tokens were first seen.
        count: how often the substrings of each state occurred.
        last: the state of the whole text.
    """

    def __init__(self, tokens: Iterable[int] = (), *, counted: int = 48) -> None:
        self.length = [0]
        self.link = [-1]
        self.following: list[dict[int, int]] = [{}]
        self.count = [0]
        self.last = 0
        self._counted = counted
        self._recent = Cursor(self)
        for token in tokens:
            self.append(token)

    @property
    def match(self) -> tuple[int, int]:
        """The longest suffix of the text that occurred before: its state and length."""
        state = max(self.link[self.last], 0)
        return state, self.length[state]

    def append(self, token: int) -> None:
        """Append one token to the text."""
        length, link, following = self.length, self.link, self.following
        state, new = self.last, self._add(length[self.last] + 1, {})
        while state >= 0 and token not in following[state]:
            following[state][token] = new
            state = link[state]
        if state < 0:
            link[new] = 0
        else:
            link[new] = self._suffix(state, token)
        self.last = new
        self._count(token)

    def _suffix(self, state: int, token: int) -> int:
        """Find the state of the longest string of ``state`` with ``token`` behind it; split it off if need be."""
        length, link, following = self.length, self.link, self.following
        target = following[state][token]
        if length[target] == length[state] + 1:
            return target
        # Its longest strings end at fewer places than the one looked for, from now on.
        split = self._add(length[state] + 1, following[target].copy())
        self.count[split] = self.count[target]
        link[split], link[target] = link[target], split
        while state >= 0 and following[state].get(token) == target:
            following[state][token] = split
            state = link[state]
        return split

    def _add(self, length: int, following: dict[int, int]) -> int:
        self.length.append(length)
        self.link.append(-1)
        self.following.append(following)
        self.count.append(0)
        return len(self.link) - 1

    def _count(self, token: int) -> None:
        recent, count, link = self._recent, self.count, self.link
        recent.advance(token)
        recent.shorten(self._counted)
        state = recent.state
        while state >= 0:
            count[state] += 1
            state = link[state]


class Cursor:
    """The longest suffix of some text that an automaton holds, followed token by token.

    The automaton may grow meanwhile.
    """

    # It refers to the automaton's lists, not to the automaton, which has a cursor of its own: a circle would keep its
    # memory until a full garbage collection, which beside a large program is minutes away.

    def __init__(self, automaton: SuffixAutomaton) -> None:
        self._length, self._link, self._following = automaton.length, automaton.link, automaton.following
        self.state = 0
        self.length = 0

    def advance(self, token: int) -> None:
        """Follow the text by one token: O(1) amortised."""
        following, link = self._following, self._link
        self.shorten(self.length)
        state, length = self.state, self.length
        while state > 0 and token not in following[state]:
            state = link[state]
            length = self._length[state]
        if token in following[state]:
            self.state, self.length = following[state][token], length + 1
        else:
            self.state, self.length = 0, 0

    def shorten(self, length: int) -> None:
        """Keep at most this many of the tokens matched; also finds their state again after it was split."""
        self.length = min(self.length, length)
        while self.state > 0 and self._length[self._link[self.state]] >= self.length:
            self.state = self._link[self.state]
