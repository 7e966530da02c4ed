"""What can be told to ``cascade`` in ``strategy_options``."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

SURE = -0.5  # natural logarithm: tokens that the model gave 0.6 on (geometric) average


class CascadeOptions(BaseModel):
    """Options of ``cascade``.

    Attributes:
        ladder: roles of the models that answer before the main one, the smallest first. Those that the client does not
            have are left out.
        threshold: least mean log-probability of the tokens of an answer that stands, where its model reports any.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ladder: tuple[str, ...] = ("smallest", "smaller", "small")
    threshold: float = Field(default=SURE, le=0)
