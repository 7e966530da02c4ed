"""What is left of a server's rate limits, and when the next call can be sent."""

from __future__ import annotations

import math
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import anyio

from stretto.backends.base import Chunk
from stretto.backends.providers.transport.headers import LONGEST_S, number, seconds_until
from stretto.backends.resilience.waiting import Trial
from stretto.values.errors import BackendError, ConnectionFailedError, RateLimitedError

BELIEVED_S = 120.0
"""How long a report can delay calls, in seconds; then one call tests whether it is still true."""

_HEADER = re.compile(
    r"[a-z0-9]{1,20}-ratelimit-(?:(?P<field>limit|remaining|reset)-(?P<kind>requests|tokens)|"  # OpenAI's format
    r"(?P<kind2>requests|tokens|input-tokens|output-tokens)-(?P<field2>limit|remaining|reset))$"  # Anthropic's
)
_LONGEST_GAP_S = 0.25
_LONGEST_SPACING_S = 30.0
_DOUBLED_S = 5.0  # the rate doubles in this time, so pacing soon ends if the server has more capacity
REFUSED_S = 30.0
"""How long a refusal determines how many concurrent calls are too many, in seconds."""

_LOOK_AGAIN_S = 1.0  # during a trial that others wait for
_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class Report:
    """A server's report on one limit: what is left, its size, and the seconds until it is full again."""

    remaining: float
    size: float | None
    window_s: float


def reports(headers: Mapping[str, str]) -> dict[str, Report]:
    """Parse the limits in response headers, by kind."""
    fields: dict[str, dict[str, str]] = {}
    for name, value in headers.items():
        if found := _HEADER.match(name):
            kind = found["kind"] or found["kind2"]
            fields.setdefault(kind, {})[found["field"] or found["field2"]] = value
    reports = {}
    for kind, values in fields.items():
        remaining, reset_s = number(values.get("remaining")), seconds_until(values.get("reset"))
        if remaining is not None and reset_s is not None:
            reports[kind] = Report(remaining, number(values.get("limit")), reset_s)
    return reports


@dataclass
class _Bucket:
    """One limit as last reported: it refills steadily, and is full after ``window_s``; calls take from it."""

    level: float
    at_s: float
    size: float | None
    rate: float | None  # per second; unknown without a size
    full_s: float
    believed_s: float

    @classmethod
    def reported(cls, report: Report, now_s: float) -> _Bucket:
        remaining, size, window_s = report.remaining, report.size, report.window_s
        rate = None
        if size is not None and size > remaining and window_s > 0:
            rate = (size - remaining) / window_s
            rate = rate if math.isfinite(rate) else None
        return cls(remaining, now_s, size if rate else None, rate, now_s + window_s, now_s + BELIEVED_S)

    def wait_s(self, cost: float, now_s: float) -> float:
        """Return the seconds until this much is available; if it exceeds the size, until it is full."""
        self._refill(now_s)
        needed = cost if self.size is None else min(cost, self.size)
        if needed <= self.level:
            return 0.0
        return min((needed - self.level) / self.rate, LONGEST_S) if self.rate else self.full_s - now_s

    def left(self, now_s: float) -> float:
        """Return what is available; infinity once it is full and its size is not known."""
        self._refill(now_s)
        return max(0.0, self.level)

    def take(self, cost: float, now_s: float) -> None:
        """Count a call that is being sent."""
        self._refill(now_s)
        self.level -= cost

    def _refill(self, now_s: float) -> None:
        if self.rate is not None and self.size is not None:
            self.level = min(self.size, self.level + self.rate * (now_s - self.at_s))
        elif now_s >= self.full_s:
            self.level = math.inf
        self.at_s = now_s


