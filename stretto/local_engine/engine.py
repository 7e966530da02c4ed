"""The engine: a thread that gathers waiting requests, runs them as a batch and hands out their text."""

from __future__ import annotations

import atexit
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from stretto.errors import BackendError, ContextOverflowError, InvalidRequestError, RequestRejectedError, StrettoError
from stretto.local_engine.generation import Finished, Generation, Piece
from stretto.local_engine.load import LoadedModel
from stretto.local_engine.loop import Batch
from stretto.local_engine.sequence import Sequence

__all__ = ["Engine", "Handle", "Listener"]

Listener = Callable[[Piece | Finished], None]

_QUIET_S = 0.002
_GATHER_S = 1.0


class Handle:
    """One submitted request.

    Iterate for its pieces and, last, its `Finished`; unless `Engine.submit` was given a listener.
    """

    def __init__(self, engine: Engine, sequence: Sequence, listener: Listener | None) -> None:
        self.sequence = sequence
        self.cancelled = False
        self.finished = False
        self._engine = engine
        self._queue: queue.SimpleQueue[Piece | Finished] = queue.SimpleQueue()
        self._tell: Listener = listener or self._queue.put

    def __iter__(self) -> Iterator[Piece | Finished]:
        while True:
            event = self._queue.get()
            yield event
            if isinstance(event, Finished):
                return

    def cancel(self) -> None:
        """Ask the engine to let go of it: at once while it waits, before the next forward while it runs.

        Its `Finished` still arrives, in this call or from the engine's thread. Safe from any thread, and
        without effect on a finished request.
        """
        self._engine.cancel(self)

    def tell(self, event: Piece | Finished) -> None:
        """Hand an event to the listener; from the engine only."""
        self.finished = isinstance(event, Finished)
        try:
            self._tell(event)
        except Exception:  # noqa: BLE001 - a listener whose event loop is gone must not harm the other requests
            self.cancelled = True


