"""What can be told to ``document`` in ``strategy_options``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from stretto.values.budget import Budget

__all__ = ["DocumentOptions"]


class DocumentOptions(BaseModel):
    """Options of ``document``: separate budgets for the reading and for putting together, and where it stops.

    The budget of the request holds for both together. Passages that the budget of the reading does not reach are named
    in a warning; with few calls, passages are larger.

    Attributes:
        reading_calls: calls that read passages, repetitions included.
        reading_tokens: prompt and completion tokens of these together.
        record_tokens: the most tokens that are noted of one passage.
        answer_calls: calls that put together what was found, the answer among them.
        answer_tokens: prompt and completion tokens of these together; ``max_tokens`` bounds the answer's text.
        stop_after: "reading" gives what was found in the passages, with its citations, and makes no further call.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reading_calls: int | None = Field(default=None, ge=1)
    reading_tokens: int | None = Field(default=None, ge=1)
    record_tokens: int | None = Field(default=None, ge=48)
    answer_calls: int | None = Field(default=None, ge=1)
    answer_tokens: int | None = Field(default=None, ge=1)
    stop_after: Literal["reading"] | None = None

    @property
    def reading(self) -> Budget:
        """The budget of the calls that read."""
        return Budget(max_calls=self.reading_calls, max_tokens_total=self.reading_tokens)

    @property
    def answer(self) -> Budget:
        """The budget of the calls that put together."""
        return Budget(max_calls=self.answer_calls, max_tokens_total=self.answer_tokens)
