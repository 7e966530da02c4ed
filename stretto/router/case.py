"""Everything that one decision looks at; strategies read it to make their offers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from stretto.backends.base import Backend, Measured, measured_by
from stretto.request import Request
from stretto.route import DecodingForecast, Forecast
from stretto.router import obstacles
from stretto.router.decoding import Choice, choose_decoding
from stretto.router.demands import items_wanted, may_be_list, words_wanted
from stretto.router.forecast import Speed, answer_tokens, decoding_forecast, speed_of, straight
from stretto.router.shape import Judgement

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


@dataclass
class Case:
    """One request on one backend, and what is known of it without a call. Strategies read it, and change nothing.

    Attributes:
        request: what is asked.
        backend: who would answer; only its name and capabilities may be read.
        role: the role of this backend in the client.
        text: the question as the router reads it, with the question before where it cannot be understood alone.
        judgement: probabilities of the answer's shapes, and that an outline serves.
        threshold: the probability from which an outline is written, by the preference of the request.
    """

    # Not frozen: freezing takes longer than all else about it.
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

    @property
    def listed(self) -> int:
        """Items of a list by lines under a task that holds for each; 0 where the form shows none."""
        return self._form[0]

    @property
    def together(self) -> str | None:
        """Why the lines of a list must not be taken apart; ``None`` where nothing says so."""
        return self._form[1]

    @property
    def countable(self) -> int:
        """The items where the answer may consist of items, else 0."""
        judged = self.judgement.shapes["items"] >= ITEMS_WORTH_COUNTING
        return self.items if judged or self.request.strategy == "items" or self.listed > 0 else 0

    @property
    def expected(self) -> str:
        """What the answer most likely is, as half a sentence."""
        shape = self.judgement.shape
        return f"the answer most likely {PHRASES[shape]} ({self.judgement.shapes[shape]:.0%} sure)"

    @cached_property
    def prompt_tokens(self) -> int:
        """Tokens to read, roughly: four characters each, fewer beyond ASCII."""
        total = 0.0
        for message in self.request.messages:
            total += len(message.content) / (4 if message.content.isascii() else 2.5)
        return round(total) + sum(len(document.text) for document in self.request.documents) // 4

    @cached_property
    def answer_tokens(self) -> int:
        """Tokens to write, as usual for the shape, or as asked for."""
        return answer_tokens(
            self.judgement.shape, words=words_wanted(self.text), max_tokens=self.request.options.max_tokens
        )

    @cached_property
    def measured(self) -> Measured | None:
        """What the backend has measured of its own speed."""
        return measured_by(self.backend)

    @cached_property
    def speed(self) -> Speed:
        """The assumed or measured speed of the backend."""
        return speed_of(self.backend.name, self.backend.capabilities, self.role, self.decoding_forecast)

    @cached_property
    def straight(self) -> Forecast:
        """The expected cost of one straight answer, which others are compared with."""
        return straight(self.speed, self.prompt_tokens, self.answer_tokens)

    @cached_property
    def decoding(self) -> Choice:
        """How the backend is to decode, if it is a local one."""
        backend = self.backend
        able, shape = backend.capabilities, self.judgement.shape
        step_ms = self.measured.step_ms.get(1) if self.measured is not None else None
        return choose_decoding(self.request, backend.name, able, shape, self.text, step_ms=step_ms)

    @cached_property
    def decoding_forecast(self) -> DecodingForecast | None:
        """What that is expected to do."""
        method = self.decoding.method
        return None if method is None else decoding_forecast(method, self.measured)

    def obstacle(self, forecast: Forecast | None = None, *, special: str | None = None) -> str | None:
        """What stands against generating the answer in parts, as half a sentence; ``None``: nothing.

        First what is in the request, then ``special``, then backend, budget and what ``forecast`` says.
        """
        if found := obstacles.to_any(self.request, self.text) or special:
            return found
        return None if forecast is None else obstacles.to_parallel(self.request, self.backend, self.straight, forecast)

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
