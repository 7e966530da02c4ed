"""``collaborate``: multiple models propose in parallel, and one writes the answer from their proposals.

After Mixture-of-Agents (Wang et al., arXiv 2406.04692), with one layer. The answer starts to stream as soon as a quorum
of the proposals has arrived; later and failed ones are left out and named.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.functional_validators import AfterValidator

from stretto.backends.base import Backend, ModelRequest
from stretto.foundation.queue import Queue
from stretto.router.affordable import cost_of, sum_of
from stretto.router.case import Case
from stretto.router.forecast import seconds
from stretto.router.offer import Offer
from stretto.strategies.base import StrategyResult
from stretto.strategies.direct import Direct, rest_of, show_in_form, template_messages, with_documents
from stretto.strategies.quality.text_guard import TextGuard
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec, PromptTarget
from stretto.strategies.runtime.fencing import numbered
from stretto.strategies.runtime.ledger import LEAST_ANSWER
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.runtime.several import backend_for, prompt_tokens, sampled
from stretto.strategies.strategy_options import comma_separated, options_of
from stretto.strategies.structured.in_form import with_response_format
from stretto.values.errors import BackendError, StrettoError
from stretto.values.request import Request
from stretto.values.route import Forecast, Route

DRAFTS = 3  # of one model that proposes alone
MOST_PROPOSALS = 16
_SHARE_OF_WINDOW = 0.6  # of the context window for the proposals; the rest is for the question and the answer
_SHARE_OF_DEADLINE = 0.5
_CHARACTERS_PER_TOKEN = 3
_FEWEST_CHARACTERS = 200


def _role_or_backend(value: Any) -> Any:
    if isinstance(value, (str, Backend)):
        return value
    raise ValueError("it takes roles of the client, or backends")


class CollaborateOptions(BaseModel):
    """Options of ``collaborate``.

    Attributes:
        proposers: the roles that propose, such as ("main", "small"), or backends; a role can be listed more than once.
            By default all roles of the client.
        drafts: proposals of each proposer; by default one, or three of a model that proposes alone.
        aggregator: the role or the backend that writes the answer.
        quorum: how many proposals the answer waits for; by default more than half of them.
        proposals_s: seconds after the request at which it begins with what has arrived; by default half of the
            request's ``deadline_s``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    proposers: tuple[Annotated[Any, AfterValidator(_role_or_backend)], ...] = ()
    drafts: int | None = Field(default=None, ge=1, le=MOST_PROPOSALS)
    aggregator: Annotated[Any, AfterValidator(_role_or_backend)] = "main"
    quorum: int | None = Field(default=None, ge=1, le=MOST_PROPOSALS)
    proposals_s: float | None = Field(default=None, gt=0)

    _one_text = field_validator("proposers", mode="before")(comma_separated)


