"""``forking``: a model that says itself, by tags, what of its answer can be written side by side.

For models that were trained to: Multiverse (Yang et al., arXiv:2506.09991), ThreadWeaver, PASTA (Jin et al.,
arXiv:2502.11517). The library reads their tags (``tags.toml``) and starts the paths; malformed tags are text like any
other. It needs a backend that goes on exactly where a text stops.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from stretto.request import Request
from stretto.route import Route
from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.strategies.forking.options import ForkingOptions
from stretto.strategies.forking.run import write_forking
from stretto.strategies.runner import Runner


class Forking:
    """An answer that forks where its model says so. Used by name only: few models learned any tags."""

    name = "forking"

    options = ForkingOptions
    """What ``strategy_options`` may hold."""

    def offer(self, case: Case) -> Offer | None:
        """Offer nothing by itself; by name, an answer whose forks the model decides on."""
        if case.request.strategy != self.name:
            return None
        reason = "The model itself says where its answer forks."
        return Offer(confidence=1.0, reason=reason, forecast=case.direct_forecast, eligible=False)

    async def run(self, request: Request, route: Route, runner: Runner) -> None:
        """Write the answer, and its paths side by side."""
        runner.strategy = self.name
        await write_forking(request, route, runner)
