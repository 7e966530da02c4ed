"""Keep what an earlier section contains out of a later one: found by code, in text not shown yet."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator

from stretto.strategies.quality.words import runs, words_of
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.merge import TextFilter
from stretto.values.answer import Branch

RUN, UNSPACED_RUN = 6, 14  # repeated words in a row; characters, in scripts without spaces
MOSTLY = 2 / 3  # repeated share of a sentence from which on it says nothing new
LONGEST = 1_000  # characters of a sentence; a longer one is passed on in chunks
NAMED = 4  # letters of the word before a number that identify it
_END = re.compile(r"\n|[。！？]|[.!?][*_)\"”»]*+(?=\s)")
_START = re.compile(r"\s*(?:[-*+•]\s+)?")
_NUMBERED = re.compile(r"\s*(?:\d{1,3}[.)]|\||#|```|~~~)")  # a numbered item, a row, a heading, code
_LINK = re.compile(r"https?://[^\s)>\]]+")


class TextSoFar:
    """The content of an answer so far, by section."""

    def __init__(self) -> None:
        self._by: dict[tuple[str, ...], tuple[int, str, str]] = {}

    def add(self, place: int, sentence: str) -> None:
        for key, _, value in _traits(sentence):
            self._by.setdefault(key, (place, value, sentence.strip()))

    def find(self, place: int, sentence: str) -> tuple[str, float]:
        """Return the repeated text of another section for a sentence, and its share of the words; "" for nothing."""
        earlier, again = "", set[int]()
        for key, at, value in _traits(sentence):
            where, before, text = self._by.get(key, (place, "", ""))
            if where == place or (value == before and key[0] == "number"):
                continue
            earlier = earlier or text
            again.update(at)
        return earlier, len(again) / max(1, len(words_of(sentence)))


def _traits(sentence: str) -> Iterator[tuple[tuple[str, ...], range, str]]:
    """Yield what can be repeated: runs of words, links, and numbers with the words around them, which can conflict."""
    words = words_of(sentence)
    run = UNSPACED_RUN if 2 * sum(len(word) == 1 for word in words) > len(words) else RUN
    for at, phrase in enumerate(runs(words, run)):
        yield ("words", *phrase), range(at, at + run), ""
    for link in _LINK.findall(sentence):
        yield ("link", link), range(0), ""
    for at in range(2, len(words) - 1):
        before, word, following = words[at - 1 : at + 2]
        if word[0].isdigit() and len(before) >= NAMED and following.isalpha():
            yield ("number", words[at - 2], before, following), range(0), word


class WithoutRepeats:
    """A section for the merge, sentence by sentence, without what another section contains.

    A sentence that is mostly repetition is cut; one that partly repeats or contradicts another is requested again. The
    first section is passed on as it streams.

    Args:
        so_far: the content of the answer; this section is added to it.
        again: requests a sentence again, given the earlier text and the sentence; ``None``: nothing new is left of it.
    """

    def __init__(
        self,
        running: RunningBranch,
        filter_: TextFilter | None,
        place: int,
        so_far: TextSoFar,
        again: Callable[[str, str], Awaitable[str | None]],
    ) -> None:
        self._running, self._filter, self._place, self._so_far, self._again = running, filter_, place, so_far, again
        self._text = ""  # not passed on yet
        self._line = ""  # the line so far, as it was written
        self._mark: str | None = None  # of a line whose first sentence was cut
        self._cut = ""  # the first sentence that was cut, for a section that would be empty without it
        self._any = self._in_code = self._over = False

    async def ended(self) -> Branch:
        return await self._running.ended()

    async def read(self) -> str:
        while not self._over:
            new = await self._running.read()
            self._over = not new
            if self._filter is not None:
                new = self._filter.feed(new) if new else self._filter.finish()
            self._text += new
            shown = "".join([await self._passed(sentence) for sentence in self._sentences()])
            shown = new if self._place == 1 else shown
            if self._over and not self._any and not shown.strip():
                shown = self._cut
            if shown:
                self._any = self._any or bool(shown.strip())
                return shown
        return ""

    def _sentences(self) -> list[str]:
        """Take the complete sentences of the text."""
        ends = [found.end() for found in _END.finditer(self._text)]
        rest = len(self._text) - (ends[-1] if ends else 0)
        ends += [len(self._text)] if rest > (0 if self._over else LONGEST) else []
        pieces = [self._text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        self._text = self._text[ends[-1] if ends else 0 :]
        return pieces

    async def _passed(self, sentence: str) -> str:
        starts = not self._line.strip()
        self._line += sentence
        line, ends = self._line, sentence.endswith("\n")
        if ends:
            self._line = ""
        if starts and line.lstrip().startswith(("```", "~~~")):
            self._in_code = not self._in_code
        if self._mark is not None and sentence.strip():
            sentence, self._mark = self._mark + sentence.lstrip(" "), None
        elif self._mark is not None:  # the line had only that sentence
            self._mark = None
            return ""
        if self._place > 1 and not (self._in_code or _NUMBERED.match(line)):
            earlier, share = self._so_far.find(self._place, sentence)
            start = _START.match(sentence)[0] if starts else ""  # type: ignore[index]  # it matches any text
            kept = None if share >= MOSTLY else sentence
            if earlier and kept:
                kept = await self._again(earlier, sentence[len(start) :].strip())
                kept = kept and f"{start}{kept}{sentence[len(sentence.rstrip()) :]}"
            if kept is None:
                self._cut = self._cut or sentence.strip()
                self._mark = start if starts and not ends else None
                return "\n" if ends and not starts else ""
            sentence = kept
        self._so_far.add(self._place, sentence)
        return sentence
