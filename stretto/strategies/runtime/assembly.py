"""Run the strategy of a route and assemble the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from stretto.backends.base import Backend
from stretto.backends.load import answering
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
from stretto.values.answer import Answer, Branch, Cost, FinishReason, Timeline, Usage
from stretto.values.answer_warning import AnswerWarning
from stretto.values.errors import IncompleteAnswerError, UnknownStrategyError
from stretto.values.events import AnswerFinished, RouteChosen
from stretto.values.request import Message, Request
from stretto.values.route import Route

_MOST_WARNINGS = 5  # warnings in an error


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
    of the family that suits it; ``fallback``: the backends to try in order when the first fails; ``backends``: those of
    the client by role. Raises `StrettoError` if there is no text at all, or if parts are missing and the request has
    ``on_missing="raise"``.
    """
    strategy: Strategy = request.own_strategy or strategies[route.strategy]
    prices = prices or Prices()
    # Counted before the first await: requests that arrive at the same moment see each other.
    # The forecast of a direct answer may not exist yet.
    forecast = None if route.strategy == "direct" else route.forecast.get(route.strategy)
    planned = 1 if forecast is None else forecast.calls
    with (watchers or Watchers()).watching(), answering(backend, request, planned) as share:
        await emit(RouteChosen(route=route))
        check_needs(request, backend)
        accepted, left_out = _as_far_as_taken(request, route, backend)
        made = partial(
            Runner,
            backend=backend,
            emit=emit,
            request=accepted,
            templates=templates,
            began=began,
            prompt_family=prompt_family,
            fallback=Fallback.of(fallback, request),
            share=share,
        )
        async with open_runner(made) as runner:
            runner.backends = backends or {route.role: backend}
            if accepted.budget.max_cost is not None:
                runner.ledger.spent = lambda: _spent(prices, backend, runner)
                runner.ledger.price_known = lambda model: _price(prices, model, [Usage()]) is not None
            runner.leaks.users = (
                *(each.content for each in accepted.messages),
                *(each.text for each in accepted.documents),
            )
            runner.send_along(accepted.accompanying)
            for warning in left_out:
                runner.warn(warning)
            strategy_result = await runner.complete(strategy.run(accepted, route, runner))
            if route.shape is not None and _length_is_free(accepted, route):
                runner.known.note_lengths(route.shape, runner.branches)
            runner.known.note_record(accepted, runner.branches)
            result = _assemble(accepted, route, runner, strategy_result, _cost(prices, backend, runner))
        await emit(AnswerFinished(answer=result))
        return result


def _as_far_as_taken(request: Request, route: Route, backend: Backend) -> tuple[Request, list[AnswerWarning]]:
    """Return the request without what the backend does not accept, and a warning for each item left out or unread."""
    able, options, unread, name = backend.capabilities, request.options, list[AnswerWarning](), backend.name
    if route.decoding is None and options.decoding is not None:
        text = f"decoding={safe_repr(options.decoding)} was left out: {name} has no decoding methods to choose from."
        unread.append(AnswerWarning(text, "option"))
    if options.adapter is not None and not able.adapters:
        text = f"adapter={safe_repr(options.adapter)} was left out: {name} has no adapters."
        unread.append(AnswerWarning(text, "option"))
    alone = bool(request.history) and not able.reads_history
    messages = _alone(request) if alone else request.messages
    if not able.names and any(each.name for each in messages if each.role != "tool"):
        unread.append(AnswerWarning(f"The names of the speakers were left out: {name} takes none.", "option"))
    unread += [AnswerWarning(note, "unread") for note in request.unread]
    for document in request.documents:
        title = safe_repr(document.title or document.source)
        unread += [AnswerWarning(f"Of {title}, {text}", "unread") for text in document.warnings]
    if alone:
        text = f"The turns before the question were left out: {name} reads single questions."
        unread.append(AnswerWarning(text, "unread"))
    taken = {"decoding": route.decoding, "adapter": options.adapter if able.adapters else None}
    return request.model_copy(update={"options": options.model_copy(update=taken), "messages": messages}), unread


def _length_is_free(request: Request, route: Route) -> bool:
    """Return whether the model chose the length of a direct answer: the request does not limit it."""
    options, parse = request.options, route.parse
    formed = options.stop or options.response_format is not None
    return request.n == 1 and not formed and parse is not None and parse.words is None


def _alone(request: Request) -> tuple[Message, ...]:
    """Return the system messages and the question, without the turns before it."""
    system = (message for message in request.messages if message.role == "system")
    begun = request.messages[-1:] if request.continues else ()
    return (*system, Message(role="user", content=request.question), *begun)


