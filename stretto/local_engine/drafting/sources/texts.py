"""Texts outside of a request, in which `Suffix` looks for what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count

from stretto.foundation.latest import Latest
from stretto.local_engine.drafting.automaton import SuffixAutomaton, Tail
from stretto.local_engine.drafting.sources.grams import Grams
from stretto.local_engine.generation import Generation

__all__ = ["DraftText", "EarlierAnswers", "Texts"]

_JOINT = 4  # tokens of a prompt that are kept before its answer, so that the very beginning of another is drafted
_AT_ONCE = 8  # tokens are added: calling compiled code for each takes longer than adding it
_NOBODY = 0


class Texts:
    """Texts that end anywhere, and may grow at the same time.

    Args:
        limit: tokens kept. Beyond that, the latest texts of half as many tokens are, and the others are forgotten.

    Attributes:
        automaton: all of their substrings.
        grams: a quick look at what occurs in them.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._numbers = count(_NOBODY + 1)
        self._written: dict[int, list[int]] = {}  # texts by their numbers, those that grew last at the end
        self._begin({})

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]]) -> Texts:
        """Texts that are whole already."""
        made = cls(sum(map(len, texts)))
        for text in texts:
            made.automaton.extend_from(Tail(), text)
            made.grams.add_all(text)
        return made

    @classmethod
    def expecting(cls, prompt: Sequence[int], answer: Sequence[int]) -> Texts:
        """What the answer to this prompt may be, for one request."""
        return cls.of([(*prompt[-_JOINT:], *answer)])

    def begin(self, prompt: Sequence[int]) -> DraftText:
        """Begin a text: the answer to a prompt."""
        return DraftText(self, next(self._numbers), prompt[-_JOINT:])

    def add(self, writing: DraftText, new: Sequence[int]) -> None:
        """Add tokens to a text; only `DraftText` calls this."""
        new = new[-self._limit :]
        if self._held + len(new) > self._limit:
            self._forget(self._limit // 2 - len(new))
        if writing.automaton is not self.automaton:  # it began in one that is gone
            writing.automaton, writing.tail = self.automaton, self._tails.pop(writing.number, Tail())
        text = self._written.pop(writing.number, [])
        text += new
        self._written[writing.number] = text
        self._held += len(new)
        self.automaton.extend_from(writing.tail, new)

    def _forget(self, left: int) -> None:
        """Begin anew with the latest texts, and the end of one, of as many tokens."""
        kept: dict[int, list[int]] = {}
        for number, text in reversed(self._written.items()):
            if left <= 0:
                break
            kept[number] = text[-left:]
            left -= len(text)
        self._begin(dict(reversed(kept.items())))

    def _begin(self, texts: dict[int, list[int]]) -> None:
        self.automaton, self.grams, self._written = SuffixAutomaton(), Grams(self._limit), texts
        self._held = sum(map(len, texts.values()))
        self._tails = {number: Tail() for number in texts}
        for number, text in texts.items():
            self.automaton.extend_from(self._tails[number], text)
            self.grams.add(text, 0, number)


class DraftText:
    """One answer that is being written, as others may draft from it.

    Args:
        texts: where it is added.
        number: tells it from others there, so that it does not take its own words for those of others.
        joint: tokens before it.
    """

    def __init__(self, texts: Texts, number: int, joint: Sequence[int]) -> None:
        self.texts = texts
        self.number = number
        self.automaton, self.tail = texts.automaton, Tail()
        self._text = list(joint)
        self._joint, self._added = len(joint), 0

    def write(self, answer: Sequence[int], *, whole: bool = False) -> None:
        """Add what is new in the answer, some tokens at a time; the rest when it is ``whole``."""
        written = len(self._text) - self._joint
        if len(answer) - written < (1 if whole else _AT_ONCE):
            return
        self._text += answer[written:]
        self.texts.add(self, self._text[self._added :])
        self.texts.grams.add(self._text, self._added, self.number)
        self._added = len(self._text)


_TENANTS = 32  # whose answers are kept, those who asked last
_ANSWERS = 8  # of which the parts are kept, where answers are not
_TOKENS = 8192  # of the parts of one answer


class EarlierAnswers:
    """Answers by tenant, and the parts of one answer where nothing is kept of a tenant.

    Args:
        limit: tokens kept of each tenant; 0 keeps nothing beyond an answer.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._of_tenants = Latest(partial(Texts, limit), _TENANTS)
        self._of_answers = Latest(partial(Texts, _TOKENS), _ANSWERS)

    def clear(self) -> None:
        """Keep nothing of earlier answers. Those that are being written stay with their requests. From any thread."""
        self._of_tenants.clear()

    def of(self, request: Generation) -> Texts | None:
        """Where a request may look, and where its answer is kept."""
        tenant, answer = request.tenant, request.answer
        if self._limit and tenant != "":
            return self._of_tenants.of(tenant)
        # The answers of two tenants may have the same number where they come from two processes.
        return None if answer is None else self._of_answers.of((tenant, answer))
