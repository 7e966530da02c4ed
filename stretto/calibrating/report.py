"""The result of a calibration: thresholds, their quality on held-out questions, and every question."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from stretto.calibrating.curve import Point, curve, gap_recovered, held_out, random_routing
from stretto.calibrating.goodness import Goodness
from stretto.calibrating.measuring import Scored
from stretto.calibrating.questions import LabelledQuestion
from stretto.calibrating.thresholds import Spent, Trial, fewest, learn_for
from stretto.comparing.bookkeeping import write_report
from stretto.comparing.intervals import FEWEST
from stretto.strategies.cascade.learned import Learned

WORTH = 50  # questions below which the intervals are too wide for a decision


@dataclass(frozen=True)
class Answered:
    """A question with all answers.

    Attributes:
        question: the question.
        smaller: the answers of the smaller models, the smallest first.
        main: the answer of the large model.
        goodness: the comparison of each smaller answer with it.
    """

    question: LabelledQuestion
    smaller: tuple[Scored, ...]
    main: Scored
    goodness: tuple[Goodness, ...]

    @property
    def trial(self) -> Trial:
        """The data from which thresholds are learned."""
        right = [each.right for each in self.goodness]
        known = [each for each in right if each is not None]
        return Trial(
            scores=tuple(each.score for each in self.smaller),
            good=tuple(each.good for each in self.goodness),
            costs=tuple(Spent(each.total_s, each.tokens, each.cost_usd) for each in (*self.smaller, self.main)),
            right=(*(each[0] for each in known), known[0][1]) if len(known) == len(right) else None,
        )


@dataclass(frozen=True)
class Calibration:
    """The calibration of a ladder of models.

    Attributes:
        smaller: names of the smaller models, the smallest first.
        main: name of the large model.
        judge: name of the judge's model.
        goal: share of the answers that should be as good as those of the large model.
        answered: every usable question with its answers.
        asked: number of questions; more than were answered if the budget ended the run.
        failed: number of questions left out because the large model, or the judge, did not answer.
        failure: the error of the first of them.
        learned: the saved result; ``None`` if there were too few questions.
    """

    smaller: tuple[str, ...]
    main: str
    judge: str | None
    goal: float
    answered: tuple[Answered, ...]
    asked: int
    failed: int
    failure: str = ""
    learned: Learned | None = None

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        """The data of all questions from which thresholds are learned."""
        return tuple(each.trial for each in self.answered)

    @cached_property
    def curve(self) -> tuple[Point, ...]:
        """The cascade on held-out questions, from the strictest to the most permissive thresholds."""
        return curve(self.trials)

    @cached_property
    def at_goal(self) -> Point | None:
        """The cascade with thresholds learned for the goal, on held-out questions."""
        return self.held_out_for(self.goal)

    def held_out_for(self, goal: float) -> Point | None:
        """Return the cascade with thresholds learned for another goal, on held-out questions."""
        return held_out(self.trials, lambda trials: learn_for(goal, trials))

    @cached_property
    def alone(self) -> tuple[Point | None, Point | None]:
        """The smallest model alone, and the large one alone."""
        return self.random(0.0), self.random(1.0)

    def random(self, share: float) -> Point | None:
        """Return random routing that sends this share of the questions to the large model."""
        return random_routing(self.trials, share)

    @cached_property
    def gap_recovered(self) -> float | None:
        """The mean, over all shares, of the recovered part of the gap between the models; 0.5 for random routing."""
        small = self.alone[0]
        return None if small is None else gap_recovered(self.curve, small.agreement.value)

    @property
    def judged_by(self) -> Mapping[str, int]:
        """How often each criterion ("answer", "format", "judge", ...) decided whether an answer is as good."""
        return Counter(each.judged_by for pair in self.answered for each in pair.goodness)

    @property
    def needed(self) -> int:
        """The minimum number of answered questions from which a result is saved."""
        return max(fewest(self.goal), FEWEST)

    @property
    def caution(self) -> str:
        """A warning about the number of questions; empty if it suffices."""
        count = len(self.answered)
        if count < self.needed:
            failed = f" {self.failed} failed, the first with: {self.failure}" if self.failure else ""
            return (
                f"{count} questions are too few: that {self.goal:.0%} of the answers are as good can only be learned "
                f"from {self.needed} or more. Nothing is kept.{failed}"
            )
        if count < WORTH:
            return f"{count} questions are few: see the intervals. {WORTH} or more are worth having."
        return ""

    def as_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self._values(), indent=1, ensure_ascii=False)

    def save(self, file: str | Path) -> Path:
        """Write a page with the curve and all answers (``.html``), or all as JSON. Raises `InvalidRequestError`."""
        from stretto.calibrating.page import calibration_page  # noqa: PLC0415 - figures need no page

        return write_report(file, "calibration", lambda: calibration_page(self), self.as_json)

    def _values(self) -> dict[str, Any]:
        return {
            "smaller": self.smaller,
            "main": self.main,
            "judge": self.judge,
            "goal": self.goal,
            "asked": self.asked,
            "answered": len(self.answered),
            "failed": self.failed,
            "failure": self.failure,
            "judged_by": self.judged_by,
            "caution": self.caution,
            "learned": self.learned and self.learned.model_dump(mode="json"),
            "at_goal": self.at_goal and asdict(self.at_goal),
            "gap_recovered": self.gap_recovered,
            "curve": [asdict(point) for point in self.curve],
            "smallest_alone": self.alone[0] and asdict(self.alone[0]),
            "main_alone": self.alone[1] and asdict(self.alone[1]),
            "questions": [
                {
                    "question": pair.question.model_dump(mode="json"),
                    "smaller": [each.model_dump(mode="json") for each in pair.smaller],
                    "main": pair.main.model_dump(mode="json"),
                    "goodness": [asdict(each) for each in pair.goodness],
                }
                for pair in self.answered
            ],
        }
