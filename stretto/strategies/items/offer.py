"""The offer of ``items`` to the router, and its expected cost."""

from __future__ import annotations

import math
import re

from stretto.language.telling import language_of
from stretto.route import Forecast
from stretto.router.case import PHRASES, Case
from stretto.router.excerpt import excerpt
from stretto.router.forecast import INSTRUCTION_TOKENS, SLOWEST_PART, Speed, seconds
from stretto.router.offer import Offer
from stretto.router.parse import Parse
from stretto.router.standing import Kind, standing_of
from stretto.strategies.items.options import ItemsOptions
from stretto.strategies.strategy_options import options_of

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
    items = case.item_count
    forecast = items_forecast(case.speed, case.prompt_tokens, case.answer_tokens, items) if items > 1 else None
    if forecast is not None and case.request.strategy == "items" and case.request.strategy_options:
        votes = options_of(case.request, ItemsOptions).samples
        forecast = voted_forecast(case.speed, case.prompt_tokens, case.answer_tokens, items, votes)

    gain = case.gain(forecast) if forecast is not None else ""
    kind = kind_of(case.parse)
    needs = ("item", "label") if kind == Kind.LABELS else ("item",)

    def obstacle() -> str | None:
        seen = standing_of(case.backend, kind, language_of(case.request.question))
        return case.obstacle(forecast, special=seen.against)

    shaped = judgement.shape == "items" and not judgement.unsure
    if shaped and sure >= needed and case.items > 1 and case.why_together is None:
        answer = f"the answer {PHRASES['items']}"
        return Offer(
            confidence=sure,
            reason=f"Written item by item in parallel: {answer} ({sure:.0%} sure{case.shape_evidence}).{gain}",
            forecast=forecast,
            priority=PRIORITY,
            when_blocked=answer,
            obstacle=obstacle,
            needs=needs,
        )
    if case.list_length and not judgement.unsure:
        return Offer(
            confidence=LISTED_CONFIDENCE,
            reason="Written item by item in parallel: "
            f"the request is a list of {case.list_length}, with one task for each.{gain}",
            forecast=forecast,
            priority=PRIORITY,
            when_blocked="the request is a list with one task for each",
            obstacle=obstacle,
            needs=needs,
        )
    return Offer(
        confidence=sure,
        reason="",
        forecast=forecast,
        eligible=False,
        priority=PRIORITY,
        why_not=_doubt(case, sure, needed) if shaped else "",
    )


def kind_of(parse: Parse) -> Kind:
    """What kind of lists this one is, for the standing of its model."""
    return Kind.LABELS if _LABELS.search(excerpt(parse.text)) else Kind.ITEMS


def _doubt(case: Case, sure: float, needed: float) -> str:
    if sure < needed:
        return f"that the answer {PHRASES['items']} is not sure enough ({sure:.0%} sure, {needed:.0%} needed)"
    return (
        f"the answer most likely {PHRASES['items']}, but {case.why_together or 'the request shows no items to count'}"
    )


def voted_forecast(speed: Speed, prompt_tokens: int, answer: int, items: int, votes: int) -> Forecast:
    """The same where each item is written by so many calls of its own; early ends make it less."""
    calls = items * votes
    at_once = min(calls, speed.concurrent_calls)
    call_s = seconds(speed, answer / items * SLOWEST_PART, calls=at_once)
    read = prompt_tokens + calls * INSTRUCTION_TOKENS
    total_s = math.ceil(calls / speed.concurrent_calls) * call_s
    return Forecast(seconds=round(total_s, 2), tokens=round(read + answer * votes), calls=calls)


def items_forecast(speed: Speed, prompt_tokens: int, answer: int, items: int) -> Forecast:
    """Expected cost of two or more items: one call each, or groups if there are more items than slots."""
    together = min(math.ceil(items / speed.concurrent_calls), TOGETHER)
    calls = math.ceil(items / together)
    call_s = seconds(speed, answer / calls * SLOWEST_PART, calls=min(calls, speed.concurrent_calls))
    total_s = math.ceil(calls / speed.concurrent_calls) * call_s
    read = prompt_tokens + calls * INSTRUCTION_TOKENS
    return Forecast(seconds=round(total_s, 2), tokens=round(read + answer), calls=calls, written=answer)
