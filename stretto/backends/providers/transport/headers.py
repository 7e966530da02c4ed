"""Response headers: which are kept, and how to parse their numbers and times, however a server writes them.

A server can write anything. A value that is not a finite number, or is below 0, counts as missing, and times are capped
at a year.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from stretto.foundation.redaction import redact

_KEPT = re.compile(r"([a-z0-9]{1,20}-)?ratelimit-|retry-after|(x-)?request-id$|x-should-retry$")
_LONGEST_VALUE = 200  # characters
LONGEST_S = 366 * 86_400.0
_UNIX_TIME = 1e9  # from here on, a number is a point in time, not a duration
_DURATION = re.compile(r"(?<!\d)(\d++(?:\.\d++)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def kept_headers(headers: Mapping[str, str] | None, *secrets: str, retry_header: str = "") -> dict[str, str]:
    """Keep the rate limits and the request id of a response, names in lower case, without keys.

    ``retry_header``: the server's own name for ``retry-after``.
    """
    own = retry_header.lower()
    kept = {
        name.lower(): redact(value[:_LONGEST_VALUE], *secrets)
        for name, value in (headers or {}).items()
        if _KEPT.match(name.lower()) or (own and name.lower() == own)
    }
    return kept | {"retry-after": kept[own]} if own in kept else kept


def number(value: str | None) -> float | None:
    """Read a finite number that is not negative."""
    try:
        read = float(value) if value is not None else math.nan
    except ValueError:
        return None
    return read if math.isfinite(read) and read >= 0 else None


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the wait that a server asks for, in seconds: milliseconds, seconds or a date (RFC 9110)."""
    if (milliseconds := number(headers.get("retry-after-ms"))) is not None:
        return min(milliseconds / 1000, LONGEST_S)
    value = headers.get("retry-after")
    if value is None:
        return None
    if (seconds := number(value)) is not None:
        return min(seconds, LONGEST_S)
    try:
        return _until(parsedate_to_datetime(value))
    except (ValueError, OverflowError):
        return None


def seconds_until(reset: str | None) -> float | None:
    """Parse when a limit resets: ``6m0s``, ``120ms``, seconds, or a timestamp in RFC 3339."""
    if not reset:
        return None
    if (seconds := number(reset)) is not None:  # some servers give Unix time
        return min(seconds if seconds < _UNIX_TIME else max(0.0, seconds - time.time()), LONGEST_S)
    parts = _DURATION.findall(reset)
    if parts and "".join(amount + unit for amount, unit in parts) == reset:
        return min(sum(float(amount) * _SECONDS[unit] for amount, unit in parts), LONGEST_S)
    try:
        return _until(datetime.fromisoformat(reset))
    except (ValueError, OverflowError):
        return None


def _until(moment: datetime) -> float:
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    return min(max(0.0, (moment - datetime.now(UTC)).total_seconds()), LONGEST_S)
