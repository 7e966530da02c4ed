"""What is looked for in the text of one call, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stretto.language.echoes import echoes
from stretto.strategies.quality.headings import HeadingSearch
from stretto.strategies.quality.loops import LoopSearch
from stretto.strategies.quality.phrases import PhraseSearch
from stretto.strategies.quality.stream_filter import Search, StreamFilter
from stretto.strategies.quality.words import words_of
from stretto.values.answer import CutBy
from stretto.values.errors import StrettoError

ENOUGH = 12  # words of a part that are worth keeping where it is cut

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
    """A part is of no use from some place on; the text before that place is.

    Attributes:
        cut_by: which screen found that.
    """

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.cut_by: CutBy | None = _SCREENS.get(fault)


class TextGuard:
    """Watches the text of one call and ends the call where the text is spoiled.

    Args:
        leaks: looks for words of the prompts.
        titles: of all parts, none of which may head a later line.

    Attributes:
        fault: what is wrong, as half a sentence; empty while nothing is.
    """

    def __init__(
        self,
        leaks: PhraseSearch | None = None,
        titles: Iterable[str] = (),
    ) -> None:
        self.fault = ""
        searches: list[tuple[str, Search]] = [(LOOP, LoopSearch())]
        if leaks is not None:
            searches.append((LEAK, leaks))
        if titles := tuple(titles):
            searches.append((HEADING, HeadingSearch(titles, echoes().leads)))
        self._screen = StreamFilter(searches, self._found)

    def feed(self, text: str) -> str:
        """Take new text; return what can be passed on already."""
        return self._screen.feed(text)

    def finish(self) -> str:
        """Return what was held back, at the end of the text."""
        return self._screen.finish()

    def _found(self, name: str) -> bool:
        self.fault = FAULTS[name]
        return True


class LoopAlarm:
    """Tells of a loop once, and leaves the text as it is."""

    fault = ""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._screen = StreamFilter([(LOOP, LoopSearch())], self._found)

    def feed(self, text: str) -> str:
        """Pass the text on."""
        self._screen.feed(text)
        return text

    def finish(self) -> str:
        """The end of the text, at which a last sentence may be one too many."""
        self._screen.finish()
        return ""

    def _found(self, _: str) -> bool:
        self._tell()
        return True


def is_enough(text: str) -> bool:
    """Whether what stands before a spoiled place is worth keeping: enough words that announce nothing more."""
    return len(words_of(text)) >= ENOUGH and not text.rstrip(" \n*_").endswith((":", "："))
