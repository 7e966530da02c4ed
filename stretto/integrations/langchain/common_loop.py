"""One event loop for all calls of LangChain's chat models, for as long as the program runs.

The connections of such a model belong to the loop that has used them first, and it keeps them for its whole life. So
the loop must not end with the object that has asked.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from contextlib import suppress
from functools import partial
from typing import Any

from stretto.client.async_client import FORKED, AsyncStretto
from stretto.client.sync_client import Stretto
from stretto.foundation.background import BackgroundLoop
from stretto.values.errors import StrettoError

__all__ = ["InCommonLoop"]

_loops: dict[int, BackgroundLoop] = {}  # by process: a fork has no thread


class InCommonLoop(Stretto):
    """A client whose loop is shared with others, and outlives it."""

    def __init__(self, model: Any, **options: Any) -> None:
        self._stretto = AsyncStretto(model, **options)
        self._loop = _common_loop()
        self._finalizer = weakref.finalize(self, partial(_close, self._loop, self._stretto))

    def close(self) -> None:
        """End the answers under way and close the backends that were opened here; the loop stays. Idempotent."""
        self._finalizer()


def _common_loop() -> BackgroundLoop:
    if os.getpid() not in _loops:
        _loops[os.getpid()] = loop = BackgroundLoop(FORKED)
        atexit.register(loop.close)
    return _loops[os.getpid()]


def _close(loop: BackgroundLoop, client: AsyncStretto) -> None:
    """Close a client in its loop. The garbage collector may ask for it in any thread, that of the loop as well."""
    if loop.is_here:
        threading.Thread(target=partial(_close, loop, client), name="stretto closing").start()
        return
    with suppress(StrettoError):  # the loop has ended, or this is a fork
        loop.call(client.aclose)
