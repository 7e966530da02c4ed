"""``consensus``: sample multiple answers at once, and show the one on which most agree.

Self-consistency (Wang et al., arXiv 2203.11171) with two ways to spend less: `stopping` cancels the remaining calls
once the outcome is certain, and `samples` ends those in mid-stream in which the model has little confidence. `ballots`
reads the vote of an answer. Texts that are too long to vote on are compared by `medoid`, or by a judge.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from stretto.router.affordable import cost_of, sum_of
from stretto.router.case import Case
from stretto.router.forecast import all_s, seconds
from stretto.router.offer import Offer
from stretto.strategies.base import StrategyResult
from stretto.strategies.consensus.consensus_options import JUDGE_TOKENS, ConsensusOptions
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.strategy_options import options_of
from stretto.values.request import Request
from stretto.values.route import Forecast, Route


class Consensus:
    """Writes multiple answers and shows the one on which most agree. Used by name only: every sample costs."""

    name = "consensus"
    options = ConsensusOptions

    def offer(self, case: Case) -> Offer | None:
        """Offer it at the cost of all samples if it was asked for by name; samples that end early make it less."""
        if case.request.strategy != self.name:
            return None
        options = options_of(case.request, ConsensusOptions)
        samples, total_s = options.samples, all_s(case.speed, case.answer_tokens, options.samples)
        written, read = samples * case.answer_tokens, samples * case.prompt_tokens
        forecast = Forecast(seconds=round(total_s, 2), tokens=read + written, calls=samples, written=written)
        if options.judge is not None:  # it reads all samples if they are too long to vote on
            judge, judged = case.backends.get(options.judge, case.backend), case.prompt_tokens + written
            costs = [
                cost_of(case, case.backend, read=read, written=written, calls=samples),
                cost_of(case, judge, read=judged, written=JUDGE_TOKENS, calls=1),
            ]
            tokens = forecast.tokens + judged + JUDGE_TOKENS
            total_s += seconds(case.speed, JUDGE_TOKENS)
            forecast = Forecast(seconds=round(total_s, 2), tokens=tokens, calls=samples + 1, cost=sum_of(costs))
        return Offer(confidence=1.0, reason="", forecast=forecast, eligible=False)

    async def run(self, request: Request, route: Route, runner: Runner) -> StrategyResult:  # noqa: ARG002 - every strategy is given its route
        """Start all samples, count their votes as they end, and show the winner."""
        # Imported when first needed: its patterns take a while to compile.
        from stretto.strategies.consensus.consensus_answer import write_consensus  # noqa: PLC0415

        return await write_consensus(request, runner)
