"""How busy a backend is: what it reports itself, and what the answers of this process have shown.

`load_of` returns a frozen snapshot. The router reads it for its forecasts. An answer reads it once, before its first
calls: it runs as many of them concurrently as the other answers leave room for.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar
from weakref import ref

from stretto.backends.base import Backend, Chunk, measured_by, method_of
from stretto.values.request import Request

FEWEST_TOKENS = 16
SHORTEST_S = 0.25  # of a stream that is informative; scripted and cached answers come at once
FRESH_S = 60.0  # how long the timing of calls is evidence of the server's capacity
_LATELY = 8  # calls for the median: one answer by points makes several, and machines have slow moments
_LATE = 2.0  # times the fastest first token: such a call waited for its turn
_LEAST_WAIT_S = 0.1  # on top of that; less is chance
_ENOUGH = 3  # calls that waited, so that it was no accident
_USUAL = 100  # first tokens, the fastest of which is the baseline
_LAST = 12  # such calls, so that a server whose capacity shrinks is noticed
_LONG_PROMPT = 8_000  # characters; the prompt makes its first token slow


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one backend at one moment. Unknown values are empty.

    Provisional: it may change in any release.

    Attributes:
        calls: calls under way or about to begin, for all answers of this process.
        waiting: of these, calls that wait here, for the library's own limit or for rate limits.
        limits_left: what is left of the server's rate limits, by kind: requests, tokens, input-tokens, output-tokens.
        refused: calls that the server refused recently because there were too many (429).
        holds: calls that the server runs at a time, inferred from calls that waited for their turn or from a refusal.
        first_token_s: seconds to the first token, by the calls under way when the call was sent, itself included.
        tokens_per_s: tokens per second of one stream, by the number of streams.
        step_ms: milliseconds of a step of a local engine's batch, by its rows.
    """

    calls: int = 0
    waiting: int = 0
    limits_left: Mapping[str, float] = field(default_factory=dict)
    refused: int = 0
    holds: int | None = None
    first_token_s: Mapping[int, float] = field(default_factory=dict)
    tokens_per_s: Mapping[int, float] = field(default_factory=dict)
    step_ms: Mapping[int, float] = field(default_factory=dict)

    def first_s(self, calls: int) -> float | None:
        """Return the seconds to the first token of one of so many calls; ``None`` before any was seen."""
        return between(self.first_token_s, calls) if self.first_token_s else None

    def rate(self, calls: int) -> float | None:
        """Return the tokens per second of one of so many streams; ``None`` before any was seen."""
        return between(self.tokens_per_s, calls) if self.tokens_per_s else None


