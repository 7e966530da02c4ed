"""The run that all ways of reading share: options, the request without its documents, token counts, and prompts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, TypeVar

import anyio
from pydantic import BaseModel, ConfigDict, Field

from stretto.backends.base import ModelRequest
from stretto.documents import cut
from stretto.prompts import POCKET
from stretto.strategies.direct import template_messages
from stretto.strategies.document.bearing import Bearing
from stretto.strategies.document.citing import mark_for
from stretto.strategies.document.library import DocumentCache, Library, Place
from stretto.strategies.document.sizes import Sizes, sizes_of
from stretto.strategies.document.task import Task, task_of
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec, PromptTarget
from stretto.strategies.runtime.fencing import unfenced
from stretto.strategies.runtime.ledger import Ledger
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.strategy_options import options_of
from stretto.values.budget import Budget
from stretto.values.citation import PassageRecord
from stretto.values.document import Document
from stretto.values.errors import StrettoError
from stretto.values.events import PassageRead
from stretto.values.request import Message, Request


class DocumentOptions(BaseModel):
    """Options of ``document``: separate budgets for reading and for combining the findings, and where to stop.

    The request's budget covers both. A warning names the passages that the reading budget does not reach; with few
    calls, passages are larger.

    Attributes:
        reading_calls: calls that read passages, including repeated ones.
        reading_tokens: total prompt and completion tokens of these calls.
        record_tokens: the most tokens of the record of one passage.
        answer_calls: calls that combine the findings, including the answer.
        answer_tokens: total prompt and completion tokens of these calls; ``max_tokens`` limits the answer's text.
        stop_after: "reading" returns what was found in the passages, with citations, and makes no further call.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reading_calls: int | None = Field(default=None, ge=1)
    reading_tokens: int | None = Field(default=None, ge=1)
    record_tokens: int | None = Field(default=None, ge=48)
    answer_calls: int | None = Field(default=None, ge=1)
    answer_tokens: int | None = Field(default=None, ge=1)
    stop_after: Literal["reading"] | None = None

    @property
    def reading(self) -> Budget:
        return Budget(max_calls=self.reading_calls, max_tokens_total=self.reading_tokens)

    @property
    def answer(self) -> Budget:
        return Budget(max_calls=self.answer_calls, max_tokens_total=self.answer_tokens)


Counter = Callable[[str], int]

_COUNTED = 200_000  # characters; of a longer text, only samples are counted
_SAMPLES = 20
_LATIN = 2.5  # characters per token, in Latin scripts with accents
_ASCII = 3
_WIDE = 1.2  # tokens per character, in other scripts


def estimate(text: str) -> int:
    """Estimate the tokens of a text without a tokenizer."""
    if text.isascii():
        return math.ceil(len(text) / _ASCII)
    narrow = len(text.encode("latin-1", "ignore"))
    return math.ceil(narrow / _LATIN + (len(text) - narrow) * _WIDE)


def total_tokens(text: str, count: Counter) -> int:
    """Count the tokens of a whole document; those of a long one are projected from samples spread over it."""
    if len(text) <= _COUNTED:
        return count(text)
    size, step = _COUNTED // _SAMPLES, len(text) // _SAMPLES
    counted = sum(count(text[at : at + size]) for at in range(0, step * _SAMPLES, step))
    return math.ceil(counted * len(text) / (size * _SAMPLES))


T = TypeVar("T")
_READING_SHARE = 0.65  # of the time to the deadline; the rest is for combining the findings and answering
_CONVERSATION = 2_000  # characters of the earlier conversation shown to the reader of a passage


