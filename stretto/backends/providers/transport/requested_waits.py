"""Reads how long a server asks to wait, from a field or the message of an error body."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stretto.backends.providers.transport.error_bodies import read_json
from stretto.backends.providers.transport.headers import LONGEST_S, number

_DEEPEST = 10
_FIELDS = {
    "retrydelay": 1.0,  # in Google's RetryInfo
    "retryafter": 1.0,
    "retryafters": 1.0,
    "retryafterseconds": 1.0,
    "retryafterms": 0.001,
    "retryaftermilliseconds": 0.001,
}
_UNITS = {
    "ms": 0.001, "msec": 0.001, "msecs": 0.001, "millisecond": 0.001, "milliseconds": 0.001,
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3_600.0, "hr": 3_600.0, "hrs": 3_600.0, "hour": 3_600.0, "hours": 3_600.0,
    "d": 86_400.0, "day": 86_400.0, "days": 86_400.0,
}  # fmt: skip
_PART = (
    rf"(?:\d{{1,9}}(?:\.\d{{1,9}})?|\b(?:an?|one)\b)\s?(?:{'|'.join(sorted(_UNITS, key=len, reverse=True))})(?![a-z])"
)
_EACH = re.compile(r"(\d{1,9}(?:\.\d{1,9})?|\b(?:an?|one)\b)\s?([a-z]{1,20})")
_BETWEEN = (
    r"(?:[\s:={\"'~]|\b(?:in|after|for|at|least|about|approximately|another|again|until|up|to|the|your|this|request|"
    r"seconds)\b){0,12}?"
)
_WAIT = re.compile(
    r"\b(?:(?P<field>retry[-_ ]?(?:after|delay|in))|(?:re-?)?try(?:ing)?|again|wait(?:ing)?|available|resets?|"
    rf"back[ -]?off)\b{_BETWEEN}"
    rf"(?P<wait>{_PART}(?:(?:\s|,|and){{0,6}}{_PART}){{0,3}}|(?(field)\d{{1,9}}(?:\.\d{{1,9}})?(?![\d.:-]*\d|\s*\w)|(?!)))",
    re.IGNORECASE,
)
"""A wait in words. A number without a unit only counts after ``retry after``."""


def requested_wait_s(body: Any, message: str) -> float | None:
    """Return the wait that the body of an error asks for, in seconds; ``message``: its message."""
    wait_s = next(_in_fields(body, _DEEPEST), None)
    if wait_s is None and (found := _WAIT.search(message)):
        wait_s = _seconds(found["wait"], 1.0)
    return None if wait_s is None else min(wait_s, LONGEST_S)


def _in_fields(body: Any, deepest: int) -> Iterator[float]:
    if not deepest:
        return
    if isinstance(body, str) and body.lstrip()[:1] in ("{", "["):
        yield from _in_fields(read_json(body), deepest - 1)
    if isinstance(body, list):
        for each in body:
            yield from _in_fields(each, deepest - 1)
    if not isinstance(body, Mapping):
        return
    for name, value in body.items():
        unit = _FIELDS.get(re.sub("[-_]", "", str(name)).lower())
        if unit is not None and (wait_s := _seconds(value, unit)) is not None:
            yield wait_s
        else:
            yield from _in_fields(value, deepest - 1)


def _seconds(value: Any, unit: float) -> float | None:
    """Parse a duration: a number, ``1m30s``, ``5 seconds``, or Google's ``{"seconds": 5, "nanos": 0}``."""
    if isinstance(value, Mapping):
        whole, nanos = (number(str(value.get(name, 0))) for name in ("seconds", "nanos"))
        return None if whole is None or nanos is None or not (whole or nanos) else whole + nanos / 1e9
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if (plain := number(str(value).strip())) is not None:
        return plain * unit
    parts = _EACH.findall(str(value).lower())
    if not parts or any(name not in _UNITS for _, name in parts):
        return None
    return sum((float(amount) if amount[0].isdigit() else 1.0) * _UNITS[name] for amount, name in parts)
