"""What OpenTelemetry records of an answer, by the real SDK."""

import anyio
import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from patience import patience

from stretto import AsyncStretto, ServerFailedError
from stretto.backends.resilience.resilient import Resilience, resilient
from stretto.observe.telemetry import CAPTURE, is_traced
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio

QUESTION = "Where is the treasure buried?"
SKELETON = {"Write only the outline": "1. Tyres\n2. Chain", "Tyres": "Pump them.", "Chain": "Oil it.", "": "Yes."}


@pytest.fixture(scope="module")
def recorded():
    """The process has one provider; here it keeps what it is given."""
    spans, counted = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([counted]))
    yield spans, counted
    provider.shutdown()


@pytest.fixture
def spans(recorded):
    recorded[0].clear()
    return recorded[0]


def by_name(spans):
    return {span.name: span for span in spans.get_finished_spans()}


async def ask(backend, question=QUESTION, **options):
    async with AsyncStretto(backend) as stretto:
        return await stretto.ask(question, **options)


async def test_an_answer_is_one_trace_with_its_route_branches_and_calls(spans):
    answer = await ask(ScriptedBackend(SKELETON), strategy="skeleton", strategy_options={"form": "points"})
    found = spans.get_finished_spans()
    [request] = [span for span in found if span.parent is None]
    assert {span.context.trace_id for span in found} == {request.context.trace_id}
    names = {span.context.span_id: span.name for span in found}
    parents = sorted((span.name, names[span.parent.span_id]) for span in found if span.parent)
    assert parents == [
        ("chat model", "stretto.branch outline"),
        ("chat model", "stretto.branch section"),
        ("chat model", "stretto.branch section"),
        ("stretto.branch outline", "invoke_workflow stretto"),
        ("stretto.branch section", "invoke_workflow stretto"),
        ("stretto.branch section", "invoke_workflow stretto"),
        ("stretto.route", "invoke_workflow stretto"),
    ]
    assert request.attributes["gen_ai.usage.output_tokens"] == answer.usage.completion_tokens
    assert request.attributes["stretto.strategy"] == "skeleton"
    assert request.attributes["gen_ai.response.finish_reasons"] == ("stop",)


async def test_a_call_is_named_by_the_conventions(spans):
    await ask(ScriptedBackend({"": "Yes."}), strategy="direct", temperature=0.5, max_tokens=9, stop="x")
    call = by_name(spans)["chat model"]
    assert call.kind is trace.SpanKind.CLIENT
    assert dict(call.attributes) | {"gen_ai.response.time_to_first_chunk": 0} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "model",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.request.stop_sequences": ("x",),
        "gen_ai.usage.input_tokens": call.attributes["gen_ai.usage.input_tokens"],
        "gen_ai.usage.output_tokens": call.attributes["gen_ai.usage.output_tokens"],
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 0,
        "stretto.attempt": 1,
        "stretto.retries": 0,
        "stretto.hedges": 0,
    }


@pytest.mark.parametrize("captured", [False, True])
async def test_words_are_recorded_only_where_they_are_asked_for(spans, monkeypatch, captured):
    if captured:
        monkeypatch.setenv(CAPTURE, "true")
    script = SKELETON | {"Tyres": Reply(fault=ServerFailedError("secret words of an error"))}
    await ask(ScriptedBackend(script), strategy="skeleton", strategy_options={"form": "points"})
    told = "".join(span.to_json() for span in spans.get_finished_spans())
    for words in ("treasure", "Oil it.", "Chain", "secret words of an error"):
        assert (words in told) == captured


async def test_a_failed_branch_and_its_calls_are_errors(spans):
    script = SKELETON | {"Tyres": Reply(fault=ServerFailedError("overloaded"))}
    answer = await ask(ScriptedBackend(script), strategy="skeleton", strategy_options={"form": "points"})
    failed = [span for span in spans.get_finished_spans() if span.status.status_code is trace.StatusCode.ERROR]
    assert {span.name for span in failed} == {"chat model", "stretto.branch section"}
    assert {span.attributes["error.type"] for span in failed if span.name == "chat model"} == {"ServerFailedError"}
    branches = {span.attributes["stretto.branch.id"] for span in failed if "branch" in span.name}
    assert branches == {branch.id for branch in answer.branches if branch.status == "failed"}
    assert by_name(spans)["invoke_workflow stretto"].status.is_unset


async def test_a_retry_is_an_event_of_its_call(spans):
    backend = ScriptedBackend({"": [Reply(fault=ServerFailedError("overloaded")), Reply("Yes.")]})
    await ask(resilient(backend, Resilience(attempts=3, first_wait_s=0.001)), strategy="direct")
    call = by_name(spans)["chat model"]
    assert [(event.name, event.attributes["error.type"]) for event in call.events] == [
        ("stretto.retry", "ServerFailedError")
    ]
    assert call.attributes["stretto.retries"] == 1


