"""The decision of the router: which strategy on which backend, and why."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SerializerFunctionWrapHandler, model_serializer

from stretto.foundation.notebook_forms import ShownInNotebooks

_MADE_LATER = frozenset({"reason", "forecast"})

RouteCode = Literal[
    "ability",  # the model does not hold what the other way needs, or its last answers of that kind went wrong
    "asked",  # the caller named the strategy
    "budget",  # the budget or max_tokens allows less than the other way takes
    "busy",  # the backend has no room for several calls side by side
    "demand",  # the request demands what one piece gives: a format, a short answer, a ranking of its own list
    "doubt",  # another way may suit, and that is not sure enough
    "gain",  # the other way would save too little, or show its first text too late
    "other",  # by a strategy or a router of the caller's
    "readers",  # readers preferred answers in one piece
    "shape",  # the shape of the answer suits no other way
    "suits",  # the strategy suits the request
    "unknown",  # nothing in the request tells the shape of the answer
    "whole",  # the request goes to the model as it is
    "window",  # the prompt against the context window
]
"""What kind of reason a route has; of an answer in one piece, what spoke against another way."""

Shape = Literal["short", "points", "steps", "prose", "items", "code", "transform"]


class Obstacle(str):
    """Why a way of writing an answer is impossible, as half a sentence, with a code."""

    code: RouteCode

    def __new__(cls, why: str, code: RouteCode) -> Self:
        """Make it."""
        made = super().__new__(cls, why)
        made.code = code
        return made


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
        code: the same for a program.
        decoding_reason: the same for the decoding method.
        decoding_forecast: what that method is expected to do, once this process has measured it.
        forecast: what each candidate strategy is expected to cost: all, or the one asked for and "direct".
        elapsed_ms: time the decision took; its reason and forecasts are made when somebody looks at them.
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

        The strategy that runs uses it instead of parsing again. It is not part of the JSON.
        """
        return self._parse

    @property
    def in_sections(self) -> bool:
        """Whether the strategy writes the sections of its answer side by side; not part of the JSON either."""
        return self._in_sections

    def with_parse(
        self, parse: Any, *, in_sections: bool = False, later: Mapping[str, Callable[[], object]] | None = None
    ) -> Self:
        """The same route with a parsed question, and with fields that are made when somebody looks at them."""
        route = self.model_copy()
        route._parse, route._in_sections = parse, in_sections
        if later is not None:
            route._later = later  # copies share it, so it is not changed
            for name in later:
                del route.__dict__[name]
        return route

    def settled(self) -> Self:
        """The same route with all its fields; it lets go of what they are made from."""
        if self._later:
            object.__setattr__(self, "__dict__", {name: getattr(self, name) for name in type(self).model_fields})
            self._later = {}
        return self

    # A field that is not made yet is missing in `__dict__`, which pydantic's own methods read.

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _MADE_LATER and (make := self._later.get(name)) is not None:
                value = self.__dict__.setdefault(name, make())
                if self.__dict__.keys() >= _MADE_LATER:
                    self._later = {}  # what makes them holds the backend
                return value
            return self.__dict__[name] if name in self.__dict__ else super().__getattr__(name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Route):
            other.settled()
        self.settled()
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # it has mappings

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
