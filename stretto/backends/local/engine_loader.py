"""Loads an engine when it is first needed, and runs other long work of a local backend in threads."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from stretto.backends.local.loading_notice import loading_reported
from stretto.foundation.ending_thread import EndingThread, is_exiting
from stretto.foundation.threads import Fork, are_threads_green, work_into
from stretto.local_engine.model.loading.loading_turn import look_again
from stretto.values.errors import BackendError

if TYPE_CHECKING:
    from stretto.local_engine.serving.engine import Engine

_PATIENCE_S = 3.0  # how long closing waits for a model that is being loaded, and for one that is loaded:
_FREEING_S = 15.0

T = TypeVar("T")


class Worker:
    """A thread that ends with `close`, when this object is garbage-collected, or when the interpreter exits.

    Unlike the executors of `concurrent.futures`, it still accepts work while the interpreter exits, when an unclosed
    client is closed.
    """

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        end = partial(self._jobs.put, None)
        self._thread = EndingThread(partial(_work, self._jobs), end, name)
        self._thread.start()
        weakref.finalize(self, end).atexit = False

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run work after everything submitted before; at once in the calling thread if this thread has ended."""
        future: Future[T] = Future()
        job = partial(work_into, future, work)
        if self._thread.is_alive():
            self._jobs.put(job)
        else:
            job()
        return future

    def end(self) -> None:
        """Let the thread end after the submitted work."""
        self._thread.end()

    def close(self) -> None:
        """End the thread after the submitted work, and wait for it."""
        self.end()
        self._thread.join()


