"""Keeps the words of the prompts that were sent for an answer out of its texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from stretto.strategies.quality.phrases import Phrases, PhraseSearch
from stretto.strategies.quality.stream_filter import StreamFilter
from stretto.strategies.quality.words import words_of
from stretto.values.answer_warning import Warn

__all__ = ["Leaks"]


class Leaks:
    """The sentences of the prompt templates that were sent; none of them may stand in the answer.

    Args:
        warn_once: tells the user, unless that was told already.

    Attributes:
        users: the texts of the request, which may stand in the answer whatever the templates say.
    """

    def __init__(self, warn_once: Warn) -> None:
        self.users: tuple[str, ...] = ()
        self._sent = Phrases()
        self._warn_once = warn_once
        self._own_words: str | None = None

    def add(self, wordings: Iterable[str]) -> None:
        """Note sentences that are sent."""
        self._sent.add(wordings)

    def search(self) -> PhraseSearch:
        """Looks for them in a text, but for those that the user wrote too."""
        return PhraseSearch(self._sent, self._is_own)

    def screen(self, found: Callable[[str], bool] | None = None) -> StreamFilter:
        """What keeps them out of a text, also those that are sent while it comes.

        ``found`` is called instead of the warning; it returns whether the text ends there.
        """
        return StreamFilter([("leak", self.search())], found or self._found)

    def clean(self, text: str) -> str:
        """A whole text without them."""
        screen = self.screen()
        return screen.feed(text) + screen.finish()

    def _is_own(self, words: Sequence[str]) -> bool:
        if self._own_words is None:
            self._own_words = " ".join(word for text in self.users for word in ("", *words_of(text), ""))
        return f" {' '.join(words)} " in self._own_words

    def _found(self, _: str) -> bool:
        self._warn_once("Words of the library's own prompt were left out of the answer.", "leak")
        return False
