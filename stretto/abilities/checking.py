"""The run of a check: asks the questions, judges the answers, and measures speed and length of direct answers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

import anyio

from stretto.abilities.kept import FASTEST, SLOWEST, Abilities, Ability, key_of, prompts_version
from stretto.abilities.questions import ADVICE, BY_FAMILY, NEEDED, Question, questions
from stretto.backends.base import Backend, ModelRequest
from stretto.prompts import Catalogue
from stretto.values.answer import Usage
from stretto.values.errors import StrettoError
from stretto.values.request import GenerationOptions, Message

MOST_S = 120.0
MOST_CALLS = 60
STREAMS = 8
PROBE_TOKENS = 16
LONGEST_STRAIGHT = 400
_TOGETHER = 4  # questions at a time
_LONGEST_EXAMPLE = 200
_PROBE = (Message(role="user", content="Write the numbers from 1 to 60, one on each line."),)

Progress = Callable[[int, int, str], None]
"""Called with the number of questions done, their total, and what is being measured."""


async def check(
    backend: Backend, prompts: Catalogue, progress: Progress = lambda *_: None, *, most_s: float = MOST_S
) -> Abilities:
    """Measure a model's abilities, within ``most_s`` seconds; questions not asked by then are left out.

    Raises `StrettoError` if the first question cannot be answered.
    """
    own = backend.capabilities.prompt_family
    known = {template.family for template in prompts} & {"general", "small"}
    families = tuple(dict.fromkeys((own, *sorted(known))))
    every = list(questions(prompts, families))[: MOST_CALLS - STREAMS - 1 - len(ADVICE)]
    run = _Run(backend, len(every), progress)
    with anyio.move_on_after(most_s):
        await run.ask(every[0])  # loads a model, and raises the backend's errors
        speeds = await _speeds(backend)
        run.speeds.update(speeds)
        limit = anyio.CapacityLimiter(max(1, min(_TOGETHER, backend.capabilities.concurrent_calls)))
        async with anyio.create_task_group() as tasks:
            for question in every[1:]:
                tasks.start_soon(run.ask_within, question, limit)
        async with anyio.create_task_group() as tasks:
            for advice in ADVICE:
                tasks.start_soon(run.answer_within, advice, limit)
    if not run.results:
        raise StrettoError(
            f"{backend.name} did not answer the first question within {most_s:.0f} s, so nothing is kept."
        )
    return run.abilities(families)


@dataclass
class _Run:
    backend: Backend
    whole: int
    progress: Progress
    results: list[tuple[Question, bool, str]] = field(default_factory=list)
    speeds: dict[int, float] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)

    async def ask(self, question: Question) -> None:
        able = self.backend.capabilities
        prompt = ModelRequest(
            question.messages,
            response_schema=question.schema if able.json_schema else None,
        )
        text, _, _ = await _received(self.backend, prompt, question.most)
        self._note(question, question.judge(text), text)

    async def ask_within(self, question: Question, limit: anyio.CapacityLimiter) -> None:
        async with limit:
            try:
                await self.ask(question)
            except StrettoError as error:
                self._note(question, False, str(error))

    async def answer_within(self, question: str, limit: anyio.CapacityLimiter) -> None:
        """Ask for a direct answer, only for its length."""
        async with limit:
            try:
                _, tokens, _ = await _received(
                    self.backend, ModelRequest((Message(role="user", content=question),)), LONGEST_STRAIGHT
                )
            except StrettoError:  # the questions report errors
                return
        if tokens:
            self.lengths.append(tokens)

    def _note(self, question: Question, right: bool, text: str) -> None:
        self.results.append((question, right, text))
        self.progress(len(self.results), self.whole, question.ability)

    def abilities(self, families: Sequence[str]) -> Abilities:
        scores = dict.fromkeys(families, 0)
        for question, right, _ in self.results:
            if question.family is not None:
                scores[question.family] += right
        best = max(families, key=lambda family: scores[family])  # in a tie, the backend's own, which comes first
        counted = [each for each in self.results if each[0].ability not in BY_FAMILY or each[0].family == best]
        return Abilities(
            model=key_of(self.backend),
            checked=date.today(),
            prompts=prompts_version(),
            quantisation=_quantisation(self.backend),
            family=best,
            families=scores,
            held=dict(_abilities(counted)),
            tokens_per_s=self.speeds,
            direct_tokens=round(statistics.median(self.lengths)) if len(self.lengths) == len(ADVICE) else None,
        )


def _abilities(results: Iterable[tuple[Question, bool, str]]) -> Iterable[tuple[str, Ability]]:
    by_name: dict[str, list[tuple[bool, str]]] = {}
    for question, right, text in results:
        by_name.setdefault(question.ability, []).append((right, text))
    for name, needed in NEEDED.items():
        if len(found := by_name.get(name, [])) >= needed:  # fewer show nothing
            wrong = next((text for right, text in found if not right), "")
            right_ones = sum(right for right, _ in found)
            example = " ".join(wrong.split())[:_LONGEST_EXAMPLE]
            yield name, Ability(right=right_ones, total=len(found), needed=needed, example=example)


async def _received(backend: Backend, prompt: ModelRequest, most: int) -> tuple[str, int, float]:
    """Return the answer, its tokens, and the seconds from its first text to its end."""
    text, usage, first = "", Usage(), None
    async with backend.stream(prompt, GenerationOptions(max_tokens=most, temperature=0.0)) as chunks:
        async for chunk in chunks:
            if chunk.text and first is None:
                first = time.perf_counter()
            text += chunk.text
            usage += chunk.usage or Usage()
    return text, usage.completion_tokens, time.perf_counter() - (first or time.perf_counter())


async def _speeds(backend: Backend) -> Mapping[int, float]:
    """Return the tokens per second of a stream, alone and alongside others; empty if a server does not count tokens."""
    found: dict[int, float] = {}
    for streams in dict.fromkeys((1, min(STREAMS, max(1, backend.capabilities.concurrent_calls)))):
        rates: list[float] = []

        async def probe(rates: list[float] = rates) -> None:
            try:
                _, tokens, taken_s = await _received(backend, ModelRequest(_PROBE), PROBE_TOKENS)
            except StrettoError:  # the questions report errors
                return
            if tokens > 1 and taken_s > 0:
                rates.append((tokens - 1) / taken_s)

        async with anyio.create_task_group() as tasks:
            for _ in range(streams):
                tasks.start_soon(probe)
        if rates:
            found[streams] = min(max(round(sum(rates) / len(rates), 2), SLOWEST), FASTEST)
    return found


def _quantisation(backend: Backend) -> str | None:
    """Return the quantization of a local GGUF file, or of a server's model, if reported."""
    if not backend.name.startswith("local:"):
        # Wrappers pass on the attributes of the wrapped backend.
        quantisation: str | None = getattr(backend, "quantisation", None)
        return quantisation
    from stretto.local_engine.model.loading.source import find_source  # noqa: PLC0415 - for local models only

    header = find_source(backend.name).header()
    return None if header is None else header.quantisation
