"""What a strategy offers for a request; the router weighs the offers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from stretto.values.route import Forecast

Value = TypeVar("Value", str, Forecast | None)


def made(value: Value | Callable[[], Value]) -> Value:
    """Return a value, or call the function that makes it."""
    return value() if callable(value) else value


def _none() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """How well a strategy suits one request, and at what cost.

    Of the suitable offers, the router takes the one with the highest priority; among equals, the most confident one.
    ``direct`` is always suitable and has the lowest priority.

    ``reason``, ``forecast`` and ``why_not`` can be functions, which are called only when read: most never are. What
    they depend on must not change until then.

    Attributes:
        confidence: probability, 0 to 1, that the strategy suits the request; it becomes the route's.
        reason: why the strategy was chosen, as one sentence for a person.
        forecast: the expected cost, shown in the route; ``None`` if it is unknown.
        eligible: whether the strategy may be chosen. The route shows the forecast of unsuitable offers too.
        priority: rank among suitable offers. The library's are 0 (direct), 10 (skeleton), 20 (items), 25 (documents
            that fit into the context window) and 40 (documents that do not).
        when_blocked: half a sentence such as "points in parallel would serve", for the reason of a route that an
            obstacle turned into ``direct``.
        obstacle: called if this offer would be chosen. Returns half a sentence on why the strategy is impossible here,
            or ``None``. With an obstacle the request is answered by ``direct``. To leave it to the other strategies
            instead, make no offer. `Case.obstacle` finds the usual obstacles.
        needs: abilities of the model, as `stretto check` names them, without which the strategy is not chosen.
        why_not: half a sentence on why the strategy does not suit a request that looks suitable, for the reason of
            a route that is ``direct`` because nothing else suits.
        in_sections: the strategy, which can also write in one piece, is to write sections in parallel; passed on as
            `Route.in_sections`.
    """

    confidence: float
    reason: str | Callable[[], str]
    forecast: Forecast | Callable[[], Forecast | None] | None = None
    eligible: bool = True
    priority: int = 30
    when_blocked: str = "another strategy would serve"
    obstacle: Callable[[], str | None] = _none
    needs: tuple[str, ...] = ()
    why_not: str | Callable[[], str] = ""
    in_sections: bool = False
