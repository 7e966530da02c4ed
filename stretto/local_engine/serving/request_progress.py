"""What the requests of local models in this process wait for, for whoever waits for them. Imports no torch."""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol
from weakref import WeakValueDictionary

__all__ = ["Wait", "tell_waits_of", "waiting_for"]

_TOLD_S = 2.0  # that one waits at least before it is told


class Wait(NamedTuple):
    """What is waited for.

    Attributes:
        since_s: by `time.perf_counter`.
        what: in a few words.
    """

    since_s: float
    what: str


class _Engine(Protocol):
    def waits(self) -> Wait | None:
        """What its requests wait for, if that is known."""
        ...


_engines: WeakValueDictionary[str, _Engine] = WeakValueDictionary()  # by the names of their models


def tell_waits_of(name: str, engine: _Engine) -> None:
    """Let `waiting_for` ask an engine as long as there is one."""
    _engines[name] = engine


def waiting_for(name: str = "") -> str:
    """What requests of a model, or of any, wait for, such as ``reading the prompt, 512 of 1,000 tokens``.

    Empty where none has waited for two seconds.
    """
    engines = [*_engines.values()] if not name else [_engines.get(name)]
    waits = [wait for each in engines if each is not None and (wait := each.waits()) is not None]
    return next((wait.what for wait in waits if time.perf_counter() - wait.since_s >= _TOLD_S), "")
