"""Imports for the first answer that do not block the event loop."""

from __future__ import annotations

import importlib
import threading
from functools import partial
from types import SimpleNamespace

import anyio

from stretto.backends.base import Capabilities
from stretto.foundation.threads import in_own_thread
from stretto.values.errors import DeadlineExceededError

_MODULES = ("stretto.strategies.runtime.assembly", "stretto.router", "opentelemetry.trace", "opentelemetry.metrics")
_NOBODY = SimpleNamespace(name="local:nobody", capabilities=Capabilities())  # the part of a backend that routers read
_READY, _PRICES = "ready", "prices"
_done: set[str] = set()
_turn = threading.Lock()


async def ensure_imported(deadline_s: float | None = None, *, prices: bool) -> None:
    """Import the strategies and the router in a thread, which takes 0.25 s; return at once if already imported.

    ``prices``: also import the list prices, 0.33 s more; models in this process and on private servers have none.

    Raises `DeadlineExceededError` if that exceeds the answer's deadline; the thread continues in the background.
    """
    if _READY in _done and (_PRICES in _done or not prices):
        return
    with anyio.move_on_after(deadline_s) as scope:
        await in_own_thread(partial(import_all, prices=prices), "stretto imports")
    if scope.cancelled_caught:
        raise DeadlineExceededError(
            f"The deadline passed after {deadline_s:g} s, while the library was still being imported. "
            "Allow more with deadline_s."
        )


def import_all(*, prices: bool = True) -> None:
    """Import them in this thread, and load what the first route needs: the router's model and regular expressions."""
    with _turn:
        if _READY not in _done:
            for name in _MODULES:
                importlib.import_module(name)
            request = importlib.import_module("stretto.values.request").Request.of("Name two reasons.")
            importlib.import_module("stretto.router").Router().decide(request, {"main": _NOBODY}).settled()
            _done.add(_READY)  # only now, because a module is in sys.modules before its import has finished
        if prices and _PRICES not in _done:
            importlib.import_module("stretto.prices.listed").load()
            _done.add(_PRICES)
