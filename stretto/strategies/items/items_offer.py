"""The options of ``items``, its offer to the router, and its expected cost."""

from __future__ import annotations

import math
import re
from functools import partial

from pydantic import BaseModel, ConfigDict, Field

from stretto.router.affordable import from_cache
from stretto.router.case import PHRASES, Case
from stretto.router.excerpt import excerpt
from stretto.router.forecast import INSTRUCTION_TOKENS, SLOWEST_PART, Speed, all_s
from stretto.router.history import track_record_for
from stretto.router.offer import Offer
from stretto.router.parse import Parse
from stretto.router.track_record import Kind
from stretto.strategies.consensus.consensus_options import Compare
from stretto.strategies.items.labels import labels_of
from stretto.strategies.items.splitting import Split
from stretto.strategies.strategy_options import options_of
from stretto.values.route import Forecast

PRIORITY = 20  # the form of a request is better evidence of items than its words are of points
THRESHOLD = {"fastest": 0.4, "balanced": 0.5, "careful": 0.65}
LISTED_CONFIDENCE = 0.95  # all 15 labelled prompts that code splits by lines are labelled as items
_LABELS = re.compile(
    r"\b(?:classif|klassifi[zc]|clasific|classific|categori|kategori|catégori|label|sentiment)", re.IGNORECASE
)
TOGETHER = 12  # most items that share a call if there are more items than slots


def offer_items(case: Case) -> Offer:
    """Offer one call per item if the answer very likely consists of items, or if the prompt lists them."""
    judgement = case.judgement
    sure, needed = judgement.shapes["items"], THRESHOLD[case.request.preference]
    forecast = partial(_forecast, case)
    if case.request.strategy == "items":
        forecast()  # raises for invalid options

    shaped = judgement.shape == "items" and not judgement.unsure
    answer = f"the answer {PHRASES['items']}"
    if shaped and sure >= needed and case.items > 1 and case.why_together is None:
        confidence, suits = sure, answer
    elif case.list_length and not judgement.unsure:
        confidence, suits = LISTED_CONFIDENCE, "the request is a list with one task for each"
    else:
        doubt = partial(_doubt, case, sure, needed) if shaped else ""
        return Offer(confidence=sure, reason="", forecast=forecast, eligible=False, priority=PRIORITY, why_not=doubt)
    kind = kind_of(case.parse)

    def reason() -> str:
        evidence = f"{answer} ({sure:.0%} sure{case.shape_evidence})"
        if suits != answer:
            evidence = f"the request is a list of {case.list_length}, with one task for each"
        gain = "" if (costs := forecast()) is None else case.gain(costs)
        return f"Written item by item in parallel: {evidence}.{gain}"

    return Offer(
        confidence=confidence,
        reason=reason,
        forecast=forecast,
        priority=PRIORITY,
        when_blocked=suits,
        obstacle=lambda: case.obstacle(forecast(), special=track_record_for(case, kind).against),
        needs=("item", "label") if kind == Kind.LABELS and not _is_constrained_to_labels(case) else ("item",),
    )


def _forecast(case: Case) -> Forecast | None:
    """Return the expected cost of two or more items."""
    if (items := case.item_count) < 2:
        return None
    if case.request.strategy == "items" and case.request.strategy_options:
        votes = options_of(case.request, ItemsOptions).samples
        forecast = voted_forecast(case.speed, case.prompt_tokens, case.answer_tokens, items, votes)
    else:
        forecast = items_forecast(case.speed, case.prompt_tokens, case.answer_tokens, items)
    if not (before := case.before_tokens):
        return forecast
    read = forecast.tokens + (forecast.calls - 1) * before
    return forecast.model_copy(update={"tokens": read, "cached": from_cache(case, before, forecast.calls)})


def kind_of(parse: Parse) -> Kind:
    """Return the kind of this list, which selects the track record of the model."""
    return Kind.LABELS if _LABELS.search(excerpt(parse.text)) else Kind.ITEMS


def _doubt(case: Case, sure: float, needed: float) -> str:
    if sure < needed:
        return f"that the answer {PHRASES['items']} is not sure enough ({sure:.0%} sure, {needed:.0%} needed)"
    why = case.why_together or "the request shows no items to count"
    return f"the answer most likely {PHRASES['items']}, but {why}"


def voted_forecast(speed: Speed, prompt_tokens: int, answer: int, items: int, votes: int) -> Forecast:
    """Return the expected cost if ``votes`` calls write each item; early decisions lower it."""
    calls = items * votes
    total_s = all_s(speed, answer / items * SLOWEST_PART, calls)
    read = prompt_tokens + calls * INSTRUCTION_TOKENS
    return Forecast(seconds=round(total_s, 2), tokens=round(read + answer * votes), calls=calls)


def items_forecast(speed: Speed, prompt_tokens: int, answer: int, items: int) -> Forecast:
    """Return the expected cost of two or more items: one call each, or groups if there are more items than slots."""
    together = min(math.ceil(items / speed.concurrent_calls), TOGETHER)
    calls = math.ceil(items / together)
    total_s = all_s(speed, answer / calls * SLOWEST_PART, calls)
    read = prompt_tokens + calls * INSTRUCTION_TOKENS
    return Forecast(seconds=round(total_s, 2), tokens=round(read + answer), calls=calls, written=answer)


def _is_constrained_to_labels(case: Case) -> bool:
    """Return whether the backend constrains the model to the labels that the task names."""
    split = case.parse.split
    named = isinstance(split, Split) and labels_of(split.instruction, split.context)
    return case.backend.capabilities.regex and bool(named)


class ItemsOptions(BaseModel):
    """Options of ``items``.

    Attributes:
        samples: the most results per item, of which the one that most agree on is shown.
        certainty: as in ``consensus``: how certain the vote must be to stop waiting for an item's remaining results.
        compare: as in ``consensus``: what is compared between two results.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    samples: int = Field(default=1, ge=1, le=16)
    certainty: float = Field(default=0.95, gt=0.5, le=1)
    compare: Compare = "auto"
