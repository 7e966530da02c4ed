"""The proposals of one answer: who is asked, and what came by the time that the answer begins."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from stretto.backends.base import Backend, ModelRequest
from stretto.foundation.queue import Queue
from stretto.strategies.collaborate.collaborate_options import DRAFTS, CollaborateOptions
from stretto.strategies.direct import with_documents
from stretto.strategies.quality.text_guard import TextGuard
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec
from stretto.strategies.runtime.ledger import LEAST_ANSWER
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.runtime.several import backend_for, prompt_tokens, sampled
from stretto.values.request import Request

__all__ = ["Gathered", "gather", "proposers_of"]

_SHARE_OF_DEADLINE = 0.5


@dataclass(frozen=True)
class Gathered:
    """What came. ``left_out``: for a warning, each proposer without a proposal and why."""

    proposals: tuple[RunningBranch, ...]
    left_out: tuple[str, ...]
    failed: tuple[RunningBranch, ...]


def proposers_of(request: Request, runner: Runner, options: CollaborateOptions) -> list[Backend]:
    """The backend of each proposal, as many as the budget allows beside the answer itself; may be empty.

    Raises `InvalidRequestError` for a role that the client does not have.
    """
    given = options.proposers or tuple(runner.backends)
    asked = [backend_for(runner, each, "proposers") for each in given]
    drafts = options.drafts or (DRAFTS if len(asked) == 1 else 1)
    wanted = [backend for backend in asked for _ in range(drafts)]
    most = request.budget.max_calls
    if most is not None and most - 1 < len(wanted):
        runner.warn(f"The budget of {most} calls leaves {max(0, most - 1)} of {len(wanted)} proposals.", "budget")
        return wanted[: max(0, most - 1)]
    return wanted


async def gather(
    request: Request, runner: Runner, options: CollaborateOptions, asked: list[Backend], quorum: int
) -> Gathered:
    """Ask all proposers at once; wait for a quorum, or until all have ended, and cancel those that still write."""
    ends = Queue[RunningBranch]()
    started = _start(request, runner, options, asked, ends)
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
    return Gathered(tuple(running for running in started if running in came), tuple(left_out), failed)


def _start(
    request: Request, runner: Runner, options: CollaborateOptions, asked: list[Backend], ends: Queue[RunningBranch]
) -> list[RunningBranch]:
    total, until = request.budget.max_tokens_total, options.proposals_s
    if until is None and request.deadline_s is not None:
        until = _SHARE_OF_DEADLINE * request.deadline_s
    changes: dict[str, object] = {"response_format": None}  # the answer is held to it
    if total is not None:  # each is written once, and read once
        room = max(LEAST_ANSWER, total // (2 * len(asked) + 1) - prompt_tokens(request))
        changes["max_tokens"] = min(room, request.options.max_tokens or room)
    others = [each for each in runner.fallback.models if all(each is not other for other in asked)]
    drafts: Counter[int] = Counter()
    several = Counter(map(id, asked))
    started = []
    for place, backend in enumerate(asked):
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
            backend=backend,
            successors=others,
        )
        started.append(runner.start(spec))
    return started
