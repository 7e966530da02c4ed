"""Choose strategy and backend: weigh the offers of the strategies and return a `Route`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from stretto.backends.base import Backend
from stretto.foundation.bounds import LONG, LONG_TEXT
from stretto.prices import Prices
from stretto.router import obstacles
from stretto.router.affordable import ALLOW_MORE, over_budget, priced, unknown_price
from stretto.router.case import Case, PromptFamily
from stretto.router.correction import corrected
from stretto.router.offer import Offer, made
from stretto.router.parse import Parse
from stretto.router.second_opinion import SecondOpinion
from stretto.router.shape import ShapeModel
from stretto.values.errors import BudgetExceededError, InvalidRequestError
from stretto.values.request import Request
from stretto.values.route import Forecast, Obstacle, Route, RouteCode

if TYPE_CHECKING:
    from stretto.strategies.base import Strategy

DIRECT = "direct"  # the strategy that suits every request

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Decision:
    """A case, the offers of the strategies, and the chosen strategy with its confidence, reason and code."""

    case: Case
    offers: Mapping[str, Offer]
    strategy: str
    confidence: float
    reason: str | Callable[[], str]
    code: RouteCode

    @property
    def seconds(self) -> float:
        """The expected seconds to the end of the answer; a strategy without a forecast counts as ``direct``."""
        return (self.forecast(self.strategy) or self.case.direct_forecast).seconds

    def forecast(self, strategy: str) -> Forecast | None:
        """Return the forecast of a strategy's offer with its cost, if it offered one."""
        offer = self.offers.get(strategy)
        try:
            _check(forecast := None if offer is None else made(offer.forecast))
        except Exception:  # noqa: BLE001 - likewise, of a forecast that is made later
            _log.exception("the forecast of the strategy %s could not be made and is left out", strategy)
            return None
        return None if forecast is None else priced(self.case, forecast)


class Router:
    """Decides how a request is generated. It has no connections and keeps nothing from requests.

    Attributes:
        second_opinion: asks the backend with the role "small" when the shape model is in doubt; ``None``: never asks.
        prices: of models, for the cost of each way; by default, list prices.
    """

    def __init__(
        self,
        *,
        second_opinion: SecondOpinion | None = None,
        model: ShapeModel | None = None,
        prices: Prices | None = None,
    ) -> None:
        self.second_opinion = second_opinion
        self.prices = prices or Prices()
        self._model = model

    @property
    def model(self) -> ShapeModel:
        """The shape model: the one given, or else the library's, loaded on first use."""
        if self._model is None:
            self._model = ShapeModel.committed()
        return self._model

    def decide(
        self,
        request: Request,
        backends: Mapping[str, Backend],
        strategies: Mapping[str, Strategy] | None = None,
        *,
        prompt_family: PromptFamily = lambda _: None,
        own_prompts: str = "",
    ) -> Route:
        """Choose a route without a call. Only the name, the capabilities and the load of a backend are read.

        ``strategies`` are the strategies to choose from, by name, including "direct"; by default those of the library.
        ``prompt_family`` and ``own_prompts``: of the client, as in `Case`.
        Raises `InvalidRequestError` if no backend has the role "main", and `BudgetExceededError` if the budget does not
        even allow a direct answer.
        """
        started = time.perf_counter()
        chosen_from = _strategies(request, strategies)
        case = self._case(request, backends, prompt_family, own_prompts)
        return _route(_quickest(case, backends, chosen_from), started)

    async def route(
        self,
        request: Request,
        backends: Mapping[str, Backend],
        strategies: Mapping[str, Strategy] | None = None,
        *,
        prompt_family: PromptFamily = lambda _: None,
        own_prompts: str = "",
    ) -> Route:
        """Choose a route like `decide`; in the grey zone, ask for a second opinion if this router has one.

        For a long request, this runs in a thread, including the strategies' offers.
        """
        started = time.perf_counter()
        chosen_from = _strategies(request, strategies)

        def decided() -> tuple[_Decision, Route]:
            case = self._case(request, backends, prompt_family, own_prompts)
            decision = _quickest(case, backends, chosen_from)
            route = _route(decision, started)
            return decision, route.settled() if long else route

        # Searching a text of 100 kB would block the event loop for too long.
        long = len(request.messages) > LONG or sum(len(each.content) for each in request.messages) > LONG_TEXT
        decision, first = await anyio.to_thread.run_sync(decided) if long else decided()
        second = self.second_opinion
        if second is None or "small" not in backends or not _grey(decision, second):
            return first
        case = decision.case
        opinion = await second.ask(case.text, backends["small"])
        if opinion is None:
            reason = f"{first.reason} A second opinion was requested and did not arrive in time."
            return first.model_copy(update={"reason": reason, "elapsed_ms": _since(started)})
        judgement = replace(case.judgement, skeleton=second.update(case.judgement.skeleton, opinion))
        route = _route(_weigh(replace(case, judgement=judgement), chosen_from), started)
        verdict = "for" if opinion else "against"
        return route.model_copy(update={"reason": f"{route.reason} A second opinion spoke {verdict} a skeleton."})

    def _case(
        self, request: Request, backends: Mapping[str, Backend], prompt_family: PromptFamily, own_prompts: str
    ) -> Case:
        if "main" not in backends:
            raise InvalidRequestError(
                f'No backend has the role "main" (roles: {", ".join(sorted(backends)) or "none"}). Give the router one.'
            )
        parse = Parse.of(request)
        return Case(
            request=request,
            backend=backends["main"],
            role="main",
            parse=parse,
            prompt_family=prompt_family,
            own_prompts=own_prompts,
            judgement=corrected(self.model.judge(parse.text)),
            threshold=self.model.thresholds[request.preference],
            prices=self.prices,
            backends=backends,
        )


