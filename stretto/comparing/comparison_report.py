"""The result of a comparison: figures of both sides, the judge's preferences, times, and every pair."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from stretto.comparing.bookkeeping import total, write_report
from stretto.comparing.comparison_questions import Question
from stretto.comparing.figures import TextFigures, text_figures
from stretto.comparing.intervals import Interval, interval
from stretto.comparing.pairwise_judging import CRITERIA, JudgeVerdict, Preference
from stretto.comparing.question_sampling import Sample


@dataclass(frozen=True)
class Pair:
    """A question with both answers.

    Attributes:
        question: the question.
        one: the answer of the tested side.
        other: the answer of the baseline.
        verdict: the judge's verdict, if one was asked.
    """

    question: Question
    one: Sample
    other: Sample
    verdict: JudgeVerdict | None = None

    @property
    def differs(self) -> bool:
        """Whether there are two answers with different texts."""
        return not self.one.failed and not self.other.failed and self.one.text != self.other.text

    @property
    def tokens(self) -> int:
        """The tokens of both answers and the judge."""
        return self.one.tokens + self.other.tokens + (self.verdict.tokens if self.verdict else 0)

    @property
    def cost_usd(self) -> float | None:
        """The cost of both answers and the judge; ``None`` if a price is unknown."""
        return total(each.cost_usd for each in (self.one, self.other, self.verdict) if each is not None)

    @cached_property
    def figures(self) -> tuple[TextFigures, TextFigures]:
        """The figures measured on both texts."""
        return text_figures(self.one.text, self.question), text_figures(self.other.text, self.question)


@dataclass(frozen=True)
class Row:
    """One figure of both sides.

    Attributes:
        name: what is measured.
        one: mean of the tested side.
        other: mean of the baseline.
        difference: the first minus the second, paired by question.
        wanted: "more" or "less" where that is better, else "".
    """

    name: str
    one: Interval
    other: Interval
    difference: Interval
    wanted: str

    @property
    def ahead(self) -> Literal["one", "other", ""]:
        """The better side, if the interval of the difference excludes 0."""
        low, high = self.difference.ends
        if not self.wanted or low <= 0 <= high:
            return ""
        return "one" if (low > 0) == (self.wanted == "more") else "other"


@dataclass(frozen=True)
class Preferences:
    """How often a judge preferred each side.

    Attributes:
        criterion: one of `CRITERIA`.
        wins: wins of the tested side.
        ties: questions without a preference in at least one order.
        flipped: preferences that changed with the order of the answers.
        losses: losses of the tested side.
        rate: win rate; a tie or a flipped preference counts as half a win.
    """

    criterion: str
    wins: int
    ties: int
    flipped: int
    losses: int
    rate: Interval


_WORTH: dict[Preference, float] = {"one": 1.0, "tie": 0.5, "flipped": 0.5, "other": 0.0}
Measure = Callable[[Sample, TextFigures], float | None]
_MEASURES: tuple[tuple[str, str, Measure], ...] = (
    ("seconds", "less", lambda sample, _: sample.total_s),
    ("seconds to first text", "less", lambda sample, _: sample.first_text_s),
    ("prompt tokens", "less", lambda sample, _: float(sample.prompt_tokens)),
    ("completion tokens", "", lambda sample, _: float(sample.completion_tokens)),
    ("calls", "", lambda sample, _: float(sample.calls)),
    ("US dollars", "less", lambda sample, _: sample.cost_usd),
    ("words", "", lambda _, figures: float(figures.words)),
    ("points", "", lambda _, figures: float(figures.points)),
    ("as many points as asked for", "more", lambda _, figures: _number(figures.points_held)),
    ("repeated within a point", "less", lambda _, figures: figures.repeated_within),
    ("repeated between points", "less", lambda _, figures: figures.repeated_between),
    ("titles twice", "less", lambda _, figures: float(figures.titles_twice)),
    ("answers that loop", "less", lambda _, figures: float(figures.loops)),
    ("answers with words of a prompt", "less", lambda _, figures: float(figures.leaks)),
    ("answers in the language asked for", "more", lambda _, figures: float(figures.language_held)),
    ("answers that ended by themselves", "more", lambda sample, _: float(sample.finish_reason == "stop")),
    ("cut or failed parts", "less", lambda sample, _: float(sample.cut_parts)),
)


@dataclass(frozen=True)
class Comparison:
    """A comparison of two ways of answering.

    Attributes:
        sides: names of the tested side and the baseline.
        models: their models and options.
        judge: the judge's model.
        seed: seed of the first question.
        pairs: every question with both answers.
        asked: number of questions; more than ``pairs`` if the budget ended the comparison.
    """

    sides: tuple[str, str]
    models: tuple[str, str]
    judge: str | None
    seed: int | None
    pairs: tuple[Pair, ...]
    asked: int

    @property
    def failed(self) -> tuple[int, int]:
        """The number of questions that each side could not answer."""
        return sum(pair.one.failed for pair in self.pairs), sum(pair.other.failed for pair in self.pairs)

    @property
    def in_parts(self) -> tuple[Pair, ...]:
        """The pairs that both sides answered, with different strategies or models. Only these are compared."""
        return tuple(
            pair
            for pair in self.pairs
            if not pair.one.failed
            and not pair.other.failed
            and (pair.one.strategy != pair.other.strategy or self._models_differ)
        )

    @property
    def _models_differ(self) -> bool:
        return self.models[0].partition(": ")[0] != self.models[1].partition(": ")[0]

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Every figure that both sides have."""
        found = []
        for name, wanted, measure in _MEASURES:
            both = [
                (one, other)
                for pair in self.in_parts
                if (one := measure(pair.one, pair.figures[0])) is not None
                and (other := measure(pair.other, pair.figures[1])) is not None
            ]
            of_one, of_other = interval([one for one, _ in both]), interval([other for _, other in both])
            difference = interval([one - other for one, other in both])
            if of_one and of_other and difference:
                found.append(Row(name, of_one, of_other, difference, wanted))
        return tuple(found)

    @cached_property
    def time_ratio(self) -> Interval | None:
        """The median ratio of the times of the tested side and the baseline; below 1 is faster."""
        ratios = [pair.one.total_s / pair.other.total_s for pair in self.in_parts if pair.other.total_s > 0]
        return interval(ratios, "median")

    @cached_property
    def preferences(self) -> tuple[Preferences, ...]:
        """The judge's preferences by criterion."""
        found = []
        for criterion in CRITERIA:
            verdicts = [
                pair.verdict.preferences[criterion]
                for pair in self.in_parts
                if pair.verdict and criterion in pair.verdict.preferences
            ]
            rate = interval([_WORTH[each] for each in verdicts])
            if rate is not None:
                counts = {name: verdicts.count(name) for name in _WORTH}
                found.append(
                    Preferences(criterion, counts["one"], counts["tie"], counts["flipped"], counts["other"], rate)
                )
        return tuple(found)

    @cached_property
    def unread(self) -> tuple[Pair, ...]:
        """The pairs on which the judge failed or named no preference; they are not counted."""
        return tuple(pair for pair in self.in_parts if pair.verdict and pair.verdict.error)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the judge's verdicts: those that flipped, those not counted."""
        overall = next((each for each in self.preferences if each.criterion == "overall"), None)
        sentences = []
        if overall and overall.flipped:
            judged = overall.wins + overall.ties + overall.flipped + overall.losses
            sentences.append(
                f"{overall.flipped} of {judged} overall verdicts flipped with the order of the answers, and count for "
                "neither side."
            )
        if self.unread:
            first = self.unread[0].verdict
            sentences.append(
                f"{len(self.unread)} verdicts are not counted, because the judge failed or its reply could not be "
                f"read. The first: {first.error if first else ''}"
            )
        return tuple(sentences)

    def as_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self._values(), indent=1, ensure_ascii=False)

    def save(self, file: str | Path) -> Path:
        """Write a page with plots and all pairs (``.html``), or everything as JSON. Raises `InvalidRequestError`."""
        from stretto.comparing.comparison_page import comparison_page  # noqa: PLC0415 - figures need no page

        return write_report(file, "comparison", lambda: comparison_page(self), self.as_json)

    def _values(self) -> dict[str, Any]:
        return {
            "sides": self.sides,
            "models": self.models,
            "judge": self.judge,
            "seed": self.seed,
            "asked": self.asked,
            "answered": len(self.pairs),
            "compared": len(self.in_parts),
            "failed": self.failed,
            "time_ratio": self.time_ratio and asdict(self.time_ratio),
            "rows": [asdict(row) for row in self.rows],
            "preferences": [asdict(each) for each in self.preferences],
            "not_counted": {pair.question.id: pair.verdict.error for pair in self.unread if pair.verdict},
            "pairs": [
                {
                    "question": pair.question.model_dump(mode="json"),
                    "one": pair.one.model_dump(mode="json") | {"figures": asdict(pair.figures[0])},
                    "other": pair.other.model_dump(mode="json") | {"figures": asdict(pair.figures[1])},
                    "verdict": pair.verdict and pair.verdict.model_dump(mode="json"),
                }
                for pair in self.pairs
            ],
        }


def _number(value: bool | None) -> float | None:
    return None if value is None else float(value)
