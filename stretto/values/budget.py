"""The most an answer may cost: `Budget`."""

from __future__ import annotations

from pydantic import ConfigDict, Field, field_validator

from stretto.foundation.validation import CheckedModel
from stretto.values.generation_options import not_bool


class Budget(CheckedModel):
    """The most an answer may cost.

    Attributes:
        max_calls: calls to backends, retries and hedges included.
        max_tokens_total: prompt and completion tokens together.
        max_tool_calls: calls to the functions in ``tools``; 64 by default.
        max_tool_rounds: how often the model may ask for such calls before it has to answer; 8 by default.
        max_cost: US dollars, by the prices of the models. A strategy that is forecast to cost more is not used; where
            even the direct answer is, `BudgetExceededError` is raised before any call. Once it is spent, no further
            call is made; calls in flight are finished.
        deadline_s: seconds. A strategy that is forecast to take longer is not used, as with ``max_cost``. It ends the
            answer as a request's ``deadline_s`` does; the earlier of the two counts.

    Raises `InvalidRequestError`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_calls: int | None = Field(default=None, ge=1)
    max_tokens_total: int | None = Field(default=None, ge=1)
    max_tool_calls: int | None = Field(default=None, ge=1)
    max_tool_rounds: int | None = Field(default=None, ge=1)
    max_cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    deadline_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    _a_number = field_validator("*", mode="before")(not_bool)
