"""Learning a correction of the router from questions whose strategy is known; saved only if it helps."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stretto.comparing.comparison_questions import lines_of, refused, text_in
from stretto.comparing.intervals import Interval, interval
from stretto.router.correction import Correction, fitted, moved
from stretto.router.parse import Parse
from stretto.router.shape import ShapeModel
from stretto.values.errors import InvalidRequestError
from stretto.values.request import Message, Request

LEAST = 20
FOLDS = 5
_SEED = 20231


class RoutedQuestion(BaseModel):
    """A question, and the strategy wanted for its answer.

    Attributes:
        question: its text.
        strategy: "skeleton" for points written in parallel, "direct" for a direct answer.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str = Field(min_length=1)
    strategy: Literal["skeleton", "direct"]


@dataclass(frozen=True)
class RouterCalibration:
    """A correction of the router, and whether it helps on held-out questions.

    Attributes:
        correction: the correction to save; ``None`` if it does not help, or there are too few questions.
        offset: the correction learned from all questions.
        questions: number of questions.
        right_before: questions whose strategy is right without a correction.
        right: the same with corrections learned from the other questions.
        loss: change of the log loss by the correction, in nats per question; negative is better.
    """

    correction: Correction | None
    offset: float
    questions: int
    right_before: int
    right: int
    loss: Interval

    @property
    def summary(self) -> str:
        """The result as one or two sentences."""
        if self.questions < LEAST:
            return f"{self.questions} questions are too few to correct the router: {LEAST} are needed. Nothing is kept."
        figures = (
            f"on held-out questions {self.right} of {self.questions} get the strategy that was wanted, and "
            f"{self.right_before} without a correction; loss {self.loss.shown('+.3f')} "
            f"nats a question"
        )
        if self.correction is None:
            return f"A correction of {self.offset:+.2f} does not help: {figures}. Nothing is kept."
        return f"A correction of {self.offset:+.2f} helps: {figures}."


def calibrate_router(questions: Sequence[RoutedQuestion]) -> RouterCalibration:
    """Learn a correction. It helps if the interval of the loss is below 0, and more questions are right.

    Raises `InvalidRequestError` without questions.
    """
    if not questions:
        raise InvalidRequestError("There are no questions to learn from.")
    model = ShapeModel.committed()
    threshold = model.thresholds["balanced"]
    requests = [Request(messages=(Message(role="user", content=each.question),)) for each in questions]
    judged = [model.judge(Parse.of(request).text).skeleton for request in requests]
    wanted = [each.strategy == "skeleton" for each in questions]
    later = list(judged)
    order = list(range(len(questions)))
    random.Random(_SEED).shuffle(order)  # noqa: S311 - not security-relevant
    for fold in range(FOLDS):
        part = set(order[fold::FOLDS])
        rest = [at for at in range(len(questions)) if at not in part]
        offset = fitted([judged[at] for at in rest], [wanted[at] for at in rest])
        for at in part:
            later[at] = moved(judged[at], offset)
    changes = [_loss(new, was) - _loss(old, was) for new, old, was in zip(later, judged, wanted, strict=True)]
    loss = interval(changes)
    assert loss is not None  # noqa: S101 - there are questions; for the type checker
    before, after = (
        sum((each >= threshold) == was for each, was in zip(chances, wanted, strict=True))
        for chances in (judged, later)
    )
    offset, count = fitted(judged, wanted), len(questions)
    helps = count >= LEAST and loss.ends[1] < 0 and after > before
    found = Correction(offset=offset, learned=date.today(), questions=count, right_before=before, right=after)
    return RouterCalibration(found if helps else None, offset, count, before, after, loss)


def routed_questions_in(file: str | Path) -> tuple[RoutedQuestion, ...]:
    """Read questions with their strategy: JSON Lines, or the report of a comparison with direct answers.

    From a report (``.json``), the strategy that the judge preferred is used; ties and flipped verdicts are left out.
    Raises `InvalidRequestError`.
    """
    path = Path(file).expanduser()
    text = text_in(path)
    if path.suffix.lower() == ".json":
        return tuple(_compared(text, path))
    return tuple(_row(line, where) for line, where in lines_of(text, path))


def _row(line: str, where: str) -> RoutedQuestion:
    try:
        return RoutedQuestion.model_validate(json.loads(line))
    except ValidationError as error:
        raise refused(error, where) from None
    except (ValueError, RecursionError):
        raise InvalidRequestError(
            f'{where} is no JSON. Write {{"question": ..., "strategy": "skeleton"}}, or "direct".'
        ) from None


def _compared(text: str, path: Path) -> list[RoutedQuestion]:
    try:
        pairs: list[dict[str, Any]] = json.loads(text)["pairs"]
        return [found for pair in pairs if (found := _preferred(pair)) is not None]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise InvalidRequestError(
            f"{str(path)!r} is no report of a comparison. Write one: stretto compare ... --judge MODEL --out FILE.json"
        ) from None


def _preferred(pair: dict[str, Any]) -> RoutedQuestion | None:
    """Return the question of a pair (one side in parts, one in one piece) with the preferred strategy."""
    preference = ((pair["verdict"] or {}).get("preferences") or {}).get("overall")
    strategies = {pair[side]["strategy"] for side in ("one", "other")}
    if preference not in ("one", "other") or strategies != {"skeleton", "direct"}:
        return None
    straight = pair[preference]["strategy"] == "direct"
    return RoutedQuestion(question=pair["question"]["question"], strategy="direct" if straight else "skeleton")


def _loss(chance: float, was: bool) -> float:
    return -math.log(max(chance if was else 1 - chance, 1e-12))