class Engine:
    """Runs one model in one thread.

    Requests that wait when the engine is idle run as one batch; those that come meanwhile wait for the next
    one. A failure ends the requests concerned, each with one error, and the engine goes on.

    Args:
        model: what to run; see `stretto.local_engine.load.load_model`.
        max_batch: requests in one batch at most.
        prefill_rows: prompt tokens of each request read in one forward at most; a request can be cancelled
            between two forwards.
        threads: of torch, inside the engine's thread; by default what the model's size is worth.
    """

    def __init__(
        self, model: LoadedModel, *, max_batch: int = 16, prefill_rows: int = 512, threads: int | None = None
    ) -> None:
        self.model = model
        self._max_batch = max_batch
        self._prefill_rows = prefill_rows
        self._threads = threads or model.threads
        self._changed = threading.Condition()
        self._waiting: deque[Handle] = deque()
        self._coming = 0
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name=f"stretto engine {model.name}", daemon=True)
        self._thread.start()
        atexit.register(self.close)  # a thread still inside torch when the interpreter goes would abort the process

    @contextmanager
    def announced(self) -> Iterator[None]:
        """Say that a request is on its way, so that a batch about to start waits for it a moment."""
        with self._changed:
            self._coming += 1
        try:
            yield
        finally:
            with self._changed:
                self._coming -= 1
                self._changed.notify_all()

    def submit(self, request: Generation, listener: Listener | None = None) -> Handle:
        """Queue a request. Safe from any thread; never waits for the model.

        ``listener`` is called from the engine's thread with each piece and, last, with the `Finished`; it must
        return at once. Raises `ContextOverflowError`, `RequestRejectedError`, `InvalidRequestError`, or
        `BackendError` when the engine is closed.
        """
        self._check(request)
        handle = Handle(self, Sequence(request, self.model.decode), listener)
        with self._changed:
            if self._closed:
                raise BackendError(
                    f"The engine of {self.model.name} is closed. Make a new one.", backend=self.model.name
                )
            self._waiting.append(handle)
            self._changed.notify_all()
        return handle

    def cancel(self, handle: Handle) -> None:
        """See `Handle.cancel`."""
        with self._changed:
            handle.cancelled = True
            if handle not in self._waiting:
                return
            self._waiting.remove(handle)
        handle.tell(handle.sequence.finish("cancelled"))

    def close(self) -> None:
        """End every request with the reason ``cancelled`` and the thread with it. Idempotent; waits for the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        atexit.unregister(self.close)

    def _check(self, request: Generation) -> None:
        name, window = self.model.name, self.model.context_window
        length, wanted = len(request.prompt), request.max_new_tokens
        if not request.prompt:
            raise InvalidRequestError("The prompt has no tokens. Give at least one.")
        if wanted < 1:
            raise InvalidRequestError(f"max_new_tokens={wanted} cannot be used: at least 1 is needed.")
        if length >= window:
            raise ContextOverflowError(
                f"The prompt has {length} tokens, and the context window of {name} holds {window} with the answer. "
                "Shorten it, or use a model with a longer window.",
                backend=name,
            )
        if length + wanted > window:
            raise RequestRejectedError(
                f"The prompt's {length} tokens and max_tokens={wanted} exceed the context window of {name}, {window}. "
                f"Ask for at most {window - length}.",
                backend=name,
            )
        if length + wanted > self.model.cache_tokens:
            raise RequestRejectedError(
                f"The prompt's {length} tokens and max_tokens={wanted} need more memory than {self.model.device} has: "
                f"it can hold {self.model.cache_tokens} tokens of {name}. Shorten the prompt or ask for fewer tokens.",
                backend=name,
            )

    def _serve(self) -> None:
        if self._threads is not None:
            torch.set_num_threads(self._threads)
        with torch.inference_mode():
            while handles := self._gather():
                self._run(handles)
                if self.model.device.type == "cuda":
                    torch.cuda.empty_cache()  # the batch and its cache are gone; others may need the memory

    def _gather(self) -> list[Handle]:
        """Wait for requests until nothing new comes, and take those of one batch; none when the engine is closed."""
        with self._changed:
            while not self._closed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                self._wait_for_more()
                if self._waiting and not self._closed:  # they may have been cancelled meanwhile
                    return self._take()
            abandoned, self._waiting = self._waiting, deque()
        for handle in abandoned:
            handle.tell(handle.sequence.finish("cancelled"))
        return []

    def _wait_for_more(self) -> None:
        deadline, seen = time.monotonic() + _GATHER_S, 0
        while not self._closed and len(self._waiting) < self._max_batch and time.monotonic() < deadline:
            if seen == len(self._waiting) and not self._coming:
                return
            seen = len(self._waiting)
            self._changed.wait(_QUIET_S)

    def _take(self) -> list[Handle]:
        """Take the oldest requests that fit into one batch and, together, into memory."""
        taken: list[Handle] = []
        longest = 0
        while self._waiting and len(taken) < self._max_batch:
            request = self._waiting[0].sequence.request
            longest = max(longest, len(request.prompt) + request.max_new_tokens)
            if taken and longest * (len(taken) + 1) > self.model.cache_tokens:
                break
            taken.append(self._waiting.popleft())
        return taken

    def _run(self, handles: list[Handle]) -> None:
        """Run one batch to its end."""
        try:
            sequences = [handle.sequence for handle in handles]
            batch = Batch(self.model.forward, sequences, self.model.device, prefill_rows=self._prefill_rows)
            while handles := self._leave(batch, handles):
                for handle, tokens in zip(handles, batch.advance(), strict=True):
                    if tokens:
                        self._hand_out(handle, tokens)
        except Exception as error:  # noqa: BLE001 - whatever a step raises ends these requests, not the engine
            for handle in handles:
                if not handle.finished:
                    handle.tell(Finished("error", len(handle.sequence.request.prompt), error=self._explain(error)))

    def _leave(self, batch: Batch, handles: list[Handle]) -> list[Handle]:
        """Let finished and cancelled requests leave the batch; those that stay."""
        for handle in handles:
            if (handle.cancelled or self._closed) and not handle.finished:
                handle.tell(handle.sequence.finish("cancelled"))
        staying = [row for row, handle in enumerate(handles) if not handle.finished]
        if staying:
            batch.keep(staying)
        return [handles[row] for row in staying]

    def _hand_out(self, handle: Handle, tokens: list[int]) -> None:
        try:
            piece, finished = handle.sequence.accept(tokens)
        except Exception as error:  # noqa: BLE001 - text that cannot be made of one request's tokens ends that request only
            piece, finished = None, Finished("error", len(handle.sequence.request.prompt), error=self._explain(error))
        if piece:
            handle.tell(piece)
        if finished:
            handle.tell(finished)

    def _explain(self, error: Exception) -> StrettoError:
        name = self.model.name
        if isinstance(error, torch.OutOfMemoryError | MemoryError):
            return BackendError(
                f"{name} ran out of memory on {self.model.device}. Ask for fewer tokens, shorten the prompt "
                "or send fewer requests at once.",
                backend=name,
                transient=True,
            )
        return BackendError(f"{name} failed while generating: {type(error).__name__}: {error}", backend=name)
