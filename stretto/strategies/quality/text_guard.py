"""The checks on the text of one call, and what they do when they find something."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable

from stretto.language.echoes import echoes
from stretto.strategies.quality.phrases import PhraseSearch
from stretto.strategies.quality.stream_filter import LINE, Search, StreamFilter
from stretto.strategies.quality.words import words_of
from stretto.values.answer import CutBy
from stretto.values.errors import StrettoError

ENOUGH = 12  # words that make a cut part worth keeping

LEAK: CutBy = "leak"
LOOP: CutBy = "loop"
HEADING: CutBy = "heading"
FAULTS: dict[str, str] = {
    LEAK: "it repeats words of the prompt",
    LOOP: "it repeats itself",
    HEADING: "it goes on with another part",
}
_SCREENS: dict[str, CutBy] = {FAULTS[screen]: screen for screen in (LEAK, LOOP, HEADING)}


class LowQualityTextError(StrettoError):
    """A part is useless from some position on; the text before it is usable.

    Attributes:
        cut_by: the check that found it.
    """

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.cut_by: CutBy | None = _SCREENS.get(fault)


class TextGuard:
    """Watches the text of one call, and ends the call when the text is spoiled.

    Args:
        leaks: looks for words of the prompts.
        titles: of all parts, none of which may head a later line.

    Attributes:
        fault: what is wrong, as half a sentence; empty while nothing is.
    """

    def __init__(self, leaks: PhraseSearch | None = None, titles: Iterable[str] = ()) -> None:
        self.fault = ""
        searches: list[tuple[str, Search]] = [(LOOP, LoopSearch())]
        if leaks is not None:
            searches.append((LEAK, leaks))
        if titles := tuple(titles):
            searches.append((HEADING, HeadingSearch(titles)))
        self._screen = StreamFilter(searches, self._found)

    def feed(self, text: str) -> str:
        return self._screen.feed(text)

    def finish(self) -> str:
        return self._screen.finish()

    def _found(self, name: str) -> bool:
        self.fault = FAULTS[name]
        return True


class LoopAlarm:
    """Reports a loop once, and leaves the text unchanged."""

    fault = ""

    def __init__(self, warn: Callable[[], None]) -> None:
        self._warn = warn
        self._screen = StreamFilter([(LOOP, LoopSearch())], self._found)

    def feed(self, text: str) -> str:
        self._screen.feed(text)
        return text

    def finish(self) -> str:
        self._screen.finish()
        return ""

    def _found(self, _: str) -> bool:
        self._warn()
        return True


def is_enough(text: str) -> bool:
    """Return whether the text before a spoiled position is worth keeping: enough words that announce nothing more."""
    return len(words_of(text)) >= ENOUGH and not text.rstrip(" \n*_").endswith((":", "："))


RUN = 8
RUNS = 4
SENTENCES = 3
SHORTEST = 3  # words of a sentence that counts
MOST_COMPARED = 64  # sentences with the same first word that one is compared with while it streams


class LoopSearch:
    """Looks for a loop in a text that arrives word by word."""

    def __init__(self) -> None:
        self._runs: Counter[tuple[str, ...]] = Counter()
        self._last: deque[str] = deque(maxlen=RUN)
        self._followers: dict[tuple[str, ...], list[str]] = {}  # seven words, and what followed them
        self._region = 0  # words up to the last one, all within runs that came before
        self._sentences: Counter[tuple[str, ...]] = Counter()
        self._by_first: dict[str, list[tuple[str, ...]]] = {}
        self._sentence: list[str] = []
        self._alike: list[tuple[str, ...]] = []  # earlier sentences that begin like this one
        self._again = 0  # words of the whole sentences before this one, all of them repetitions

    def word(self, word: str, *, start: int) -> int | None:  # noqa: ARG002 - `sentence` has handled the start
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
                self._followers.setdefault(run[:-1], []).append(word)
            self._region = 0 if self._runs[run] == 1 else max(RUN, self._region + 1)
        return max(self._region, self._again + count if self._alike else 0)

    def sentence(self) -> int | None:
        sentence, self._sentence, self._alike = tuple(self._sentence), [], []
        if len(sentence) < SHORTEST:
            return self._again
        self._sentences[sentence] += 1
        if self._sentences[sentence] == 1:
            self._by_first.setdefault(sentence[0], []).append(sentence)
            self._again = 0
        else:
            self._again += len(sentence)
        return None if self._sentences[sentence] >= SENTENCES else self._again

    def may_begin(self, fragment: str, *, start: int) -> bool:
        if start and any(first.startswith(fragment) for first in self._by_first):
            return True
        count, last = len(self._sentence), tuple(self._last)[1 - RUN :]
        if any(each.startswith(fragment) for each in self._followers.get(last, ())):
            return True
        return any(len(each) > count and each[count].startswith(fragment) for each in self._alike)


class HeadingSearch:
    """Looks for lines that consist of a title, of a number and a title, or of "point" and a number.

    The first line is left alone: a label there is removed elsewhere.
    """

    def __init__(self, titles: Iterable[str]) -> None:
        self._titles = {tuple(words) for title in titles if (words := words_of(title))}
        self._labels = echoes().leads
        # The words of a line so far; ``None`` in the first line and in later sentences.
        self._line: list[str] | None = None
        self._begun = False

    def word(self, word: str, *, start: int) -> int | None:
        if start == LINE or (start and not self._numbered):
            self._line = [] if start == LINE and self._begun else None
        self._begun = True
        if self._line is None:
            return 0
        self._line.append(word)
        bare = tuple(self._bare(self._line))
        return len(self._line) if any(title[: len(bare)] == bare for title in self._titles) else 0

    def sentence(self) -> int | None:
        line = self._line
        if self._numbered:  # "2." before a title
            return 1
        self._line = None
        if not line:
            return 0
        named = len(line) == 2 and line[0] in self._labels and line[1].isdigit()
        return None if named or tuple(self._bare(line)) in self._titles else 0

    def may_begin(self, fragment: str, *, start: int) -> bool:
        line = [] if start == LINE and self._begun else self._line if not start or self._numbered else None
        if line is None:
            return False
        if fragment.isdigit() or (not line and any(label.startswith(fragment) for label in self._labels)):
            return len(line) < 2
        bare = tuple(self._bare(line)) if line else ()
        return any(
            title[: len(bare)] == bare and len(title) > len(bare) and title[len(bare)].startswith(fragment)
            for title in self._titles
        )

    @property
    def _numbered(self) -> bool:
        line = self._line or []
        return len(line) == 1 and line[0].isdigit()

    def _bare(self, line: list[str]) -> list[str]:
        rest = line[1:] if line[0] in self._labels else line
        return rest[1:] if rest and rest[0].isdigit() else rest
