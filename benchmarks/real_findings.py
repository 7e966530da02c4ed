"""What the answers of `real.py` show: faults that code finds in a text, and the rows of its tables."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from real_questions import Asked

from stretto.comparing import Question, text_figures
from stretto.comparing.figures import points_of, title_of
from stretto.prompts import Catalogue
from stretto.strategies.harm.overlap import said_before
from stretto.strategies.harm.phrases import Phrases, PhraseSearch
from stretto.strategies.harm.titles import is_placeholder, says_the_same
from stretto.strategies.harm.words import sentences_of, words_of

IN_PARTS = ("skeleton", "items")
SHORTEST_S = 1.0  # of a straight answer whose time is no chance
FLAWS = ("placeholder", "prompt", "echo", "title twice", "failed")
_NAMED = (
    "answer|question|point|topic|antwort|frage|punkt|thema|réponse|respuesta|pregunta|punto|risposta|domanda|resposta|"
    "pergunta|ponto"
)
_OPENING = "the|this|one|die|diese|das|ein|la|cette|un|una|esta|il|questa|a|o|um|uma"
ECHO = re.compile(
    rf"(?:{_OPENING}) (?:{_NAMED})\b[^.!?]{{0,160}}?[?\"”» ]+(?:is|lautet|ist|est|es|è|é)\b|(?:{_NAMED}) ?:",
    re.IGNORECASE,
)
"""A point that begins with what prompts name: "The answer to this question is", "Topic:"."""


@dataclass(frozen=True)
class Row:
    """One answer, and what code finds in it.

    Attributes:
        way: the strategy that was asked for.
        routed: the strategy that was chosen for the answer.
        written: the strategy that wrote it in the end; "failed" where none did.
        faults: of `FLAWS`, "loop", "same point" and "language".
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
    named = [title for title, point in zip(titles, points, strict=True) if title_of(point)]
    said = {
        "placeholder": any(is_placeholder(words_of(title)) for title in titles),
        "prompt": figures.leaks or _repeats_a_prompt(text, asked.question),
        "title twice": bool(figures.titles_twice),
        "echo": any(ECHO.match(_text_of(point)) for point in points),
        "loop": figures.loops,
        "same point": any(says_the_same(each, other, asked.question) for each, other in _pairs(named))
        or any(said_before(each, points[:at], asked.question) for at, each in enumerate(points)),
        "language": not figures.language_held,
    }
    return tuple(name for name, found in said.items() if found)


def _text_of(point: str) -> str:
    """A point without its title."""
    return re.sub(r"^\*\*.*?\*\*:?\s*", "", point, count=1)


def _pairs(titles: Sequence[str]) -> Iterable[tuple[str, str]]:
    return ((each, other) for at, each in enumerate(titles) for other in titles[:at])


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


def findings(rows: Iterable[Row], way: str, most_time: float) -> list[Finding]:
    """What the answers of one way and temperature show beside the straight ones.

    Args:
        rows: of one temperature, straight answers included.
        way: that is compared.
        most_time: bar of answers by points, in times of the straight ones.
    """
    straight = {row.question: row for row in rows if row.way == "direct"}
    own = [row for row in rows if row.way == way]
    flawed = [row for row in own if set(row.faults) & set(FLAWS)]
    found = [
        Finding(
            "answers with a placeholder, a line or an echo of a prompt, or a title twice, or none at all",
            _of(flawed, own),
            "0",
            not flawed if own else None,
        )
    ]
    if way == "direct":
        looping = [row for row in own if "loop" in row.faults]
        return [*found, Finding("answers that loop", f"{len(looping)} of {len(own)}", "", None)]
    in_parts = [row for row in own if row.in_parts]
    beyond = sum("loop" in row.faults for row in in_parts) - sum(
        "loop" in straight[row.question].faults for row in in_parts
    )
    wanted = [row for row in own if row.points]
    good = [row for row in wanted if row.in_parts and not row.faults]
    share = len(good) / len(wanted) if wanted else 0.0
    times = [_ratio(row, straight) for row in own if row.points and row.in_parts]
    back = [_ratio(row, straight) for row in own if row.fell_back]
    english = [row for row in wanted if row.language == "en"]
    twice = [
        _ratio(row, straight) for row in own if row.routed == "direct" and straight[row.question].seconds >= SHORTEST_S
    ]
    return [
        *found,
        Finding(
            "loops in answers by points beyond those in the straight ones to the same questions",
            f"{beyond:+d} in {len(in_parts)}" if in_parts else "no such answer",
            "<= 0",
            beyond <= 0 if in_parts else None,
        ),
        _time("an answer that fell back to straight, over straight, at the worst", back, max, 1.35),
        Finding(
            "questions that ask for points: by points, distinct, nothing echoed, no loop, right language",
            _of(good, wanted),
            ">= 75%",
            share >= 0.75 if wanted else None,
        ),
        *(
            [Finding("the same, in English", _of([row for row in english if row in good], english), "", None)]
            if 0 < len(english) < len(wanted)
            else []
        ),
        _time("those by points, good or not, over straight, median time", times, statistics.median, most_time),
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


def lost(rows: Iterable[Row]) -> list[str]:
    """A line for each question that asks for points and got no good answer by points."""
    return [
        f"{row.language}, {row.way}, {row.temperature}: {row.question} "
        f"[{row.written if not row.fell_back else 'fell back'}] {', '.join(row.faults) or row.reason}"
        for row in rows
        if row.points and row.way != "direct" and (row.faults or not row.in_parts)
    ]
