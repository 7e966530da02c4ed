"""Stretto: language models answer faster, because the parts of an answer are written in parallel."""

import importlib
import typing

if typing.TYPE_CHECKING:
    from stretto.abilities.kept import Abilities, Ability
    from stretto.answer import Answer, Branch, Choice, Cost, Span, Timeline, Usage
    from stretto.backends.base import Backend, Capabilities, Chunk, ModelRequest
    from stretto.backends.local.backend import LocalBackend
    from stretto.citation import Citation, Evidence, PassageRecord
    from stretto.client import AnswerStream, AsyncStretto, Stretto, SyncAnswerStream
    from stretto.client_options import ClientOptions
    from stretto.document import Document, Heading
    from stretto.errors import (
        AuthenticationError,
        BackendError,
        BreakerOpenError,
        BudgetExceededError,
        ConnectionFailedError,
        ContextOverflowError,
        DeadlineExceededError,
        DocumentError,
        IncompleteAnswerError,
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
        ChoiceDelta,
        Event,
        OutlinePointReady,
        PassageRead,
        RefusalStarted,
        RouteChosen,
        TextDelta,
        ThoughtFinished,
        ToolCallDelta,
    )
    from stretto.hooks import CallEnded, Hooks, RetryPlanned
    from stretto.local_engine.long_context.reader_options import FocusOptions, StarOptions
    from stretto.prompts import Catalogue
    from stretto.request import Budget, GenerationOptions, Message, Request, RequestOptions
    from stretto.route import DecodingForecast, Forecast, Route
    from stretto.router import Case, Offer, Router
    from stretto.settings import Settings
    from stretto.strategies.base import Strategy
    from stretto.strategies.branch import BranchSpec
    from stretto.strategies.runner import Runner
    from stretto.structured_logs import log_json
    from stretto.token_records import DecodingStats, TokenLogprob
    from stretto.tool_calls import ToolCall, ToolCallFragment

__version__ = "0.1.0"

__all__ = [
    "Abilities",
    "Ability",
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
    "Choice",
    "ChoiceDelta",
    "Chunk",
    "Citation",
    "ClientOptions",
    "ConnectionFailedError",
    "ContextOverflowError",
    "Cost",
    "DeadlineExceededError",
    "DecodingForecast",
    "DecodingStats",
    "Document",
    "DocumentError",
    "Event",
    "Evidence",
    "FocusOptions",
    "Forecast",
    "GenerationOptions",
    "Heading",
    "Hooks",
    "IncompleteAnswerError",
    "InvalidRequestError",
    "LocalBackend",
    "Message",
    "MissingDependencyError",
    "ModelNotFoundError",
    "ModelRequest",
    "Offer",
    "OutlinePointReady",
    "PassageRead",
    "PassageRecord",
    "RateLimitedError",
    "RefusalStarted",
    "Request",
    "RequestOptions",
    "RequestRejectedError",
    "RetryPlanned",
    "Route",
    "RouteChosen",
    "Router",
    "Runner",
    "ServerFailedError",
    "Settings",
    "SettingsError",
    "Span",
    "StalledError",
    "StarOptions",
    "Strategy",
    "StreamBrokenError",
    "Stretto",
    "StrettoError",
    "SyncAnswerStream",
    "TextDelta",
    "ThoughtFinished",
    "Timeline",
    "TokenLogprob",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallFragment",
    "UnknownModelError",
    "UnknownPromptError",
    "UnknownStrategyError",
    "Usage",
    "log_json",
]

_HOMES = {
    "abilities.kept": ("Abilities", "Ability"),
    "answer": (
        "Answer",
        "Branch",
        "Choice",
        "Cost",
        "Span",
        "Timeline",
        "Usage",
    ),
    "backends.base": (
        "Backend",
        "Capabilities",
        "Chunk",
        "ModelRequest",
    ),
    "backends.local.backend": ("LocalBackend",),
    "citation": ("Citation", "Evidence", "PassageRecord"),
    "client": (
        "AnswerStream",
        "AsyncStretto",
        "Stretto",
        "SyncAnswerStream",
    ),
    "client_options": ("ClientOptions",),
    "document": ("Document", "Heading"),
    "errors": (
        "AuthenticationError",
        "BackendError",
        "BreakerOpenError",
        "BudgetExceededError",
        "ConnectionFailedError",
        "ContextOverflowError",
        "DeadlineExceededError",
        "DocumentError",
        "IncompleteAnswerError",
        "InvalidRequestError",
        "MissingDependencyError",
        "ModelNotFoundError",
        "RateLimitedError",
        "RequestRejectedError",
        "ServerFailedError",
        "SettingsError",
        "StalledError",
        "StreamBrokenError",
        "StrettoError",
        "UnknownModelError",
        "UnknownPromptError",
        "UnknownStrategyError",
    ),
    "events": (
        "AnswerFinished",
        "BranchDelta",
        "BranchFailed",
        "BranchFinished",
        "BranchStarted",
        "ChoiceDelta",
        "Event",
        "OutlinePointReady",
        "PassageRead",
        "RefusalStarted",
        "RouteChosen",
        "TextDelta",
        "ThoughtFinished",
        "ToolCallDelta",
    ),
    "hooks": (
        "CallEnded",
        "Hooks",
        "RetryPlanned",
    ),
    "local_engine.long_context.options": ("FocusOptions", "StarOptions"),
    "prompts": ("Catalogue",),
    "request": (
        "Budget",
        "GenerationOptions",
        "Message",
        "Request",
        "RequestOptions",
    ),
    "route": (
        "DecodingForecast",
        "Forecast",
        "Route",
    ),
    "router": (
        "Case",
        "Offer",
        "Router",
    ),
    "settings": ("Settings",),
    "strategies.base": ("Strategy",),
    "strategies.branch": ("BranchSpec",),
    "strategies.fan_out": ("Runner",),
    "structured_logs": ("log_json",),
    "tokens": ("DecodingStats", "TokenLogprob"),
    "tool_calls": ("ToolCall", "ToolCallFragment"),
}


if not typing.TYPE_CHECKING:  # or a type checker would take any name for one of these

    def __getattr__(name: str) -> object:
        """Import what is asked for: the program ``stretto`` begins with this package and must answer to Ctrl-C soon."""
        for home, names in _HOMES.items():
            if name in (home, *names):
                module = importlib.import_module(f"stretto.{home}")
                globals()[name] = value = module if name == home else getattr(module, name)
                return value
        raise AttributeError(f"module 'stretto' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
