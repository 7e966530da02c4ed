"""Imports what the first answer needs without holding up the event loop."""

from __future__ import annotations

import importlib
import threading
from types import SimpleNamespace

import anyio.to_thread

from stretto.backends.base import Capabilities
from stretto.errors import DeadlineExceededError

_MODULES = ("stretto.strategies.assembly", "stretto.router", "opentelemetry.trace", "opentelemetry.metrics")
_NOBODY = SimpleNamespace(name="nobody", capabilities=Capabilities())  # what a router reads of a backend
_done: set[str] = set()
_turn = threading.Lock()


async def made_ready(deadline_s: float | None = None) -> None:
    """Import the strategies and the router, a quarter of a second, in a thread; at once where they are there.

    Raises `DeadlineExceededError` where that takes longer than the answer may; the thread goes on by itself.
    """
    if _done:
        return
    with anyio.move_on_after(deadline_s) as scope:
        await anyio.to_thread.run_sync(import_all, abandon_on_cancel=True)
    if scope.cancelled_caught:
        raise DeadlineExceededError(
            f"The deadline passed after {deadline_s:g} s, while the library was still being imported. "
            "Allow more with deadline_s."
        )


def import_all() -> None:
    """The same in this thread, with what a first route has to read and compile: the router's model, its expressions."""
    with _turn:
        if not _done:
            for name in _MODULES:
                importlib.import_module(name)
            importlib.import_module("stretto.prices.listed").load()
            request = importlib.import_module("stretto.request").Request.of("Name two reasons.")
            importlib.import_module("stretto.router").Router().decide(request, {"main": _NOBODY})
            _done.update(_MODULES)  # only now: a module is in sys.modules before its import has ended
