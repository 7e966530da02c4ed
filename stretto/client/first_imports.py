"""Imports what the first answer needs without holding up the event loop."""

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
_NOBODY = SimpleNamespace(name="local:nobody", capabilities=Capabilities())  # what a router reads of a backend
_READY, _PRICES = "ready", "prices"
_done: set[str] = set()
_turn = threading.Lock()


async def ensure_imported(deadline_s: float | None = None, *, prices: bool) -> None:
    """Import the strategies and the router, a quarter of a second, in a thread; at once where they are there.

    ``prices``: also the list prices, a third of a second more; models in this process and on own servers have none.

    Raises `DeadlineExceededError` where that takes longer than the answer may; the thread goes on by itself.
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
    """The same in this thread, with what a first route has to read and compile: the router's model, its expressions."""
    with _turn:
        if _READY not in _done:
            for name in _MODULES:
                importlib.import_module(name)
            request = importlib.import_module("stretto.values.request").Request.of("Name two reasons.")
            importlib.import_module("stretto.router").Router().decide(request, {"main": _NOBODY}).settled()
            _done.add(_READY)  # only now: a module is in sys.modules before its import has ended
        if prices and _PRICES not in _done:
            importlib.import_module("stretto.prices.listed").load()
            _done.add(_PRICES)
