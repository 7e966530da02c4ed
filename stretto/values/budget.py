"""The most an answer may cost: `Budget`."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field, field_validator

from stretto.foundation.validation import CheckedModel
from stretto.values.generation_options import not_bool


class Budget(CheckedModel):
    """The most an answer may cost.

    Attributes:
        max_calls: calls to backends, retries and hedges included.
        max_tokens_total: prompt and completion tokens together.
        max_tool_calls: calls of the functions in ``tools``; by default 64.
        max_tool_rounds: how often the model may ask for such calls before it has to answer; by default 8.
        max_cost: US dollars, by the prices of the models. A way that is forecast to cost more is not taken; where even
            the direct answer is, `BudgetExceededError` is raised before a call. Once it is spent, no further call is
            made; those under way then are finished.
        deadline_s: seconds. A way that is forecast to take longer is not taken, as with ``max_cost``. It ends the
            answer as ``deadline_s`` of a request does; of both, the earlier one counts.

    Raises `InvalidRequestError`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_calls: int | None = Field(default=None, ge=1)
    max_tokens_total: int | None = Field(default=None, ge=1)
    max_tool_calls: int | None = Field(default=None, ge=1)
    max_tool_rounds: int | None = Field(default=None, ge=1)
    max_cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    deadline_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _a_number(cls, value: Any) -> Any:
        return not_bool(value)
