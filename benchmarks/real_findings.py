"""What the answers of `real.py` show: faults that code finds in a text, and the rows of its tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from real_questions import Asked

from stretto.comparing import Question, text_figures
from stretto.comparing.figures import points_of, title_of
from stretto.prompts import Catalogue
from stretto.strategies.quality.phrases import Phrases, PhraseSearch
from stretto.strategies.quality.titles import is_placeholder
from stretto.strategies.quality.words import sentences_of, words_of

IN_PARTS = ("skeleton", "items")
SHORTEST_S = 1.0  # of a straight answer whose time is no chance
FLAWS = ("placeholder", "prompt", "title twice", "failed")


@dataclass(frozen=True)
class Row:
    """One answer, and what code finds in it.

    Attributes:
        way: the strategy that was asked for.
        routed: the strategy that was chosen for the answer.
        written: the strategy that wrote it in the end; "failed" where none did.
        faults: of `FLAWS`, "loop" and "language".
    """

    question: str
    language: str
    points: bool
    temperature: float
    way: str
    routed: str
    written: str
    seconds: float
    calls: int
    tokens: int
    faults: tuple[str, ...]
    warnings: tuple[str, ...]
    reason: str
    text: str

    @classmethod
    def kept(cls, row: dict[str, Any]) -> Row:
        """A row as a file keeps it."""
        lists = {name: tuple(row[name]) for name in ("faults", "warnings")}
        return cls(**row | lists)

    @property
    def in_parts(self) -> bool:
        """Its parts were written at once."""
        return self.written in IN_PARTS

    @property
    def fell_back(self) -> bool:
        """It was to be written in parts, and was written straight."""
        return self.routed in IN_PARTS and self.written == "direct"


def faults(text: str, asked: Asked) -> tuple[str, ...]:
    """What code finds wrong with an answer."""
    figures = text_figures(text, Question(question=asked.question, language=asked.language))
    points = points_of(text)
    titles = [title_of(point) or point.partition("\n")[0] for point in points]
    found_faults = {
        "placeholder": any(is_placeholder(words_of(title)) for title in titles),
        "prompt": figures.leaks or _repeats_a_prompt(text, asked.question),
        "title twice": bool(figures.titles_twice),
        "loop": figures.loops,
        "language": not figures.language_held,
    }
    return tuple(name for name, found in found_faults.items() if found)


@cache
def _prompts() -> Phrases:
    return Phrases(text for template in Catalogue() for text in template.wordings)


def _repeats_a_prompt(text: str, question: str) -> bool:
    asked = f" {' '.join(words_of(question))} "
    search = PhraseSearch(_prompts(), lambda run: f" {' '.join(run)} " in asked)
    for sentence in sentences_of(text):
        found = [search.word(word, start=int(at == 0)) is None for at, word in enumerate(sentence)]
        if any(found) or search.sentence() is None:
            return True
    return False


@dataclass(frozen=True)
class Finding:
    """One row of the table: what was measured, and whether it holds its bar; ``None`` where nothing was measured."""

    what: str
    measured: str
    bar: str
    held: bool | None


def findings(rows: Iterable[Row], way: str) -> list[Finding]:
    """What the answers of one way and temperature show, compared with the straight ones.

    Args:
        rows: of one temperature, straight answers included.
        way: that is compared.
    """
    straight = {row.question: row for row in rows if row.way == "direct"}
    own = [row for row in rows if row.way == way]
    flawed = [row for row in own if set(row.faults) & set(FLAWS)]
    found = [
        Finding(
            "answers with a placeholder, a line of a prompt, or a title twice, or none at all",
            _of(flawed, own),
            "0",
            not flawed if own else None,
        )
    ]
    if way == "direct":
        looping = [row for row in own if "loop" in row.faults]
        return [*found, Finding("answers that loop", f"{len(looping)} of {len(own)}", "", None)]
    back = [_ratio(row, straight) for row in own if row.fell_back]
    twice = [
        _ratio(row, straight) for row in own if row.routed == "direct" and straight[row.question].seconds >= SHORTEST_S
    ]
    return [
        *found,
        _time("an answer that fell back to straight, over straight, at the worst", back, max, 1.15),
        _time(f"{way} over direct, time at the worst", [_ratio(row, straight) for row in own], max, 1.1),
        _time(
            "the same, without answers under a second",
            [_ratio(row, straight) for row in own if straight[row.question].seconds >= SHORTEST_S],
            max,
            1.1,
        ),
        _time("two straight answers to one question, a second or longer: noise", twice, max, None),
    ]


def _ratio(row: Row, straight: dict[str, Row]) -> float:
    return row.seconds / max(straight[row.question].seconds, 1e-9)


def _time(what: str, ratios: list[float], of: Any, most: float | None) -> Finding:
    bar = "" if most is None else f"<= {most}"
    if not ratios:
        return Finding(what, "no such answer", bar, None)
    shown = f"{of(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f} of {len(ratios)})"
    return Finding(what, shown, bar, None if most is None else of(ratios) <= most)


def _of(some: list[Row], every: list[Row]) -> str:
    counted = f"{len(some)} of {len(every)}"
    names = sorted({fault for row in some for fault in row.faults if fault in FLAWS})
    return f"{counted}: {', '.join(names)}" if names else counted
