"""What is looked for in the text of one call, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stretto.errors import StrettoError
from stretto.language.echoes import echoes
from stretto.strategies.harm.headings import HeadingSearch
from stretto.strategies.harm.lists import ListSearch
from stretto.strategies.harm.loops import LoopSearch
from stretto.strategies.harm.phrases import PhraseSearch
from stretto.strategies.harm.screen import Screen, Search
from stretto.strategies.harm.words import words_of

ENOUGH = 12  # words of a part that are worth keeping where it is cut

REPEATS = "it only repeats its title or the question"
LEAK, LOOP, HEADING, LIST = "leak", "loop", "heading", "list"
FAULTS = {
    LEAK: "it repeats words of the prompt",
    LOOP: "it repeats itself",
    HEADING: "it goes on with another part",
    LIST: "it becomes a list",
}


class SpoiledError(StrettoError):
    """A part is of no use from some place on; the text before that place is."""


class Watch:
    """Watches the text of one call and ends the call where the text is spoiled.

    Args:
        leaks: looks for words of the prompts.
        titles: of all parts, none of which may head a later line.
        lists: the text may hold numbered lists.
        says_nothing: whether a whole text has nothing beside its title and the question.

    Attributes:
        fault: what is wrong, as half a sentence; empty while nothing is.
    """

    def __init__(
        self,
        leaks: PhraseSearch | None = None,
        titles: Iterable[str] = (),
        *,
        lists: bool = True,
        says_nothing: Callable[[str], bool] | None = None,
    ) -> None:
        self.fault = ""
        self._lists, self._says_nothing = lists, says_nothing
        self._passed: list[str] = []
        searches: list[tuple[str, Search]] = [(LOOP, LoopSearch())]
        if leaks is not None:
            searches.append((LEAK, leaks))
        if titles := tuple(titles):
            searches.append((HEADING, HeadingSearch(titles, echoes().leads)))
        if not lists:
            searches.append((LIST, ListSearch()))
        self._screen = Screen(searches, self._found)

    def feed(self, text: str) -> str:
        """Take new text; return what can be passed on already."""
        passed = self._screen.feed(text)
        self._passed.append(passed)
        return passed

    def finish(self) -> str:
        """Return what was held back, at the end of the text, and judge the whole of it."""
        last = self._screen.finish()
        text = "".join((*self._passed, last)).rstrip(" \n*_")
        if not (self._lists or self.fault) and text.endswith((":", "：")):  # where it ended, the list would begin
            self.fault = FAULTS[LIST]
        if not self.fault and self._says_nothing is not None and self._says_nothing(text):
            self.fault = REPEATS
        return last

    def _found(self, name: str) -> bool:
        self.fault = FAULTS[name]
        return True


class LoopAlarm:
    """Tells of a loop once, and leaves the text as it is."""

    fault = ""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._screen = Screen([(LOOP, LoopSearch())], self._found)

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


def is_enough(text: str, fault: str = "") -> bool:
    """Whether what stands before a spoiled place is worth keeping: enough words that announce nothing more.

    ``fault``: of the text. Nothing of one is kept that says nothing.
    """
    return fault != REPEATS and len(words_of(text)) >= ENOUGH and not text.rstrip(" \n*_").endswith((":", "："))
