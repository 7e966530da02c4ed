"""Tells traces what the engine did for a call: it waited, its prompt was read, its steps ran beside those of others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from stretto.observe.telemetry import EngineWork, note_engine

if TYPE_CHECKING:
    from stretto.local_engine.serving.handle import Handle

__all__ = ["tell_traces"]


def tell_traces(handle: Handle) -> None:
    """Add the spans of the engine to the call under way; for a watched request that has ended."""
    at, now = handle.stages.get, time.perf_counter()
    submitted, admitted, first = at("submitted"), at("admitted"), at("first_token")
    work = []
    if submitted is not None:
        work.append(EngineWork("queue", submitted, admitted or now))
    if admitted is not None:
        prompt, cached = len(handle.sequence.request.prompt), handle.sequence.cached
        figures = {"prompt_tokens": prompt, "cached_tokens": cached}
        work.append(EngineWork("prefill", admitted, first or now, figures))
    for batch in handle.batches or ():
        figures = {
            "batch": batch.number,
            "requests": batch.requests,
            "steps": batch.steps,
            "rows": batch.rows,
            "tokens": batch.tokens,
        }
        work.append(EngineWork("steps", batch.began_s, batch.ended_s, figures))
    note_engine(work)
