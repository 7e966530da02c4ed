"""The picture of a trace: from the spans of OpenTelemetry's SDK to Jaeger's form, and from that to a drawing."""

import importlib
import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode

DOCS = Path(__file__).parents[2] / "docs"
MS = 10**6
BEGAN = 10**18


@pytest.fixture
def traced(monkeypatch):
    """A trace in the form of Jaeger's API."""
    monkeypatch.syspath_prepend(DOCS)
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("stretto")
    answer = tracer.start_span("answer <b>", start_time=BEGAN)
    for number, length_ms in enumerate((3, 9, 5)):
        start = BEGAN + (number + 1) * MS
        branch = tracer.start_span("branch", trace.set_span_in_context(answer), start_time=start)
        attributes = {"stretto.engine.requests": length_ms, "on": ("a",)}
        steps = tracer.start_span(
            "steps", trace.set_span_in_context(branch), attributes=attributes, start_time=start + 1000
        )
        steps.add_event("retry", {"wait": 0.5})
        steps.set_status(Status(StatusCode.ERROR))
        steps.end(start + length_ms * MS)
        branch.end(start + length_ms * MS)
    answer.end(BEGAN + 20 * MS)
    return importlib.import_module("make_trace").jaeger(kept.get_finished_spans())


def texts(drawn):
    return ["".join(each.itertext()) for each in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314 - our own


def test_spans_are_in_the_form_of_the_api(traced):
    [recorded] = json.loads(json.dumps(traced))["data"]
    answer, branch, steps, *_ = recorded["spans"]
    assert [each["operationName"] for each in (answer, branch, steps)] == ["answer <b>", "branch", "steps"]
    assert answer["references"] == []
    assert steps["references"] == [{"refType": "CHILD_OF", "traceID": recorded["traceID"], "spanID": branch["spanID"]}]
    assert (branch["startTime"], branch["duration"]) == ((BEGAN + MS) // 1000, 3_000)
    tags = {tag["key"]: (tag["type"], tag["value"]) for tag in steps["tags"]}
    assert tags["stretto.engine.requests"] == ("int64", 3)
    assert tags["on"] == ("string", '["a"]')
    assert tags["error"] == ("bool", True)
    assert [field["value"] for field in steps["logs"][0]["fields"]] == ["retry", 0.5]


def test_the_longest_branch_is_unfolded_and_the_fullest_span_open(traced):
    drawn = texts(importlib.import_module("trace_view").draw(traced["data"][0]))
    heading, tree = drawn[0], [text for text in drawn if re.match(r"(\d+ )?stretto(answer|branch|steps)", text)]
    assert heading.startswith("stretto: answer <b>")
    assert tree == ["strettoanswer <b>", "1 strettobranch", "strettobranch", "strettosteps!", "1 strettobranch"]
    assert drawn[drawn.index("stretto.engine.requests") + 1] == "9"
    assert "9ms" in drawn
