"""One run of ``collaborate``: proposals, then the answer out of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from stretto.backends.base import Backend, ModelRequest
from stretto.strategies.base import StrategyResult
from stretto.strategies.collaborate.collaborate_options import CollaborateOptions
from stretto.strategies.collaborate.proposals import Gathered, gather, proposers_of
from stretto.strategies.direct import Direct, asked, rest_of, show_in_form
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec, PromptTarget
from stretto.strategies.runtime.fencing import numbered
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.runtime.several import backend_for, prompt_tokens
from stretto.strategies.strategy_options import options_of
from stretto.strategies.structured.in_form import held_to_format
from stretto.values.errors import BackendError, StrettoError
from stretto.values.request import Request
from stretto.values.route import Route

__all__ = ["write_together"]

NAME = "collaborate"
_SHARE_OF_WINDOW = 0.6  # that the proposals may fill; the rest is the question's and the answer's
_CHARACTERS_PER_TOKEN = 3
_FEWEST_CHARACTERS = 200


async def write_together(request: Request, route: Route, runner: Runner) -> StrategyResult:
    """Write an answer out of proposals; an empty one where a limit of tokens cut them before any text.

    Raises `StrettoError` where all of them failed.
    """
    options = options_of(request, CollaborateOptions)
    aggregator = backend_for(runner, options.aggregator, "aggregator")
    own = aggregator is runner.backends.get(route.role)
    proposers = proposers_of(request, runner, options)
    if not proposers:
        runner.warn("Answered in one piece instead of together: no call is left for a proposal.", "strategy")
        return await Direct().run(request, route, runner)
    quorum = min(options.quorum or len(proposers) // 2 + 1, len(proposers))
    came = await gather(request, runner, options, proposers, quorum)
    for said in came.left_out:
        runner.warn(said, "part_missing")
    if not came.proposals:
        answered = [running.finish_reason for running in came.failed if isinstance(running.exception, BackendError)]
        cut = [reason for reason in answered if reason in ("length", "budget")]
        if not cut:
            raise _failure(came)
        await runner.merge.finish()
        return StrategyResult(strategy=NAME, ends_as=cut[0])
    if len(came.proposals) < quorum:
        runner.warn(
            f"The answer began with {len(came.proposals)} of {len(proposers)} proposals, below its quorum of {quorum}.",
            "part_missing",
        )
    if len(came.proposals) == 1 and len(proposers) > 1 and request.options.response_format is None:
        return await _show(runner, came.proposals[0], "It is the only proposal, as it was written.")
    reason = f"Put together by {aggregator.name} from {len(came.proposals)} of {len(proposers)} proposals."
    return replace(await _aggregate(request, runner, aggregator, came, own=own), reason=reason)


async def _aggregate(
    request: Request, runner: Runner, aggregator: Backend, came: Gathered, *, own: bool
) -> StrategyResult:
    """Stream the answer out of the proposals; the first of them, where neither the aggregator nor a fallback can.

    ``own``: it is the model of the route.
    """
    room = _room(request, aggregator, len(came.proposals))
    texts = [running.text if len(running.text) <= room else running.text[:room] + " …" for running in came.proposals]
    fence, proposals = numbered(texts, "proposal")

    def prompt(target: PromptTarget) -> ModelRequest:
        said = asked(request, target, "collaborate", proposals=proposals, fence=fence, count=str(len(texts)))
        return held_to_format(ModelRequest(said, reads=bool(request.documents)), request, target)

    spec = BranchSpec(
        id="answer",
        kind="aggregate",
        title=aggregator.name,
        label="The answer",
        prompt=prompt,
        options=request.options,
        fallback_prompt=lambda target, received: (
            rest_of(request, target, received) if received.strip() else prompt(target)
        ),
        standalone=True,
        backend=None if own else aggregator,
        successors=runner.fallback.models,
    )
    running, parsed = runner.start(spec), None
    if request.options.response_format is None:
        await running.begun()
        if running.text:
            runner.merge.add_branch(running)
    else:
        running, parsed = await show_in_form(request, runner, running)
    ended = await running.ended()
    if not ended.text.strip():
        cause = str(running.exception or "it wrote nothing").rstrip(".")
        running.drop("a proposal is the answer")
        why = f"{aggregator.name} could not put the proposals together: {cause}."
        return replace(await _show(runner, came.proposals[0], why), parsed=parsed)
    await runner.merge.finish()
    return StrategyResult(strategy=NAME, parsed=parsed, thoughts=running.heard.thoughts, extra=running.heard.extra)


async def _show(runner: Runner, proposal: RunningBranch, why: str) -> StrategyResult:
    """Show one proposal as the answer, with a warning."""
    runner.warn(f"The answer is {proposal.spec.label[0].lower()}{proposal.spec.label[1:]}. {why}", "strategy")
    runner.merge.add_branch(proposal)
    await runner.merge.finish()
    ends_as = None if proposal.finish_reason == "stop" else proposal.finish_reason
    return StrategyResult(strategy=NAME, extra=proposal.heard.extra, ends_as=ends_as)


def _room(request: Request, aggregator: Backend, number: int) -> int:
    """Characters of each proposal that fit into the aggregator's window."""
    window = aggregator.capabilities.context_window
    if window is None:
        return 10**9
    left = _SHARE_OF_WINDOW * window - prompt_tokens(request)
    return max(_FEWEST_CHARACTERS, round(left * _CHARACTERS_PER_TOKEN / number))


def _failure(came: Gathered) -> StrettoError:
    """One error for all proposers: their own where they agree, else one that names each with its cause."""
    causes = Counter(str(running.exception) for running in came.failed)
    if len(causes) == 1 and came.failed[0].exception is not None:
        return came.failed[0].exception
    reasons = " ".join(came.left_out)
    return BackendError(f"Nobody proposed an answer. {reasons}", backend=came.failed[0].spec.title)