def _work(jobs: SimpleQueue[Callable[[], None] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # frees what it references before the next one comes


async def first_of(*futures: Future[Any]) -> None:
    """Wait until one of the futures is done. Cancelling the caller cancels none of them: others may wait for them."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def wake(_: Future[Any]) -> None:
        with suppress(RuntimeError):  # that event loop has ended, and nobody waits in it
            loop.call_soon_threadsafe(done.set)

    for future in futures:
        future.add_done_callback(wake)
    await done.wait()


class EngineLoader:
    """Loads one engine, and runs other long work in two threads.

    One thread loads the model and tokenizes long texts. The other prepares requests, which can take much longer: it
    compiles grammars and hashes weights.

    Attributes:
        shares: those of the backends that use it.
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
        self.shares: weakref.WeakSet[EngineShare] = weakref.WeakSet()

    @property
    def engine(self) -> Engine | None:
        """The engine, if it is loaded."""
        loading = self._loading
        return loading.result() if loading is not None and loading.done() and loading.exception() is None else None

    def _unable(self, message: str) -> BackendError:
        error = BackendError(message, backend=self._name)
        error.attempts = 0
        return error

    async def ready(self, left: Future[None]) -> Engine:
        """Wait for the engine with its model loaded, unless ``left`` is done first.

        Raises any error from loading, or `BackendError`.
        """
        if self._fork.happened():
            raise self._unable(
                f"The backend {self._name} was made before a fork, and its threads stayed in the parent process. "
                "Start the process with the method 'spawn' (see multiprocessing), or load models in children only."
            )
        if are_threads_green():
            raise self._unable(
                f"{self._name} cannot run in a program whose threads are greenlets, as after "
                "gevent.monkey.patch_all(): its threads wait for each other in compiled code. Run `stretto serve` in "
                "another process and ask that."
            )
        with self._lock:
            if self._closed.is_set():
                raise self._is_closed()
            self._worker = self._worker or Worker(f"stretto worker {self._name}")
            if self._loading is None or (self._loading.done() and self._loading.exception()):
                # A failed loading is retried: the hub may be reachable now.
                self._loading = Future()
                self._worker.submit(partial(self._load_for, self._loading))
            loading = self._loading
        if not loading.done():
            await first_of(loading, left)
            if left.done():
                raise self._is_closed()
        return loading.result()

    async def in_worker(self, work: Callable[[], T]) -> T:
        """Run work in the thread that loads the model."""
        worker = self._worker
        return work() if worker is None else await asyncio.wrap_future(worker.submit(work))

    async def in_preparer(self, work: Callable[[], T]) -> T:
        """Run work in the thread that prepares requests. Raises `BackendError` if the backend is closed before."""

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
        """Stop the engine and the threads. Idempotent.

        Waits a few seconds for a model that is being loaded. If that takes longer, for example because a disk hangs,
        the thread continues alone and frees what it has loaded.
        """
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
        # In the worker, after the loading: joining the engine's thread here would block the event loop.
        closing = worker.submit(partial(_close, loading, preparer))
        worker.end()
        patience = _PATIENCE_S if loading is not None and not loading.done() else _FREEING_S
        with anyio.move_on_after(0 if is_exiting() else patience):
            await first_of(closing)
            closing.result()
            worker.close()
            return
        with suppress(InvalidStateError):
            if loading is not None:
                loading.set_exception(self._is_closed())

    def _load_for(self, loading: Future[Engine]) -> None:
        """Load in the worker and set the result of the future, which may be done already."""
        if is_exiting():  # the worker has ended, and the exit would wait for the event loop in whose thread this runs
            with suppress(InvalidStateError):
                loading.set_exception(self._is_closed())
            return
        engine: Engine | None = None
        try:
            with loading_reported(self._name, wanted=any(share.progress for share in self.shares)):
                engine = self._load(self._is_given_up)
        except BaseException as error:  # noqa: BLE001 - raised to whoever waits for the future
            with suppress(InvalidStateError):
                loading.set_exception(error)
            return
        try:
            loading.set_result(engine)
        except InvalidStateError:
            engine.free()

    def _is_given_up(self) -> bool:
        return self._closed.is_set() or is_exiting()

    def _is_closed(self) -> BackendError:
        return BackendError(f"The backend {self._name} is closed. Make a new one.", backend=self._name)


class EngineShare:
    """One backend's share of an engine: backends with the same model and options share one model in memory.

    The first backend that needs the model loads it, and the last one to close frees it. Each can be used in its own
    event loops.

    Args:
        name: the model name as this backend spells it.
        identity: identifies the model's files and options.
        load: loads the engine; its argument returns whether loading was given up.
        progress: report on a terminal that the model is being loaded, if that takes long.
    """

    def __init__(
        self,
        name: str,
        identity: str,
        load: Callable[[Callable[[], bool]], Engine],
        *,
        progress: bool = True,
    ) -> None:
        self._name = name
        self.progress = progress
        self._identity = identity
        self._load = load
        self._loader: EngineLoader | None = None
        self._left: Future[None] = Future()

    @property
    def engine(self) -> Engine | None:
        """The engine, if it is loaded."""
        loader = self._loader
        return None if loader is None else loader.engine

    async def ready(self) -> Engine:
        """Wait for the engine with its model loaded. Raises any error from loading, or `BackendError`."""
        return await self._joined().ready(self._left)

    async def in_worker(self, work: Callable[[], T]) -> T:
        """Run work in the thread that loads the model."""
        return await self._joined().in_worker(work)

    async def in_preparer(self, work: Callable[[], T]) -> T:
        """Run work in the thread that prepares requests. Raises `BackendError` if the backend is closed before."""
        return await self._joined().in_preparer(work)

    def _joined(self) -> EngineLoader:
        key = f"{os.getpid()} {self._identity}"  # a forked process has none of the threads
        with _sharing:
            if self._left.done():
                raise BackendError(f"The backend {self._name} is closed. Make a new one.", backend=self._name)
            if self._loader is None:
                loader = _shared.get(key)
                if loader is None:
                    loader = _shared[key] = EngineLoader(self._name, self._load)
                loader.shares.add(self)
                self._loader = loader
            return self._loader

    async def aclose(self) -> None:
        """Leave the engine; the last to leave ends it and its threads, see `EngineLoader.aclose`. Idempotent."""
        with _sharing:
            with suppress(InvalidStateError):
                self._left.set_result(None)
            loader, self._loader = self._loader, None
            if loader is None:
                return
            loader.shares.discard(self)
            if loader.shares:
                return
            for key in [key for key, each in _shared.items() if each is loader]:
                del _shared[key]
        await loader.aclose()


_shared: weakref.WeakValueDictionary[str, EngineLoader] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def _close(loading: Future[Engine] | None, preparer: Worker | None) -> None:
    if preparer is not None:
        preparer.close()  # callers that wait there see that the backend is closed
    if loading is not None and loading.done() and loading.exception() is None:
        loading.result().free()
