"""Draw `docs/img/trace.svg`: one answer as OpenTelemetry records it, ``python docs/make_trace.py [FILE.json]``.

The spans are real: an answer of the embedded model under the OpenTelemetry SDK, kept in memory. With a file's name,
they are also written in the form that Jaeger's page reads ("JSON File" on its search page).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from stretto import Stretto

__all__ = ["draw", "jaeger", "record"]

PICTURE = Path(__file__).parent / "img" / "trace.svg"
QUESTION = "How do I look after a bicycle?"
WIDTH, NAMES, ROW = 920, 300, 22


def record(question: str = QUESTION) -> Sequence[ReadableSpan]:
    """Ask, and give the spans of the answer, parents before their children."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)
    with Stretto("local:pocket") as stretto:
        stretto.ask("What is tea?")  # loads the model
        kept.clear()
        stretto.ask(question, strategy="skeleton", seed=0, temperature=0)
    spans = kept.get_finished_spans()
    below: dict[int | None, list[ReadableSpan]] = {}
    for span in sorted(spans, key=lambda each: each.start_time or 0):
        below.setdefault(span.parent.span_id if span.parent else None, []).append(span)
    return _ordered(below, None)


def _ordered(below: dict[int | None, list[ReadableSpan]], parent: int | None) -> list[ReadableSpan]:
    return [each for span in below.get(parent, []) for each in (span, *_ordered(below, span.context.span_id))]


def draw(spans: Sequence[ReadableSpan]) -> str:
    """The spans as rows, each below its parent."""
    began, ended = min(span.start_time or 0 for span in spans), max(span.end_time or 0 for span in spans)
    depth: dict[int, int] = {}
    rows = []
    for number, span in enumerate(spans):
        depth[span.context.span_id] = deep = depth.get(span.parent.span_id, 0) + 1 if span.parent else 0
        x, until = ((at - began) / (ended - began) * (WIDTH - NAMES - 70) for at in (span.start_time, span.end_time))
        y, wide = 8 + number * ROW, max(2.0, until - x)
        colour = "#0969da" if span.name.startswith("chat") else "#8250df" if deep == 0 else "#1a7f37"
        seconds = ((span.end_time or 0) - (span.start_time or 0)) / 1e9
        rows.append(f'<text x="{4 + 16 * deep}" y="{y + 13}" class="name">{escape(span.name)}</text>')
        rows.append(f'<rect x="{NAMES + x:.1f}" y="{y + 3}" width="{wide:.1f}" height="12" rx="2" fill="{colour}"/>')
        rows.append(f'<text x="{WIDTH - 4}" y="{y + 13}" text-anchor="end" class="time">{seconds:.3f} s</text>')
    height = 16 + ROW * len(spans)
    style = "text{font:12px system-ui,sans-serif}.name{fill:#1f2328}.time{fill:#59636e}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>{"".join(rows)}</svg>\n'
    )


def jaeger(spans: Sequence[ReadableSpan]) -> str:
    """The spans as the JSON that Jaeger's page reads and writes."""
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
            "tags": [
                {"key": key, "type": "string", "value": str(value)} for key, value in (span.attributes or {}).items()
            ],
            "logs": [],
            "processID": "p1",
        }
        for span in spans
    ]
    processes = {"p1": {"serviceName": "stretto", "tags": []}}
    return json.dumps({"data": [{"traceID": number, "spans": found, "processes": processes}]}, indent=1)


if __name__ == "__main__":
    recorded = record()
    PICTURE.write_text(draw(recorded), encoding="utf-8")
    for name in sys.argv[1:]:
        Path(name).write_text(jaeger(recorded), encoding="utf-8")
    print(f"{len(recorded)} spans in {PICTURE.name}")
