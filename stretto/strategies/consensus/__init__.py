"""``consensus``: several samples of one answer at once, and the one on which most agree.

Self-consistency (Wang et al., arXiv 2203.11171) with two ways to spend less: `stopping` cancels the remaining calls
once the outcome is certain, and `samples` ends those in mid-stream of which the model is not sure. `ballots` reads
what an answer votes for. Texts that are too long to be voted on are compared by `medoid`, or by a judge.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.strategies.base import StrategyResult
from stretto.strategies.consensus.consensus_options import ConsensusOptions, offer_consensus
from stretto.strategies.runtime.runner import Runner
from stretto.values.request import Request
from stretto.values.route import Route


class Consensus:
    """Writes several answers and shows the one on which most agree. Used by name only: each sample has its price."""

    name = "consensus"
    options = ConsensusOptions

    def offer(self, case: Case) -> Offer | None:
        """Tell the price, where it was asked for by name."""
        return offer_consensus(case) if case.request.strategy == self.name else None

    async def run(self, request: Request, route: Route, runner: Runner) -> StrategyResult:  # noqa: ARG002 - every strategy is given its route
        """Start all samples, count their votes as they end, and show the winner."""
        # Imported when first needed: its patterns take a while to compile.
        from stretto.strategies.consensus.consensus_answer import write_consensus  # noqa: PLC0415

        return await write_consensus(request, runner)
