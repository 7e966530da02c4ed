"""Report of what the requests to local models in this process wait for. Imports no torch."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple
from weakref import ref

if TYPE_CHECKING:
    from stretto.local_engine.serving.thread import EngineThread

_REPORTED_S = 2.0  # minimum wait before it is reported


class Wait(NamedTuple):
    """What a request waits for.

    Attributes:
        since_s: since when, by `time.perf_counter`.
        what: description in a few words.
    """

    since_s: float
    what: str


_engines: list[tuple[str, ref[EngineThread]]] = []  # with the names of their models; engines can share a name
_lock = threading.Lock()


def report_waits_of(name: str, engine: EngineThread) -> None:
    """Include an engine in `waiting_for` as long as it exists."""
    with _lock:
        _engines[:] = [each for each in _engines if each[1]() is not None] + [(name, ref(engine))]


def waiting_for(name: str = "") -> str:
    """Return what requests to a model, or to any, wait for, such as ``reading the prompt, 512 of 1,000 tokens``.

    Empty if none has waited for two seconds.
    """
    with _lock:
        engines = [engine() for of, engine in _engines if not name or of == name]
    waits = [wait for each in engines if each is not None and (wait := each.waits()) is not None]
    return next((wait.what for wait in waits if time.perf_counter() - wait.since_s >= _REPORTED_S), "")
