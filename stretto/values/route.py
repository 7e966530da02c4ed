"""The decision of the router: which strategy on which backend, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from stretto.foundation.notebook_forms import ShownInNotebooks

Shape = Literal["short", "points", "steps", "prose", "items", "code", "transform"]


class Forecast(BaseModel):
    """What a candidate is expected to cost.

    Attributes:
        seconds: to the end of the answer.
        tokens: read and generated.
        calls: to the backend.
        written: generated tokens among them; ``None`` where that is not told apart.
        cached: prompt tokens among them that are expected from the provider's cache, because calls with a long common
            beginning wait for the first text of one of them.
        rejected: generated tokens among them that are expected to be of a prediction and not of the answer, and are
            billed like it.
        cost: in US dollars; ``None`` where the price of the model, or what is generated, is unknown.
    """

    model_config = ConfigDict(frozen=True)

    seconds: float
    tokens: int
    calls: int
    written: int | None = None
    cached: int = 0
    rejected: int = 0
    cost: float | None = None


class DecodingForecast(BaseModel):
    """What a decoding method is expected to do on a local backend, from what this process has measured of it.

    Attributes:
        step_ms: milliseconds of a forward with one row, which gives one token without drafts; ``None`` while unknown.
        tokens_per_step: tokens that a forward committed under this method so far, on average; ``None`` while unknown.
        rows_per_step: rows that it evaluated for them.
        measured_steps: forwards that these two were seen in; the last ones count most.
        ms_per_token: milliseconds of forwards a token; ``None`` while something of it is unknown.
        speed_up: how many times as fast as one token a step that is.
        summary: the same as one sentence for a person.
    """

    model_config = ConfigDict(frozen=True)

    step_ms: float | None = None
    tokens_per_step: float | None = None
    rows_per_step: float | None = None
    measured_steps: int = 0
    ms_per_token: float | None = None
    speed_up: float | None = None
    summary: str = ""


class Route(ShownInNotebooks, BaseModel):
    """How a request will be generated. Frozen, JSON-serialisable, part of every answer.

    Attributes:
        strategy: name of the strategy.
        role: which of the client's backends runs it ("main", "local", "small", ...).
        backend: that backend's model name, ``provider:model``.
        decoding: decoding method of a local backend; ``None`` where the backend has none to choose from.
        shape: most probable shape of the answer, if one was judged.
        confidence: probability that the chosen strategy serves this request.
        probabilities: probability of each shape; "skeleton" beside them is that of the skeleton decision.
        reason: one sentence for a person.
        decoding_reason: the same for the decoding method.
        decoding_forecast: what that method is expected to do, once this process has measured it.
        forecast: what each candidate strategy is expected to cost: all, or the one asked for and "direct".
        elapsed_ms: time the decision took.
    """

    model_config = ConfigDict(frozen=True)

    strategy: str
    role: str = "main"
    backend: str = ""
    decoding: str | None = None
    shape: Shape | None = None
    confidence: float = 1.0
    probabilities: Mapping[str, float] = Field(default_factory=dict)
    reason: str = ""
    decoding_reason: str = ""
    decoding_forecast: DecodingForecast | None = None
    forecast: Mapping[str, Forecast] = Field(default_factory=dict)
    elapsed_ms: float = 0.0
    _parse: Any = PrivateAttr(default=None)
    _in_sections: bool = PrivateAttr(default=False)

    @property
    def parse(self) -> Any:
        """The parsed question, a `stretto.router.parse.Parse`; ``None`` if nothing was parsed.

        The strategy that runs uses it instead of parsing again. It is not part of the JSON.
        """
        return self._parse

    @property
    def in_sections(self) -> bool:
        """Whether the strategy writes the sections of its answer side by side; not part of the JSON either."""
        return self._in_sections

    def with_parse(self, parse: Any, *, in_sections: bool = False) -> Self:
        """The same route with a parsed question."""
        route = self.model_copy()
        route._parse, route._in_sections = parse, in_sections
        return route
