"""Stretto: language models answer faster, because the parts of an answer are written in parallel."""

from stretto.answer import Answer, Branch, Decoding, Span, Timeline, TokenLogprob, Usage
from stretto.citation import Citation, Evidence, PassageRecord
from stretto.client import AnswerStream, AsyncStretto, Stretto
from stretto.document import Document, Heading
from stretto.errors import StrettoError
from stretto.events import (
    AnswerFinished,
    BranchDelta,
    BranchFailed,
    BranchFinished,
    BranchStarted,
    Event,
    OutlinePointReady,
    PassageRead,
    RouteChosen,
    TextDelta,
)
from stretto.request import Budget, GenerationOptions, Message, Request
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
    "Citation",
    "Decoding",
    "DecodingForecast",
    "Document",
    "Event",
    "Evidence",
    "Forecast",
    "GenerationOptions",
    "Heading",
    "Message",
    "OutlinePointReady",
    "PassageRead",
    "PassageRecord",
    "Request",
    "Route",
    "RouteChosen",
    "Settings",
    "Span",
    "Stretto",
    "StrettoError",
    "TextDelta",
    "Timeline",
    "TokenLogprob",
    "Usage",
]
