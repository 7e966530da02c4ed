"""Runs the strategy of a route and assembles the answer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from stretto.backends.base import Backend
from stretto.backends.load import LoadShare, answering, with_calls_bounded
from stretto.foundation.arguments import safe_repr
from stretto.observe.hooks import Watchers
from stretto.prices import Prices
from stretto.prompts import Catalogue
from stretto.router.case import PromptFamily
from stretto.strategies import STRATEGIES, Strategy
from stretto.strategies.base import StrategyResult
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_calls import Emit
from stretto.strategies.runtime.fallback import Fallback, check_needs
from stretto.strategies.runtime.runner import Runner, open_runner
from stretto.strategies.runtime.shortfall import shortfalls
from stretto.values.answer import Answer, Cost, FinishReason, Timeline, Usage
from stretto.values.errors import IncompleteAnswerError, UnknownStrategyError
from stretto.values.events import AnswerFinished, RouteChosen
from stretto.values.request import Message, Request
from stretto.values.route import Route
from stretto.values.token_records import DecodingStats

_MOST_TOLD = 5  # warnings in an error


def check_strategy(name: str, strategies: Mapping[str, Strategy] = STRATEGIES) -> None:
    """Raise `UnknownStrategyError` if the name is neither "auto" nor that of a strategy."""
    if name != "auto" and name not in strategies:
        known = ", ".join(("auto", *strategies))
        raise UnknownStrategyError(f"There is no strategy {safe_repr(name)}. Choose one of: {known}.")


async def answer(
    request: Request,
    route: Route,
    backend: Backend,
    emit: Emit,
    *,
    templates: Catalogue,
    began: float,
    strategies: Mapping[str, Strategy] = STRATEGIES,
    watchers: Watchers | None = None,
    prices: Prices | None = None,
    prompt_family: PromptFamily = lambda _: None,
    fallback: Sequence[Backend] = (),
    backends: Mapping[str, Backend] | None = None,
) -> Answer:
    """Generate an answer by a route and emit all events; the last one carries the answer.

    ``began``: `time.perf_counter` at the arrival of the request; ``strategies``: those of the client by name;
    ``prices``: of models, by default the list prices; ``prompt_family``: of every model but the embedded one, instead
    of the family that suits it; ``fallback``: who goes on where the backend fails, in this order; ``backends``: those
    of the client by role. Raises `StrettoError` if there is no text at all, or if parts are missing and the request has
    ``on_missing="raise"``.
    """
    strategy: Strategy = request.own_strategy or strategies[route.strategy]
    # Counted before anything is waited for: requests that come at the same moment see each other.
    with (watchers or Watchers()).watching(), answering(backend, _calls_planned(request, route, backend)) as share:
        return await _answer(
            request,
            route,
            backend,
            emit,
            strategy,
            templates=templates,
            began=began,
            prices=prices or Prices(),
            prompt_family=prompt_family,
            fallback=Fallback.of(fallback, request),
            backends=backends or {route.role: backend},
            share=share,
        )


def _calls_planned(request: Request, route: Route, backend: Backend) -> int:
    """The calls that the route has work for at a time."""
    forecast = route.forecast.get(route.strategy)
    most = with_calls_bounded(backend.capabilities, request).concurrent_calls
    return 1 if forecast is None else min(forecast.calls, most)


async def _answer(
    request: Request,
    route: Route,
    backend: Backend,
    emit: Emit,
    strategy: Strategy,
    *,
    templates: Catalogue,
    began: float,
    prices: Prices,
    prompt_family: PromptFamily,
    fallback: Fallback,
    backends: Mapping[str, Backend],
    share: LoadShare,
) -> Answer:
    await emit(RouteChosen(route=route))
    check_needs(request, backend)
    unused = request.options.decoding if route.decoding is None else None
    adapter = request.options.adapter if backend.capabilities.adapters else None
    options = request.options.model_copy(update={"decoding": route.decoding, "adapter": adapter})
    without = request.options.adapter if adapter is None else None
    unread = () if backend.capabilities.reads_history else request.history
    messages = _alone(request) if unread else request.messages
    request = request.model_copy(update={"options": options, "messages": messages})
    async with open_runner(
        backend,
        emit,
        request,
        templates=templates,
        began=began,
        prompt_family=prompt_family,
        fallback=fallback,
        share=share,
    ) as runner:
        runner.backends = backends
        if request.budget.max_cost is not None:
            runner.ledger.spent = lambda: _spent(prices, backend, runner)
            runner.ledger.price_known = lambda asked: _price(prices, asked, [Usage()]) is not None
        runner.leaks.users = (*(each.content for each in request.messages), *(each.text for each in request.documents))
        if unused is not None:
            runner.warn(
                f"decoding={safe_repr(unused)} was left out: {backend.name} has no decoding methods to choose from.",
                "option",
            )
        if without is not None:
            runner.warn(f"adapter={safe_repr(without)} was left out: {backend.name} has no adapters.", "option")
        runner.send_along(request.accompanying)
        if not backend.capabilities.names and any(each.name for each in request.messages if each.role != "tool"):
            runner.warn(f"The names of the speakers were left out: {backend.name} takes none.", "option")
        for note in request.unread:
            runner.warn(note, "unread")
        for document in request.documents:
            for said in document.warnings:
                runner.warn(f"Of {safe_repr(document.title or document.source)}, {said}", "unread")
        if unread:
            runner.warn(
                f"The turns before the question were left out: {backend.name} reads single questions.", "unread"
            )
        told = await runner.complete(strategy.run(request, route, runner))
        if route.shape is not None and _length_is_free(request, route):
            runner.known.note_lengths(route.shape, runner.branches)
        runner.known.note_record(request, runner.branches)
        result = _assemble(request, route, runner, told, backend, total_s=time.perf_counter() - began, prices=prices)
    await emit(AnswerFinished(answer=result))
    return result


def _length_is_free(request: Request, route: Route) -> bool:
    """Whether a direct answer was as long as the model makes it: nothing in the request says how long."""
    options, parse = request.options, route.parse
    formed = options.stop or options.response_format is not None
    return request.n == 1 and not formed and parse is not None and parse.words is None


def _alone(request: Request) -> tuple[Message, ...]:
    """System messages and the question, without the turns before it."""
    system = (message for message in request.messages if message.role == "system")
    begun = request.messages[-1:] if request.continues else ()
    return (*system, Message(role="user", content=request.question), *begun)


def _assemble(
    request: Request,
    route: Route,
    runner: Runner,
    told: StrategyResult,
    backend: Backend,
    *,
    total_s: float,
    prices: Prices,
) -> Answer:
    text = runner.merge.text
    visible = [running for running in runner.branches if running.counts]
    failures = [running.exception for running in visible if running.exception is not None]
    only_cut = all(running.finish_reason == "length" for running in visible if running.exception is not None)
    if failures and not (told.by_itself or only_cut or any(running.in_answer for running in runner.branches)):
        raise failures[0]  # all failed, usually for the same reason
    if runner.overran:
        if not (text.strip() or told.tool_calls):
            raise runner.too_late()
        runner.warn(f"The answer is incomplete: {runner.too_late()}", "deadline")
    for warning in shortfalls((running for running in visible if not running.reported), request):
        runner.warn_once(warning)
    for warning in runner.fallback.warnings():
        runner.warn_once(warning)
    branches = tuple(running.branch for running in runner.branches if running.branch is not None)
    usage = Usage()
    decoding: DecodingStats | None = None
    for branch in branches:
        usage = usage + branch.usage
        if branch.decoding is not None:
            decoding = branch.decoding if decoding is None else decoding + branch.decoding
    logprobs = tuple(each for running in runner.branches if running.in_answer for each in running.logprobs)
    if request.options.logprobs is not None and not logprobs:
        runner.warn(f"logprobs={request.options.logprobs} was asked for, and {runner.model} returned none.", "option")
    ends = [
        span.needed_s + span.ended_s - span.started_s
        for span in (branch.span for branch in branches)
        if span.started_s is not None and span.ended_s is not None
    ]
    if told.reason:
        route = route.model_copy(update={"reason": f"{route.reason} {told.reason}"})
    result = Answer(
        text=text,
        route=route,
        strategy=told.strategy or route.strategy,
        parsed=told.parsed,
        branches=branches,
        usage=usage,
        cost=_cost(prices, backend, runner),
        decoding=decoding,
        logprobs=logprobs,
        timeline=Timeline(
            first_text_s=runner.merge.first_s,
            total_s=total_s,
            critical_path_s=max(ends, default=0.0),
        ),
        warnings=tuple(runner.warnings),
        citations=told.citations,
        passages=told.passages,
        finish_reason=_finish_reason(visible, "deadline" if runner.overran else told.ends_as),
        tool_calls=told.tool_calls,
        tool_turns=told.turns,
        thoughts=told.thoughts,
        extra=told.extra,
        choices=told.choices,
        agreement=told.agreement,
    )
    missing = sum(running.exception is not None or running.use == "lacking" for running in visible)
    if missing and request.on_missing == "raise":
        said = " ".join(result.warnings[:_MOST_TOLD])
        if len(result.warnings) > _MOST_TOLD:
            said += f" The others of {len(result.warnings)} warnings are in the answer of this error."
        raise IncompleteAnswerError(f"The answer lacks {missing} of {len(visible)} parts. {said}", answer=result)
    return result


def _cost(prices: Prices, backend: Backend, runner: Runner) -> Cost | None:
    """What all models of the answer cost together; ``None`` where the price of one of them is unknown."""
    writings = [each for running in runner.branches for each in running.writers if each.usage != Usage()]
    models = {id(each.backend): each.backend for each in writings} or {id(backend): backend}
    costs: list[Cost] = []
    for model in models.values():
        usages = [each.usage for each in writings if each.backend is model]
        cost = _price(prices, model, usages)
        if cost is None:
            return None
        costs.append(cost)
    return sum(costs[1:], costs[0])


def _price(prices: Prices, model: Backend, usages: Sequence[Usage]) -> Cost | None:
    # Names of other kinds of backends have no list price.
    return prices.cost(model.name, usages, listed=getattr(model, "at_provider", True))


def _spent(prices: Prices, backend: Backend, runner: Runner) -> float | None:
    cost = _cost(prices, backend, runner)
    return None if cost is None else cost.usd


def _finish_reason(visible: list[RunningBranch], strategy: FinishReason | None) -> FinishReason:
    """The worst finish reason of all parts and of the strategy."""
    reasons = {strategy, *(running.finish_reason for running in visible)}
    worst_first: tuple[FinishReason, ...] = (
        *("error", "refusal", "content_filter", "deadline", "budget", "length", "incomplete", "tool_calls"),
        "nothing_found",
    )
    return next((reason for reason in worst_first if reason in reasons), "stop")
