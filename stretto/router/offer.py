"""What a strategy offers for a request, for the router to weigh against the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stretto.route import Forecast


def _none() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """How well a strategy would serve one request, and at what cost.

    The router takes, of the offers that suit, the one of the highest priority, and among equals the most confident
    one. ``direct`` always suits, with the lowest priority.

    Attributes:
        confidence: probability, 0 to 1, that the strategy serves the request; becomes that of the route.
        cause: one sentence for a person: why the strategy was chosen.
        forecast: what it is expected to cost; ``None`` where that is not known. Shown in the route.
        suits: whether it wants to be chosen. An offer that does not is still shown by its forecast.
        priority: rank among those that suit. The library's are 0 (direct), 10 (skeleton) and 20 (items).
        although: half a sentence, "points in parallel would serve", for the cause of a route that an obstacle made
            direct.
        obstacle: called if this offer would be chosen: half a sentence on what makes the strategy impossible here, or
            ``None``. With an obstacle the request is answered straight through. To leave the request to the other
            strategies instead, offer nothing. `Case.obstacle` finds the usual obstacles.
        doubt: half a sentence on why it does not suit a request that looks like one for it, for the cause of a route
            that became direct because nothing else suited.
    """

    confidence: float
    cause: str
    forecast: Forecast | None = None
    suits: bool = True
    priority: int = 30
    although: str = "another strategy would serve"
    obstacle: Callable[[], str | None] = _none
    doubt: str = ""