@dataclass(frozen=True)
class DocumentRun:
    """One run over documents.

    Attributes:
        request: as received, but without its documents, so that no prompt contains them whole by accident.
        runner: starts branches and merges them.
        library: the documents, cut into passages.
        task: what to do.
        sizes: tokens for each kind of call.
        count: counts the tokens of a text.
        cache: remembers how documents were cut.
        options: the separate budgets, and where to stop.
        reads: counts the calls that read.
        puts_together: counts the calls that combine the findings, including the answer.
        mark: the word of the marks that the model is asked for; empty for a model trained on bare numbers.
        failures: why passages could not be read; ``None`` for each whose record makes no sense.
    """

    request: Request
    runner: Runner
    library: Library
    task: Task
    sizes: Sizes
    count: Counter
    cache: DocumentCache
    options: DocumentOptions
    reads: Ledger
    puts_together: Ledger
    mark: str = ""
    failures: list[StrettoError | None] = field(default_factory=list)

    async def in_thread(self, work: Callable[[DocumentRun], T]) -> T:
        """Count and cut in a thread, off the event loop, until the deadline or until the request is cancelled.

        Raises `DeadlineExceededError`.
        """
        return await _in_thread(self.runner, lambda: work(replace(self, count=_stopping(self.count))))

    def cut(self, size: int, share: Callable[[str], float] | None = None) -> DocumentRun:
        """Return the same run with passages of at most ``size`` tokens."""
        chunks = (
            self.cache.keep(
                document,
                (self.runner.model, "chunks", size, share is None),
                partial(cut, document, size, self.count, share=share),
            )
            for document in self.library.documents
        )
        return replace(self, library=self.library.cut(chunks))

    @property
    def left(self) -> Mapping[str, float]:
        """What rate limits, the request's budget and the reading budget leave for reading, by kind."""
        return _left(self.request, self.runner, self.options)

    def halves(self, place: Place) -> list[Place]:
        """Return a passage in two parts of about the same length, or unchanged if it cannot be cut.

        Both keep its number, so all other numbers stay the same.
        """
        text, start, end = self.library.text(place), place.chunk.start, place.chunk.end
        headings = tuple(
            heading.model_copy(update={"offset": heading.offset - start})
            for heading in self.library.documents[place.document].headings
            if start <= heading.offset < end
        )
        size = math.ceil(place.chunk.tokens / 2)
        parts = cut(Document(text=text, headings=headings), size, self.count)  # short paragraphs can fill a third part
        if len(parts) <= 1:
            return [place]
        border = min(range(1, len(parts)), key=lambda at: abs(parts[at].start - len(text) / 2))
        spans = ((parts[0].start, parts[border - 1].end), (parts[border].start, parts[-1].end))
        return [
            replace(place, chunk=replace(place.chunk, start=start + a, end=start + b, tokens=self.count(text[a:b])))
            for a, b in spans
        ]

    def messages(self, target: PromptTarget, template: str, **values: str) -> tuple[Message, ...]:
        """Fill a template for this request, with the turns before the question in their places."""
        return template_messages(self.request, target, template, fence=self.library.fence, **values)

    def rest_of(self, target: PromptTarget, messages: tuple[Message, ...], received: str) -> ModelRequest:
        """Return a prompt for the rest of a reply to these messages, which keeps the rule that documents are data."""
        rest = self.messages(target, "continue", question=messages[-1].content, received=received, documents="")
        return ModelRequest((*messages[:-1], rest[-1]), reads=True)

    def passage_prompt(
        self, target: PromptTarget, template: str, place: Place, *, schema: Mapping[str, Any], **values: str
    ) -> ModelRequest:
        """Return the prompt that shows one passage.

        The conversation and the question follow the passage, so everything before them is the same for the next
        question about these documents. Everything before the passage is the same for all passages.
        """
        shown = self.library.shown(place) | values
        messages = _passage_messages(self.request, target, self.library, template, task=self.task, shown=shown)
        at = messages[-1].content.find(f"\n{self.library.fence} passage {place.number} of ")
        enforced = schema if target.capabilities.json_schema else None
        return ModelRequest(messages, response_schema=enforced, in_words=(), shared=max(at, 0), reads=True)

    @property
    def trained(self) -> bool:
        """Whether the model was trained on prompts of its family, which must not change."""
        return _trained(self.runner)

    @cached_property
    def bearing(self) -> Bearing:
        """The words of the question among all passages."""
        return Bearing(self.request.question, [self.library.text(place) for place in self.library.places])

    @property
    def plain(self) -> bool:
        """Whether the model is a small one, which is asked to copy a sentence instead of writing a record."""
        return self.task.is_quoted(self.runner.capabilities.prompt_family)

    def title(self, place: Place) -> str:
        """Return the name of this passage for people."""
        return self.library.called(place.document, place.chunk.start, place.chunk.end)

    def skipped(self, place: Place) -> PassageRecord:
        """Return the record of a passage that was not read because a search found nothing in it."""
        return PassageRecord(document=place.document, start=place.chunk.start, end=place.chunk.end, status="skipped")

    def failed(self, place: Place, running: RunningBranch, error: str) -> PassageRecord:
        """Return the record of a passage that this call could not read."""
        if self.request.on_missing == "raise":
            running.use, running.reported = "lacking", True  # a warning says what
        self.failures.append(running.exception)
        return PassageRecord(
            document=place.document, start=place.chunk.start, end=place.chunk.end, status="failed", error=error
        )

    async def announce(self, record: PassageRecord, done: int, total: int) -> None:
        title = self.library.called(record.document, record.start, record.end)
        await self.runner.announce(PassageRead(record=record, done=done, total=total, title=title))

    def start(
        self,
        name: str,
        kind: str,
        prompt: Callable[[PromptTarget], ModelRequest],
        *,
        room: int | None,
        title: str = "",
        on_end: Callable[[RunningBranch], None] = lambda _: None,
    ) -> RunningBranch:
        """Start a branch of at most ``room`` tokens.

        After a failure it is requested once more, unless text had already arrived: a record is worth nothing after half
        of another one.
        """
        options = self.request.options.model_copy(update={"max_tokens": room, "stop": (), "response_format": None})
        return self.runner.start(
            BranchSpec(
                id=name,
                kind=kind,
                title=title,
                prompt=prompt,
                options=options,
                fallback_prompt=lambda target, received: None if received.strip() else prompt(target),
                on_end=on_end,
                deadline_s=self._until_s(),
                ledger=self.puts_together if kind == "collapse" else self.reads,
            )
        )

    def _until_s(self) -> float:
        """Return when reading must end so that the last call can still be made before the deadline."""
        deadline = self.request.deadline_s
        return math.inf if deadline is None else deadline * _READING_SHARE


