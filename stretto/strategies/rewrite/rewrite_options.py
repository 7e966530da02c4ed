"""What can be told to ``rewrite`` in ``strategy_options``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

__all__ = ["RewriteOptions", "Way"]

Way = Literal["auto", "pieces", "edits"]


class RewriteOptions(BaseModel):
    """Options of ``rewrite``.

    Attributes:
        terms: words of the text and how they are to be rendered, ``{"saddle": "Sattel"}``; on a command line
            ``terms=saddle:Sattel,chain:Kette``.
        way: "pieces" writes the text anew, "edits" has the model write only what changes; by default, what is expected
            to change decides.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    terms: Mapping[str, str] = Field(default_factory=dict)
    way: Way = "auto"

    @field_validator("terms", mode="before")
    @classmethod
    def _pairs(cls, value: object) -> object:
        """``saddle:Sattel,chain:Kette`` as on a command line."""
        if not isinstance(value, str):
            return value
        pairs = [each.partition(":") for each in value.split(",") if each.strip()]
        if any(not (term.strip() and becomes.strip()) for term, _, becomes in pairs):
            raise ValueError("it takes terms as term:rendering,term:rendering")
        return {term.strip(): becomes.strip() for term, _, becomes in pairs}
