"""The offer of ``fields`` to the router, and its expected cost."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from stretto.prompts import GENERAL
from stretto.router import obstacles
from stretto.router.affordable import least_shared
from stretto.router.case import Case
from stretto.router.forecast import INSTRUCTION_TOKENS, SLOWEST_PART, reading_s, seconds
from stretto.router.history import history_of
from stretto.router.offer import Offer
from stretto.strategies.fields.record_plan import NotSplit, Record, outline_of, record_of
from stretto.values.route import Forecast, Obstacle

PRIORITY = 30  # a schema says more clearly than words what the answer consists of
MOST_AGAIN = 3  # times the tokens of a direct answer that calls can read again
FROM_CACHE = 0.1  # of a prompt token's price
READERS = 'readers preferred records that one writer wrote; preference="fastest" has long fields written in parallel'
_SHOWN = 4  # fields that a reason names
# Requests to extract what documents say, in the languages of the router. Other records are written from them freely.
_EXTRACTS = re.compile(
    r"\b(?:extract|extrahier|entnimm|entnehm|extrai|extrae[rn]?\b|extraiga|estrai|estrarre|extraheer|wyodrębn|wyciągn"
    r"|extrahera|pull out|read off|fill in|fülle?\b.{1,60}\baus|çıkar)|извле[кч]|витягн|استخر|निकाल|提取|抽出|추출",
    re.IGNORECASE,
)


def offer_fields(case: Case) -> Offer | None:
    """Offer one call for each long field of a record."""
    schema = case.request.options.response_format
    if not isinstance(schema, dict):
        return None
    named = case.request.strategy == "fields"
    looked_up = bool(case.request.documents) and (named or _EXTRACTS.search(case.request.question) is not None)
    record = record_of(schema, history_of(case.backend).usual_fields(schema), explicit=named, apart=looked_up)
    if isinstance(record, NotSplit):
        # An array or an arbitrary object has no fields; other strategies then say why it is written in one piece.
        return Offer(
            confidence=0.0,
            reason="",
            eligible=isinstance(schema.get("properties"), dict) or "$ref" in schema,
            priority=PRIORITY,
            when_blocked="a record with fields is asked for",
            obstacle=lambda: Obstacle(record.reason, "shape"),
        )
    forecast = fields_forecast(case, record)
    names = [part.path[0] for part in record.parts]
    shown = ", ".join(dict.fromkeys(names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
    how = f"Short fields first, then {len(record.parts)} long ones side by side"
    if looked_up:
        how = f"Each of {len(record.parts)} fields is looked for in the documents by itself, and cited"
    return Offer(
        confidence=1.0,
        reason=f"{how} ({shown}).{case.gain(forecast)}",
        forecast=forecast,
        priority=PRIORITY,
        when_blocked="the fields of the record could be written side by side",
        obstacle=lambda: (
            next(_against(case, record, forecast, looked_up=looked_up), None) or obstacles.to_parallel(case, forecast)
        ),
    )


def _against(case: Case, record: Record, forecast: Forecast, *, looked_up: bool) -> Iterator[str]:
    """Yield the reasons in the request and the model against several calls."""
    request, most = case.request, case.request.options.max_tokens
    if (whole := request.whole_reason) is not None:
        yield Obstacle(whole, "whole")
    if request.documents and not looked_up:
        why = "documents come with the request, which does not say to extract fields from them"
        yield Obstacle(f"{why}; strategy='fields' looks for each, and cites it", "demand")
    if not looked_up and request.preference != "fastest":
        yield Obstacle(READERS, "readers")
    if case.family != GENERAL:
        yield Obstacle("a model of this size writes a record better in one piece", "ability")
    if most is not None and most < record.tokens:
        yield Obstacle(f"max_tokens={most} leaves no room for fields of about {record.tokens} tokens", "budget")
    if request.options.stop:
        yield Obstacle("stop strings are set, which would cut the fields in the middle", "demand")
    if looked_up and _reads_too_often(case, forecast):
        yield Obstacle(f"it would read the documents {forecast.calls} times", "gain")


def _reads_too_often(case: Case, forecast: Forecast) -> bool:
    """Return whether rereading the documents in each call costs more than it saves; never if only time counts."""
    able, preference = case.backend.capabilities, case.request.preference
    again: float = (forecast.calls - 1) * case.prompt_tokens
    if able.prefix_caching or case.prompt_tokens >= least_shared(preference, able):
        again *= FROM_CACHE
    return preference != "fastest" and again > MOST_AGAIN * case.direct_forecast.tokens


def fields_forecast(case: Case, record: Record) -> Forecast:
    """Return the expected cost: the short fields, the outline, then waves as long as their longest calls."""
    speed, calls = case.speed, record.calls
    outline = outline_of(case.request, record, record.lead, thinks=case.backend.capabilities.reasoning)
    lines = 0 if outline is None else outline.tokens
    separate = outline is not None and outline.separate
    first = record.first_tokens + (0 if separate else lines)
    total_s = seconds(speed, first / speed.alone) if record.first is not None else 0.0
    if separate:
        total_s += seconds(speed, lines, calls=2)
        calls += 1
    for wave in record.waves:
        many = sum(part.calls for part in wave)
        side_by_side = min(many, speed.concurrent_calls)
        longest = max(part.tokens * (SLOWEST_PART if part.calls > 1 else 1) for part in wave)
        total_s += math.ceil(many / speed.concurrent_calls) * seconds(speed, longest, calls=side_by_side)
    each = case.prompt_tokens + INSTRUCTION_TOKENS
    total_s += calls * reading_s(speed, case.measured, each)
    written = record.tokens + lines
    return Forecast(seconds=round(total_s, 2), tokens=round(calls * each + written), calls=calls, written=written)
