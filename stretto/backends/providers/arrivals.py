"""What comes back over the wire for one call, seen below the SDK: its headers, its body within bounds.

Whatever wraps the SDK's methods, to trace them for instance, may wrap what they return as well; this does not depend
on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from stretto.backends.providers.event_lines import EventLines


@dataclass
class Arrival:
    """The response to one call that asks for a stream."""

    headers: Mapping[str, str] = field(default_factory=dict)
    lines: EventLines = field(default_factory=EventLines)


_expected: ContextVar[Arrival | None] = ContextVar("stretto_arrival", default=None)


@contextmanager
def arriving() -> Iterator[Arrival]:
    """Expect the response to the call that is sent in this context."""
    arrival = Arrival()
    before = _expected.set(arrival)
    try:
        yield arrival
    finally:
        _expected.reset(before)


def expected() -> Arrival | None:
    """Give what the calling task expects to arrive."""
    return _expected.get()
