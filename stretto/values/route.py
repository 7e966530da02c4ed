"""The router's decision: which strategy on which backend, and why."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SerializerFunctionWrapHandler, model_serializer

from stretto.foundation.notebook_forms import ShownInNotebooks

_MADE_LATER = frozenset({"reason", "forecast"})

RouteCode = Literal[
    "ability",  # the model fails what the other way needs, or its last answers of that kind went wrong
    "asked",  # the caller named the strategy
    "budget",  # the budget or max_tokens allows less than the other way needs
    "busy",  # the backend has no capacity for concurrent calls
    "demand",  # the request needs an answer in one piece: a format, a short answer, a ranking of a list it contains
    "doubt",  # another way may suit, but that is too uncertain
    "gain",  # the other way would save too little, or show its first text too late
    "other",  # from a strategy or a router of the caller
    "readers",  # readers preferred answers in one piece
    "shape",  # the shape of the answer suits no other way
    "suits",  # the strategy suits the request
    "unknown",  # nothing in the request shows the shape of the answer
    "whole",  # the request goes to the model unchanged
    "window",  # the prompt against the context window
]
"""The kind of reason for a route; for an answer in one piece, the reason against another way."""

Shape = Literal["short", "points", "steps", "prose", "items", "code", "transform"]


class Obstacle(str):
    """Why a way of writing an answer is impossible: a sentence fragment with a code."""

    code: RouteCode

    def __new__(cls, why: str, code: RouteCode) -> Self:
        """Create the obstacle."""
        made = super().__new__(cls, why)
        made.code = code
        return made


class Forecast(BaseModel):
    """The expected cost of a candidate.

    Attributes:
        seconds: seconds to the end of the answer.
        tokens: tokens read and generated.
        calls: number of calls to the backend.
        written: generated tokens among them; ``None`` where they are not counted separately.
        cached: prompt tokens among them that are expected to come from the provider's cache, because calls with a long
            common prefix wait for the first text of one of them.
        rejected: generated tokens among them that are expected to be rejected tokens of a prediction, which are billed
            too.
        cost: cost in US dollars; ``None`` where the price of the model, or the number of generated tokens, is unknown.
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
    """The expected speed of a decoding method on a local backend, as measured by this process.

    Attributes:
        step_ms: milliseconds of a forward pass with one row, which yields one token without drafts; ``None`` while
            unknown.
        tokens_per_step: mean number of tokens committed per forward pass with this method; ``None`` while unknown.
        rows_per_step: mean number of rows evaluated for them.
        measured_steps: number of forward passes in these two means; recent ones weigh most.
        ms_per_token: milliseconds of forward passes per token; ``None`` while any input is unknown.
        speed_up: speed-up over one token per step.
        summary: the forecast as a sentence for people.
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
        role: the role of the backend that runs it ("main", "local", "small", ...).
        backend: that backend's model name, ``provider:model``.
        decoding: decoding method of a local backend; ``None`` if the backend has none to choose from.
        shape: most probable shape of the answer, if one was predicted.
        confidence: probability that the chosen strategy suits this request.
        probabilities: probability of each shape; "skeleton" is that of the skeleton decision.
        reason: one sentence for people.
        code: the reason as a code for programs.
        decoding_reason: why the decoding method was chosen.
        decoding_forecast: expected speed of that method, once this process has measured it.
        forecast: expected cost of each candidate strategy: all of them, or the requested one and "direct".
        elapsed_ms: milliseconds the decision took; its reason and forecasts are computed on first access.
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
    code: RouteCode = "other"
    decoding_reason: str = ""
    decoding_forecast: DecodingForecast | None = None
    forecast: Mapping[str, Forecast] = Field(default_factory=dict)
    elapsed_ms: float = 0.0
    _parse: Any = PrivateAttr(default=None)
    _in_sections: bool = PrivateAttr(default=False)
    _later: Mapping[str, Callable[[], object]] = PrivateAttr(default_factory=dict)

    @property
    def parse(self) -> Any:
        """The parsed question, a `stretto.router.parse.Parse`; ``None`` if nothing was parsed.

        The strategy that runs reuses it. It is not part of the JSON.
        """
        return self._parse

    @property
    def in_sections(self) -> bool:
        """Whether the strategy writes the sections of its answer in parallel; not part of the JSON either."""
        return self._in_sections

    def with_parse(
        self, parse: Any, *, in_sections: bool = False, later: Mapping[str, Callable[[], object]] | None = None
    ) -> Self:
        """Return the route with a parsed question, and with fields that are computed on first access."""
        route = self.model_copy()
        route._parse, route._in_sections = parse, in_sections
        if later is not None:
            route._later = later  # copies share it, so it is not changed
            for name in later:
                del route.__dict__[name]
        return route

    def settled(self) -> Self:
        """Return the route with all fields computed, without references to their inputs."""
        if self._later:
            object.__setattr__(self, "__dict__", {name: getattr(self, name) for name in type(self).model_fields})
            self._later = {}
        return self

    # A field that is not computed yet is missing from `__dict__`, which pydantic's methods read.

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _MADE_LATER and (make := self._later.get(name)) is not None:
                value = self.__dict__.setdefault(name, make())
                if self.__dict__.keys() >= _MADE_LATER:
                    self._later = {}  # their inputs keep the backend alive
                return value
            return self.__dict__[name] if name in self.__dict__ else super().__getattr__(name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Route):
            other.settled()
        self.settled()
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # it contains mappings

    def __iter__(self) -> Generator[tuple[str, Any], None, None]:
        self.settled()
        return super().__iter__()

    def __repr_args__(self) -> Any:
        self.settled()
        return super().__repr_args__()

    def __getstate__(self) -> dict[Any, Any]:
        self.settled()
        return super().__getstate__()

    @model_serializer(mode="wrap")
    def _serialised(self, handler: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]  # noqa: ANN202 - a return type would be the JSON schema
        return handler(self.settled())
