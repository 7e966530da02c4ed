"""Loads an engine once, when it is first needed, and does other long work of a local backend in threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from stretto.backends.local.worker import Worker, outcome
from stretto.errors import BackendError
from stretto.foundation.ending_thread import is_exiting
from stretto.foundation.fork import Fork
from stretto.local_engine.model.loading_turn import look_again

if TYPE_CHECKING:
    from stretto.local_engine.serving.engine import Engine

__all__ = ["EngineLoader"]

T = TypeVar("T")


class EngineLoader:
    """Loads one engine, and does other long work in threads.

    There are two threads. One loads the model and makes long texts into tokens. The other one prepares requests, which
    may take much longer: it compiles grammars and hashes weights.
    """

    def __init__(self, name: str, load: Callable[[Callable[[], bool]], Engine]) -> None:
        self._name = name
        self._load = load
        self._lock = threading.Lock()
        self._fork = Fork()
        self._worker: Worker | None = None
        self._preparer: Worker | None = None
        self._loading: Future[Engine] | None = None
        self._closed = threading.Event()

    @property
    def engine(self) -> Engine | None:
        """The engine, if it is loaded."""
        loading = self._loading
        return loading.result() if loading is not None and loading.done() and loading.exception() is None else None

    async def ready(self) -> Engine:
        """Wait for the engine with its model loaded. Raises what the loading raised, or `BackendError`."""
        if self._fork.happened():
            raise BackendError(
                f"The backend {self._name} was made before a fork, and its threads stayed in the parent process. "
                "Start the process with the method 'spawn' (see multiprocessing), or load models in children only.",
                backend=self._name,
            )
        with self._lock:
            if self._closed.is_set():
                raise self._is_closed()
            self._worker = self._worker or Worker(f"stretto worker {self._name}")
            if self._loading is None or (self._loading.done() and self._loading.exception()):
                # A failed loading is tried again: the hub may be reachable now.
                self._loading = self._worker.submit(partial(self._load, self._is_given_up))
            loading = self._loading
        return loading.result() if loading.done() else await outcome(loading)

    async def in_worker(self, work: Callable[[], T]) -> T:
        """Do work in the thread that loads the model."""
        worker = self._worker
        return work() if worker is None else await asyncio.wrap_future(worker.submit(work))

    async def in_preparer(self, work: Callable[[], T]) -> T:
        """Do work in the thread that prepares requests. Raises `BackendError` if the backend is closed before."""

        def unless_closed() -> T:
            if self._closed.is_set():
                raise self._is_closed()
            return work()

        with self._lock:
            if self._closed.is_set():
                raise self._is_closed()
            self._preparer = self._preparer or Worker(f"stretto prepares {self._name}")
            preparer = self._preparer
        return await asyncio.wrap_future(preparer.submit(unless_closed))

    async def aclose(self) -> None:
        """End the engine and the threads. Idempotent; waits for a model that is being loaded."""
        if self._fork.happened():
            return
        with self._lock:
            self._closed.set()
            worker, self._worker = self._worker, None
            preparer, self._preparer = self._preparer, None
            loading, self._loading = self._loading, None
        if worker is None:
            return
        look_again()
        try:
            # In the worker, after the loading: joining the engine's thread here would hold up the event loop.
            await outcome(worker.submit(partial(_close, loading, preparer)))
        finally:
            worker.end()
        worker.close()

    def _is_given_up(self) -> bool:
        return self._closed.is_set() or is_exiting()

    def _is_closed(self) -> BackendError:
        return BackendError(f"The backend {self._name} is closed. Make a new one.", backend=self._name)


def _close(loading: Future[Engine] | None, preparer: Worker | None) -> None:
    if preparer is not None:
        preparer.close()  # callers that wait there see that the backend is closed
    if loading is not None and loading.exception() is None:
        loading.result().free()
