"""Stretto: language models answer faster, because the parts of an answer are written in parallel."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stretto.answer import Answer, Branch, Decoding, Span, Timeline, TokenLogprob, Usage
from stretto.backends.base import Backend, Capabilities, Chunk, Prompt
from stretto.client import AnswerStream, AsyncStretto, ClientOptions, Stretto
from stretto.errors import (
    AuthenticationError,
    BackendError,
    BreakerOpenError,
    BudgetExceededError,
    ConnectionFailedError,
    ContextOverflowError,
    DeadlineExceededError,
    InvalidRequestError,
    MissingDependencyError,
    ModelNotFoundError,
    RateLimitedError,
    RequestRejectedError,
    ServerFailedError,
    SettingsError,
    StalledError,
    StreamBrokenError,
    StrettoError,
    UnknownModelError,
    UnknownPromptError,
    UnknownStrategyError,
)
from stretto.events import (
    AnswerFinished,
    BranchDelta,
    BranchFailed,
    BranchFinished,
    BranchStarted,
    Event,
    OutlinePointReady,
    RouteChosen,
    TextDelta,
)
from stretto.hooks import CallEnded, Hooks, RetryPlanned
from stretto.prompts import Catalogue
from stretto.request import Budget, Document, GenerationOptions, Message, Request, RequestOptions
from stretto.route import DecodingForecast, Forecast, Route
from stretto.settings import Settings

if TYPE_CHECKING:
    from stretto.backends.local import LocalBackend
    from stretto.router import Case, Offer, Router
    from stretto.strategies.base import Strategy
    from stretto.strategies.branch import BranchSpec
    from stretto.strategies.fan_out import FanOut

__version__ = "0.1.0"

_LAZY = {  # imported when first asked for: what an application that only asks does not need
    "BranchSpec": "stretto.strategies.branch",
    "Case": "stretto.router",
    "FanOut": "stretto.strategies.fan_out",
    "LocalBackend": "stretto.backends.local",
    "Offer": "stretto.router",
    "Router": "stretto.router",
    "Strategy": "stretto.strategies.base",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__all__ = [
    "Answer",
    "AnswerFinished",
    "AnswerStream",
    "AsyncStretto",
    "AuthenticationError",
    "Backend",
    "BackendError",
    "Branch",
    "BranchDelta",
    "BranchFailed",
    "BranchFinished",
    "BranchSpec",
    "BranchStarted",
    "BreakerOpenError",
    "Budget",
    "BudgetExceededError",
    "CallEnded",
    "Capabilities",
    "Case",
    "Catalogue",
    "Chunk",
    "ClientOptions",
    "ConnectionFailedError",
    "ContextOverflowError",
    "DeadlineExceededError",
    "Decoding",
    "DecodingForecast",
    "Document",
    "Event",
    "FanOut",
    "Forecast",
    "GenerationOptions",
    "Hooks",
    "InvalidRequestError",
    "LocalBackend",
    "Message",
    "MissingDependencyError",
    "ModelNotFoundError",
    "Offer",
    "OutlinePointReady",
    "Prompt",
    "RateLimitedError",
    "Request",
    "RequestOptions",
    "RequestRejectedError",
    "RetryPlanned",
    "Route",
    "RouteChosen",
    "Router",
    "ServerFailedError",
    "Settings",
    "SettingsError",
    "Span",
    "StalledError",
    "Strategy",
    "StreamBrokenError",
    "Stretto",
    "StrettoError",
    "TextDelta",
    "Timeline",
    "TokenLogprob",
    "UnknownModelError",
    "UnknownPromptError",
    "UnknownStrategyError",
    "Usage",
]
