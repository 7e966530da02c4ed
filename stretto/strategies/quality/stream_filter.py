"""Pass a streamed text on, and hold back only what could turn out to be harmful."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol

from stretto.language.folding import UNSPACED
from stretto.strategies.quality.words import ENDS, LONGEST

SENTENCE, LINE = 1, 2
"""What a word begins; 0 for neither."""

_TOKEN = re.compile(rf"(?P<word>[^\W_{UNSPACED}]+)|(?P<single>[{UNSPACED}])|(?P<gap>[\W_]+)")


class Search(Protocol):
    """Looks for one kind of harm in a text that arrives word by word."""

    def word(self, word: str, *, start: int) -> int | None:
        """Take a word; return how many of the last words to hold back, ``None`` when they are harmful.

        ``start``: 1 for the first word of a sentence, 2 for the first word of a line.
        """
        ...

    def sentence(self) -> int | None:
        """Note the end of a sentence; the results are those of `word`."""
        ...

    def may_begin(self, fragment: str, *, start: int) -> bool:
        """Return whether an incomplete word could continue what is searched for."""
        ...


class StreamFilter:
    """A filter of streamed text. What it shows does not depend on how the stream was chunked.

    Args:
        searches: by what they find.
        found: called with that name; returns whether to end the text there. Otherwise only the match is left out, and
            the text goes on.
    """

    def __init__(self, searches: Sequence[tuple[str, Search]], found: Callable[[str], bool]) -> None:
        self._searches = searches
        self._found = found
        self._pending: list[str] = []  # words, each with the gap after it
        self._word = ""  # the incomplete word
        self._shown = 0  # characters of it
        self._lead = ""  # the line break before the next word, with the markup after it
        self._start = LINE  # what the next word begins
        self._end_announced = True  # the searches know that the sentence before has ended
        self._in_harm = False  # the last word was part of what was found
        self.ended = False

    def feed(self, text: str) -> str:
        out: list[str] = []
        for token in _TOKEN.finditer(text):
            if self.ended:
                return "".join(out)
            if token["gap"]:
                self._complete(out)
                self._gap(token["gap"], out)
            elif token["single"]:
                self._complete(out)
                self._word = token["single"]
                self._complete(out)
            else:
                self._word += token["word"]
                while len(self._word) > LONGEST and not self.ended:
                    self._word, rest = self._word[:LONGEST], self._word[LONGEST:]
                    self._complete(out)
                    self._word = rest
        if self._word and not self.ended and not self._may_hold():
            out.append(self._lead + self._word[self._shown :])
            self._lead, self._shown = "", len(self._word)
        return "".join(out)

    def finish(self) -> str:
        out: list[str] = []
        if not self.ended:
            self._complete(out)
        if not self.ended:
            self._end_sentence(out)
        if not self.ended:
            out += [*self._pending, self._lead]
            self._pending.clear()
        return "".join(out)

    def _may_hold(self) -> bool:
        if self._shown:
            return False
        if self._pending or self._in_harm:
            return True
        fragment = self._word.casefold()
        return any(search.may_begin(fragment, start=self._start) for _, search in self._searches)

    def _gap(self, gap: str, out: list[str]) -> None:
        begins = LINE if "\n" in gap else SENTENCE if not ENDS.isdisjoint(gap) else 0
        self._start = max(self._start, begins)
        at = 0 if self._lead else gap.find("\n") if "\n" in gap else len(gap)
        self._lead += "" if self._in_harm else gap[at:]
        if self._pending:
            self._pending[-1] += gap[:at]
        elif not self._in_harm:
            out.append(gap[:at])
        if self._start and not self._end_announced:
            self._end_announced = True
            self._end_sentence(out)

    def _end_sentence(self, out: list[str]) -> None:
        self._judge([(name, search.sentence()) for name, search in self._searches], out)

    def _complete(self, out: list[str]) -> None:
        if not self._word:
            return
        word, start = self._word.casefold(), self._start
        self._pending.append(self._lead + self._word[self._shown :])
        self._lead, self._word, self._shown, self._start, self._end_announced = "", "", 0, 0, False
        self._judge([(name, search.word(word, start=start)) for name, search in self._searches], out)

    def _judge(self, harms: Sequence[tuple[str, int | None]], out: list[str]) -> None:
        harm = next((name for name, hold in harms if hold is None), None)
        self._in_harm = harm is not None
        if harm is not None:
            self._pending.clear()
            self._lead = ""
            self.ended = self._found(harm)
            return
        hold = max((hold for _, hold in harms if hold), default=0)
        if (free := len(self._pending) - hold) > 0:
            out += self._pending[:free]
            del self._pending[:free]