def _strategies(request: Request, given: Mapping[str, Strategy] | None) -> Mapping[str, Strategy]:
    """Return the strategies to choose from, including one that came with the request."""
    if given is None:
        from stretto.strategies import STRATEGIES  # noqa: PLC0415 - strategies import the router's offers

        given = STRATEGIES
    return given if request.own_strategy is None else {**given, request.strategy: request.own_strategy}


def _grey(decision: _Decision, second: SecondOpinion) -> bool:
    """Return whether a second opinion could change the route: the model is in doubt, and nothing else prevents it."""
    case, skeleton = decision.case, decision.offers.get("skeleton")
    return (
        case.request.strategy == "auto"
        and skeleton is not None
        and abs(case.judgement.skeleton - case.threshold) <= second.zone
        and skeleton.obstacle() is None
    )


def _quickest(case: Case, backends: Mapping[str, Backend], strategies: Mapping[str, Strategy]) -> _Decision:
    """Decide for the backend that is forecast to finish first, if the caller prefers speed.

    Otherwise the main backend answers: only the caller knows the quality of the others. A strategy that asks multiple
    models itself also begins with the main one.
    """
    asks_several = getattr(strategies.get(case.request.strategy), "asks_several", False)
    if case.request.preference != "fastest" or asks_several:
        return _weigh(case, strategies)
    others = [role for role in ("small", "local") if role in backends]
    decisions: list[_Decision] = []
    refused: BudgetExceededError | None = None
    for each in (case, *(replace(case, role=role, backend=backends[role]) for role in others)):
        try:
            decisions.append(_weigh(each, strategies))
        except BudgetExceededError as error:  # another model may be cheaper, or faster
            refused = refused or error
    if refused is not None and not decisions:
        raise refused
    return min(decisions, key=lambda decision: decision.seconds)


def _weigh(case: Case, strategies: Mapping[str, Strategy]) -> _Decision:
    """Choose the strategy asked for, or else the most suitable one; a direct answer if that exceeds the budget.

    Raises `BudgetExceededError` if the direct answer does, too.
    """
    named = case.request.strategy
    offers = {
        name: offer
        for name, strategy in strategies.items()
        if (named == "auto" or name in (named, DIRECT)) and (offer := _offer(strategy, case)) is not None
    }
    decision = _chosen(case, offers)
    budget = case.request.budget
    if budget.max_cost is None and budget.deadline_s is None:
        return decision
    straight = decision.forecast(DIRECT)
    if (error := unknown_price(case, straight)) is not None:
        raise error
    if (against := over_budget(case, decision.forecast(decision.strategy))) is None:
        return decision
    window = case.backend.capabilities.context_window
    if window is not None and case.prompt_tokens > window:
        raise BudgetExceededError(
            f"The budget does not allow strategy={decision.strategy!r}, and a direct answer has no room for the "
            f"prompt: {against}. {ALLOW_MORE}"
        )
    if (why := over_budget(case, straight)) is not None:
        raise BudgetExceededError(f"The budget does not allow even a direct answer: {why}. {ALLOW_MORE}")
    chosen = offers.get(decision.strategy)
    though = f"strategy={named!r} was asked for" if named != "auto" or chosen is None else chosen.when_blocked
    return replace(
        decision,
        strategy=DIRECT,
        confidence=1.0,
        reason=f"Written in one piece although {though}: {against}.",
        code="budget",
    )


