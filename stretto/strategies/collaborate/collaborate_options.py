"""The options of ``collaborate`` in ``strategy_options``, and its price before a call is made."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.functional_validators import AfterValidator

from stretto.backends.base import Backend
from stretto.router.affordable import cost_of, sum_of
from stretto.router.case import Case
from stretto.router.forecast import seconds
from stretto.router.offer import Offer
from stretto.strategies.strategy_options import options_of
from stretto.values.route import Forecast

DRAFTS = 3  # of one model that proposes alone
MOST_PROPOSALS = 16


def _role_or_backend(value: Any) -> Any:
    if isinstance(value, (str, Backend)):
        return value
    raise ValueError("it takes roles of the client, or backends")


class CollaborateOptions(BaseModel):
    """Options of ``collaborate``.

    Attributes:
        proposers: the roles that propose, such as ("main", "small"), or backends; a role may stand there several times.
            By default all roles of the client.
        drafts: proposals of each proposer; by default one, or three of a model that proposes alone.
        aggregator: the role, or the backend, that writes the answer.
        quorum: proposals with which the answer begins; by default more than half of them.
        proposals_s: seconds after the request at which it begins with what is there; by default half of the request's
            ``deadline_s``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    proposers: tuple[Annotated[Any, AfterValidator(_role_or_backend)], ...] = ()
    drafts: int | None = Field(default=None, ge=1, le=MOST_PROPOSALS)
    aggregator: Annotated[Any, AfterValidator(_role_or_backend)] = "main"
    quorum: int | None = Field(default=None, ge=1, le=MOST_PROPOSALS)
    proposals_s: float | None = Field(default=None, gt=0)

    @field_validator("proposers", mode="before")
    @classmethod
    def _one_text(cls, value: object) -> object:
        """``main,small`` as on a command line."""
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def offer_collaborate(case: Case) -> Offer:
    """An offer that the router never chooses by itself; as slow as if the main model wrote all, at each one's price."""
    options = options_of(case.request, CollaborateOptions)
    asked = [case.backends.get(each, case.backend) if isinstance(each, str) else each for each in options.proposers]
    asked = asked or [*case.backends.values()] or [case.backend]
    drafts = options.drafts or (DRAFTS if len(asked) == 1 else 1)
    number = len(asked) * drafts
    answer = case.answer_tokens
    total_s = seconds(case.speed, answer, calls=min(number, case.speed.concurrent_calls)) + seconds(case.speed, answer)
    read = (number + 1) * case.prompt_tokens + number * answer
    written = (number + 1) * answer
    aggregator = options.aggregator
    if isinstance(aggregator, str):
        aggregator = case.backends.get(aggregator, case.backend)
    costs = [
        cost_of(case, each, read=drafts * case.prompt_tokens, written=drafts * answer, calls=drafts) for each in asked
    ]
    costs.append(cost_of(case, aggregator, read=case.prompt_tokens + number * answer, written=answer, calls=1))
    forecast = Forecast(seconds=round(total_s, 2), tokens=read + written, calls=number + 1, cost=sum_of(costs))
    return Offer(confidence=1.0, reason="", forecast=forecast, eligible=False)
