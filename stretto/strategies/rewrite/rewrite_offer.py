"""The offer of ``rewrite`` to the router, and its expected cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from stretto.backends.base import Backend
from stretto.prompts import GENERAL
from stretto.router import obstacles
from stretto.router.affordable import from_cache
from stretto.router.case import Case
from stretto.router.forecast import INSTRUCTION_TOKENS, SLOWEST_PART, all_s, seconds
from stretto.router.given import Change, Doubt, Given
from stretto.router.history import history_of
from stretto.router.offer import Offer
from stretto.strategies.rewrite.terms import SHARED, TERMS_TOKENS
from stretto.strategies.rewrite.text_pieces import LEAST, LEAST_EDITED, MOST
from stretto.values.route import Forecast, Obstacle

PRIORITY = 22  # the form of the request shows the text, as a list shows its items
OF_DOCUMENTS = 27  # above citing them, below callers' own strategies
BEYOND = 45  # for documents that do not fit: above reading them for an answer
CERTAIN = 0.95
FEWEST = 3  # pieces
EMPTY_LIST = 8  # tokens of an empty list of edits
_DOES = {
    "translate": "translated",
    "correct": "corrected",
    "shorten": "shortened",
    "expand": "expanded",
    "simplify": "simplified",
    "tone": "rewritten",
    "rename": "changed",
    "change": "changed",
    "insert": "added to",
    "reformat": "reformatted",
    "annotate": "annotated",
    "redact": "redacted",
}
ONE_VOICE = frozenset({"tone", "simplify", "expand"})
"""Changes for which readers preferred the text of a single writer: benchmarks/results/readings_by_parts.md.