async def reading_of(request: Request, runner: Runner, cache: DocumentCache) -> DocumentRun:
    """Cut the documents of a request for the backend of this answer, off the event loop.

    Raises `ContextOverflowError`, and `DeadlineExceededError` if the deadline passes while they are cut.
    """
    with runner.until_deadline():
        count = await runner.text_counter() or estimate
    reading = await _in_thread(runner, lambda: _reading_of(request, runner, cache, _stopping(count)))
    return replace(reading, count=count)


async def _in_thread(runner: Runner, work: Callable[[], T]) -> T:
    with runner.until_deadline():
        return await anyio.to_thread.run_sync(work)


def _stopping(count: Counter) -> Counter:
    """Wrap a counter for use in a thread, which then ends when the request is cancelled or too late."""

    def counted(text: str) -> int:
        anyio.from_thread.check_cancelled()
        return count(text)

    return counted


def _reading_of(request: Request, runner: Runner, cache: DocumentCache, count: Counter) -> DocumentRun:
    library = Library.of(request.documents)
    bare = request.model_copy(update={"documents": ()})
    task = task_of(request.question, len(request.documents))
    empty = dict.fromkeys(("before", "after", "leading", "following", "passage", "title"), "")
    empty |= {"fence": library.fence, "number": "0", "total": "0"}
    mapping = _passage_messages(bare, runner.target, library, "document_map", task=task, shown=empty)
    closing = template_messages(bare, runner.target, "document_answer", fence=library.fence, records="", form="")
    options = options_of(request, DocumentOptions) if request.strategy == "document" else DocumentOptions()
    purpose = (runner.model, "tokens")
    tokens = (cache.keep(each, purpose, partial(total_tokens, each.text, count)) for each in library.documents)
    sizes = sizes_of(
        request,
        task,
        runner.capabilities,
        model=runner.model,
        overhead=_counted(mapping, count) + 160 + count(library.longest_header),
        closing=_counted(closing, count),
        total=sum(tokens),
        left=_left(request, runner, options),
        measured=runner.known.measured,
        noted=options.record_tokens,
    )
    texts = (*(each.text for each in library.documents), *(each.content for each in request.messages))
    mark = "" if _trained(runner) else mark_for(texts)
    reads = Ledger(options.reading, runner.ledger, ("reading_calls", "reading_tokens"))
    puts_together = Ledger(options.answer, runner.ledger, ("answer_calls", "answer_tokens"))
    reading = DocumentRun(bare, runner, library, task, sizes, count, cache, options, reads, puts_together, mark)
    return reading.cut(sizes.chunk, share_of)


def _left(request: Request, runner: Runner, options: DocumentOptions) -> Mapping[str, float]:
    limits = runner.limits_left()
    bounds = {
        "requests": (limits.get("requests"), request.budget.max_calls, options.reading_calls),
        "tokens": (
            *(limits.get("tokens"), limits.get("input-tokens")),
            *(request.budget.max_tokens_total, options.reading_tokens),
        ),
    }
    known = {kind: [each for each in values if each is not None] for kind, values in bounds.items()}
    return {kind: min(values) for kind, values in known.items() if values}


def _trained(runner: Runner) -> bool:
    return runner.capabilities.prompt_family == POCKET


def _passage_messages(
    request: Request, target: PromptTarget, library: Library, template: str, *, task: Task, shown: Mapping[str, str]
) -> tuple[Message, ...]:
    system = (each for each in request.messages if each.role == "system")
    alone = request.model_copy(update={"messages": (*system, request.messages[-1])})
    conversation = _conversation(request.history, library.fence)
    return template_messages(
        alone, target, template, outline=library.outline(), task=task.instruction, conversation=conversation, **shown
    )


def _conversation(history: Sequence[Message], fence: str) -> str:
    """Return the end of the earlier conversation as shown to the reader of a passage."""
    text = "\n".join(f"{message.role}: {message.content}" for message in history)[-_CONVERSATION:]
    return f"{fence} the conversation so far\n{unfenced(text, fence)}\n{fence} end\n\n" if text else ""


def _counted(messages: Sequence[Message], count: Counter) -> int:
    return sum(count(message.content) + 8 for message in messages)


_WORD = re.compile(r"\S+")
_LOOKED_AT = 400  # words of a paragraph
_FEWEST = 12  # words from which a paragraph can be judged
_DENSE = 0.3  # share of words with digits from which it counts as dense
_SMALLER = 0.5


def share_of(paragraph: str) -> float:
    """Return the share of the usual size for a passage with this paragraph: half if it is full of figures.

    It depends only on the text, not on the question, so the next question about the document gets the same passages.
    """
    words = _WORD.findall(paragraph, 0, _LOOKED_AT * 12)[:_LOOKED_AT]
    if len(words) < _FEWEST:
        return 1.0
    figures = sum(any(character.isdigit() for character in word) for word in words)
    return _SMALLER if figures >= _DENSE * len(words) else 1.0
