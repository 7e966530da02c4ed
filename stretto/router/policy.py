"""Which strategy on which backend: shape, what the backend can do, preference and budget become a `Route`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from stretto.backends.base import Backend
from stretto.errors import InvalidRequestError
from stretto.request import Request
from stretto.route import DecodingForecast, Forecast, Route
from stretto.router import obstacles
from stretto.router.decoding import Choice, choose_decoding
from stretto.router.demands import items_wanted, may_be_list, words_wanted
from stretto.router.forecast import decoding_forecast, forecast, speed_of
from stretto.router.reading import question_in_context
from stretto.router.second_opinion import SecondOpinion
from stretto.router.shape import Judgement, ShapeModel

ITEMS_THRESHOLD = {"fastest": 0.4, "balanced": 0.5, "careful": 0.65}
ITEMS_WORTH_COUNTING = 0.1
ITEMS_WORTH_SPLITTING = 0.03
LISTED_CONFIDENCE = 0.95  # all 15 labelled prompts that code takes apart by their lines are labelled as items
LISTED_MARKS = frozenset({"bulleted", "numbered", "lettered", "labelled", "lines"})
PHRASES = {
    "short": "fits in a line or two",
    "points": "is a list of points",
    "steps": "is a chain of steps that build on each other",
    "prose": "is one continuous text",
    "items": "is a set of separate items",
    "code": "is mainly code",
    "transform": "is mostly text from the prompt",
}


@dataclass
class Case:
    """Everything one decision looks at; not frozen, because freezing takes longer than all else about it."""

    request: Request
    backend: Backend
    role: str
    text: str
    judgement: Judgement
    threshold: float

    @cached_property
    def items(self) -> int:
        """Items that the prompt supplies or asks for."""
        return items_wanted(self.text)

    @cached_property
    def _form(self) -> tuple[int, str | None]:
        """How many lines of a list code can take apart, and as half a sentence why it must not; 0 and None: no list."""
        question, judged = self.request.question, self.judgement.shapes["items"]
        if self.request.strategy != "auto" or judged < ITEMS_WORTH_SPLITTING or not may_be_list(question):
            return 0, None
        from stretto.strategies.items.splitting import Split, split  # noqa: PLC0415 - its patterns are slow to compile

        taken = split(question)
        if isinstance(taken, Split):
            return len(taken.items) if taken.marks in LISTED_MARKS else 0, None
        return 0, taken.cause if taken.final else None

    @property
    def listed(self) -> int:
        """Items of a list by lines under a task that holds for each; 0 where the form shows none."""
        return self._form[0]

    @property
    def together(self) -> str | None:
        """Why the lines of a list must not be taken apart; ``None`` where nothing says so."""
        return self._form[1]

    @property
    def _may_be_items(self) -> bool:
        judged = self.judgement.shapes["items"] >= ITEMS_WORTH_COUNTING
        return judged or self.request.strategy == "items" or self.listed > 0

    @cached_property
    def decoding(self) -> Choice:
        """How the backend is to decode, if it is a local one."""
        backend = self.backend
        return choose_decoding(self.request, backend.name, backend.capabilities, self.judgement.shape, self.text)

    @cached_property
    def decoding_forecast(self) -> DecodingForecast | None:
        """What that is expected to do."""
        method = self.decoding.method
        return None if method is None else decoding_forecast(method, self.backend.capabilities.measured)

    @cached_property
    def forecast(self) -> dict[str, Forecast]:
        """The expected cost of each candidate."""
        return forecast(
            self.judgement.shape,
            speed_of(self.backend.name, self.backend.capabilities, self.role, self.decoding_forecast),
            prompt_tokens=_tokens(self.request),
            items=self.items if self._may_be_items else 0,
            words=words_wanted(self.text),
            max_tokens=self.request.options.max_tokens,
        )


class Router:
    """Decides how a request is generated. Holds no connection and keeps nothing of the requests.

    ``second_opinion`` asks the backend of the role "small" where the model is in doubt; without one, nothing is asked.
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

    def decide(self, request: Request, backends: Mapping[str, Backend]) -> Route:
        """Choose by what can be known without a call. Of the backends only name and capabilities are read.

        Raises `InvalidRequestError` where no backend has the role "main".
        """
        started = time.perf_counter()
        return _route(_quickest(self._case(request, backends), backends), started)

    async def route(self, request: Request, backends: Mapping[str, Backend]) -> Route:
        """Choose as `decide` does, and in the grey zone ask for a second opinion, if this router has one."""
        started = time.perf_counter()
        case = _quickest(self._case(request, backends), backends)
        first = _route(case, started)
        asked = self.second_opinion
        if asked is None or "small" not in backends or not self._grey(case, asked):
            return first
        opinion = await asked.ask(case.text, backends["small"])
        if opinion is None:
            cause = f"{first.cause} A second opinion was asked for and did not come in time."
            return first.model_copy(update={"cause": cause, "elapsed_ms": _since(started)})
        judgement = replace(case.judgement, skeleton=asked.update(case.judgement.skeleton, opinion))
        route = _route(replace(case, judgement=judgement), started)
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

    @staticmethod
    def _grey(case: Case, asked: SecondOpinion) -> bool:
        """Whether an answer could change the route: in doubt, and nothing else stands against a skeleton."""
        return (
            case.request.strategy == "auto"
            and abs(case.judgement.skeleton - case.threshold) <= asked.zone
            and _obstacle(case, "skeleton") is None
        )


