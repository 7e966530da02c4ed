"""The offer of ``fields`` to the router, and its expected cost."""

from __future__ import annotations

import math

from stretto.prompts import GENERAL
from stretto.router import obstacles
from stretto.router.case import Case
from stretto.router.field_lengths import learned_of
from stretto.router.forecast import INSTRUCTION_TOKENS, SLOWEST_PART, reading_s, seconds
from stretto.router.offer import Offer
from stretto.strategies.fields.record_plan import NotSplit, Record, record_of
from stretto.values.route import Forecast

__all__ = ["offer_fields"]

PRIORITY = 30  # a schema says better than words what the answer consists of
_SHOWN = 4  # fields that a reason names


def offer_fields(case: Case) -> Offer | None:
    """Offer one call for each long field of a record."""
    schema = case.request.options.response_format
    if not isinstance(schema, dict):
        return None
    named = case.request.strategy == "fields"
    in_documents = bool(case.request.documents)
    record = record_of(schema, learned_of(case.backend, schema), explicit=named, apart=named and in_documents)
    if isinstance(record, NotSplit):
        # An array, or any object at all, has no fields: then the other strategies say why it is written in one piece.
        return Offer(
            confidence=0.0,
            reason="",
            eligible=isinstance(schema.get("properties"), dict) or "$ref" in schema,
            priority=PRIORITY,
            when_blocked="a record with fields is asked for",
            obstacle=lambda: case.request.whole_reason or record.reason,
        )
    forecast = fields_forecast(case, record)
    names = [part.path[0] for part in record.parts]
    shown = ", ".join(dict.fromkeys(names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
    return Offer(
        confidence=1.0,
        reason=f"Short fields first, then {len(record.parts)} long ones side by side ({shown}).{case.gain(forecast)}",
        forecast=forecast,
        priority=PRIORITY,
        when_blocked="the fields of the record could be written side by side",
        obstacle=lambda: _obstacle(case, record, forecast),
    )


def _obstacle(case: Case, record: Record, forecast: Forecast) -> str | None:
    request = case.request
    if (whole := request.whole_reason) is not None:
        return whole
    if request.documents:
        return "documents come with the request; strategy='fields' looks for each field in them, and cites it"
    if case.family != GENERAL:
        return "a model of this size writes a record better in one piece"
    most = request.options.max_tokens
    if most is not None and most < record.tokens:
        return f"max_tokens={most} leaves no room for fields of about {record.tokens} tokens"
    if request.options.stop:
        return "stop strings are set, which would cut the fields in the middle"
    return obstacles.to_parallel(
        request, case.backend, case.load, case.direct_forecast, forecast, measured=case.measured_how
    )


def fields_forecast(case: Case, record: Record) -> Forecast:
    """Expected cost: the short fields, then waves of the others, each as long as its longest call."""
    speed, calls = case.speed, sum(part.calls for part in record.parts)
    total_s = seconds(speed, record.first_tokens / speed.alone) if record.first is not None else 0.0
    for wave in record.waves:
        many = sum(part.calls for part in wave)
        side_by_side = min(many, speed.concurrent_calls)
        longest = max(part.tokens * (SLOWEST_PART if part.calls > 1 else 1) for part in wave)
        total_s += math.ceil(many / speed.concurrent_calls) * seconds(speed, longest, calls=side_by_side)
    calls += record.first is not None
    each = case.prompt_tokens + INSTRUCTION_TOKENS
    total_s += calls * reading_s(speed, case.measured, each)
    return Forecast(
        seconds=round(total_s, 2), tokens=round(calls * each + record.tokens), calls=calls, written=record.tokens
    )
