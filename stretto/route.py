"""The decision of the router: which strategy on which backend, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Shape = Literal["short", "points", "steps", "prose", "items", "code", "transform"]


class Forecast(BaseModel):
    """What a candidate is expected to cost: seconds to the end, tokens generated and read, calls."""

    model_config = ConfigDict(frozen=True)

    seconds: float
    tokens: int
    calls: int


class Route(BaseModel):
    """How a request will be generated. Frozen, JSON-serialisable, part of every answer.

    Attributes:
        strategy: name of the strategy.
        role: which of the client's backends runs it ("main", "local", "small", ...).
        backend: that backend's model name, ``provider:model``.
        decoding: decoding method of a local backend.
        shape: most probable shape of the answer, if one was judged.
        confidence: probability that the chosen strategy serves this request.
        probabilities: probability of each shape; "skeleton" beside them is that of the skeleton decision.
        cause: one sentence for a person.
        forecast: what each candidate strategy is expected to cost.
        elapsed_ms: time the decision took.
    """

    model_config = ConfigDict(frozen=True)

    strategy: str
    role: str = "main"
    backend: str = ""
    decoding: str = "autoregressive"
    shape: Shape | None = None
    confidence: float = 1.0
    probabilities: Mapping[str, float] = Field(default_factory=dict)
    cause: str = ""
    forecast: Mapping[str, Forecast] = Field(default_factory=dict)
    elapsed_ms: float = 0.0
