"""Finds loops: a text that says the same sentence three times, or the same eight words four times."""

from __future__ import annotations

from collections import Counter, deque

RUN = 8
RUNS = 4
SENTENCES = 3
SHORTEST = 3  # words of a sentence that counts
MOST_COMPARED = 64  # sentences with the same first word that one is compared with while it comes


class LoopSearch:
    """Looks for a loop in a text that comes word by word."""

    def __init__(self) -> None:
        self._runs: Counter[tuple[str, ...]] = Counter()
        self._last: deque[str] = deque(maxlen=RUN)
        self._behind: dict[tuple[str, ...], list[str]] = {}  # seven words, and what came behind them
        self._region = 0  # words up to the last one, all within runs that came before
        self._said: Counter[tuple[str, ...]] = Counter()
        self._by_first: dict[str, list[tuple[str, ...]]] = {}
        self._sentence: list[str] = []
        self._alike: list[tuple[str, ...]] = []  # earlier sentences that begin like this one
        self._again = 0  # words of whole sentences before this one, all of them said before

    def word(self, word: str, *, start: int) -> int | None:  # noqa: ARG002 - `sentence` was told of the start
        """Take a word; return how many of the last words may be part of a loop, ``None`` when they are."""
        self._last.append(word)
        self._sentence.append(word)
        count = len(self._sentence)
        if count == 1:
            self._alike = self._by_first.get(word, [])[-MOST_COMPARED:]
        else:
            self._alike = [each for each in self._alike if len(each) >= count and each[count - 1] == word]
        if not self._alike:
            self._again = 0
        if len(self._last) == RUN:
            run = tuple(self._last)
            self._runs[run] += 1
            if self._runs[run] >= RUNS:
                return None
            if self._runs[run] == 1:
                self._behind.setdefault(run[:-1], []).append(word)
            self._region = 0 if self._runs[run] == 1 else max(RUN, self._region + 1)
        return max(self._region, self._again + count if self._alike else 0)

    def sentence(self) -> int | None:
        """A sentence has ended; ``None`` if it was said too often."""
        said, self._sentence, self._alike = tuple(self._sentence), [], []
        if len(said) < SHORTEST:
            return self._again
        self._said[said] += 1
        if self._said[said] == 1:
            self._by_first.setdefault(said[0], []).append(said)
            self._again = 0
        else:
            self._again += len(said)
        return None if self._said[said] >= SENTENCES else self._again

    def may_begin(self, fragment: str, *, start: int) -> bool:
        """Whether a word that begins like this may go on repeating an earlier sentence."""
        if start and any(first.startswith(fragment) for first in self._by_first):
            return True
        count, last = len(self._sentence), tuple(self._last)[1 - RUN :]
        if any(each.startswith(fragment) for each in self._behind.get(last, ())):
            return True
        return any(len(each) > count and each[count].startswith(fragment) for each in self._alike)
