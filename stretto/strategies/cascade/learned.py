"""What `stretto calibrate` learned for a ladder of models, kept beside the settings; the cascade goes by it."""

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
    """A figure of questions that the thresholds were not learned from.

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
        by: what tells how sure it is.
        threshold: the least score at which its answer stands; ``None``: none does, so it is not asked.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    model: str
    by: By
    threshold: float | None


class Learned(BaseModel):
    """Thresholds of a ladder, and what they are worth.

    Attributes:
        steps: the smaller models, the smallest first.
        main: the large model, and where its server is.
        learned: the day.
        questions: how many they were learned from.
        goal: share of the answers that were to be as good as those of the large model.
        agreement: the share that was, on questions held out.
        share: of these questions that went to the large model.
        prompts: version of the templates, which a check by the model itself depends on.
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
        """Where the thresholds come from, as the end of a sentence."""
        return f", as learned from {self.questions} questions on {self.learned}"

    def bound(self, place: int) -> Bound | None:
        """The bound of a step; ``None`` where no answer of its model stands."""
        threshold = self.steps[place].threshold
        return None if threshold is None else Bound(threshold, self.source)

    @property
    def is_current(self) -> bool:
        """Whether the library still asks what was asked then."""
        return self.prompts == prompts_version() or all(step.by != "check" for step in self.steps)


def keep_learned(learned: Learned) -> Path:
    """Write the file of a ladder. Raises `OSError`."""
    path = _file([step.model for step in learned.steps], learned.main)
    write_kept(path, learned)
    return path


def learned_for(smaller: Sequence[Backend], main: Backend) -> Learned | None:
    """What is kept of a ladder; ``None`` where nothing is. Reads a file at most."""
    steps, large = [key_of(each) for each in smaller], key_of(main)
    found = read_kept(_file(steps, large), Learned, AGAIN)
    if found is None or not found.is_current:
        return None
    return found if [step.model for step in found.steps] == steps and found.main == large else None


def all_learned() -> list[tuple[Path, Learned]]:
    """Everything that is kept, the newest first, with its file."""
    return sorted(read_all(FOLDER, Learned, AGAIN), key=lambda each: each[1].learned, reverse=True)


def _file(steps: Sequence[str], main: str) -> Path:
    return file_for(FOLDER, " then ".join([*steps, main]))
