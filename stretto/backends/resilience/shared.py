"""The state that replicas of a program share about the servers they call: rate limits, and failing endpoints.

Each replica keeps its own state as it does without a store (`RateLimits`, `Circuit`), and asks the store as well. So
only the shared part is lost while the store is unreachable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from stretto.backends.resilience.rate_limits import Report


@dataclass(frozen=True, slots=True)
class Room:
    """Whether the limits leave room for a call.

    Attributes:
        wait_s: seconds until there might be room; 0: the call is counted, and can be sent.
        blocked_s: seconds for which the server wants no calls at all.
    """

    wait_s: float = 0.0
    blocked_s: float = 0.0


@dataclass(frozen=True, slots=True)
class News:
    """What a call has shown about the limits of its model.

    Attributes:
        flying: the cost of this replica's running calls, by kind of limit.
        returned: the cost of a call that never reached the server.
        reported: what the server reports is left.
        hold_s: for how many seconds the server wants no calls.
    """

    flying: Mapping[str, int]
    returned: Mapping[str, int] = field(default_factory=dict)
    reported: Mapping[str, Report] = field(default_factory=dict)
    hold_s: float = 0.0


class SharedLimits(Protocol):
    """The rate limits of one model, for all replicas."""

    async def take(self, cost: Mapping[str, int], flying: Mapping[str, int]) -> Room:
        """Count a call of this cost for all replicas if there is room for it, atomically.

        ``flying`` is the cost of this replica's running calls, this one included.
        """
        ...

    async def report(self, news: News) -> None:
        """Record what a call has shown."""
        ...


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether an endpoint can be called.

    Attributes:
        verdict: "go"; "try": this call is the trial that tests whether the endpoint answers again; "wait": another
            call is; "no": the endpoint is left alone.
        left_s: seconds until a trial call is allowed.
        faults: consecutive faults.
        last: what failed last, in a few words.
    """

    verdict: Literal["go", "try", "wait", "no"] = "go"
    left_s: float = 0.0
    faults: int = 0
    last: str = ""


class SharedHealth(Protocol):
    """The health of one endpoint, as seen by all replicas."""

    async def admit(self, token: str, answer: int | None, *, fresh: bool = False) -> Standing:
        """Request a call.

        ``token`` is secret to this call; ``answer`` is the number of the answer it is made for; ``fresh``: this
        replica has not seen its request fail.
        """
        ...

    async def report(
        self,
        what: Literal["fault", "answers", "whole", "end"],
        *,
        token: str = "",
        answer: int | None = None,
        failure: str = "",
        follows: bool = False,
    ) -> None:
        """Record how a call went.

        ``token`` is a trial call's; ``follows``: the request might have caused the fault, see `Suspects`.
        """
        ...


class Store(Protocol):
    """A store for the state that replicas share. `RedisStore` is one.

    A store that is unreachable raises nothing: it admits every call and drops what is reported to it, so each replica
    relies on its own state.
    """

    @property
    def where(self) -> str:
        """The store's address, without a password."""
        ...

    async def reach(self) -> bool:
        """Return whether it responds now."""
        ...

    def limits(self, model: tuple[str, ...]) -> SharedLimits:
        """Return the rate limits of the model with this provider, address and name."""
        ...

    def health(self, endpoint: tuple[str, ...], *, faults: int, over_s: float, rest_s: float) -> SharedHealth:
        """Return the health of the endpoint with this provider and address; other arguments as for `Circuit`."""
        ...

    async def spend(self, name: str, a_minute: float, *, needed: float, taken: float) -> float | None:
        """Take from an allowance that grows by ``a_minute`` each minute, if ``needed`` is available.

        It can fall below 0. Returns the seconds to wait, 0 if it was taken; ``None`` while the store is unreachable.
        """
        ...

    async def hold(self, name: str, token: str, *, most: int, for_s: float) -> bool | None:
        """Take one of ``most`` places for this long, or extend the lease; 0 seconds: give it back.

        Returns whether a place is held; ``None`` while the store is unreachable. ``token`` is secret to the holder.
        """
        ...

    async def aclose(self) -> None:
        """Close its connections. Idempotent."""
        ...