def _quickest(case: Case, backends: Mapping[str, Backend]) -> Case:
    """The case on the backend that is forecast to end first, where speed is what the caller wants most.

    Otherwise the main one answers: only the caller knows what quality the others have.
    """
    if case.request.preference != "fastest":
        return case
    others = [role for role in ("small", "local") if role in backends]
    cases = [case, *(replace(case, role=role, backend=backends[role]) for role in others)]
    return min(cases, key=lambda each: each.forecast.get(_choose(each)[0], each.forecast["direct"]).seconds)


def _route(case: Case, started: float) -> Route:
    strategy, confidence, cause = _choose(case)
    if case.role != "main":
        cause += f" The {case.role} backend is forecast to be done first."
    judgement = case.judgement
    return Route(
        strategy=strategy,
        role=case.role,
        backend=case.backend.name,
        decoding=case.decoding.method,
        decoding_cause=case.decoding.cause,
        decoding_forecast=case.decoding_forecast,
        shape=judgement.shape,
        confidence=confidence,
        probabilities={**judgement.shapes, "skeleton": judgement.skeleton},
        cause=cause,
        forecast=case.forecast,
        elapsed_ms=_since(started),
    )


def _choose(case: Case) -> tuple[str, float, str]:
    """Strategy, confidence and cause."""
    request, judgement = case.request, case.judgement
    skeleton, items = judgement.skeleton, judgement.shapes["items"]
    if request.strategy != "auto":
        serves = {"skeleton": skeleton, "items": items}.get(request.strategy, 1.0)
        return request.strategy, serves, "Asked for by the caller."
    if judgement.unsure:
        cause = "Written straight through: nothing in the request tells what shape the answer has."
        return "direct", 1 - skeleton, cause
    sure_enough = judgement.shape == "items" and items >= ITEMS_THRESHOLD[request.preference]
    if sure_enough and case.items > 1 and case.together is None:
        sure = f"the answer {PHRASES['items']}"
        return _unless_hindered(
            case, "items", items, f"Written item by item in parallel: {sure} ({items:.0%} sure).", sure
        )
    if case.listed:
        cause = f"Written item by item in parallel: the request is a list of {case.listed}, with one task for each."
        return _unless_hindered(case, "items", LISTED_CONFIDENCE, cause, "the request is a list with one task for each")
    if skeleton >= case.threshold:
        cause = f"Outline first, then its points in parallel: they stand on their own ({skeleton:.0%} sure)."
        return _unless_hindered(case, "skeleton", skeleton, cause, "points in parallel would serve")
    shape = judgement.shape
    reason = f"the answer most likely {PHRASES[shape]} ({judgement.shapes[shape]:.0%} sure)"
    if shape == "items":
        needed = ITEMS_THRESHOLD[request.preference]
        against = case.together or "the request shows no items to count"
        reason = (
            f"that the answer {PHRASES['items']} is not sure enough ({items:.0%} sure, {needed:.0%} needed)"
            if items < needed
            else f"the answer most likely {PHRASES['items']}, but {against}"
        )
    if shape == "points":
        reason = f"an outline first would probably not serve ({skeleton:.0%} sure, {case.threshold:.0%} needed)"
    return "direct", 1 - skeleton, f"Written straight through: {reason}."


def _unless_hindered(case: Case, strategy: str, confidence: float, cause: str, although: str) -> tuple[str, float, str]:
    """Take a parallel strategy, or the direct one where something stands against it."""
    if against := _obstacle(case, strategy):
        return "direct", 1.0, f"Written straight through although {although}: {against}."
    return strategy, confidence, cause


def _obstacle(case: Case, strategy: str) -> str | None:
    """Say what stands against a parallel strategy: first in the request, then in backend, budget and forecast."""
    return (
        obstacles.to_any(case.request, case.text)
        or (obstacles.to_skeleton(case.text) if strategy == "skeleton" else None)
        or obstacles.to_parallel(case.request, case.backend, case.forecast["direct"], case.forecast[strategy])
    )


def _tokens(request: Request) -> int:
    """Roughly how many tokens the messages have: four characters each, fewer beyond ASCII."""
    total = 0.0
    for message in request.messages:
        total += len(message.content) / (4 if message.content.isascii() else 2.5)
    return round(total) + sum(len(document.text) for document in request.documents) // 4


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
