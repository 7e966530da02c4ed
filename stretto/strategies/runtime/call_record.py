"""Record one call while it runs, for the hooks of the client and for traces."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from stretto.backends.base import Chunk, ModelRequest
from stretto.observe.hooks import CallEnded, watchers
from stretto.observe.telemetry import call_span, note_call
from stretto.strategies.runtime.branch_spec import BranchSpec
from stretto.values.answer import FinishReason, Usage


@dataclass
class CallRecord:
    """One call of a branch."""

    backend: str
    spec: BranchSpec
    attempt: int
    usage: Usage = field(default_factory=Usage)
    first_text_s: float | None = None
    finish_reason: FinishReason | None = None
    _began: float = field(default_factory=time.perf_counter)

    def add(self, chunk: Chunk) -> None:
        if chunk.usage:
            self.usage += chunk.usage
        if chunk.is_answer and self.first_text_s is None:
            self.first_text_s = time.perf_counter() - self._began

    def ended(self, error: Exception | None = None) -> CallEnded:
        usage = getattr(error, "usage", None)
        return CallEnded(
            backend=self.backend,
            branch_id=self.spec.id,
            kind=self.spec.kind,
            attempt=self.attempt,
            seconds=time.perf_counter() - self._began,
            first_text_s=self.first_text_s,
            usage=self.usage + usage if isinstance(usage, Usage) else self.usage,
            finish_reason=self.finish_reason,
            error=error,
        )


@contextmanager
def recorded(backend: str, spec: BranchSpec, attempt: int, prompt: ModelRequest) -> Iterator[CallRecord]:
    """Record a call; report its end to hooks and traces: a finish reason, an error, or neither if cancelled."""
    record = CallRecord(backend, spec, attempt)
    failure: Exception | None = None
    with call_span(backend, spec.options, attempt, prompt.messages) as span:
        try:
            yield record
        except Exception as error:
            failure = error
            raise
        finally:
            call = record.ended(failure)
            note_call(span, call)
            watchers().call_ended(call)