class Collaborate:
    """Multiple proposals, and one answer made from them. Used by name only: every proposal costs."""

    name = "collaborate"
    asks_several = True
    """Whether the strategy asks multiple models; the main one then stays the main one, whatever the preference."""
    options = CollaborateOptions

    def offer(self, case: Case) -> Offer | None:
        """Offer it, with its cost, if it was asked for by name; as slow as if the main model wrote everything."""
        if case.request.strategy != self.name:
            return None
        options = options_of(case.request, CollaborateOptions)
        given = [case.backends.get(each, case.backend) if isinstance(each, str) else each for each in options.proposers]
        given = given or [*case.backends.values()] or [case.backend]
        drafts = options.drafts or (DRAFTS if len(given) == 1 else 1)
        number, speed, answer = len(given) * drafts, case.speed, case.answer_tokens
        total_s = seconds(speed, answer, calls=min(number, speed.concurrent_calls)) + seconds(speed, answer)
        read = (number + 1) * case.prompt_tokens + number * answer
        written = (number + 1) * answer
        aggregator = options.aggregator
        if isinstance(aggregator, str):
            aggregator = case.backends.get(aggregator, case.backend)
        costs = [
            cost_of(case, each, read=drafts * case.prompt_tokens, written=drafts * answer, calls=drafts)
            for each in given
        ]
        costs.append(cost_of(case, aggregator, read=case.prompt_tokens + number * answer, written=answer, calls=1))
        forecast = Forecast(seconds=round(total_s, 2), tokens=read + written, calls=number + 1, cost=sum_of(costs))
        return Offer(confidence=1.0, reason="", forecast=forecast, eligible=False)

    async def run(self, request: Request, route: Route, runner: Runner) -> StrategyResult:
        """Write an answer from proposals; an empty one if a token limit cut them before any text.

        Raises `StrettoError` if all of them failed.
        """
        options = options_of(request, CollaborateOptions)
        aggregator = backend_for(runner, options.aggregator, "aggregator")
        own = aggregator is runner.backends.get(route.role)
        proposers = _proposers_of(request, runner, options)
        if not proposers:
            runner.warn("Answered in one piece instead of together: no call is left for a proposal.", "strategy")
            return await Direct().run(request, route, runner)
        quorum = min(options.quorum or len(proposers) // 2 + 1, len(proposers))
        came = await _gather(request, runner, options, proposers, quorum)
        for warning in came.left_out:
            runner.warn(warning, "part_missing")
        if not came.proposals:
            answered = [running.finish_reason for running in came.failed if isinstance(running.exception, BackendError)]
            cut = [reason for reason in answered if reason in ("length", "budget")]
            if not cut:
                raise _failure(came)
            await runner.merge.finish()
            return StrategyResult(strategy=self.name, ends_as=cut[0])
        if len(came.proposals) < quorum:
            runner.warn(
                f"The answer began with {len(came.proposals)} of {len(proposers)} proposals, below its quorum of "
                f"{quorum}.",
                "part_missing",
            )
        if len(came.proposals) == 1 and len(proposers) > 1 and request.options.response_format is None:
            return await _show(runner, came.proposals[0], "It is the only proposal, as it was written.")
        reason = f"Put together by {aggregator.name} from {len(came.proposals)} of {len(proposers)} proposals."
        return replace(await _aggregate(request, runner, aggregator, came, own=own), reason=reason)


async def _aggregate(
    request: Request, runner: Runner, aggregator: Backend, came: _Gathered, *, own: bool
) -> StrategyResult:
    """Stream the answer from the proposals, or the first proposal if neither the aggregator nor a fallback can.

    ``own``: the aggregator is the model of the route.
    """
    room = _room(request, aggregator, len(came.proposals))
    texts = [running.text if len(running.text) <= room else running.text[:room] + " …" for running in came.proposals]
    fence, proposals = numbered(texts, "proposal")

    def prompt(target: PromptTarget) -> ModelRequest:
        messages = template_messages(
            request, target, "collaborate", proposals=proposals, fence=fence, count=str(len(texts))
        )
        return with_response_format(ModelRequest(messages, reads=bool(request.documents)), request, target)

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
    return StrategyResult(
        strategy=Collaborate.name, parsed=parsed, thoughts=running.metadata.thoughts, extra=running.metadata.extra
    )


async def _show(runner: Runner, proposal: RunningBranch, why: str) -> StrategyResult:
    """Show one proposal as the answer, with a warning."""
    runner.warn(f"The answer is {proposal.spec.label[0].lower()}{proposal.spec.label[1:]}. {why}", "strategy")
    runner.merge.add_branch(proposal)
    await runner.merge.finish()
    ends_as = None if proposal.finish_reason == "stop" else proposal.finish_reason
    return StrategyResult(strategy=Collaborate.name, extra=proposal.metadata.extra, ends_as=ends_as)


def _room(request: Request, aggregator: Backend, number: int) -> int:
    """Return how many characters of each proposal fit into the aggregator's context window."""
    window = aggregator.capabilities.context_window
    if window is None:
        return 10**9
    left = _SHARE_OF_WINDOW * window - prompt_tokens(request)
    return max(_FEWEST_CHARACTERS, round(left * _CHARACTERS_PER_TOKEN / number))


def _failure(came: _Gathered) -> StrettoError:
    """Return one error for all proposers: their own if they agree, or else one that names each with its cause."""
    causes = Counter(str(running.exception) for running in came.failed)
    if len(causes) == 1 and came.failed[0].exception is not None:
        return came.failed[0].exception
    reasons = " ".join(came.left_out)
    return BackendError(f"Nobody proposed an answer. {reasons}", backend=came.failed[0].spec.title)


@dataclass(frozen=True)
class _Gathered:
    """The proposals that arrived. ``left_out``: for a warning, each proposer without a proposal and why."""

    proposals: tuple[RunningBranch, ...]
    left_out: tuple[str, ...]
    failed: tuple[RunningBranch, ...]


def _proposers_of(request: Request, runner: Runner, options: CollaborateOptions) -> list[Backend]:
    """Return the backend of each proposal, as many as the budget allows in addition to the answer; can be empty.

    Raises `InvalidRequestError` for a role that the client does not have.
    """
    given = options.proposers or tuple(runner.backends)
    proposers = [backend_for(runner, each, "proposers") for each in given]
    drafts = options.drafts or (DRAFTS if len(proposers) == 1 else 1)
    wanted = [backend for backend in proposers for _ in range(drafts)]
    most = request.budget.max_calls
    if most is not None and most - 1 < len(wanted):
        runner.warn(f"The budget of {most} calls leaves {max(0, most - 1)} of {len(wanted)} proposals.", "budget")
        return wanted[: max(0, most - 1)]
    return wanted


async def _gather(
    request: Request, runner: Runner, options: CollaborateOptions, proposers: list[Backend], quorum: int
) -> _Gathered:
    """Ask all proposers at once; wait for a quorum, or until all have ended, and cancel those still running."""
    ends = Queue[RunningBranch]()
    started = _start(request, runner, options, proposers, ends)
    came: list[RunningBranch] = []
    for _ in started:
        running = await anext(ends)
        if running.exception is None:
            came.append(running)
        if len(came) == quorum:
            break
    late = [running for running in started if running not in came and running.exception is None]
    for running in late:
        running.cancel("the answer began without it")
    failed = tuple(running for running in started if running not in came and running not in late)
    left_out = [f"{running.spec.label} was left out: {str(running.exception).rstrip('.')}." for running in failed]
    left_out += [
        f"{running.spec.label} was left out: it was not done when {len(came)} of {len(started)} proposals were there."
        for running in late
    ]
    return _Gathered(tuple(running for running in started if running in came), tuple(left_out), failed)


def _start(
    request: Request, runner: Runner, options: CollaborateOptions, proposers: list[Backend], ends: Queue[RunningBranch]
) -> list[RunningBranch]:
    own, total, until = request.options.max_tokens, request.budget.max_tokens_total, options.proposals_s
    if until is None and request.deadline_s is not None:
        until = _SHARE_OF_DEADLINE * request.deadline_s
    changes: dict[str, object] = {"response_format": None}  # only the answer has to fit it
    if total is not None:  # each is written once, and read once
        room = max(LEAST_ANSWER, total // (2 * len(proposers) + 1) - prompt_tokens(request))
        changes["max_tokens"] = min(room, own or room)
    others = [each for each in runner.fallback.models if all(each is not other for other in proposers)]
    drafts: Counter[int] = Counter()
    several = Counter(map(id, proposers))
    started = []
    for place, backend in enumerate(proposers):
        drafts[id(backend)] += 1
        draft = f", draft {drafts[id(backend)]}" if several[id(backend)] > 1 else ""
        spec = BranchSpec(
            id=f"proposal-{place + 1}",
            kind="proposal",
            title=f"{backend.name}{draft}",
            label=f"The proposal of {backend.name}{draft}",
            prompt=lambda _: ModelRequest(with_documents(request), reads=bool(request.documents)),
            options=sampled(request.options, backend.capabilities, place, **changes),
            on_end=ends.add,
            watch=TextGuard,
            deadline_s=math.inf if until is None else until,
            budgeted=changes.get("max_tokens", own) != own,
            backend=backend,
            successors=others,
        )
        started.append(runner.start(spec))
    return started
