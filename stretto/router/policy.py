"""Which strategy on which backend: the router weighs what the strategies offer, and a `Route` comes of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stretto.backends.base import Backend
from stretto.errors import InvalidRequestError
from stretto.request import Request
from stretto.route import Route
from stretto.router.case import Case
from stretto.router.offer import Offer
from stretto.router.reading import question_in_context
from stretto.router.second_opinion import SecondOpinion
from stretto.router.shape import ShapeModel

if TYPE_CHECKING:
    from stretto.strategies.base import Strategy

STRAIGHT = "direct"  # the strategy that serves every request

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Decision:
    """A case, what the strategies offer for it, and the strategy that was chosen with its confidence and cause."""

    case: Case
    offers: Mapping[str, Offer]
    strategy: str
    confidence: float
    cause: str

    @property
    def seconds(self) -> float:
        """How long the answer is expected to take; a strategy without a forecast counts as a straight answer."""
        chosen = self.offers.get(self.strategy)
        forecast = chosen.forecast if chosen is not None else None
        return (forecast or self.case.straight).seconds


class Router:
    """Decides how a request is generated. Holds no connection and keeps nothing of the requests.

    Attributes:
        second_opinion: asks the backend of the role "small" where the shape model is in doubt; ``None`` asks nobody.
    """

    def __init__(self, *, second_opinion: SecondOpinion | None = None, model: ShapeModel | None = None) -> None:
        self.second_opinion = second_opinion
        self._model = model

    @property
    def model(self) -> ShapeModel:
        """The shape model: the one given, else the one that comes with the library, loaded at first use."""
        if self._model is None:
            self._model = ShapeModel.committed()
        return self._model

    def decide(
        self,
        request: Request,
        backends: Mapping[str, Backend],
        strategies: Mapping[str, Strategy] | None = None,
    ) -> Route:
        """Choose by what can be known without a call. Of the backends only name and capabilities are read.

        ``strategies`` are those to choose from, by name, "direct" among them; without any, those of the library. Raises
        `InvalidRequestError` where no backend has the role "main".
        """
        started = time.perf_counter()
        chosen_from = _strategies(request, strategies)
        return _route(_quickest(self._case(request, backends), backends, chosen_from), started)

    async def route(
        self,
        request: Request,
        backends: Mapping[str, Backend],
        strategies: Mapping[str, Strategy] | None = None,
    ) -> Route:
        """Choose as `decide` does, and in the grey zone ask for a second opinion, if this router has one."""
        started = time.perf_counter()
        chosen_from = _strategies(request, strategies)
        decision = _quickest(self._case(request, backends), backends, chosen_from)
        first = _route(decision, started)
        asked = self.second_opinion
        if asked is None or "small" not in backends or not _grey(decision, asked):
            return first
        case = decision.case
        opinion = await asked.ask(case.text, backends["small"])
        if opinion is None:
            cause = f"{first.cause} A second opinion was asked for and did not come in time."
            return first.model_copy(update={"cause": cause, "elapsed_ms": _since(started)})
        judgement = replace(case.judgement, skeleton=asked.update(case.judgement.skeleton, opinion))
        route = _route(_weigh(replace(case, judgement=judgement), chosen_from), started)
        said = "for" if opinion else "against"
        return route.model_copy(
            update={"cause": f"{route.cause} A second opinion was asked and spoke {said} a skeleton."}
        )

    def _case(self, request: Request, backends: Mapping[str, Backend]) -> Case:
        if "main" not in backends:
            raise InvalidRequestError(
                f'No backend has the role "main" (roles: {", ".join(sorted(backends)) or "none"}). Give the router one.'
            )
        text = question_in_context(request)
        return Case(
            request=request,
            backend=backends["main"],
            role="main",
            text=text,
            judgement=self.model.judge(text),
            threshold=self.model.thresholds[request.preference],
        )


def _strategies(request: Request, given: Mapping[str, Strategy] | None) -> Mapping[str, Strategy]:
    """Those to choose from; a strategy that came with the request is one of them."""
    if given is None:
        from stretto.strategies import STRATEGIES  # noqa: PLC0415 - strategies import the router's offers

        given = STRATEGIES
    return given if request.own_strategy is None else {**given, request.strategy: request.own_strategy}


def _grey(decision: _Decision, asked: SecondOpinion) -> bool:
    """Whether an opinion could change the route: in doubt, and nothing else stands against a skeleton."""
    case, skeleton = decision.case, decision.offers.get("skeleton")
    return (
        case.request.strategy == "auto"
        and skeleton is not None
        and abs(case.judgement.skeleton - case.threshold) <= asked.zone
        and skeleton.obstacle() is None
    )


def _quickest(case: Case, backends: Mapping[str, Backend], strategies: Mapping[str, Strategy]) -> _Decision:
    """The decision on the backend that is forecast to end first, where speed is what the caller wants most.

    Otherwise the main one answers: only the caller knows what quality the others have.
    """
    if case.request.preference != "fastest":
        return _weigh(case, strategies)
    others = [role for role in ("small", "local") if role in backends]
    cases = [case, *(replace(case, role=role, backend=backends[role]) for role in others)]
    return min((_weigh(each, strategies) for each in cases), key=lambda decision: decision.seconds)


def _weigh(case: Case, strategies: Mapping[str, Strategy]) -> _Decision:
    """Ask every strategy, and choose: the one asked for, else the best that suits and that nothing stands against."""
    offers = {name: offer for name, strategy in strategies.items() if (offer := _offer(strategy, case)) is not None}
    named = case.request.strategy
    if (whole := case.request.whole_because) and named != STRAIGHT and _is_ours(case.request, named):
        asked = "" if named == "auto" else f" although strategy={named!r} was asked for"
        return _Decision(case, offers, STRAIGHT, 1.0, f"Written straight through{asked}: {whole}.")
    if named != "auto":
        confidence = offers[named].confidence if named in offers else 1.0
        return _Decision(case, offers, named, confidence, "Asked for by the caller.")
    suited = [name for name, offer in offers.items() if offer.suits]
    best = max(suited, key=lambda name: (offers[name].priority, offers[name].confidence), default=STRAIGHT)
    offer = offers[best]
    if best != STRAIGHT:
        if against := offer.obstacle():
            cause = f"Written straight through although {offer.although}: {against}."
            return _Decision(case, offers, STRAIGHT, 1.0, cause)
        return _Decision(case, offers, best, offer.confidence, offer.cause)
    doubt = "" if case.judgement.unsure else next((each.doubt for each in offers.values() if each.doubt), "")
    cause = f"Written straight through: {doubt}." if doubt else offer.cause
    return _Decision(case, offers, best, offer.confidence, cause)


def _is_ours(request: Request, named: str) -> bool:
    """Whether the library chooses or brings the strategy; what a caller's own can do, the caller knows."""
    from stretto.strategies import STRATEGIES  # noqa: PLC0415 - strategies import the router's offers

    return named == "auto" or (request.own_strategy is None and named in STRATEGIES)


def _offer(strategy: Strategy, case: Case) -> Offer | None:
    try:
        offer = strategy.offer(case)
    except InvalidRequestError:
        raise
    except Exception:  # noqa: BLE001 - a caller's strategy failed; the others are weighed
        _log.exception("the strategy %s could not make an offer; the others are weighed", strategy.name)
        return None
    return offer


def _route(decision: _Decision, started: float) -> Route:
    case, cause = decision.case, decision.cause
    if case.role != "main":
        cause += f" The {case.role} backend is forecast to be done first."
    judgement = case.judgement
    return Route(
        strategy=decision.strategy,
        role=case.role,
        backend=case.backend.name,
        decoding=case.decoding.method,
        decoding_cause=case.decoding.cause,
        decoding_forecast=case.decoding_forecast,
        shape=judgement.shape,
        confidence=decision.confidence,
        probabilities={**judgement.shapes, "skeleton": judgement.skeleton},
        cause=cause,
        forecast={name: offer.forecast for name, offer in decision.offers.items() if offer.forecast is not None},
        elapsed_ms=_since(started),
    )


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
