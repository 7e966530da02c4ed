"""What the loading of a model does now, and how long it took last time, for whoever waits for it. Imports no torch."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from stretto.local_engine.log import log_event

__all__ = ["doing", "step", "timed_loading"]

_KIND = "seconds"

_log = logging.getLogger(__name__)
_last_s: dict[str, float | None] = {}  # of models that are being loaded, by name
_now: dict[str, str] = {}


def doing(name: str = "") -> str:
    """What is done for a model that is being loaded, or for any: ``reading the weights (5 s last time)``.

    Empty where nothing is being loaded.
    """
    name = name or next(iter([*_now]), "")
    if (what := _now.get(name)) is None:
        return ""
    last_s = _last_s.get(name)
    return f"{what} ({'the first time' if last_s is None else f'{last_s:.0f} s last time'})"


def step(name: str, what: str, **fields: float | None) -> None:
    """Tell what is done for a model from now on; ``fields`` go into the log."""
    log_event(_log, logging.INFO, what, model=name, raised=None, **fields)
    if name in _now:
        _now[name] = what


@contextmanager
def timed_loading(name: str, key: str) -> Iterator[None]:
    """Tell meanwhile that a model is being loaded, and keep how long that took; ``key``: of its files."""
    from stretto.local_engine.model.loading.kept_data import remember  # noqa: PLC0415 - NumPy, which a program may never need

    began = time.monotonic()
    _last_s[name] = _seconds(key)
    _now[name] = "importing libraries"
    try:
        yield
        remember(_KIND, key, f"{time.monotonic() - began:.1f}".encode())
    finally:
        _now.pop(name, None)


def _seconds(key: str) -> float | None:
    """How long the last loading took."""
    from stretto.local_engine.model.loading.kept_data import recall  # noqa: PLC0415 - as above

    for data in recall(_KIND, key):
        with suppress(ValueError):
            return float(data)
    return None
