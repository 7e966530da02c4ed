"""Prometheus metrics, with vLLM's names for what vLLM counts too, so its dashboards work for Stretto as well."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from stretto.server.limits.admission_control import AdmissionControl
from stretto.values.answer import Answer

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0)
_STEPS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
_TOKENS = tuple(float(first * 10**power) for power in range(6) for first in (1, 2, 5))


class Metrics:
    """What one server has counted. ``model_name`` is a name from ``/v1/models``, so its cardinality is low.

    Attributes:
        registry: the metrics of this server.
        gather: returns the metrics of all servers instead, if several share one address.
    """

    def __init__(self, admission: AdmissionControl) -> None:
        self.gather: Callable[[], Awaitable[Collector]] | None = None
        self.registry = registry = CollectorRegistry()
        model = ["model_name"]

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, registry=registry)

        def counter(name: str, text: str, labels: list[str]) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, text, model, buckets=buckets, registry=registry)

        gauge("vllm:num_requests_running", "Answers being written.").set_function(lambda: admission.running)
        gauge("vllm:num_requests_waiting", "Requests waiting for their turn.").set_function(lambda: admission.waiting)
        self._prompt = counter("vllm:prompt_tokens", "Tokens read.", model)
        self._written = counter("vllm:generation_tokens", "Tokens generated.", model)
        self._success = counter("vllm:request_success", "Answers, by how they ended.", [*model, "finished_reason"])
        self._first = histogram("vllm:time_to_first_token_seconds", "From the request to its first text.", _SECONDS)
        self._total = histogram("vllm:e2e_request_latency_seconds", "From the request to its end.", _SECONDS)
        self._queue = histogram("vllm:request_queue_time_seconds", "Waiting for a turn.", _SECONDS)
        self._per_token = histogram("vllm:request_time_per_output_token_seconds", "Between two tokens.", _STEPS)
        self._prompts = histogram("vllm:request_prompt_tokens", "Tokens read for one answer.", _TOKENS)
        self._lengths = histogram("vllm:request_generation_tokens", "Tokens generated for one answer.", _TOKENS)
        self._routes = counter("stretto_answers", "Answers, by strategy and backend.", ["strategy", "backend"])
        self._branches = counter("stretto_branches", "Generations of answers, by kind.", ["kind", "status"])
        self._retries = counter("stretto_retries", "Calls that were sent again after a failure.", model)
        self._hedges = counter("stretto_hedges", "Calls that were sent twice because they were late.", model)
        self._discarded = counter("stretto_discarded_tokens", "Tokens that became part of no answer.", model)
        self._responses = counter("stretto_responses", "Responses, by path and status.", ["path", "status"])
        self._left = counter("stretto_clients_left", "Clients that left before the end of their answer.", model)

    def answered(self, model: str, answer: Answer, *, waited_s: float) -> None:
        usage, timeline = answer.usage, answer.timeline
        self._prompt.labels(model).inc(usage.prompt_tokens)
        self._written.labels(model).inc(usage.completion_tokens)
        self._success.labels(model, answer.finish_reason).inc()
        self._total.labels(model).observe(waited_s + timeline.total_s)
        self._queue.labels(model).observe(waited_s)
        if timeline.first_text_s is not None:
            self._first.labels(model).observe(waited_s + timeline.first_text_s)
            if usage.completion_tokens > 1:
                per_token = (timeline.total_s - timeline.first_text_s) / (usage.completion_tokens - 1)
                self._per_token.labels(model).observe(per_token)
        self._prompts.labels(model).observe(usage.prompt_tokens)
        self._lengths.labels(model).observe(usage.completion_tokens)
        self._routes.labels(answer.strategy, answer.route.backend).inc()
        for branch in answer.branches:
            self._branches.labels(branch.kind, branch.status).inc()
        self._retries.labels(model).inc(usage.retries)
        self._hedges.labels(model).inc(usage.hedges)
        self._discarded.labels(model).inc(usage.discarded_tokens)

    def responded(self, path: str, status: int) -> None:
        """Count a response; ``path`` is a route's, not one made up by a client."""
        self._responses.labels(path, str(status)).inc()

    def left(self, model: str) -> None:
        """Count a client that did not wait for its answer."""
        self._left.labels(model).inc()

    async def shown(self, headers: Mapping[str, str]) -> tuple[bytes, str]:
        """Return all metrics in the format that the headers ask for, and the content type."""
        encode, kind = choose_encoder(headers.get("accept", ""))
        return encode(await self.gather() if self.gather else self.registry), kind
