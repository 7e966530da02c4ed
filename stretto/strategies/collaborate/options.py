"""What can be told to ``collaborate`` in ``strategy_options``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.functional_validators import AfterValidator

from stretto.backends.base import Backend

__all__ = ["DRAFTS", "MOST_PROPOSALS", "CollaborateOptions"]

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
