"""The input of one routing decision, from which strategies make their offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from stretto.abilities import Abilities, abilities_of
from stretto.backends.base import Backend, Capabilities, Measured, measured_by
from stretto.backends.known_models import typical_tokens
from stretto.backends.load import CallLimits, Load, load_of
from stretto.foundation.lazy import lazy
from stretto.prices import Prices
from stretto.prompts import family_for
from stretto.router import obstacles
from stretto.router.decoding import Choice, choose_decoding
from stretto.router.demands import may_be_list
from stretto.router.excerpt import excerpt
from stretto.router.forecast import Speed, answer_tokens, decoding_forecast, direct_forecast, speed_of
from stretto.router.given import Doubt, Given, unseen_tokens
from stretto.router.history import WHOLE, history_of
from stretto.router.parse import Parse
from stretto.router.reason import deciding
from stretto.router.schema_tokens import SchemaTokens
from stretto.router.shape import Judgement
from stretto.values.request import Request
from stretto.values.route import DecodingForecast, Forecast, Obstacle

_TELLING = {"properties", "items", "$ref", "anyOf", "oneOf", "enum", "const"}  # keywords that show how long a value is
LEAST_NAMED = 0.01
ITEMS_WORTH_COUNTING = 0.1
ITEMS_WORTH_SPLITTING = 0.03
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
NAMES = {
    "short": "a line or two",
    "points": "points",
    "steps": "steps",
    "prose": "prose",
    "items": "items",
    "code": "code",
    "transform": "text from the prompt",
}

PromptFamily = Callable[[Backend], str | None]
"""Returns the prompt family that was named or measured for a backend; ``None``: the one that suits its size."""


@dataclass
class Case:
    """One request on one backend, with everything known about it without a call. Read-only for strategies.

    Provisional beyond what the guide to extending uses: it may change in any release.

    Attributes:
        request: the request.
        backend: the backend that would answer. Only its name and capabilities may be read.
        role: the role of this backend in the client.
        parse: the parsed question; each part is parsed once, when first needed.
        judgement: the probability of each shape of the answer, and that an outline suits it.
        threshold: the lowest probability at which an outline is written; depends on the request's preference.
        prices: of models; ``None``: nothing is priced.
        backends: of the client by role, for strategies that ask multiple models.
        prompt_family: returns the prompt family that was named or measured for a backend; ``None``: the one that suits.
        own_prompts: identifies the client's templates; empty if they are the library's.
    """

    # Not frozen: a frozen dataclass takes longer to create, and one is created for every decision.
    request: Request
    backend: Backend
    role: str
    parse: Parse
    judgement: Judgement
    threshold: float
    prices: Prices | None = None
    backends: Mapping[str, Backend] = field(default_factory=dict)
    prompt_family: PromptFamily = lambda _: None
    own_prompts: str = ""

    @lazy
    def family(self) -> str:
        """The prompt family for the backend."""
        return family_for(self.able.prompt_family, self.prompt_family(self.backend))

    @property
    def text(self) -> str:
        """The question as the router reads it, preceded by the previous one if it cannot be understood alone."""
        return self.parse.text

    @property
    def items(self) -> int:
        """The number of items that the prompt contains or asks for."""
        return self.parse.items

    @property
    def list_length(self) -> int:
        """The number of lines in a list whose task applies to each line; 0 if there is no such list."""
        return self._form[0]

    @property
    def why_together(self) -> str | None:
        """Why the lines of a list must be answered together; ``None`` if nothing requires it."""
        return self._form[1]

    @property
    def item_count(self) -> int:
        """The number of items if the answer can consist of items, or else 0."""
        judged = self.judgement.shapes["items"] >= ITEMS_WORTH_COUNTING
        return self.items if judged or self.request.strategy == "items" or self.list_length > 0 else 0

    @property
    def expected(self) -> str:
        """The most likely shape of the answer, as half a sentence."""
        shape = self.judgement.shape
        return f"the answer most likely {PHRASES[shape]} ({self.judgement.shapes[shape]:.0%} sure{self.shape_evidence})"

    @lazy
    def shape_evidence(self) -> str:
        """What decided the shape, and how likely the next one is, as the end of a bracket."""
        judgement = self.judgement
        after = judgement.next_shape
        words = deciding(judgement, excerpt(self.text), self.parse.folded)
        by = f", by {words}" if words else ""
        rest = judgement.shapes[after]
        return f"{by}; {NAMES[after]} {rest:.0%}" if rest >= LEAST_NAMED else by

    @lazy
    def prompt_tokens(self) -> int:
        """The estimated prompt tokens: 4 characters each, 2.5 in messages that are not ASCII."""
        documents = typical_tokens(sum(len(document.text) for document in self.request.documents))
        return _read_tokens(message.content for message in self.request.messages) + documents

    @lazy
    def before_tokens(self) -> int:
        """The estimated tokens of what every call begins with: system messages, and the turns before the question."""
        return _read_tokens([self.request.system, *(message.content for message in self.request.history)])

    @lazy
    def answer_tokens(self) -> int:
        """The estimated tokens of the answer: by its format, the question, the last answers, or its shape."""
        form = self.request.options.response_format
        if isinstance(form, dict) and form.keys() & _TELLING:
            tokens = history_of(self.backend).usual_fields(form).get(WHOLE) or SchemaTokens(form).of(form)
            return answer_tokens("short", usual_tokens=tokens, max_tokens=self.request.options.max_tokens)
        given = self.parse.given
        if isinstance(given, Given):
            return min(given.answer_tokens, self.request.options.max_tokens or given.answer_tokens)
        shape, words = self.judgement.shape, self.parse.words
        usual = self.usual_tokens
        if usual is None and self.abilities is not None and shape == "points":
            usual = self.abilities.direct_tokens
        if isinstance(given, Doubt):
            usual = given.tokens or usual
        elif shape == "transform" and not self.request.documents:
            usual = unseen_tokens(self.request.question) or usual
        return answer_tokens(shape, words=words, max_tokens=self.request.options.max_tokens, usual_tokens=usual)

    @lazy
    def usual_tokens(self) -> int | None:
        """The mean tokens of the last direct answers of this shape."""
        return history_of(self.backend).usual_tokens(self.judgement.shape)

    def observe(self) -> None:
        """Read now what answers change, since a route's reason and forecasts can be read after its answer."""
        _ = self.measured, self.able, self.limits, self.usual_tokens
        if self.request.options.response_format is not None:
            _ = self.answer_tokens

    @lazy
    def measured(self) -> Measured | None:
        """The speed that the backend has measured."""
        return measured_by(self.backend)

    @lazy
    def able(self) -> Capabilities:
        """What the backend can do."""
        return self.backend.capabilities

    @lazy
    def limits(self) -> CallLimits:
        """How many calls of the answer can run at a time, in addition to what runs there now."""
        return CallLimits.of(self.backend, self.request, self.load)

    @lazy
    def abilities(self) -> Abilities | None:
        """What `stretto check` found out about the model."""
        return abilities_of(self.backend)

    def missing_ability(self, needs: tuple[str, ...]) -> str | None:
        """Return which of these abilities the model lacks, as half a sentence; ``None`` if none is known to be."""
        against = None if not needs or self.abilities is None else self.abilities.against(*needs)
        return against and Obstacle(against, "ability")

    @lazy
    def load(self) -> Load:
        """How busy the backend is with other answers."""
        return load_of(self.backend)

    @lazy
    def speed(self) -> Speed:
        """The assumed or measured speed of the backend under its current load."""
        checked = {} if self.abilities is None else self.abilities.tokens_per_s
        kept = {**checked, **self.load.tokens_per_s}
        able = replace(self.able, concurrent_calls=self.limits.now)
        drafted, measured, shape = self.decoding_forecast, self.measured, self.judgement.shape
        speed = speed_of(self.backend.name, able, self.role, drafted, measured, kept=kept, shape=shape)
        if speed.step_ms is None or not self.backend.name.startswith("local:"):
            speed = speed._replace(first_s=self.load.first_token_s)
        return speed._replace(busy=self.load.calls)

    @lazy
    def direct_forecast(self) -> Forecast:
        """The expected cost of a single generation, the baseline for the other strategies."""
        return direct_forecast(self.speed, self.prompt_tokens, self.answer_tokens)

    @lazy
    def decoding(self) -> Choice:
        """The decoding method, if the backend is local."""
        able, shape = self.able, self.judgement.shape
        step_ms = self.measured.step_ms.get(1) if self.measured is not None else None
        return choose_decoding(self.request, self.backend.name, able, shape, self.parse, step_ms=step_ms)

    @lazy
    def decoding_forecast(self) -> DecodingForecast | None:
        """The expected speed of the decoding method."""
        method = self.decoding.method
        return None if method is None else decoding_forecast(method, self.measured)

    def obstacle(
        self, forecast: Forecast | None = None, *, special: str | None = None, saves: tuple[float, float] | None = None
    ) -> str | None:
        """Return why the answer cannot be generated in parts, as half a sentence; ``None`` if it can.

        Checks the request, then ``special``, then the backend, the budget and ``forecast``, which must save a share of
        the direct answer's time and a number of seconds (``saves``); by default, a share that depends on the
        preference.
        """
        found = obstacles.to_any(self.request, self.parse) or special
        return found or (None if forecast is None else obstacles.to_parallel(self, forecast, saves=saves))

    def gain(self, forecast: Forecast) -> str:
        """Return how long both ways would take, as a sentence; empty if that is assumed rather than measured."""
        if not self.measured_how:
            return ""
        return f" It would take {obstacles.seconds_of(self.direct_forecast, forecast, self.measured_how)}."

    @property
    def measured_how(self) -> str:
        """What was measured for the forecasts, as half a sentence; empty if they rest on assumptions."""
        if self.speed.step_ms is None:
            return ""
        by_steps = self.measured is not None and self.measured.step_ms
        return "by the steps measured on this machine" if by_steps else "by the speed of its earlier calls"

    @lazy
    def _form(self) -> tuple[int, str | None]:
        """The number of lines that can be answered separately, and why not; 0 and ``None`` without a list."""
        question, judged = self.request.question, self.judgement.shapes["items"]
        if self.request.strategy != "auto" or judged < ITEMS_WORTH_SPLITTING or not may_be_list(question):
            return 0, None
        from stretto.strategies.items.splitting import Split  # noqa: PLC0415 - its patterns are slow to compile

        split = self.parse.split
        if isinstance(split, Split):
            return len(split.items) if split.marks in LISTED_MARKS else 0, None
        return 0, split.reason if split.final else None


def _read_tokens(texts: Iterable[str]) -> int:
    return round(sum(len(text) / (4 if text.isascii() else 2.5) for text in texts))
