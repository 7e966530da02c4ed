"""Prompts as sorted numbers of the cues that a model knows: what `cues` names, found by table, fast.

A text that was never read before is new to the processor: what is known of its words and pairs is looked up in memory
that is not in its caches. So a dictionary gives each word a number, and all else is in arrays of small numbers that lie
close together and are asked about all words at once. Every call of numpy has its price, microseconds among other code,
so there are few.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

from stretto.router.features import BREAK, STEM, lexicon, structure, unspaced_concepts, words_and_breaks
from stretto.router.pair_table import PairTable
from stretto.router.reading import excerpt

if TYPE_CHECKING:
    from numpy.typing import NDArray

_START, _START_NUMBER = "@start", 1
_UNKNOWN = 0


@dataclass(frozen=True)
class _Sorted:
    """Cues by kind, as the names of them spell it (`features`): words as written, stems and concepts without mark.

    A word that begins a clause is a pair with `BREAK`.
    """

    words: Mapping[str, int]
    stems: dict[str, int]
    ends: dict[str, int]
    pairs: dict[tuple[str, str], int]

    @classmethod
    def of(cls, known: Mapping[str, int]) -> _Sorted:
        """Sort all cues but those of concepts and structure."""
        words, stems, ends, pairs = {}, {}, {}, {}
        for cue, number in known.items():
            mark, rest = cue[0], cue[1:]
            first, blank, second = cue.partition(" ")
            if mark == "~":
                stems[rest] = number
            elif mark == "$":
                ends[rest] = number
            elif mark == "|":
                pairs[BREAK, rest] = number
            elif blank:
                pairs[first, second] = number
            elif mark not in "@=":
                words[cue] = number
        return cls(words, stems, ends, pairs)

    def mentioned(self) -> Iterable[str]:
        """Every word that something is known of, stems and breaks left out; some more than once."""
        yield from self.words
        yield from self.ends
        for pair in self.pairs:
            yield from (word for word in pair if word != BREAK)


class _Numbers(dict[str, int]):
    """Numbers of words; of a word that is not known, the number of its first letters, or `_UNKNOWN`."""

    def __init__(self, words: Mapping[str, int], stems: Mapping[str, int]) -> None:
        super().__init__(words)
        self._stems = stems

    def __missing__(self, word: str) -> int:
        return self._stems.get(word[:STEM], _UNKNOWN)


class CueReader:
    """Turns prompts into the numbers of those of their cues that ``known`` has a number for.

    Every word has a number of its own. Words that are not known, but begin like known ones, have that of their stem.
    """

    def __init__(self, known: Mapping[str, int]) -> None:
        import numpy as np  # noqa: PLC0415 - loaded with the model, not with the library

        self._numpy = np
        concepts_of, _, _ = lexicon()
        cues = _Sorted.of(known)
        words = dict.fromkeys([*cues.mentioned(), *concepts_of])
        self._known = {cue: number for cue, number in known.items() if cue[0] in "@="}
        numbers = {word: number for number, word in enumerate([BREAK, *words], 1)}
        stems = {stem: number for number, stem in enumerate(cues.stems, len(numbers) + 1)}
        self._numbers = _Numbers(numbers, stems)
        count = len(numbers) + len(stems) + 1
        self._none = max(known.values(), default=0) + 1  # the number of no cue; after all others in order
        self._cue = np.min_scalar_type(max(self._none, len(concepts_of)))

        concepts = sorted({concept for found in concepts_of.values() for concept in found[:1]})
        self._concepts = ["", _START, *concepts]  # numbers of concepts are places here
        place = {concept: number for number, concept in enumerate(self._concepts)}
        rows: list[list[int]] = [[] for _ in range(count)]
        firsts, ends = [0] * count, [self._none] * count
        for word in words:
            found, number = concepts_of.get(word, ()), numbers[word]
            names = (word, *found, *(("~" + word[:STEM],) if len(word) >= STEM else ()))
            rows[number] = [known[name] for name in names if name in known]
            firsts[number] = place[found[0]] if found else 0
            ends[number] = cues.ends.get(word, self._none)
        for stem, number in stems.items():
            rows[number] = [cues.stems[stem]]
        width = max(map(len, rows))
        plain = [[*row, *repeat(self._none, width - len(row))] for row in rows]
        # Of each word: its own cues, that of its place in the last clause, the number of its first concept.
        self._entries = np.column_stack([self._table(plain), self._table(ends), self._table(firsts)])
        self._successions = self._table(
            [[known.get(f"{one}>{two}", self._none) for two in self._concepts] for one in self._concepts]
        )  # [concepts, concepts]
        pairs = {(numbers[one], numbers[two]): number for (one, two), number in cues.pairs.items()}
        self._pairs = PairTable(pairs, count, self._cue)

    def _table(self, rows: list[Any]) -> NDArray[Any]:
        return self._numpy.array(rows, self._cue)

    def read(self, prompt: str) -> NDArray[Any]:
        """Return the numbers of the cues of a prompt, each once, in ascending order. Any text is accepted."""
        np = self._numpy
        text = excerpt(prompt)
        # There is one number of no cue at least, and it comes last in order.
        found: list[Any] = [[self._none, *(self._known.get(fact, self._none) for fact in structure(prompt, text))]]
        lowered = text.lower()
        before = _START_NUMBER
        if words := words_and_breaks(lowered):
            concepts = self._look_up(words, found)
            before = int(concepts[-1])
        if not text.isascii():
            found[0] += [self._known.get(cue, self._none) for cue in unspaced_concepts(lowered, self._concepts[before])]
        fired = np.concatenate(found, dtype="intp")  # sorted many times as fast as numbers of two bytes
        fired.sort()
        cues: NDArray[Any] = fired[:-1][fired[1:] != fired[:-1]]
        return cues

    def _look_up(self, words: list[str], found: list[Any]) -> NDArray[Any]:
        """Add the cues of words, numbers of no cue among them, and return the concepts met, the start before them."""
        numbers = self._numpy.fromiter(map(self._numbers.__getitem__, words), "intp", len(words))
        entries = self._entries.take(numbers, axis=0)  # [words, width + 2]
        clause = len(words) - words[::-1].index(BREAK)
        concepts: NDArray[Any] = entries[:, -1]
        concepts[0] = _START_NUMBER  # a text begins with a break, in the place of which the start is put
        concepts = concepts[concepts != 0]
        found += (
            entries[:, :-2].ravel(),
            entries[clause:, -2],
            self._pairs.look_up(numbers),
            self._successions[concepts[:-1], concepts[1:]],
        )
        return concepts
