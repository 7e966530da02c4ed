"""The options of ``consensus`` in ``strategy_options``."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from stretto.strategies.strategy_options import comma_separated

Compare = Literal["auto", "number", "phrase", "text"]
Rule = Literal["votes", "confidence"]

JUDGE_TOKENS = 64  # a choice is one word; a judge that rambles costs money


class ConsensusOptions(BaseModel):
    """Options of ``consensus``.

    Attributes:
        samples: the maximum number of answers.
        certainty: the probability that the leading answer stays in front at which the rest is cancelled; 1: only once
            no vote can change the outcome.
        rule: what counts: the number of "votes", or also the model's "confidence" in each by its log-probabilities.
            Then two confident samples that agree can end the vote, and the most confident answer wins.
        compare: what is compared: a "number", a short "phrase", or the whole "text". "auto" finds out from the question
            and the answers. Answers with a ``response_format`` are compared as JSON.
        choices: the possible answers, such as ("yes", "no"); then only these are compared.
        judge: the role of the model that chooses among longer texts, "main" for instance; without one, the text that
            is most similar to the others is chosen.
        end_weak: end samples in mid-stream if the model is less confident in them than in the finished ones and the
            backend reports log-probabilities. On by default with more than ``warm_up`` samples; with fewer, a vote ends
            before enough of them have shown what confidence is normal.
        warm_up: samples that must finish before any other is ended for that.
        window: the number of tokens whose mean log-probability is the confidence.
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

    _one_text = field_validator("choices", mode="before")(comma_separated)

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
        """Whether weak samples are ended, if the backend reports log-probabilities."""
        return self.samples > self.warm_up if self.end_weak is None else self.end_weak

    @property
    def needs_logprobs(self) -> bool:
        """Whether to request log-probabilities if the backend reports them; they also pick which sample to show."""
        return self.end_weak is not False or self.rule == "confidence"
