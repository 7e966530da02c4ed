"""OpenTelemetry spans and metrics: one trace per answer, with its route, branches and calls.

The names follow OpenTelemetry's conventions for generative AI, which are still in development, so all of them are in
this file. Nothing is recorded unless the program sets up the OpenTelemetry SDK; without it, the API does nothing. The
content of messages is recorded only if ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` is true.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from stretto.values.answer import Answer, Branch, Usage
from stretto.values.request import GenerationOptions, Message, Request
from stretto.values.route import Route

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram
    from opentelemetry.trace import Span, Tracer

    from stretto.observe.hooks import CallEnded

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
WORKFLOW = "gen_ai.workflow.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST = {
    "max_tokens": "gen_ai.request.max_tokens",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "seed": "gen_ai.request.seed",
    "stop": "gen_ai.request.stop_sequences",
}
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
USAGE = {
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - the name of an attribute
INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
ERROR = "error.type"
TOKENS_METRIC, SECONDS_METRIC = "gen_ai.client.token.usage", "gen_ai.client.operation.duration"
FIRST_CHUNK_METRIC = "gen_ai.client.operation.time_to_first_chunk"
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

# Attributes that the conventions do not define.
STRATEGY, SHAPE, REASON, CONFIDENCE = "stretto.strategy", "stretto.shape", "stretto.reason", "stretto.confidence"
BRANCH_ID, BRANCH_KIND, BRANCH_TITLE = "stretto.branch.id", "stretto.branch.kind", "stretto.branch.title"
WAITED, ATTEMPT, RETRIES, HEDGES = "stretto.waited_s", "stretto.attempt", "stretto.retries", "stretto.hedges"
COST, CALLS, WARNINGS, CANCELLED = "stretto.cost_usd", "stretto.calls", "stretto.warnings", "stretto.cancelled"
RETRY_EVENT = "stretto.retry"
ENGINE = {
    "prompt_tokens": USAGE["prompt_tokens"],
    "cached_tokens": USAGE["cached_tokens"],
    "batch": "stretto.engine.batch",
    "requests": "stretto.engine.requests",
    "steps": "stretto.engine.steps",
    "rows": "stretto.engine.rows",
    "tokens": "stretto.engine.tokens",
}


@cache
def _tracer() -> Tracer:
    from opentelemetry import trace  # noqa: PLC0415 - keeps `import stretto` light

    return trace.get_tracer("stretto", version("stretto"))


@cache
def _histogram(name: str, unit: str, description: str) -> Histogram:
    from opentelemetry import metrics  # noqa: PLC0415 - keeps `import stretto` light

    return metrics.get_meter("stretto", version("stretto")).create_histogram(name, unit, description)


@contextmanager
def request_span(request: Request) -> Iterator[Span]:
    """Open the span of a whole answer; `note_answer` adds what is known at its end."""
    attributes = {OPERATION: "invoke_workflow", WORKFLOW: "stretto", STRATEGY: request.strategy}
    with _recording("invoke_workflow stretto", attributes) as span:
        if span.is_recording() and _captures():
            span.set_attribute(INPUT, _messages(request.messages))
        yield span


def note_answer(span: Span, answer: Answer) -> None:
    """Record on the span of an answer how it ended and what it cost."""
    if not span.is_recording():
        return
    span.set_attributes(_usage(answer.usage) | {STRATEGY: answer.strategy or answer.route.strategy})
    span.set_attributes({FINISH_REASONS: [answer.finish_reason], WARNINGS: len(answer.warnings)})
    span.set_attribute(CALLS, answer.usage.calls)
    if answer.cost is not None:
        span.set_attribute(COST, answer.cost.usd)
    if answer.timeline.first_text_s is not None:
        span.set_attribute(FIRST_CHUNK, answer.timeline.first_text_s)
    if _captures():
        messages = [{"role": "assistant", "parts": [{"type": "text", "content": answer.text}]}]
        span.set_attribute(OUTPUT, json.dumps(messages, ensure_ascii=False))


def route_span() -> AbstractContextManager[Span]:
    """Open the span of a routing decision."""
    return _recording("stretto.route", {})


def note_route(span: Span, route: Route) -> None:
    """Record the decision."""
    if not span.is_recording():
        return
    span.set_attributes({STRATEGY: route.strategy, CONFIDENCE: route.confidence, REASON: route.reason})
    if route.shape is not None:
        span.set_attribute(SHAPE, route.shape)


def branch_span(branch_id: str, kind: str, title: str) -> AbstractContextManager[Span]:
    """Open the span of a branch, from the moment it is requested."""
    attributes = {BRANCH_ID: branch_id, BRANCH_KIND: kind}
    return _recording(f"stretto.branch {kind}", attributes | ({BRANCH_TITLE: title} if _captures() else {}))


def note_branch(span: Span, branch: Branch) -> None:
    """Record how a branch ended."""
    if not span.is_recording():
        return
    span.set_attributes(_usage(branch.usage) | {FINISH_REASONS: [branch.finish_reason]})
    if branch.span.started_s is not None:
        span.set_attribute(WAITED, branch.span.started_s - branch.span.needed_s)
    if branch.status == "failed":
        _failed(span, branch.finish_reason, branch.error or "")


@contextmanager
def call_span(model: str, options: GenerationOptions, attempt: int, messages: tuple[Message, ...]) -> Iterator[Span]:
    """Open the span of one generation of a backend, including its retries and hedges."""
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - keeps `import stretto` light

    provider, _, name = model.partition(":")
    options_given = {attribute: value for field, attribute in REQUEST.items() if (value := getattr(options, field))}
    attributes = {OPERATION: "chat", PROVIDER: provider, REQUEST_MODEL: name, ATTEMPT: attempt} | options_given
    with _recording(f"chat {name}", attributes, SpanKind.CLIENT) as span:
        if span.is_recording() and _captures():
            span.set_attribute(INPUT, _messages(messages))
        yield span


def note_call(span: Span, call: CallEnded) -> None:
    """Record how a generation ended, and count it in the metrics."""
    usage = call.usage
    provider, _, name = call.backend.partition(":")
    if span.is_recording():
        span.set_attributes(_usage(usage) | {RETRIES: usage.retries, HEDGES: usage.hedges})
        if call.first_text_s is not None:
            span.set_attribute(FIRST_CHUNK, call.first_text_s)
        if call.finish_reason is not None:
            span.set_attribute(FINISH_REASONS, [call.finish_reason])
        elif call.error is None:
            span.set_attribute(CANCELLED, value=True)  # by the caller, or because it was no longer needed
    about: dict[str, Any] = {OPERATION: "chat", PROVIDER: provider, REQUEST_MODEL: name}
    tokens = _histogram(TOKENS_METRIC, "{token}", "Tokens of a generation")
    tokens.record(usage.prompt_tokens, about | {TOKEN_TYPE: "input"})
    tokens.record(usage.completion_tokens, about | {TOKEN_TYPE: "output"})
    failed = {} if call.error is None else {ERROR: type(call.error).__name__}
    _histogram(SECONDS_METRIC, "s", "Duration of a generation").record(call.seconds, about | failed)
    if call.first_text_s is not None:
        _histogram(FIRST_CHUNK_METRIC, "s", "Time to the first text").record(call.first_text_s, about)


def note_retry(wait_s: float, attempt: int, error: Exception) -> None:
    """Record a retry on the span of the current call."""
    from opentelemetry import trace  # noqa: PLC0415 - keeps `import stretto` light

    about: dict[str, Any] = {ATTEMPT: attempt, "stretto.wait_s": wait_s, ERROR: type(error).__name__}
    trace.get_current_span().add_event(RETRY_EVENT, about)


@dataclass(frozen=True)
class EngineWork:
    """One part of the local engine's work for a call.

    Attributes:
        part: a wait in the queue, prefill, or steps in a batch with the same other requests.
        began_s: in seconds of `time.perf_counter`.
        ended_s: likewise.
        figures: numbers by their name in `ENGINE`.
    """

    part: Literal["queue", "prefill", "steps"]
    began_s: float
    ended_s: float
    figures: Mapping[str, int] = field(default_factory=dict)


def is_traced() -> bool:
    """Return whether the current call is recorded: only then does the engine keep records of its work."""
    from opentelemetry import trace  # noqa: PLC0415 - keeps `import stretto` light

    return trace.get_current_span().is_recording()


def note_engine(work: Iterable[EngineWork]) -> None:
    """Add a span for each part of the engine's work to the current call.

    They are added when the call ends: the engine's thread serves many calls and creates no spans.
    """
    epoch_ns = time.time_ns() - time.perf_counter_ns()
    for each in work:
        began, ended = (epoch_ns + round(seconds * 1e9) for seconds in (each.began_s, each.ended_s))
        figures = {ENGINE[name]: value for name, value in each.figures.items()}
        _tracer().start_span(f"stretto.engine.{each.part}", start_time=began, attributes=figures).end(ended)


@contextmanager
def _recording(name: str, attributes: Mapping[str, Any], kind: Any = None) -> Iterator[Span]:
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - keeps `import stretto` light

    with _tracer().start_as_current_span(
        name,
        kind=kind or SpanKind.INTERNAL,
        attributes=dict(attributes),
        record_exception=False,  # error messages can contain the question
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except Exception as error:
            _failed(span, type(error).__name__, "")
            raise


def _failed(span: Span, kind: str, message: str) -> None:
    from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - keeps `import stretto` light

    span.set_attribute(ERROR, kind)
    span.set_status(Status(StatusCode.ERROR, message if _captures() else None))


def _usage(usage: Usage) -> dict[str, int]:
    return {attribute: value for field, attribute in USAGE.items() if (value := getattr(usage, field))}


def _captures() -> bool:
    return os.environ.get(CAPTURE, "").strip().lower() in ("1", "true")


def _messages(messages: tuple[Message, ...]) -> str:
    messages_json = [{"role": each.role, "parts": [{"type": "text", "content": each.content}]} for each in messages]
    return json.dumps(messages_json, ensure_ascii=False)
