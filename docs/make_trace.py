"""Draw `docs/img/trace.svg`: one answer as OpenTelemetry records it, ``python docs/make_trace.py [FILE.json]``.

The spans are real: an answer of the embedded model under the OpenTelemetry SDK, kept in memory. They are put into the
form of Jaeger's API, which its page opens under "JSON File", and the picture is drawn from that (`trace_view.py`). With
a file's name, the JSON is written to it as well.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pictures import IMAGES, keep_record
from trace_view import draw

from stretto import Stretto

__all__ = ["jaeger", "record"]

PICTURE = IMAGES / "trace.svg"
QUESTION = "How do I look after a bicycle?"


def record(question: str = QUESTION) -> Sequence[ReadableSpan]:
    """Ask, and give the spans of the answer."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)
    with Stretto("local:pocket") as stretto:
        stretto.ask("Why is my house damp?", strategy="skeleton")  # loads the model
        kept.clear()
        stretto.ask(question, strategy="skeleton", seed=0, temperature=0)
    return kept.get_finished_spans()


def jaeger(spans: Sequence[ReadableSpan]) -> dict[str, Any]:
    """The spans of one trace in the form of Jaeger's API, from the earliest to the latest."""
    number = f"{spans[0].context.trace_id:032x}"
    found = [
        {
            "traceID": number,
            "spanID": f"{span.context.span_id:016x}",
            "operationName": span.name,
            "references": [{"refType": "CHILD_OF", "traceID": number, "spanID": f"{span.parent.span_id:016x}"}]
            if span.parent
            else [],
            "startTime": (span.start_time or 0) // 1000,
            "duration": ((span.end_time or 0) - (span.start_time or 0)) // 1000,
            "tags": _tags([*(span.attributes or {}).items(), *_about(span)]),
            "logs": [
                {
                    "timestamp": event.timestamp // 1000,
                    "fields": _tags([("event", event.name), *(event.attributes or {}).items()]),
                }
                for event in span.events
            ],
            "processID": "p1",
            "warnings": None,
        }
        for span in sorted(spans, key=lambda each: each.start_time or 0)
    ]
    processes = {"p1": {"serviceName": "stretto", "tags": []}}
    return {"data": [{"traceID": number, "spans": found, "processes": processes, "warnings": None}]}


def _about(span: ReadableSpan) -> Iterable[tuple[str, Any]]:
    """What Jaeger makes tags of, beside the attributes."""
    if span.instrumentation_scope is not None:
        yield "otel.scope.name", span.instrumentation_scope.name
        yield "otel.scope.version", span.instrumentation_scope.version
    yield "span.kind", span.kind.name.lower()
    if span.status.status_code is trace.StatusCode.ERROR:
        yield "error", True
        yield "otel.status_code", "ERROR"


def _tags(values: Iterable[tuple[str, Any]]) -> list[dict[str, Any]]:
    kinds = {bool: "bool", int: "int64", float: "float64"}
    return [
        {"key": key, "type": kinds[type(value)], "value": value}
        if type(value) in kinds
        else {"key": key, "type": "string", "value": value if isinstance(value, str) else json.dumps(value)}
        for key, value in values
    ]


if __name__ == "__main__":
    recorded = jaeger(record())
    PICTURE.write_text(draw(recorded["data"][0]), encoding="utf-8")
    keep_record("python docs/make_trace.py", {PICTURE.name: ["docs/trace_view.py"]})
    for name in sys.argv[1:]:
        Path(name).write_text(json.dumps(recorded, indent=1), encoding="utf-8")
    print(f"{len(recorded['data'][0]['spans'])} spans in {PICTURE.name}")
