"""Stretto: language models answer faster, because the parts of an answer are written in parallel."""

import typing

from stretto.foundation.lazy import lazily as _lazily

if typing.TYPE_CHECKING:
    from stretto.abilities.kept import Abilities, Ability
    from stretto.agreement import Agreement
    from stretto.answer import Answer, Branch, Choice, Cost, Span, Timeline, Usage, Writer
    from stretto.citation import Citation, Evidence, PassageRecord
    from stretto.client import AsyncStretto
    from stretto.client_options import ClientOptions
    from stretto.document import Document, Heading
    from stretto.errors import (
        AllModelsFailedError,
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
        FallbackStarted,
        OutlinePointReady,
        PassageRead,
        RefusalStarted,
        RouteChosen,
        TextDelta,
        ThoughtFinished,
        ToolCallDelta,
        VoteCounted,
    )
    from stretto.hooks import CallEnded, Hooks, RetryPlanned
    from stretto.prompts import Catalogue
    from stretto.request import Budget, GenerationOptions, Message, Request, RequestOptions
    from stretto.route import DecodingForecast, Forecast, Route
    from stretto.router import Router, SecondOpinion
    from stretto.settings import Settings
    from stretto.streams import AnswerStream, SyncAnswerStream
    from stretto.structured_logs import log_json
    from stretto.synchronous_client import Stretto
    from stretto.token_records import DecodingStats, TokenLogprob
    from stretto.tool_calls import ToolCall, ToolCallFragment

__version__ = "0.1.0"

__all__ = [
    "Abilities",
    "Ability",
    "Agreement",
    "AllModelsFailedError",
    "Answer",
    "AnswerFinished",
    "AnswerStream",
    "AsyncStretto",
    "AuthenticationError",
    "BackendError",
    "Branch",
    "BranchDelta",
    "BranchFailed",
    "BranchFinished",
    "BranchStarted",
    "BreakerOpenError",
    "Budget",
    "BudgetExceededError",
    "CallEnded",
    "Catalogue",
    "Choice",
    "ChoiceDelta",
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
    "FallbackStarted",
    "Forecast",
    "GenerationOptions",
    "Heading",
    "Hooks",
    "IncompleteAnswerError",
    "InvalidRequestError",
    "Message",
    "MissingDependencyError",
    "ModelNotFoundError",
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
    "SecondOpinion",
    "ServerFailedError",
    "Settings",
    "SettingsError",
    "Span",
    "StalledError",
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
    "VoteCounted",
    "Writer",
    "log_json",
]

_HOMES: dict[str, tuple[str, ...]] = {
    "extending": (),  # modules with public names of their own
    "local": (),
    "abilities.kept": ("Abilities", "Ability"),
    "agreement": ("Agreement",),
    "answer": (
        "Answer",
        "Branch",
        "Choice",
        "Cost",
        "Span",
        "Timeline",
        "Usage",
        "Writer",
    ),
    "citation": ("Citation", "Evidence", "PassageRecord"),
    "client": ("AsyncStretto",),
    "client_options": ("ClientOptions",),
    "document": ("Document", "Heading"),
    "errors": (
        "AllModelsFailedError",
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
        "FallbackStarted",
        "OutlinePointReady",
        "PassageRead",
        "RefusalStarted",
        "RouteChosen",
        "TextDelta",
        "ThoughtFinished",
        "ToolCallDelta",
        "VoteCounted",
    ),
    "hooks": (
        "CallEnded",
        "Hooks",
        "RetryPlanned",
    ),
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
    "router": ("Router", "SecondOpinion"),
    "settings": ("Settings",),
    "streams": ("AnswerStream", "SyncAnswerStream"),
    "structured_logs": ("log_json",),
    "synchronous_client": ("Stretto",),
    "token_records": ("DecodingStats", "TokenLogprob"),
    "tool_calls": ("ToolCall", "ToolCallFragment"),
}


if not typing.TYPE_CHECKING:  # or a type checker would take any name for one of these
    # The program ``stretto`` begins with this package and must answer to Ctrl-C soon.
    __getattr__, __dir__ = _lazily("stretto", {f"stretto.{home}": names for home, names in _HOMES.items()})
