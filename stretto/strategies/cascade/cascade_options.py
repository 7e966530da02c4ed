"""What can be told to ``cascade`` in ``strategy_options``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from stretto.strategies.cascade.answer_verdict import By

LogProbability = Annotated[float, Field(le=0)]


class CascadeOptions(BaseModel):
    """Options of ``cascade``.

    Attributes:
        ladder: roles of the models that answer before the main one, the smallest first. Those that the client does not
            have are left out.
        threshold: least mean log-probability of the tokens of an answer that stands, where its model reports any; one
            for all models, or one by role. By default what `stretto calibrate` learned for these models, else -0.5.
        by: what tells how sure a model is: the log-probabilities of its tokens ("probability"), what it says of its
            answer ("check"), or a second answer ("agreement"). By default what was learned, else the first of these
            that the model can do.
        parts: "skeleton" or "items": the answer is written in points or items, and each by a cascade. Only the
            log-probabilities of the last model of the ladder tell.
        hand_on: a local main model drafts from the last answer that did not stand, and verifies every token. Its answer
            stays what it would be; it comes sooner where both models write alike, as two of one family do.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ladder: tuple[str, ...] = ("smallest", "smaller", "small")
    threshold: LogProbability | Mapping[str, LogProbability] | None = None
    by: By | None = None
    parts: Literal["skeleton", "items"] | None = None
    hand_on: bool = False

    @model_validator(mode="after")
    def _roles(self) -> CascadeOptions:
        if isinstance(self.threshold, Mapping) and (unknown := [*self.threshold.keys() - set(self.ladder)]):
            raise ValueError(
                f"threshold names {unknown[0]!r}, which is no role of the ladder ({', '.join(self.ladder)})"
            )
        return self

    def threshold_of(self, role: str) -> float | None:
        return self.threshold.get(role) if isinstance(self.threshold, Mapping) else self.threshold