def _assemble(
    request: Request, route: Route, runner: Runner, strategy_result: StrategyResult, cost: Cost | None
) -> Answer:
    """Assemble the answer. Raises if nothing was written, or if parts are missing that must not be."""
    total_s = runner.now_s()
    visible = [running for running in runner.branches if running.counts]
    logprobs = tuple(each for running in runner.branches if running.in_answer for each in running.logprobs)
    _check_written(runner, strategy_result, visible)
    for warning in (*shortfalls((each for each in visible if not each.reported), request), *runner.fallback.warnings()):
        runner.warn_once(warning)
    if request.options.logprobs is not None and not logprobs:
        runner.warn(f"logprobs={request.options.logprobs} was asked for, and {runner.model} returned none.", "option")
    branches = tuple(running.branch for running in runner.branches if running.branch is not None)
    decoding = [branch.decoding for branch in branches if branch.decoding is not None]
    if strategy_result.reason:
        route = route.model_copy(update={"reason": f"{route.reason} {strategy_result.reason}"})
    result = Answer(
        text=runner.merge.text,
        route=route.settled(),  # a stored answer must not keep a model alive
        strategy=strategy_result.strategy or route.strategy,
        parsed=strategy_result.parsed,
        branches=branches,
        usage=sum((branch.usage for branch in branches), Usage()),
        cost=cost,
        decoding=sum(decoding[1:], decoding[0]) if decoding else None,
        logprobs=logprobs,
        timeline=Timeline(
            first_text_s=runner.merge.first_s, total_s=total_s, critical_path_s=_critical_path_s(branches)
        ),
        warnings=tuple(runner.warnings),
        citations=strategy_result.citations,
        passages=strategy_result.passages,
        finish_reason=_finish_reason(visible, "deadline" if runner.overran else strategy_result.ends_as),
        tool_calls=strategy_result.tool_calls,
        tool_turns=strategy_result.turns,
        thoughts=strategy_result.thoughts,
        extra=strategy_result.extra,
        choices=strategy_result.choices,
        agreement=strategy_result.agreement,
    )
    missing = sum(running.exception is not None or running.use == "lacking" for running in visible)
    if missing and request.on_missing == "raise":
        warnings = " ".join(result.warnings[:_MOST_WARNINGS])
        if len(result.warnings) > _MOST_WARNINGS:
            warnings += f" The others of {len(result.warnings)} warnings are in the answer of this error."
        raise IncompleteAnswerError(f"The answer lacks {missing} of {len(visible)} parts. {warnings}", answer=result)
    return result


def _check_written(runner: Runner, strategy_result: StrategyResult, visible: Sequence[RunningBranch]) -> None:
    """Raise the reason if there is no answer; warn if the deadline left only the beginning of one."""
    failures = [running.exception for running in visible if running.exception is not None]
    only_cut = all(running.finish_reason == "length" for running in visible if running.exception is not None)
    if failures and not (
        strategy_result.by_itself or only_cut or any(running.in_answer for running in runner.branches)
    ):
        raise failures[0]  # all failed, usually for the same reason
    if runner.overran:
        if not (runner.merge.text.strip() or strategy_result.tool_calls):
            raise runner.too_late()
        runner.warn(f"The answer is incomplete: {runner.too_late()}", "deadline")


def _critical_path_s(branches: Sequence[Branch]) -> float:
    """Return when the last branch would have ended if each had begun as soon as it could."""
    spans = [branch.span for branch in branches]
    ends = [
        span.needed_s + span.ended_s - span.started_s
        for span in spans
        if span.started_s is not None and span.ended_s is not None
    ]
    return max(ends, default=0.0)


def _cost(prices: Prices, backend: Backend, runner: Runner) -> Cost | None:
    """Return the cost of all models of the answer; ``None`` if the price of one of them is unknown."""
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
    # Only names of models at a provider have a list price.
    return prices.cost(model.name, usages, listed=getattr(model, "at_provider", True))


def _spent(prices: Prices, backend: Backend, runner: Runner) -> float | None:
    cost = _cost(prices, backend, runner)
    return None if cost is None else cost.usd


def _finish_reason(visible: list[RunningBranch], strategy: FinishReason | None) -> FinishReason:
    """Return the worst finish reason of all parts and of the strategy."""
    reasons = {strategy, *(running.finish_reason for running in visible)}
    worst_first: tuple[FinishReason, ...] = (
        *("error", "refusal", "content_filter", "deadline", "budget", "length", "incomplete", "tool_calls"),
        "nothing_found",
    )
    return next((reason for reason in worst_first if reason in reasons), "stop")
