"""``forking``: a model that says itself, by tags, what of its answer can be written side by side.

For models that were trained to: Multiverse (Yang et al., arXiv:2506.09991), ThreadWeaver, PASTA (Jin et al.,
arXiv:2502.11517). The library reads their tags (``tags.toml``) and starts the paths; malformed tags are text like any
other. It needs a backend that goes on exactly where a text stops.

Measured with `local:pocket-forking` on 62 topics: behind the paths 12 tokens are read instead of 386, with the same
score (0.97; ``benchmarks/results/parallel.md``). None of the models of these papers has run here.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.strategies.base import StrategyResult
from stretto.strategies.research.forking.forked_answer import write_forking
from stretto.strategies.research.forking.forking_options import ForkingOptions
from stretto.strategies.runtime.runner import Runner
from stretto.values.request import Request
from stretto.values.route import Route


class Forking:
    """An answer that forks where its model says so. Used by name only: few models learned any tags."""

    name = "forking"

    options = ForkingOptions

    def offer(self, case: Case) -> Offer | None:
        """Offer nothing by itself; by name, an answer whose forks the model decides on."""
        if case.request.strategy != self.name:
            return None
        reason = "The model itself says where its answer forks."
        return Offer(confidence=1.0, reason=reason, forecast=case.direct_forecast, eligible=False)

    async def run(self, request: Request, route: Route, runner: Runner) -> StrategyResult:
        """Write the answer, and its paths side by side."""
        return await write_forking(request, route, runner)


STRATEGY = Forking()
