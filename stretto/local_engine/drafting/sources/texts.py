"""Growing texts outside of a request that `Suffix` searches for what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count

from stretto.foundation.latest import Latest
from stretto.local_engine.drafting.automaton import SuffixAutomaton, Tail
from stretto.local_engine.drafting.sources.grams import Grams
from stretto.local_engine.generation import Generation

_JOINT = 4  # prompt tokens kept before an answer, so that the very beginning of another answer can be drafted
_AT_ONCE = 8  # tokens added per call: calling compiled code takes longer than adding a token
_NOBODY = 0


class Texts:
    """Texts that can grow concurrently.

    Args:
        limit: maximum number of tokens. Beyond it, only the latest texts, of half as many tokens, are kept.

    Attributes:
        automaton: all of their substrings.
        grams: a fast filter of what occurs in them.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._numbers = count(_NOBODY + 1)
        self._written: dict[int, list[int]] = {}  # texts by their numbers, the most recently grown last
        self._begin({})

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]]) -> Texts:
        """Return an object with these complete texts."""
        made = cls(sum(map(len, texts)))
        for text in texts:
            made.automaton.extend_from(Tail(), text)
            made.grams.add_all(text)
        return made

    @classmethod
    def expecting(cls, prompt: Sequence[int], answer: Sequence[int]) -> Texts:
        """Return an object with the expected answer to a prompt, for one request."""
        return cls.of([(*prompt[-_JOINT:], *answer)])

    def begin(self, prompt: Sequence[int]) -> DraftText:
        """Begin a text: the answer to a prompt."""
        return DraftText(self, next(self._numbers), prompt[-_JOINT:])

    def add(self, writing: DraftText, new: Sequence[int]) -> None:
        """Add tokens to a text; only `DraftText` calls this."""
        new = new[-self._limit :]
        if self._total + len(new) > self._limit:
            self._forget(self._limit // 2 - len(new))
        if writing.automaton is not self.automaton:  # it began in one that was replaced
            writing.automaton, writing.tail = self.automaton, self._tails.pop(writing.number, Tail())
        text = self._written.pop(writing.number, [])
        text += new
        self._written[writing.number] = text
        self._total += len(new)
        self.automaton.extend_from(writing.tail, new)

    def _forget(self, left: int) -> None:
        """Keep only the latest texts, the oldest of them cut, of ``left`` tokens in total."""
        kept: dict[int, list[int]] = {}
        for number, text in reversed(self._written.items()):
            if left <= 0:
                break
            kept[number] = text[-left:]
            left -= len(text)
        self._begin(dict(reversed(kept.items())))

    def _begin(self, texts: dict[int, list[int]]) -> None:
        self.automaton, self.grams, self._written = SuffixAutomaton(), Grams(self._limit), texts
        self._total = sum(map(len, texts.values()))
        self._tails = {number: Tail() for number in texts}
        for number, text in texts.items():
            self.automaton.extend_from(self._tails[number], text)
            self.grams.add(text, 0, number)


class DraftText:
    """An answer that is being written, as others can draft from it.

    Args:
        texts: the texts that it is added to.
        number: identifies it there, so that its request does not draft from itself.
        joint: tokens before it.
    """

    def __init__(self, texts: Texts, number: int, joint: Sequence[int]) -> None:
        self.texts = texts
        self.number = number
        self.automaton, self.tail = texts.automaton, Tail()
        self._text = list(joint)
        self._joint, self._added = len(joint), 0

    def write(self, answer: Sequence[int], *, whole: bool = False) -> None:
        """Add the new tokens of the answer, multiple at a time; the rest when it is ``whole``."""
        written = len(self._text) - self._joint
        if len(answer) - written < (1 if whole else _AT_ONCE):
            return
        self._text += answer[written:]
        self.texts.add(self, self._text[self._added :])
        self.texts.grams.add(self._text, self._added, self.number)
        self._added = len(self._text)


_TENANTS = 32  # most recent tenants whose answers are kept
_ANSWERS = 8  # answers whose parts are kept, if whole answers are not
_TOKENS = 8192  # limit for the parts of one answer


class EarlierAnswers:
    """Earlier answers by tenant, or the parts of one answer if nothing is kept for a tenant.

    Args:
        limit: tokens kept for each tenant; 0 keeps nothing beyond an answer.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._of_tenants = Latest(partial(Texts, limit), _TENANTS)
        self._of_answers = Latest(partial(Texts, _TOKENS), _ANSWERS)

    def clear(self) -> None:
        """Forget earlier answers, except those that are still being written. Safe from any thread."""
        self._of_tenants.clear()

    def of(self, request: Generation) -> Texts | None:
        """Return the texts that a request can draft from and that its answer is added to."""
        tenant, answer = request.tenant, request.answer
        if self._limit and tenant != "":
            return self._of_tenants.of(tenant)
        # The answers of two tenants can have the same number if they come from two processes.
        return None if answer is None else self._of_answers.of((tenant, answer))