Expanded pieces were not part of that reading; they have more in common with these than with translations.
"""
READERS = 'readers preferred texts that one writer changed; preference="fastest" has pieces written in parallel'


Way = Literal["auto", "pieces", "edits"]

_ANEW = 0.5  # share of a text that edits are expected to write, from which on it is rewritten in full
_QUOTED = 4  # characters written per changed one: the words around it, old and new text, and JSON syntax


def written_by_edits(backend: Backend, change: Change) -> float:
    """Return how much edits are expected to write, as a share of the text."""
    return _QUOTED * history_of(backend).usual_change(change)


def is_by_edits(way: Way, backend: Backend, change: Change) -> bool:
    """Return whether a text is changed by edits: if chosen, or by default if they are expected to write less."""
    return way == "edits" or (way == "auto" and written_by_edits(backend, change) < _ANEW)


def offer_rewrite(case: Case) -> Offer | None:
    """Offer to write the pieces of a text in parallel if the request gives one to be changed."""
    given = case.parse.given
    if given is None:
        return None
    if isinstance(given, Doubt):
        return Offer(confidence=0.0, reason="", eligible=False, why_not=f"a text is to be changed, but {given.why}")
    options = case.request.strategy_options if case.request.strategy == "rewrite" else {}
    edits = is_by_edits(options.get("way") or "auto", case.backend, given.change)
    forecast = _edits_forecast(case, given) if edits else _pieces_forecast(case, given)
    done = f"a text of about {given.tokens:,} tokens is to be {_DOES[given.change]}"
    how = "Only what changes is written" if edits else "Its pieces are written side by side"
    return Offer(
        confidence=CERTAIN,
        reason=f"{how}: {done}.{case.gain(forecast)}",
        forecast=forecast,
        eligible=not case.list_length,  # a list with one task for each is written item by item
        priority=_priority(case, given),
        when_blocked=done,
        obstacle=lambda: _obstacle(case, given, forecast, edits=edits),
    )


def _edits_forecast(case: Case, given: Given) -> Forecast:
    """Return the cost of edits: the whole text is read, and little of it is written."""
    speed, calls = case.speed, 1
    if given.change != "insert":
        calls = max(1, min(speed.concurrent_calls, len(given.text) // LEAST_EDITED))
    written = round(min(1.0, written_by_edits(case.backend, given.change)) * given.tokens) + calls * EMPTY_LIST
    total_s = all_s(speed, written / calls * SLOWEST_PART, calls)
    return _forecast(case, total_s, given.tokens, written, calls)


def _priority(case: Case, given: Given) -> int:
    window = case.backend.capabilities.context_window
    if given.source == "document" and window is not None and case.direct_forecast.tokens > window:
        return BEYOND
    return OF_DOCUMENTS if given.source == "document" else PRIORITY


def _pieces_forecast(case: Case, given: Given) -> Forecast:
    """Return the cost of pieces, including the call that fixes terms."""
    speed, answer = case.speed, case.answer_tokens
    calls = _pieces(case, given)
    total_s = all_s(speed, answer / calls * SLOWEST_PART, calls)
    read, written = given.tokens, answer
    if given.change in SHARED:
        calls += 1
        total_s += seconds(speed, TERMS_TOKENS / 4)
        read, written = read + given.tokens, written + TERMS_TOKENS // 4
    return _forecast(case, total_s, read, written, calls)


def _forecast(case: Case, total_s: float, read: int, written: int, calls: int) -> Forecast:
    """Return the cost, including what each call reads besides its piece: instructions, and text before the question."""
    tokens = read + calls * (INSTRUCTION_TOKENS + case.before_tokens) + written
    cached = from_cache(case, case.before_tokens, calls)
    return Forecast(seconds=round(total_s, 2), tokens=tokens, calls=calls, written=written, cached=cached)


def _pieces(case: Case, given: Given) -> int:
    """Estimate the number of pieces of a text from its blank lines."""
    blocks = max(given.text.count("\n\n") + 1, given.text.count("\n") // 4, len(given.text) // MOST)
    size = max(LEAST, len(given.text) // max(1, case.speed.concurrent_calls))
    most = case.request.budget.max_calls or len(given.text)
    return max(1, len(given.text) // MOST, min(blocks, most, math.ceil(len(given.text) / size)))


def _obstacle(case: Case, given: Given, forecast: Forecast, *, edits: bool) -> str | None:
    """Return why the text is better written in one piece; ``None`` if there is no reason."""
    straight, window = case.direct_forecast, case.backend.capabilities.context_window
    beyond = window is not None and straight.tokens > window
    if (found := next(_against(case, given), None)) is not None:
        return found
    if beyond:  # it cannot be written directly at all
        why = "an addition has one place, and the text does not fit into the context window"
        return Obstacle(why, "window") if edits and given.change == "insert" else None
    if case.family != GENERAL:
        # benchmarks/results/small_models.md
        return Obstacle("a model of this size changes a text better in one piece", "ability")
    if edits:
        return _against_edits(case, forecast)
    return _against_pieces(case, given) or obstacles.to_parallel(case, forecast)


def _against_pieces(case: Case, given: Given) -> str | None:
    """Return why a single writer does it better; ``None`` if there is no reason."""
    if _pieces(case, given) < FEWEST:
        return Obstacle("the text has too few paragraphs", "gain")
    kept = given.change in ONE_VOICE and case.request.preference != "fastest"
    return Obstacle(READERS, "readers") if kept else None


def _against_edits(case: Case, forecast: Forecast) -> str | None:
    """Return why edits, which may be one call, are no better than rewriting the text; ``None`` if they are."""
    straight, budget = case.direct_forecast, case.request.budget
    if budget.max_calls is not None and budget.max_calls < forecast.calls:
        return Obstacle(f"the budget of {budget.max_calls} calls is too small, {forecast.calls} are needed", "budget")
    if budget.max_tokens_total is not None and budget.max_tokens_total < forecast.tokens:
        return Obstacle(
            f"the budget of {budget.max_tokens_total} tokens is too small, about {forecast.tokens} would be used",
            "budget",
        )
    if straight.seconds - forecast.seconds < obstacles.SAVES[case.request.preference] * straight.seconds:
        return Obstacle(
            f"it would take {obstacles.seconds_of(straight, forecast, case.measured_how)}, too little gained", "gain"
        )
    return None


def _against(case: Case, given: Given) -> Iterator[str]:
    """Yield the reasons in the request and the model against more than one call."""
    request, limit = case.request, case.request.options.max_tokens
    if whole := request.whole_reason:
        yield Obstacle(whole, "whole")
    if request.options.response_format is not None:
        yield Obstacle("response_format holds the answer as a whole", "demand")
    if request.options.stop:
        yield Obstacle("stop strings are set, which would cut the pieces in the middle", "demand")
    if limit is not None and limit < given.answer_tokens:
        yield Obstacle(f"max_tokens={limit} leaves no room for the whole text", "budget")


class RewriteOptions(BaseModel):
    """Options of ``rewrite``.

    Attributes:
        terms: words of the text and how to render them, ``{"saddle": "Sattel"}``; on a command line
            ``terms=saddle:Sattel,chain:Kette``.
        way: "pieces" rewrites the whole text, "edits" has the model write only what changes; by default, the expected
            amount of change decides.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    terms: Mapping[str, str] = Field(default_factory=dict)
    way: Way = "auto"

    @field_validator("terms", mode="before")
    @classmethod
    def _pairs(cls, value: object) -> object:
        """Parse the command-line form, ``saddle:Sattel,chain:Kette``."""
        if not isinstance(value, str):
            return value
        pairs = [each.partition(":") for each in value.split(",") if each.strip()]
        if any(not (term.strip() and becomes.strip()) for term, _, becomes in pairs):
            raise ValueError("it takes terms as term:rendering,term:rendering")
        return {term.strip(): becomes.strip() for term, _, becomes in pairs}
