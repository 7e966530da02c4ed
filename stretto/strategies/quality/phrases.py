"""Find runs of words that occur in given texts, above all in the prompts that were sent for an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from stretto.strategies.quality.stream_filter import StreamFilter
from stretto.strategies.quality.words import sentences_of, words_of
from stretto.values.answer_warning import Warn

RUN = 8  # words in a row that no writer shares with a prompt by chance
WHOLE = 5  # words of a whole sentence that counts although it is shorter than a run
SHOWN = 2  # words of a run inside a sentence that are shown before it can be distinguished from other text


class Phrases:
    """Sentences to look for: each run of eight of their words, and each sentence of five to eight as a whole.

    Args:
        texts: contain the sentences.
        whole: the fewest words of a whole sentence that counts.
    """

    def __init__(self, texts: Iterable[str] = (), *, whole: int = WHOLE) -> None:
        self.whole = whole
        self.words: list[str] = []  # of all sentences, with an empty one after each
        self.at: dict[str, list[int]] = {}
        self.starts: set[int] = set()
        self._known: set[tuple[str, ...]] = set()
        self.add(texts)

    def add(self, texts: Iterable[str]) -> None:
        for sentence in (words for text in texts for words in sentences_of(text)):
            if len(sentence) < min(self.whole, RUN) or tuple(sentence) in self._known:
                continue
            self._known.add(tuple(sentence))
            self.starts.add(len(self.words))
            for word in sentence:
                self.at.setdefault(word, []).append(len(self.words))
                self.words.append(word)
            self.words.append("")

    def hold(self, words: Sequence[str]) -> bool:
        """Return whether these words are one of the sentences, or contain a run of one."""
        search = PhraseSearch(self)
        found = [search.word(word, start=int(number == 0)) is None for number, word in enumerate(words)]
        return any(found) or search.sentence() is None


class PhraseSearch:
    """Looks for phrases in a text that arrives word by word.

    Args:
        phrases: to look for.
        allowed: returns whether a run may appear anyway, because the user wrote it.
    """

    def __init__(self, phrases: Phrases, allowed: Callable[[Sequence[str]], bool] = lambda _: False) -> None:
        self._phrases = phrases
        self._allowed = allowed
        self._open: dict[int, tuple[int, bool]] = {}  # position of the last word: words so far, begun with a sentence

    def word(self, word: str, *, start: int) -> int | None:
        """Take a word; ``start``: a sentence or line begins with it.

        Returns:
            how many of the last words could be part of a phrase; ``None`` when they are one.
        """
        phrases, before = self._phrases, self._open
        self._open = {}
        for at, (count, whole) in before.items():
            if phrases.words[at + 1] == word:
                self._open[at + 1] = (count + 1, whole)
        for at in phrases.at.get(word, ()):
            if at not in self._open:
                self._open[at] = (1, bool(start) and at in phrases.starts)
        longest = max((count for count, _ in self._open.values()), default=0)
        if longest >= RUN:
            at = next(at for at, (count, _) in self._open.items() if count == longest)
            if not self._allowed(phrases.words[at - RUN + 1 : at + 1]):
                return None
            self._open.clear()
            return 0
        begun = max((count for count, whole in self._open.values() if whole), default=0)
        return max(begun, longest if longest > SHOWN else 0)

    def sentence(self) -> int | None:
        words, least = self._phrases.words, self._phrases.whole
        ended = [(at, count) for at, (count, whole) in self._open.items() if whole and not words[at + 1]]
        for at, count in ended:
            if count >= least and not self._allowed(words[at - count + 1 : at + 1]):
                self._open.clear()
                return None
        return 0

    def may_begin(self, fragment: str, *, start: int) -> bool:
        words = self._phrases.words
        if any(
            words[at + 1].startswith(fragment) for at, (count, whole) in self._open.items() if whole or count >= SHOWN
        ):
            return True
        return bool(start) and any(words[at].startswith(fragment) for at in self._phrases.starts)


class Leaks:
    """The sentences of the prompt templates that were sent; none of them may appear in the answer.

    Args:
        warn_once: warns the user, once.

    Attributes:
        users: the texts of the request, which may appear in the answer whatever the templates say.
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
        """Return a search for them that skips those that the user wrote too."""
        return PhraseSearch(self._sent, self._is_own)

    def screen(self, found: Callable[[str], bool] | None = None) -> StreamFilter:
        """Return a filter that keeps them out of a text, including those that are sent while it streams.

        ``found`` is called instead of the warning and returns whether the text ends there.
        """
        return StreamFilter([("leak", self.search())], found or self._found)

    def clean(self, text: str) -> str:
        """Remove them from a whole text."""
        screen = self.screen()
        return screen.feed(text) + screen.finish()

    def _is_own(self, words: Sequence[str]) -> bool:
        if self._own_words is None:
            self._own_words = " ".join(word for text in self.users for word in ("", *words_of(text), ""))
        return f" {' '.join(words)} " in self._own_words

    def _found(self, _: str) -> bool:
        self._warn_once("Words of the library's own prompt were left out of the answer.", "leak")
        return False
