"""``forking``: the model itself marks, by tags, which parts of its answer can be written in parallel.

For models trained to do so: Multiverse (Yang et al., arXiv:2506.09991), ThreadWeaver, PASTA (Jin et al.,
arXiv:2502.11517). The library reads their tags (``tags.toml``) and starts the paths; malformed tags are ordinary text.
It needs a backend that continues exactly where a text stops.

Measured with `local:pocket-forking` on 62 topics: 12 tokens are prefilled after the paths instead of 386, with the same
score (0.97; ``benchmarks/results/parallel.md``). None of the models of these papers has been run here.

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
    """An answer that forks where its model says so. Used by name only: few models have learned tags."""

    name = "forking"

    options = ForkingOptions

    def offer(self, case: Case) -> Offer | None:
        """Offer it only if it was asked for by name; the model decides on the forks."""
        if case.request.strategy != self.name:
            return None
        reason = "The model itself says where its answer forks."
        return Offer(confidence=1.0, reason=reason, forecast=case.direct_forecast, eligible=False)

    async def run(self, request: Request, route: Route, runner: Runner) -> StrategyResult:
        """Write the answer, and its paths in parallel."""
        return await write_forking(request, route, runner)


STRATEGY = Forking()
