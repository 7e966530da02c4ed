"""Figures that code measures on a text: points, lengths, repetition, and whether it has the requested form.

Both sides of a comparison are measured only on their texts, not on what their strategies report. Every function runs in
linear time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from stretto.comparing.comparison_questions import Question
from stretto.language.sentences import sentences
from stretto.language.telling import language_of
from stretto.prompts import Catalogue
from stretto.strategies.quality.words import runs, words_of

_MARKER = re.compile(r"(?:\d{1,2}[.)]|[-*•])[ \t]+(?=\S)|#{1,6}[ \t]+(?=\S)|\d{1,2}[、．]")
_TITLE_ENDS = re.compile(r"\*\*|__|[:：]|[ \t][-–—][ \t]")
RUN = 4  # words of a run that counts as repeated
LEAK = 8  # words in a row that occur in a prompt of the library
SENTENCE_TIMES, RUN_TIMES, LONG_RUN = 3, 4, 8
SHORTEST_SENTENCE = 3  # fewest words of a sentence that counts as a loop
LONGEST_TITLE = 80  # characters


@dataclass(frozen=True)
class TextFigures:
    """The figures measured on one answer.

    Attributes:
        words: words of the whole text; characters in scripts without spaces.
        points: list entries or sections at the top level; 0 for running text.
        points_held: whether the answer has as many points as the question asks for; ``None`` if it names no number.
        repeated_within: share of runs of four words that occur earlier in the same point.
        repeated_between: share of a point's runs of four words that occur in an earlier point.
        titles_twice: points with the title of an earlier point.
        loops: whether a sentence occurs three times, or the same eight words four times.
        leaks: whether it has eight words in a row from a prompt of the library that are not in the question.
        language_held: whether the answer is in the expected language; ``True`` for texts that are too short to identify
            their language.
    """

    words: int
    points: int
    points_held: bool | None
    repeated_within: float
    repeated_between: float
    titles_twice: int
    loops: bool
    leaks: bool
    language_held: bool


def text_figures(text: str, question: Question) -> TextFigures:
    """Measure one answer to a question."""
    points = points_of(text)
    parts = [words_of(point) for point in points or (text,)]
    titles = [title for point in points if (title := title_of(point))]
    wanted = question.points_wanted
    words = words_of(text)
    return TextFigures(
        words=len(words),
        points=len(points),
        points_held=None if wanted is None else len(points) == wanted,
        repeated_within=_repeated_within(parts),
        repeated_between=_repeated_between(parts),
        titles_twice=len(titles) - len(set(titles)),
        loops=_loops(text, words),
        leaks=_leaks(words, words_of(question.question)),
        language_held=len(words) < SHORTEST_SENTENCE * 2 or language_of(text) == question.language_wanted,
    )


def points_of(text: str) -> list[str]:
    """Return the entries of a list, or the sections under headings; empty for running text."""
    points: list[list[str]] = []
    style: str | None = None
    for line in text.split("\n"):
        marker = _MARKER.match(line)
        kind = None if marker is None else _kind(marker[0])
        if kind is not None and style in (None, kind):
            style = kind
            points.append([line[marker.end() :]] if marker else [])
        elif points:
            points[-1].append(line)
    return ["\n".join(lines).strip() for lines in points] if len(points) > 1 else []


def _kind(marker: str) -> str:
    return "number" if marker[0].isdecimal() else marker[0]


def title_of(point: str) -> str:
    """Return the title of a point in lower case: the text before a colon, a dash or the end of bold text."""
    line = point.partition("\n")[0][: LONGEST_TITLE + 10].removeprefix("**").removeprefix("__")
    end = _TITLE_ENDS.search(line)
    if end is None and "\n" not in point:
        return ""
    return " ".join(words_of(line[: end.start()] if end else line))


def _repeated_within(parts: Iterable[Sequence[str]]) -> float:
    found = [runs(part, RUN) for part in parts]
    total = sum(map(len, found))
    return 1 - sum(len(set(each)) for each in found) / total if total else 0.0


def _repeated_between(parts: Sequence[Sequence[str]]) -> float:
    earlier: set[tuple[str, ...]] = set()
    repeated = total = 0
    for part in parts:
        own = set(runs(part, RUN))
        if earlier:
            repeated += len(own & earlier)
            total += len(own)
        earlier |= own
    return repeated / total if total else 0.0


def _loops(text: str, words: Sequence[str]) -> bool:
    sentence_counts = Counter(
        " ".join(found) for sentence in sentences(text) if len(found := words_of(sentence)) >= SHORTEST_SENTENCE
    )
    again = Counter(runs(words, LONG_RUN))
    return max(sentence_counts.values(), default=0) >= SENTENCE_TIMES or max(again.values(), default=0) >= RUN_TIMES


def _leaks(words: Sequence[str], question_words: Sequence[str]) -> bool:
    return bool((set(runs(words, LEAK)) & _prompt_runs()) - set(runs(question_words, LEAK)))


@cache
def _prompt_runs() -> frozenset[tuple[str, ...]]:
    return frozenset(run for template in Catalogue() for run in runs(words_of(template.text), LEAK))
