"""Stretto: language models answer faster, because the parts of an answer are written in parallel."""

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
