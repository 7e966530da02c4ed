"""Assembles everything that makes calls over a network reliable."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Protocol, runtime_checkable

from stretto.backends.base import Backend
from stretto.backends.providers.transport.http_clients import MAX_CONNECTIONS
from stretto.backends.resilience.breaker import Breaker, Circuit
from stretto.backends.resilience.hedge import Hedge
from stretto.backends.resilience.rate_limiter import RateLimiter
from stretto.backends.resilience.rate_limits import RateLimits
from stretto.backends.resilience.retry import Retry
from stretto.backends.resilience.shared import SharedHealth, SharedLimits, Store
from stretto.backends.resilience.stall import StallGuard
from stretto.foundation.arguments import safe_repr
from stretto.values.errors import SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Resilience:
    """How many failures, and how much waiting, to tolerate. Times in seconds. Raises `SettingsError`.

    Attributes:
        attempts: the most calls for one generation, including the first; 1: no retries.
        first_wait_s: upper bound of the first wait between attempts; doubled each time.
        longest_wait_s: upper bound of these waits.
        longest_pause_s: upper bound of waits that a server or its rate limits ask for.
        first_text_s: the longest time without text or thinking, before the first text of a prompt of up to 1,000
            tokens; longer ones get more, see `FirstTexts`.
        stall_s: the same after the first text.
        concurrent_calls: calls that run at a time.
        hedge: send a second call if the first text is late; costs up to ``hedge_share`` more calls.
        hedge_after_s: seconds after which the first text is late; ``None``: the 95th percentile so far.
        hedge_share: extra calls as a share of all.
        breaker_faults: consecutive faults after which the endpoint is left alone.
        breaker_over_s: the minimum time that these must spread over.
        breaker_rest_s: how long it is left alone.
    """

    attempts: int = 4
    first_wait_s: float = 0.5
    longest_wait_s: float = 8.0
    longest_pause_s: float = 120.0
    first_text_s: float = 120.0
    stall_s: float = 30.0
    concurrent_calls: int = 32
    hedge: bool = False
    hedge_after_s: float | None = None
    hedge_share: float = 0.05
    breaker_faults: int = 5
    breaker_over_s: float = 5.0
    breaker_rest_s: float = 30.0

    def __post_init__(self) -> None:
        bounds = {
            "attempts": (1, 20),
            "concurrent_calls": (1, MAX_CONNECTIONS),
            "hedge_share": (0, 1),
            "breaker_faults": (1, math.inf),
        }
        for item in fields(self):
            value = getattr(self, item.name)
            lowest, highest = bounds.get(item.name, (0, math.inf))
            if value is not None and not (isinstance(value, (int, float)) and lowest <= value <= highest):
                raise SettingsError(
                    f"{item.name}={safe_repr(value)} cannot be used: it must be a number from {lowest} to {highest}."
                )


@runtime_checkable
class Addressed(Protocol):
    """A backend that reports where its calls go."""

    model: str

    @property
    def address(self) -> tuple[str, str]:
        """Provider and address; equal for backends with the same endpoint."""
        ...


@dataclass
class Endpoints:
    """The state that the backends of one client share.

    An endpoint that fails does so for all its models; rate limits belong to a model.

    Attributes:
        circuits: the health of each endpoint.
        limits: the rate limits of each model at its endpoint.
        store: keeps the same for all replicas; ``None`` if each process only keeps its own.
    """

    circuits: dict[tuple[str, str], Circuit] = field(default_factory=dict)
    limits: dict[tuple[str, str, str], RateLimits] = field(default_factory=dict)
    store: Store | None = None

    def circuit(self, backend: Backend, policy: Resilience) -> Circuit:
        """Return the health of the endpoint that the backend calls; a new one if the endpoint is unknown."""
        new = Circuit(faults=policy.breaker_faults, over_s=policy.breaker_over_s, rest_s=policy.breaker_rest_s)
        return self.circuits.setdefault(backend.address, new) if isinstance(backend, Addressed) else new

    def rate_limits(self, backend: Backend) -> RateLimits:
        """Return the rate limits of the backend's model at its endpoint."""
        if not isinstance(backend, Addressed):
            return RateLimits()
        return self.limits.setdefault((*backend.address, backend.model), RateLimits())

    def shared_health(self, backend: Backend, policy: Resilience) -> SharedHealth | None:
        """Return the health of the endpoint as seen by all replicas; ``None`` if they share nothing."""
        if self.store is None or not isinstance(backend, Addressed):
            return None
        return self.store.health(
            backend.address,
            faults=policy.breaker_faults,
            over_s=policy.breaker_over_s,
            rest_s=policy.breaker_rest_s,
        )

    def shared_limits(self, backend: Backend) -> SharedLimits | None:
        """Return the rate limits of the model for all replicas; ``None`` if they share nothing."""
        if self.store is None or not isinstance(backend, Addressed):
            return None
        return self.store.limits((*backend.address, backend.model))


def resilient(backend: Backend, policy: Resilience | None = None, endpoints: Endpoints | None = None) -> Backend:
    """Wrap a provider's backend in the whole layer.

    From the inside out: notice silence, count faults, wait for room, hedge a late call, and retry a failed
    one. Each attempt passes through the breaker and the rate limits again; a wait for them does not count as
    silence. A deadline is a cancel scope of the calling task: waits beyond it are not started.
    Backends with the same ``endpoints`` share what they learn of a server.
    """
    policy = policy or Resilience()
    shared = endpoints or Endpoints()
    layers: Backend = StallGuard(backend, first_text_s=policy.first_text_s, stall_s=policy.stall_s)
    layers = Breaker(layers, shared.circuit(backend, policy), shared.shared_health(backend, policy))
    layers = RateLimiter(
        layers,
        concurrent_calls=policy.concurrent_calls,
        longest_pause_s=policy.longest_pause_s,
        limits=shared.rate_limits(backend),
        shared=shared.shared_limits(backend),
    )
    if policy.hedge:
        layers = Hedge(layers, after_s=policy.hedge_after_s, share=policy.hedge_share)
    if policy.attempts > 1:
        layers = Retry(
            layers,
            attempts=policy.attempts,
            first_wait_s=policy.first_wait_s,
            longest_wait_s=policy.longest_wait_s,
            longest_pause_s=policy.longest_pause_s,
        )
    return layers