def _chosen(case: Case, offers: Mapping[str, Offer]) -> _Decision:
    named = case.request.strategy
    if (whole := case.request.whole_reason) and named != DIRECT and _is_ours(case.request, named):
        despite = "" if named == "auto" else f" although strategy={named!r} was asked for"
        return _Decision(case, offers, DIRECT, 1.0, f"Written in one piece{despite}: {whole}.", "whole")
    if named != "auto":
        wanted = offers.get(named)
        against = case.missing_ability(wanted.needs) if wanted is not None else None
        reason = f"Asked for by the caller, although {against}." if against else "Asked for by the caller."
        return _Decision(case, offers, named, 1.0 if wanted is None else wanted.confidence, reason, "asked")
    suited = [name for name, offer in offers.items() if offer.eligible]
    best = max(suited, key=lambda name: (offers[name].priority, offers[name].confidence), default=DIRECT)
    offer = offers[best]
    if best != DIRECT:
        if against := case.missing_ability(offer.needs) or offer.obstacle():
            reason = f"Written in one piece although {offer.when_blocked}: {against}."
            return _Decision(
                case, offers, DIRECT, 1.0, reason, against.code if isinstance(against, Obstacle) else "other"
            )
        return _Decision(case, offers, best, offer.confidence, offer.reason, "suits")
    code: RouteCode = "unknown" if case.judgement.unsure else "shape"
    if obstacles.beyond(case.backend, case.prompt_tokens):
        code = "window"
    elif code == "shape" and any(each.why_not for each in offers.values()):
        code = "doubt"
    return _Decision(case, offers, best, offer.confidence, partial(_why_direct, case, offers, offer), code)


def _why_direct(case: Case, offers: Mapping[str, Offer], offer: Offer) -> str:
    """Return why nothing else suits."""
    if beyond := obstacles.beyond(case.backend, case.prompt_tokens):
        return f"Written in one piece: {beyond}."
    others = () if case.judgement.unsure else offers.values()
    why_not = next(filter(None, (_text(each.why_not) for each in others)), "")
    return f"Written in one piece: {why_not}." if why_not else _text(offer.reason)


def _text(value: str | Callable[[], str]) -> str:
    """Return the text of an offer; empty if a caller's strategy fails here, when its answer may be paid for."""
    try:
        return made(value)
    except Exception:  # noqa: BLE001 - likewise
        _log.exception("a strategy could not say the reason of its offer, which is left out")
        return ""


def _is_ours(request: Request, named: str) -> bool:
    """Return whether the strategy is one of the library's; a caller's strategy may handle what they cannot."""
    from stretto.strategies import STRATEGIES  # noqa: PLC0415 - strategies import the router's offers

    return named == "auto" or (request.own_strategy is None and named in STRATEGIES)


def _offer(strategy: Strategy, case: Case) -> Offer | None:
    try:
        offer = strategy.offer(case)
        if offer is not None and not callable(offer.forecast):
            _check(offer.forecast)
    except InvalidRequestError:
        raise
    except Exception:  # noqa: BLE001 - a caller's strategy failed; the others still count
        _log.exception("the strategy %s could not make an offer and is ignored", strategy.name)
        return None
    return offer


def _check(forecast: Forecast | None) -> None:
    """Raise TypeError if a caller's forecast is not a `Forecast`."""
    if forecast is not None and not isinstance(forecast, Forecast):
        raise TypeError(f"the forecast of an offer is a Forecast or None, not {type(forecast).__name__}")


def _route(decision: _Decision, started: float) -> Route:
    case, judgement = decision.case, decision.case.judgement
    chosen = decision.offers.get(decision.strategy)
    case.observe()
    route = Route(
        strategy=decision.strategy,
        role=case.role,
        backend=case.backend.name,
        decoding=case.decoding.method,
        decoding_reason=case.decoding.reason,
        decoding_forecast=case.decoding_forecast,
        shape=judgement.shape,
        confidence=decision.confidence,
        probabilities={**judgement.shapes, "skeleton": judgement.skeleton},
        elapsed_ms=_since(started),
        reason="",
        code=decision.code,
        forecast={},
    )
    return route.with_parse(
        case.parse,
        in_sections=chosen is not None and chosen.in_sections,
        later={"reason": lambda: _reason(decision), "forecast": lambda: _forecasts(decision)},
    )


def _reason(decision: _Decision) -> str:
    reason, role = _text(decision.reason), decision.case.role
    return reason if role == "main" else f"{reason} The {role} backend is forecast to finish first."


def _forecasts(decision: _Decision) -> dict[str, Forecast]:
    return {name: forecast for name in decision.offers if (forecast := decision.forecast(name)) is not None}


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
