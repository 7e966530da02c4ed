"""What replicas of a program share about the servers that they call: rate limits, and which endpoints fail.

Each replica keeps its own state as it does without a store (`RateLimits`, `Circuit`), and asks the store as well. So
nothing but the common part is lost while the store is away.
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
        wait_s: seconds until there may be room; 0: the call is counted, and may be sent.
        held_s: seconds for which the server wants no call at all.
    """

    wait_s: float = 0.0
    held_s: float = 0.0


@dataclass(frozen=True, slots=True)
class News:
    """What a call has shown of the limits of its model.

    Attributes:
        flying: what this replica still has on its way, by kind of limit.
        returned: what a call took that never reached the server.
        reported: what the server says is left.
        hold_s: for how long the server wants no call.
    """

    flying: Mapping[str, int]
    returned: Mapping[str, int] = field(default_factory=dict)
    reported: Mapping[str, Report] = field(default_factory=dict)
    hold_s: float = 0.0


class SharedLimits(Protocol):
    """The rate limits of one model, for all replicas."""

    async def take(self, cost: Mapping[str, int], flying: Mapping[str, int]) -> Room:
        """Count a call of this cost, at once for all replicas, if there is room for it.

        ``flying`` is what this replica has on its way, this call included.
        """
        ...

    async def tell(self, news: News) -> None:
        """Take in what a call has shown."""
        ...


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether an endpoint may be called.

    Attributes:
        verdict: "go"; "try": the call is the one that tries whether the endpoint answers again; "wait": another call
            does; "no": the endpoint is left alone.
        left_s: seconds until a call may try.
        faults: faults in a row.
        last: what failed last, in a few words.
    """

    verdict: Literal["go", "try", "wait", "no"] = "go"
    left_s: float = 0.0
    faults: int = 0
    last: str = ""


class SharedHealth(Protocol):
    """The health of one endpoint, as all replicas have met it."""

    async def admit(self, token: str, answer: int | None, *, fresh: bool = False) -> Standing:
        """Ask for a call.

        ``token`` is known to nobody else; ``answer`` is the number of the answer it is made for; ``fresh``: this
        replica knows no failure of its request.
        """
        ...

    async def tell(
        self,
        what: Literal["fault", "answers", "whole", "end"],
        *,
        token: str = "",
        answer: int | None = None,
        failure: str = "",
        follows: bool = False,
    ) -> None:
        """Take in how a call went.

        ``token`` is that of a call that tried; ``follows``: the fault may follow its request, see `Suspects`.
        """
        ...


class Store(Protocol):
    """Keeps what replicas share. `RedisStore` is one.

    A store that cannot be reached raises nothing: it admits every call and forgets what it is told, so each replica
    goes on by what it knows itself.
    """

    @property
    def where(self) -> str:
        """Its address, without a password."""
        ...

    async def reach(self) -> bool:
        """Whether it answers now."""
        ...

    def limits(self, model: tuple[str, ...]) -> SharedLimits:
        """The rate limits of the model with this provider, address and name."""
        ...

    def health(self, endpoint: tuple[str, ...], *, faults: int, over_s: float, rest_s: float) -> SharedHealth:
        """The health of the endpoint with this provider and address; the rest as for `Circuit`."""
        ...

    async def spend(self, name: str, a_minute: float, *, needed: float, taken: float) -> float | None:
        """Take from an allowance that grows by ``a_minute`` each minute, if ``needed`` is there; it may fall below 0.

        Gives the seconds to wait, 0 where it was taken; ``None`` while the store is away.
        """
        ...

    async def hold(self, name: str, token: str, *, most: int, for_s: float) -> bool | None:
        """Hold one of ``most`` places for this long, or go on holding it; 0 seconds: give it back.

        Gives whether it is held; ``None`` while the store is away. ``token`` is known to nobody else.
        """
        ...

    async def aclose(self) -> None:
        """Close its connections. Idempotent."""
        ...
