"""The options of ``consensus`` in ``strategy_options``."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Compare = Literal["auto", "number", "phrase", "text"]
Rule = Literal["votes", "confidence"]

JUDGE_TOKENS = 64  # a choice is one word; one that goes on and on is paid for


class ConsensusOptions(BaseModel):
    """Options of ``consensus``.

    Attributes:
        samples: how many answers are written at most.
        certainty: probability that the leading answer stays in front from which the rest is cancelled; 1: only once no
            vote can change the outcome.
        rule: what counts: the number of "votes", or also how sure the model was of each by its log-probabilities
            ("confidence"). Then two sure samples that agree can end the vote, and the surest answer wins.
        compare: what is compared: a "number", a short "phrase", or the whole "text". "auto" finds out from the question
            and from what is answered. Answers with a ``response_format`` are compared as JSON.
        choices: the answers that are possible, such as ("yes", "no"); then only these are compared.
        judge: the role of the model that chooses among longer texts, "main" for instance; without one, the text that
            is most like the others is taken.
        end_weak: end samples in mid-stream of which the model is less sure than of the finished ones, where the backend
            reports log-probabilities. By default, where there are more than ``warm_up`` samples; with fewer, a vote has
            ended before enough of them have told how sure is sure enough.
        warm_up: finished samples before any other is ended for that.
        window: the number of tokens whose mean log-probability says how sure it is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    samples: int = Field(default=5, ge=2, le=64)
    certainty: float = Field(default=0.95, gt=0.5, le=1)
    rule: Rule = "votes"
    compare: Compare = "auto"
    choices: tuple[str, ...] = ()
    judge: str | None = None
    end_weak: bool | None = None
    warm_up: int = Field(default=8, ge=1)
    window: int = Field(default=32, ge=4)

    @model_validator(mode="after")
    def _enough_samples(self) -> Self:
        if self.end_weak and self.samples <= self.warm_up:
            raise ValueError(
                f"with samples={self.samples} no sample would ever be ended, because that begins once "
                f"warm_up={self.warm_up} have finished: ask for more samples, or leave it out"
            )
        return self

    @property
    def ends_weak(self) -> bool:
        """Whether weak samples are ended, where the backend tells."""
        return self.samples > self.warm_up if self.end_weak is None else self.end_weak

    @property
    def needs_logprobs(self) -> bool:
        """Whether they are asked for, where the backend reports them: of samples that agree, the surest is shown."""
        return self.end_weak is not False or self.rule == "confidence"

    @field_validator("choices", mode="before")
    @classmethod
    def _one_text(cls, value: object) -> object:
        """``yes,no`` as on a command line."""
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
