"""Progress of loading a model, and how long it took last time, for whoever waits for it. Imports no torch."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from stretto.local_engine.log import log_event

_KIND = "seconds"
_REPORTED_GB = 0.1  # minimum size of a model whose memory is reported

_log = logging.getLogger(__name__)


class Loading:
    """A model that is being loaded.

    Attributes:
        what: the current step.
        needs: memory that its weights take and that is free, in a few words, once known.
        last_s: how long it took last time.
        waited_s: time spent waiting for other models.
    """

    def __init__(self, last_s: float | None) -> None:
        self.what, self.needs, self.last_s, self.waited_s = "importing libraries", "", last_s, 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Report inside the context that it waits for other models; this time does not count."""
        before, self.what, began = self.what, "waiting for another model", time.monotonic()
        try:
            yield
        finally:
            self.waited_s += time.monotonic() - began
            self.what = before


_now: dict[str, Loading] = {}  # by name


def doing(name: str = "") -> str:
    """Return the current step of loading this model, or any.

    Such as ``reading the weights (takes 1.3 GB, 20 GB free; 5 s last time)``. Empty if nothing is being loaded.
    """
    name = name or next(iter([*_now]), "")
    if (now := _now.get(name)) is None:
        return ""
    last = "the first time" if now.last_s is None else f"{now.last_s:.0f} s last time"
    return f"{now.what} ({'; '.join(filter(None, (now.needs, last)))})"


def step(name: str, what: str, *, takes_gb: float | None = None, free_gb: float | None = None) -> None:
    """Report the next step of loading a model, with the memory that its weights take and that is free, if known."""
    now = _now.get(name)
    last_s = None if now is None else now.last_s
    log_event(_log, logging.INFO, what, model=name, raised=None, takes_gb=takes_gb, free_gb=free_gb, last_s=last_s)
    if now is not None:
        now.what = what
        if takes_gb is not None and takes_gb >= _REPORTED_GB and free_gb is not None:
            now.needs = f"takes {_short(takes_gb)}, {_short(free_gb)} free"


@contextmanager
def timed_loading(name: str, key: str) -> Iterator[Loading]:
    """Report inside the context that a model is being loaded, and store how long that took; ``key``: of its files."""
    from stretto.local_engine.model.loading.kept_data import remember  # noqa: PLC0415 - NumPy, which a program may never need

    began = time.monotonic()
    now = _now[name] = Loading(_seconds(key))
    try:
        yield now
        remember(_KIND, key, f"{time.monotonic() - began - now.waited_s:.1f}".encode())
    finally:
        if _now.get(name) is now:
            del _now[name]


def _short(gigabytes: float) -> str:
    return f"{gigabytes:.{0 if gigabytes >= 10 else 1}f} GB"


def _seconds(key: str) -> float | None:
    """Return how long the last loading took."""
    from stretto.local_engine.model.loading.kept_data import recall  # noqa: PLC0415 - as above

    for data in recall(_KIND, key):
        with suppress(ValueError):
            return float(data)
    return None