async def test_a_request_that_fails_ends_its_span_with_the_error(spans):
    with pytest.raises(ServerFailedError):
        await ask(ScriptedBackend({"": Reply(fault=ServerFailedError("down"))}), strategy="direct")
    assert by_name(spans)["invoke_workflow stretto"].attributes["error.type"] == "ServerFailedError"


async def test_a_cancelled_answer_ends_all_its_spans(spans):
    backend = ScriptedBackend({"": Reply("late", hold=anyio.Event())})
    async with AsyncStretto(backend) as stretto, anyio.create_task_group() as tasks:
        tasks.start_soon(stretto.ask, "Why?")
        with anyio.fail_after(patience(30)):
            while not backend.calls:
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    found = by_name(spans)
    assert found["chat model"].attributes["stretto.cancelled"] is True
    assert "invoke_workflow stretto" in found


async def test_two_answers_at_once_are_two_traces(spans):
    async with AsyncStretto(ScriptedBackend(SKELETON)) as stretto, anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(lambda: stretto.ask(QUESTION, strategy="skeleton", strategy_options={"form": "points"}))
    traces = [span.context.trace_id for span in spans.get_finished_spans()]
    assert len(set(traces)) == 2
    assert [traces.count(each) for each in set(traces)] == [8, 8]


async def test_a_span_of_the_caller_is_the_parent(spans):
    with trace.get_tracer("mine").start_as_current_span("my handler"):
        await ask(ScriptedBackend({"": "Yes."}), strategy="direct")
    found = by_name(spans)
    assert found["invoke_workflow stretto"].parent.span_id == found["my handler"].context.span_id


async def test_tokens_and_seconds_are_counted(recorded):
    await ask(ScriptedBackend({"": "Yes."}), strategy="direct")
    data = recorded[1].get_metrics_data()
    names = {metric.name for each in data.resource_metrics for scope in each.scope_metrics for metric in scope.metrics}
    assert {"gen_ai.client.token.usage", "gen_ai.client.operation.duration"} <= names


@pytest.mark.thorough
async def test_the_steps_of_the_local_engine_are_spans_of_its_calls(spans):
    answer = await ask(
        "local:pocket", "How do I look after a bicycle?", strategy="skeleton", strategy_options={"form": "points"}
    )
    found = spans.get_finished_spans()
    calls = {span.context.span_id: span for span in found if span.name == "chat pocket"}
    below = {number: [span for span in found if span.parent and span.parent.span_id == number] for number in calls}
    assert len(calls) == answer.usage.calls
    shared = {}
    for number, call in calls.items():
        queue, prefill, *steps = sorted(below[number], key=lambda span: span.start_time)
        assert [queue.name, prefill.name] == ["stretto.engine.queue", "stretto.engine.prefill"]
        assert {span.name for span in steps} == {"stretto.engine.steps"}
        assert prefill.attributes["gen_ai.usage.input_tokens"] == call.attributes["gen_ai.usage.input_tokens"]
        assert sum(span.attributes["stretto.engine.tokens"] for span in steps) >= (
            call.attributes["gen_ai.usage.output_tokens"] - 1  # the first comes with the prompt; drafts may go too far
        )
        for span in steps:
            assert span.attributes["stretto.engine.rows"] >= span.attributes["stretto.engine.steps"] >= 1
            shared.setdefault(span.attributes["stretto.engine.batch"], []).append(span)
        ends = [span.end_time for span in (queue, prefill, *steps)]
        assert ends == sorted(ends)
    together = [each for each in shared.values() if len(each) > 1]
    assert together, "the points of an answer run in one batch"
    for each in shared.values():
        assert len({span.attributes["stretto.engine.requests"] for span in each}) == 1
        assert len(each) <= each[0].attributes["stretto.engine.requests"]


@pytest.mark.thorough
async def test_a_call_that_is_not_sampled_is_not_watched(spans):
    unsampled = trace.SpanContext(trace_id=1, span_id=1, is_remote=True, trace_flags=trace.TraceFlags(0))
    with trace.use_span(trace.NonRecordingSpan(unsampled)):
        assert not is_traced()
        await ask("local:pocket", "What is tea?")
    assert spans.get_finished_spans() == ()


@pytest.mark.thorough
async def test_a_cancelled_call_has_the_spans_of_what_was_done(spans):
    async with AsyncStretto("local:pocket") as stretto, stretto.stream(QUESTION, strategy="direct") as events:
        async for event in events:
            if event.type == "text_delta":
                break
    found = by_name(spans)
    assert {"stretto.engine.queue", "stretto.engine.prefill"} <= found.keys()
    assert found["stretto.engine.prefill"].parent.span_id == found["chat pocket"].context.span_id
