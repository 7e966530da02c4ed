"""Stretto: language models answer faster, because the parts of an answer are written in parallel."""

import importlib
import typing

if typing.TYPE_CHECKING:
    from stretto.answer import Answer, Branch, Decoding, Span, Timeline, TokenLogprob, Usage
    from stretto.client import AnswerStream, AsyncStretto, Stretto, SyncAnswerStream
    from stretto.errors import StrettoError
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
    from stretto.request import Budget, Document, GenerationOptions, Message, Request
    from stretto.route import DecodingForecast, Forecast, Route
    from stretto.settings import Settings

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "AnswerFinished",
    "AnswerStream",
    "AsyncStretto",
    "Branch",
    "BranchDelta",
    "BranchFailed",
    "BranchFinished",
    "BranchStarted",
    "Budget",
    "Decoding",
    "DecodingForecast",
    "Document",
    "Event",
    "Forecast",
    "GenerationOptions",
    "Message",
    "OutlinePointReady",
    "Request",
    "Route",
    "RouteChosen",
    "Settings",
    "Span",
    "Stretto",
    "StrettoError",
    "SyncAnswerStream",
    "TextDelta",
    "Timeline",
    "TokenLogprob",
    "Usage",
]

_HOMES = {
    "answer": (
        "Answer",
        "Branch",
        "Decoding",
        "Span",
        "Timeline",
        "TokenLogprob",
        "Usage",
    ),
    "client": (
        "AnswerStream",
        "AsyncStretto",
        "Stretto",
        "SyncAnswerStream",
    ),
    "errors": ("StrettoError",),
    "events": (
        "AnswerFinished",
        "BranchDelta",
        "BranchFailed",
        "BranchFinished",
        "BranchStarted",
        "Event",
        "OutlinePointReady",
        "RouteChosen",
        "TextDelta",
    ),
    "request": (
        "Budget",
        "Document",
        "GenerationOptions",
        "Message",
        "Request",
    ),
    "route": (
        "DecodingForecast",
        "Forecast",
        "Route",
    ),
    "settings": ("Settings",),
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
