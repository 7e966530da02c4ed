"""How fast the calls of a backend wrote beside how many others, as the first answers of this process showed.

A check measures that with probes. Without one, a server that computes everything on one machine shows it by its calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self
from weakref import ref

from stretto.backends.base import Backend, Chunk

FEWEST_TOKENS = 16
SHORTEST_S = 0.25  # of a stream that tells anything; scripted and cached answers come at once
_NEW = 0.5  # weight of the last call


@dataclass
class SeenSpeed:
    """Tokens a second of one stream, by the number of streams that ran beside it, itself included."""

    tokens_per_s: dict[int, float] = field(default_factory=dict)
    clock: Callable[[], float] = time.perf_counter
    _running: int = 0
    _stream_s: float = 0.0  # of all streams together
    _at: float = 0.0

    def begun(self) -> tuple[float, float]:
        """A stream has its first text. Returns the time, and the seconds that all streams have run so far."""
        self._advance()
        self._running += 1
        return self._at, self._stream_s

    def ended(self, begun: tuple[float, float], tokens: int | None) -> None:
        """A stream has ended with so many tokens; ``None`` where it was cut off, or did not tell them."""
        self._advance()
        self._running -= 1
        taken_s = self._at - begun[0]
        if tokens is None or tokens < FEWEST_TOKENS or taken_s < SHORTEST_S:
            return
        streams = max(1, round((self._stream_s - begun[1]) / taken_s))
        rate = (tokens - 1) / taken_s
        before = self.tokens_per_s.get(streams, rate)
        self.tokens_per_s[streams] = before + _NEW * (rate - before)

    def _advance(self) -> None:
        now = self.clock()
        self._stream_s += self._running * (now - self._at)
        self._at = now


class Timed:
    """Times one stream from its first text to its end."""

    def __init__(self, seen: SeenSpeed) -> None:
        self._seen = seen
        self._begun: tuple[float, float] | None = None
        self._tokens: int | None = None

    def __enter__(self) -> Self:
        """Nothing runs yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """The stream has ended, in any way."""
        if self._begun is not None:
            self._seen.ended(self._begun, self._tokens)

    def heard(self, chunk: Chunk) -> None:
        """Take a chunk of the stream."""
        if chunk.is_answer and self._begun is None:
            self._begun = self._seen.begun()
        if chunk.usage is not None and chunk.usage.completion_tokens:
            self._tokens = (self._tokens or 0) + chunk.usage.completion_tokens


_seen: dict[int, tuple[ref[Backend], SeenSpeed]] = {}


def seen_speed(backend: Backend) -> SeenSpeed:
    """The speed of a backend, one for all clients that use it."""
    key = id(backend)  # a backend of a caller may be no key itself
    found = _seen.get(key)
    if found is None or found[0]() is not backend:
        try:
            found = (ref(backend, lambda _: _seen.pop(key, None)), SeenSpeed())
        except TypeError:  # it takes no weak references
            return SeenSpeed()
        _seen[key] = found
    return found[1]


def rates(backend: Backend, checked: Mapping[int, float]) -> Mapping[int, float]:
    """Tokens a second of one stream by the number of streams: those seen, and those of the check for other numbers."""
    return {**checked, **seen_speed(backend).tokens_per_s}
