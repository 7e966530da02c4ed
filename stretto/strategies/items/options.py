"""What can be told to ``items`` in ``strategy_options``."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from stretto.strategies.consensus.options import Compare

__all__ = ["ItemsOptions"]


class ItemsOptions(BaseModel):
    """Options of ``items``.

    Attributes:
        samples: how many results of each item are written at most, of which the one is shown on which most agree.
        certainty: as in ``consensus``: from when on the remaining results of an item are not waited for.
        compare: as in ``consensus``: what of two results is compared.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    samples: int = Field(default=1, ge=1, le=16)
    certainty: float = Field(default=0.95, gt=0.5, le=1)
    compare: Compare = "auto"
