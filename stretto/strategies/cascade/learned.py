"""What `stretto calibrate` learned for a ladder of models, stored next to the settings and used by the cascade."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from stretto.abilities.kept import key_of, prompts_version
from stretto.backends.base import Backend
from stretto.config.kept_values import file_for, read_all, read_kept, write_kept
from stretto.strategies.cascade.answer_verdict import Bound, By

AGAIN = "stretto calibrate"
FOLDER = "cascades"


class Estimate(BaseModel):
    """A figure measured on held-out questions.

    Attributes:
        value: the figure.
        low: lower end of its interval (95%).
        high: upper end.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    value: float
    low: float
    high: float


class Step(BaseModel):
    """One smaller model of a ladder.

    Attributes:
        model: its name, and where its server is.
        by: how its confidence is measured.
        threshold: the lowest score at which its answer is accepted; ``None``: none is, so it is not asked.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    model: str
    by: By
    threshold: float | None


class Learned(BaseModel):
    """Thresholds of a ladder, and their measured quality.

    Attributes:
        steps: the smaller models, smallest first.
        main: the large model, and where its server is.
        learned: the day of calibration.
        questions: how many they were learned from.
        goal: targeted share of answers that are as good as those of the large model.
        agreement: the share reached on held-out questions.
        share: of the held-out questions that went to the large model.
        prompts: version of the templates, on which a self-check depends.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    steps: tuple[Step, ...] = Field(min_length=1)
    main: str
    learned: date
    questions: int = Field(ge=1)
    goal: float = Field(ge=0, le=1)
    agreement: Estimate
    share: Estimate
    prompts: str = Field(default_factory=prompts_version)

    @property
    def source(self) -> str:
        """The origin of the thresholds, as the end of a sentence."""
        return f", as learned from {self.questions} questions on {self.learned}"

    def bound(self, place: int) -> Bound | None:
        """Return the bound of a step; ``None`` if no answer of its model is accepted."""
        threshold = self.steps[place].threshold
        return None if threshold is None else Bound(threshold, self.source)

    @property
    def is_current(self) -> bool:
        """Whether the library still uses the prompts of that time."""
        return self.prompts == prompts_version() or all(step.by != "check" for step in self.steps)


def keep_learned(learned: Learned) -> Path:
    """Write the file of a ladder. Raises `OSError`."""
    path = _file([step.model for step in learned.steps], learned.main)
    write_kept(path, learned)
    return path


def learned_for(smaller: Sequence[Backend], main: Backend) -> Learned | None:
    """Return what is stored for a ladder, or ``None``. Reads at most one file."""
    steps, large = [key_of(each) for each in smaller], key_of(main)
    found = read_kept(_file(steps, large), Learned, AGAIN)
    if found is None or not found.is_current:
        return None
    return found if [step.model for step in found.steps] == steps and found.main == large else None


def all_learned() -> list[tuple[Path, Learned]]:
    """Return everything that is stored with its file, newest first."""
    return sorted(read_all(FOLDER, Learned, AGAIN), key=lambda each: each[1].learned, reverse=True)


def _file(steps: Sequence[str], main: str) -> Path:
    return file_for(FOLDER, " then ".join([*steps, main]))