class ReportsLoad(Protocol):
    """A backend that knows more about its load than answers show: its rate limits, refusals, its batch.

    Provisional: it may change in any release.
    """

    def load_now(self) -> Load:
        """Return its calls, waiting calls, remaining limits and refusals; times are measured by answers."""
        ...


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How many calls of one answer can run at a time on one backend. Nothing else decides that.

    Attributes:
        slots: as many as the backend runs for all answers, and `Settings.concurrent_calls` allows.
        allowed: of these, as many as ``max_parallel_parts`` of the request allows.
        load: the load by the other answers, which keep their places.
    """

    slots: int
    allowed: int
    load: Load

    @classmethod
    def of(cls, backend: Backend, request: Request, load: Load | None = None) -> CallLimits:
        """Return the limits of an answer to a request, with the current load or the given one."""
        slots = backend.capabilities.concurrent_calls
        return cls(slots, max(1, min(slots, request.max_parallel_parts or slots)), load or load_of(backend))

    @property
    def now(self) -> int:
        """The minimum of all limits; at least one call."""
        requests = self.load.limits_left.get("requests", math.inf)
        return max(1, min(self.allowed, self._capacity - self.load.calls, int(min(requests, self.slots))))

    def why_below(self, needed: int, name: str) -> str | None:
        """Return, as half a sentence, what limits the calls on this backend to fewer than needed, or ``None``."""
        if self.now >= needed:
            return None
        if self.allowed < needed:
            who = name if self.allowed == self.slots else "the request"
            return f"{who} runs only {self.allowed} call{'s' if self.allowed != 1 else ''} at once"
        load, capacity, left = self.load, self._capacity, self.load.limits_left.get("requests", math.inf)
        others = f"calls of other answers under way: {load.calls}"
        reason = f"it writes {capacity} at a time, as its last calls showed"
        if left < capacity - load.calls:
            reason = f"its rate limit leaves {int(left)} request{'s' if int(left) != 1 else ''}"
        elif load.refused:
            reason = f"it refused calls moments ago; {others}"
        elif load.calls:
            reason = f"{others}, and {reason if capacity < self.slots else f'it takes {capacity} at a time'}"
        return f"{name} is busy: {reason}"

    @property
    def _capacity(self) -> int:
        return self.slots if self.load.holds is None else min(self.slots, self.load.holds)


def between(table: Mapping[int, float], at: int) -> float:
    """Interpolate a table linearly; beyond its ends, return the last value."""
    low = max((known for known in table if known <= at), default=None)
    high = min((known for known in table if known >= at), default=None)
    if low is None or high is None:
        return table[min(table) if low is None else max(table)]
    if low == high:
        return table[low]
    return table[low] + (table[high] - table[low]) * (at - low) / (high - low)


class LoadMeter:
    """What the answers of this process show about one backend.

    Args:
        clock: seconds, monotonic.

    Attributes:
        first_token_s: seconds to the first token, by the number of calls under way; the median of recent ones.
        tokens_per_s: tokens per second of one stream, by the number of concurrent streams, itself included; the median
            of recent ones.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._shares: set[LoadShare] = set()
        self.first_token_s: dict[int, float] = {}
        self.tokens_per_s: dict[int, float] = {}
        self._last_first_s: defaultdict[int, deque[float]] = defaultdict(_lately)
        self._last_rates: defaultdict[int, deque[float]] = defaultdict(_lately)
        self._firsts: deque[float] = deque(maxlen=_USUAL)
        self._streams: deque[tuple[float, int]] = deque(maxlen=_USUAL)  # how many ran when each began
        self._waited: deque[tuple[float, int]] = deque(maxlen=_LAST)
        self._calls = 0
        self._running = 0
        self._stream_s = 0.0  # of all streams together
        self._at = 0.0

    def load(self) -> Load:
        """Return what this process knows."""
        oldest = self.clock() - FRESH_S
        while_waiting = [streams for at_s, streams in self._waited if at_s >= oldest]
        return Load(
            calls=max(self._calls, sum(share.calls for share in self._shares)),
            holds=max(while_waiting) if len(while_waiting) >= _ENOUGH else None,
            first_token_s=dict(self.first_token_s),
            tokens_per_s=dict(self.tokens_per_s),
        )

    @contextmanager
    def counting(self, share: LoadShare) -> Iterator[None]:
        """Count the calls of an answer while it is written."""
        self._shares.add(share)
        try:
            yield
        finally:
            self._shares.discard(share)

    def sent(self) -> int:
        """Count a call that is sent. Returns how many are under way, this one included."""
        self._calls += 1
        return self._calls

    def left(self) -> None:
        """Count a call that has ended."""
        self._calls -= 1

    def first(self, calls: int, took_s: float) -> None:
        """Record the time to the first token of a call that was sent as one of so many.

        If it came much later than usual, while fewer streams ran than calls were under way, the call waited for its
        turn. A server that prefills prompts one after the other is late too, but soon runs them all.
        """
        last_s = self._last_first_s[calls]
        last_s.append(took_s)
        self.first_token_s[calls] = statistics.median(last_s)
        self._firsts.append(took_s)
        if took_s <= _LATE * min(self._firsts) + _LEAST_WAIT_S:
            return
        now = self.clock()
        ran = max([self._running, *(streams for at_s, streams in self._streams if at_s > now - took_s)])
        if ran < calls:
            self._waited.append((now, ran))

    def begun(self) -> tuple[float, float]:
        """Count a stream with its first text. Returns the time, and the seconds that all streams have run so far."""
        self._advance()
        self._running += 1
        self._streams.append((self._at, self._running))
        if any(streams < self._running for _, streams in self._waited):  # it runs more than inferred
            self._waited = deque(((at_s, max(streams, self._running)) for at_s, streams in self._waited), _LAST)
        return self._at, self._stream_s

    def ended(self, begun: tuple[float, float], tokens: int | None) -> None:
        """Count a stream that ended with so many tokens; ``None`` if it was cut off, or did not report them."""
        self._advance()
        self._running -= 1
        taken_s = self._at - begun[0]
        if tokens is None or tokens < FEWEST_TOKENS or taken_s < SHORTEST_S:
            return
        streams = max(1, round((self._stream_s - begun[1]) / taken_s))
        last_rates = self._last_rates[streams]
        last_rates.append((tokens - 1) / taken_s)
        self.tokens_per_s[streams] = statistics.median(last_rates)

    def _advance(self) -> None:
        now = self.clock()
        self._stream_s += self._running * (now - self._at)
        self._at = now


