"""``collaborate``: several models propose at once, and one writes the answer out of what they propose.

After Mixture-of-Agents (Wang et al., arXiv 2406.04692), with one layer. The answer begins as soon as a quorum of the
proposals is there, and streams; later and failed ones are left out and named.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.strategies.base import StrategyResult
from stretto.strategies.collaborate.collaborate_options import CollaborateOptions, offer_collaborate
from stretto.strategies.collaborate.mixture import write_together
from stretto.strategies.runtime.runner import Runner
from stretto.values.request import Request
from stretto.values.route import Route


class Collaborate:
    """Several proposals, and one answer out of them. Used by name only: each proposal has its price."""

    name = "collaborate"
    asks_several = True
    """The main model stays the main one, whatever is preferred."""

    options = CollaborateOptions

    def offer(self, case: Case) -> Offer | None:
        """Tell the price, where it was asked for by name."""
        return offer_collaborate(case) if case.request.strategy == self.name else None

    async def run(self, request: Request, route: Route, runner: Runner) -> StrategyResult:
        """Ask for the proposals, and stream the answer once a quorum of them is there."""
        return await write_together(request, route, runner)