class RateLimits:
    """When calls to one model can be sent, by what its server reports and asks for.

    Reports are trusted for at most two minutes: then one call is let through, and the others wait for its
    outcome. After a pause, calls go out one after the other, at first as fast as the server accepted them before it.

    Args:
        clock: seconds, monotonic.

    Attributes:
        waiting: calls that are waiting for the limits.
        trial: the call that tests whether an old report is still true.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}
        self._unreported: Counter[str] = Counter()
        self._blocked_until_s = self._hold_believed_s = -math.inf
        self._accepted: deque[float] = deque(maxlen=_REMEMBERED)
        self._next_s = self._spaced_until_s = -math.inf
        self._gap_s = 0.0
        self.waiting = 0
        self._refused: deque[tuple[float, int]] = deque(maxlen=_REMEMBERED)
        self.trial: Trial | None = None

    def wait_s(self, cost: Mapping[str, int]) -> float:
        """Return the seconds until a call of this cost can be sent; 0: now."""
        now_s = self._clock()
        believed, doubted = self._waits_s(cost, now_s)
        if believed > 0:
            return believed
        if doubted > 0 and self.trial is not None:
            return _LOOK_AGAIN_S
        return max(0.0, self._next_s - now_s)

    @property
    def flying(self) -> dict[str, int]:
        """The cost of calls that were sent but are not included in any report yet."""
        return {kind: amount for kind, amount in self._unreported.items() if amount}

    @property
    def blocked_s(self) -> float:
        """Seconds for which the server wants no calls."""
        return max(0.0, self._blocked_until_s - self._clock())

    def left(self) -> dict[str, float]:
        """Return what is left of each limit now, according to reports that are still trusted."""
        now_s = self._clock()
        return {kind: bucket.left(now_s) for kind, bucket in self._buckets.items() if bucket.believed_s > now_s}

    async def wait(self, seconds: float) -> None:
        """Wait this many seconds, or until the outcome of a trial is known."""
        self.waiting += 1
        try:
            await (anyio.sleep(seconds) if self.trial is None else self.trial.wait(seconds))
        finally:
            self.waiting -= 1

    def send(self, cost: Mapping[str, int]) -> Trial | None:
        """Count a call that no report includes yet. Returns a trial if it tests whether old reports are still true."""
        now_s = self._clock()
        _, doubted = self._waits_s(cost, now_s)
        trial = Trial() if doubted > 0 and self.trial is None else None
        self.trial = trial or self.trial
        for kind, bucket in self._buckets.items():
            bucket.take(cost.get(kind, 0), now_s)
        self._unreported.update(cost)
        if now_s < self._spaced_until_s:
            self._next_s = max(self._next_s, now_s) + self._gap_s
        elif self.waiting or now_s < self._next_s + self._gap_s:  # the rest of the queue must not go all at once
            self._gap_s *= 2 ** (-self._gap_s / _DOUBLED_S)
            self._next_s = max(self._next_s, now_s) + self._gap_s
        return trial

    def give_back(self, cost: Mapping[str, int]) -> None:
        """Undo the count of a call that did not reach the server."""
        for kind, bucket in self._buckets.items():
            bucket.level += cost.get(kind, 0)

    def settle(self, cost: Mapping[str, int]) -> None:
        """Stop counting a call."""
        self._unreported.subtract(cost)

    def end(self, trial: Trial) -> None:
        """End a trial: the call has ended, or its outcome is known."""
        trial.end()
        if self.trial is trial:
            self.trial = None

    def accept(self) -> None:
        """Discard reports that are too old to be trusted, because a call was accepted."""
        now_s = self._clock()
        self._accepted.append(now_s)
        self._buckets = {kind: bucket for kind, bucket in self._buckets.items() if bucket.believed_s > now_s}
        if self._hold_believed_s <= now_s:
            self._blocked_until_s = -math.inf

    def hold(self, seconds: float) -> None:
        """Let no call pass for this many seconds, as the server asked."""
        now_s = self._clock()
        if now_s + seconds >= self._blocked_until_s or self._hold_believed_s <= now_s:
            self._blocked_until_s, self._hold_believed_s = now_s + seconds, now_s + BELIEVED_S
        self._space(seconds)

    def refuse(self, calls: int) -> None:
        """Record that the server refused a call as one too many, while so many were running."""
        self._refused.append((self._clock(), calls))

    def refusals(self) -> tuple[int, int | None]:
        """Return how many calls were refused recently, and half of the calls that ran then, which is the new limit."""
        oldest = self._clock() - REFUSED_S
        while self._refused and self._refused[0][0] < oldest:
            self._refused.popleft()
        return len(self._refused), min((max(1, calls // 2) for _, calls in self._refused), default=None)

    def read(self, headers: Mapping[str, str]) -> None:
        """Process the limits in response headers."""
        now_s = self._clock()
        for kind, report in reports(headers).items():
            bucket = _Bucket.reported(report, now_s)
            bucket.level -= self._unreported[kind]
            self._buckets[kind] = bucket
            if kind == "requests" and report.remaining >= 1:
                self._next_s = self._spaced_until_s = -math.inf  # the report says how many can go at once
                self._gap_s = 0.0
            elif bucket.rate is None and report.remaining < 1:
                self._space(report.window_s)

    def _waits_s(self, cost: Mapping[str, int], now_s: float) -> tuple[float, float]:
        """Return the seconds to wait according to trusted reports, and according to those no longer trusted."""
        waits = [(self._blocked_until_s - now_s, self._hold_believed_s)]
        waits += [
            (bucket.wait_s(cost.get(kind, 0), now_s), bucket.believed_s) for kind, bucket in self._buckets.items()
        ]
        believed = max((wait_s for wait_s, until_s in waits if until_s > now_s), default=0.0)
        doubted = max((wait_s for wait_s, until_s in waits if until_s <= now_s), default=0.0)
        return max(0.0, believed), max(0.0, doubted)

    def _space(self, pause_s: float) -> None:
        """After a pause, space calls as far apart as those accepted before it."""
        now_s = self._clock()
        pause_s = min(pause_s, BELIEVED_S)
        accepted = sum(at_s > now_s - pause_s for at_s in self._accepted)
        self._gap_s = min(_LONGEST_GAP_S, pause_s / max(1, accepted))
        self._spaced_until_s = now_s + pause_s + min(pause_s, _LONGEST_SPACING_S)


class PendingCall:
    """One call's share of the limits, from its sending until a report includes it.

    Attributes:
        cost: what it takes from each kind of limit.
        is_open: whether no response to it has arrived yet.
    """

    def __init__(self, limits: RateLimits, cost: Mapping[str, int]) -> None:
        self.cost = cost
        self.is_open = True
        self._limits = limits
        self._trial = limits.send(cost)

    def read(self, chunk: Chunk) -> None:
        """Process the headers of its response."""
        if self.is_open:
            self._limits.accept()
            self.settle()
        if chunk.headers:
            self._limits.read(chunk.headers)

    def fail(self, error: BackendError) -> None:
        """Process the headers of an error, and the wait that it asks of all calls."""
        if self.never_arrived(error):
            self._limits.give_back(self.cost)
        self._report()
        self._limits.read(error.headers)
        if wait_s := asked_to_wait_s(error):
            self._limits.hold(wait_s)
        self.settle()

    def never_arrived(self, error: BackendError) -> bool:
        """Return whether an error means that the call did not reach the server."""
        return self.is_open and isinstance(error, ConnectionFailedError)

    def take_back(self) -> None:
        """Undo its count because it is not sent after all."""
        self._limits.give_back(self.cost)
        self.settle()

    def settle(self) -> None:
        """Stop counting it: a report includes it, or it has ended."""
        self._report()
        if self._trial is not None:
            self._limits.end(self._trial)
            self._trial = None

    def _report(self) -> None:
        if self.is_open:
            self.is_open = False
            self._limits.settle(self.cost)


def asked_to_wait_s(error: BackendError) -> float:
    """Return for how many seconds an error asks all calls to wait."""
    wait_s = error.retry_after_s if isinstance(error, RateLimitedError) and error.transient else None
    return wait_s or 0.0