class LoadShare:
    """What one answer uses of a backend.

    Args:
        planned: its number of concurrent calls; all of them count until its parts have begun.
        limits: the limits of the answer when it began.
    """

    def __init__(self, planned: int, limits: CallLimits) -> None:
        self.limits = limits
        self._planned = planned
        self._begun = self._open = 0

    @property
    def calls(self) -> int:
        """Calls under way or about to begin."""
        return self._planned if self._begun <= 1 else min(self._open, self._planned)

    def begin(self) -> None:
        """Count a branch of the answer that has started."""
        self._begun += 1
        self._open += 1

    def end(self) -> None:
        """Count a branch of the answer that has ended."""
        self._open -= 1


class CallTimer:
    """A timer for one call with a prompt of ``prompt`` characters: from sending to first text, then to its end."""

    def __init__(self, meter: LoadMeter, prompt: int = 0) -> None:
        self._meter = meter
        self._is_long = prompt > _LONG_PROMPT
        self._calls, self._sent_s = 0, 0.0
        self._begun: tuple[float, float] | None = None
        self._tokens: int | None = None

    def __enter__(self) -> Self:
        self._calls, self._sent_s = self._meter.sent(), self._meter.clock()
        return self

    def __exit__(self, *_: object) -> None:
        """Record its end, however it came."""
        self._meter.left()
        if self._begun is not None:
            self._meter.ended(self._begun, self._tokens)

    def add_chunk(self, chunk: Chunk) -> None:
        """Record a chunk of the stream."""
        if (chunk.is_answer or chunk.thinking or chunk.held) and self._begun is None:
            self._begun = self._meter.begun()
            if not self._is_long:
                self._meter.first(self._calls, self._begun[0] - self._sent_s)
        if chunk.usage is not None and chunk.usage.completion_tokens:
            self._tokens = (self._tokens or 0) + chunk.usage.completion_tokens


def _lately() -> deque[float]:
    return deque(maxlen=_LATELY)


Seen = TypeVar("Seen")


class ByBackend(Generic[Seen]):
    """One value per backend, the same for all clients that use it; ``new`` creates it on first use."""

    _all: ClassVar[list[ByBackend[Any]]] = []

    def __init__(self, new: Callable[[], Seen]) -> None:
        self._new = new
        self._found: dict[int, tuple[ref[Backend], Seen]] = {}
        self._all.append(self)

    def of(self, backend: Backend) -> Seen:
        """Return the value of a backend; a new one each time if the backend does not support weak references."""
        key = id(backend)  # a caller's backend might not be hashable
        found = self._found.get(key)
        if found is None or found[0]() is not backend:
            try:
                found = (ref(backend, lambda _: self._found.pop(key, None)), self._new())
            except TypeError:
                return self._new()
            self._found[key] = found
        return found[1]

    @classmethod
    def forget(cls, backend: Backend) -> None:
        """Reset all such values of a backend. Running calls are counted where they began."""
        for each in cls._all:
            each._found.pop(id(backend), None)


_METERS = ByBackend(LoadMeter)


def meter_of(backend: Backend) -> LoadMeter:
    """Return the meter of a backend, one for all clients that use it."""
    return _METERS.of(backend)


@contextmanager
def answering(backend: Backend, request: Request, planned: int) -> Iterator[LoadShare]:
    """Count an answer with work for so many concurrent calls, as far as there is room; yields its share."""
    limits = CallLimits.of(backend, request)
    share = LoadShare(min(planned, limits.now), limits)
    with meter_of(backend).counting(share):
        yield share


def load_of(backend: Backend) -> Load:
    """Return the current load of a backend."""
    shown, measured = meter_of(backend).load(), measured_by(backend)
    if backend.capabilities.calls_reported:  # late calls did not wait for a turn; their times tell the cost
        shown = replace(shown, holds=None)
    if measured is not None:
        shown = replace(shown, step_ms=measured.step_ms)
    load_now = method_of(backend, ReportsLoad.load_now)
    if load_now is None:
        return shown
    reported = load_now()
    bounds = [each for each in (shown.holds, reported.holds) if each is not None]
    return replace(
        reported,
        calls=max(shown.calls, reported.calls),
        holds=min(bounds, default=None),
        first_token_s=shown.first_token_s,
        tokens_per_s=shown.tokens_per_s,
        step_ms=shown.step_ms,
    )
