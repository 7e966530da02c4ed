"""The thread behind an engine: it gathers waiting requests, runs them as a batch and hands out their text."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager

import torch

from stretto.errors import BackendError
from stretto.local_engine.drafting.catalogue import WEIGHING, Equipment
from stretto.local_engine.drafting.protocol import Drafter
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.kernels.crew import allow, dismiss
from stretto.local_engine.model.load import LoadedModel
from stretto.local_engine.serving.compiled_code import CompiledCode
from stretto.local_engine.serving.handle import Handle
from stretto.local_engine.serving.scheduler import Occupancy, Scheduler
from stretto.local_engine.serving.step_timing import measuring

__all__ = ["Serving"]

_QUIET_S = 0.0005  # what comes later is read soon, and copies what it shares
_GATHER_S = 1.0

_running: weakref.WeakSet[Serving] = weakref.WeakSet()


class Serving:
    """Runs one model in one thread, which refers to this and not to the `Engine` in front: one that is forgotten ends.

    Args:
        model: what to run.
        equipment: what the drafters of the requests are made with.
        drafters: the decoding methods by name.
        scheduler: given what makes a drafter, makes the scheduler that runs the batch.
        max_batch: requests in one batch at most.
        threads: of torch in this thread; ``None``: as the model's size is worth.
        measure: time steps from the start on, while no request is there.
    """

    def __init__(
        self,
        model: LoadedModel,
        equipment: Equipment,
        drafters: Mapping[str, Callable[[Equipment], Drafter]],
        scheduler: Callable[[Callable[[str], Drafter]], Scheduler],
        *,
        cost: StepCost,
        max_batch: int,
        threads: int | None,
        measure: bool,
    ) -> None:
        self.model = model
        self._equipment = equipment
        self._drafters = drafters
        self._cost = cost
        self._measuring: Generator[None, None, dict[int, float]] | None = measuring(model) if measure else None
        self._max_batch = max_batch
        self._threads = threads or model.threads
        self._most_threads = threads or torch.get_num_threads()
        self._changed = threading.Condition()
        self._waiting: deque[Handle] = deque()
        self._alongside: deque[Generator[None, None, None]] = deque()
        self._coming = 0
        self._seen, self._gathered_until = 0, 0.0
        self._closed = False
        models = [model] if equipment.draft is None else [model, equipment.draft]
        self._code = CompiledCode(models, self._wake)
        self._scheduler = scheduler(self._drafter)
        self._thread = threading.Thread(target=self._serve, name=f"stretto engine {model.name}", daemon=True)
        self._thread.start()
        _running.add(self)

    def wait_measured(self) -> None:
        """See `Engine.wait_measured`."""
        with self._changed:
            self._changed.wait_for(lambda: self._measuring is None or self._closed)

    @contextmanager
    def announced(self) -> Iterator[None]:
        """See `Engine.announced`."""
        with self._changed:
            self._coming += 1
        try:
            yield
        finally:
            with self._changed:
                self._coming -= 1
                self._changed.notify_all()

    def add(self, handle: Handle) -> None:
        """Queue a request. Raises `BackendError` when all is closed."""
        with self._changed:
            self._refuse_when_closed()
            self._waiting.append(handle)
            self._changed.notify_all()

    def add_alongside(self, work: Generator[None, None, None]) -> None:
        """See `Engine.run_alongside`."""
        with self._changed:
            self._refuse_when_closed()
            self._code.stay()
            self._alongside.append(work)
            self._changed.notify_all()

    def cancel(self, handle: Handle) -> None:
        """See `Handle.cancel`."""
        with self._changed:
            handle.cancelled = True
            if handle not in self._waiting:
                return
            self._waiting.remove(handle)
        handle.tell(handle.sequence.finish("cancelled"))

    @property
    def occupancy(self) -> Occupancy:
        """See `Engine.occupancy`."""
        return self._scheduler.occupancy(len(self._waiting))

    def end(self) -> None:
        """Let every request end with the reason ``cancelled``, and the thread with them."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """The same, and wait for the thread."""
        self.end()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise BackendError(f"The engine of {self.model.name} is closed. Make a new one.", backend=self.model.name)

    def _serve(self) -> None:
        if self._threads is not None:
            torch.set_num_threads(self._threads)
            allow(self._most_threads)
        self._code.begin()
        scheduler = self._scheduler
        with torch.inference_mode():
            self._measure_while_idle(scheduler)
            while self._admit(scheduler):
                scheduler.turn()
                self._advance_alongside()
                if self.model.device.type == "cuda" and not scheduler.handles:
                    torch.cuda.empty_cache()  # the batch and its cache are gone; others may need the memory
                if self._code.due and not scheduler.handles:
                    self._change_code(scheduler)
                self._measure_while_idle(scheduler)
            for work in self._alongside:
                work.close()
        dismiss()
        scheduler.clear()  # the engine's parts refer to each other and stay until a garbage collection; this need not

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _change_code(self, scheduler: Scheduler) -> None:
        """Change over to code that was compiled meanwhile. What was computed, and what steps cost, holds no longer."""
        self._code.change()
        scheduler.clear()
        if self._cost.measured or self._measuring is not None:
            self._measuring = measuring(self.model)

    def _advance_alongside(self) -> None:
        if not self._alongside:
            return
        try:
            next(self._alongside[0])
        except Exception:  # noqa: BLE001 - it is done, or it failed where it could not tell
            self._alongside.popleft()

    def _drafter(self, decoding: str) -> Drafter:
        """Make the drafter of one request, in the engine's thread."""
        if decoding in WEIGHING and not self._cost.measured:
            self._measuring = self._measuring or measuring(self.model)
        return self._drafters[decoding](self._equipment)

    def _measure_while_idle(self, scheduler: Scheduler) -> None:
        """Time one forward after the other, as long as nobody comes and not all is known."""
        while self._measuring is not None and not (
            scheduler.handles or self._waiting or self._alongside or self._coming or self._closed
        ):
            try:
                next(self._measuring)
                continue
            except StopIteration as done:
                self._cost.fit(done.value)
            except Exception:  # noqa: BLE001, S110 - for instance, memory ran out: the next one that needs it begins again
                pass
            with self._changed:
                self._measuring = None
                self._changed.notify_all()

    def _admit(self, scheduler: Scheduler) -> bool:
        """Admit waiting requests; wait for some while none runs. False when the engine is closed and all have ended."""
        with self._changed:
            while not (self._busy(scheduler) or self._gathered(_QUIET_S)):
                pass
            if self._closed:
                abandoned, self._waiting = self._waiting, deque()
                taken: list[Handle] = []
            else:
                ready = scheduler.admits and self._gathered(0)
                abandoned, taken = deque(), self._take(scheduler.handles) if ready else []
        for handle in (*abandoned, *(scheduler.handles if self._closed else ())):
            handle.tell(handle.sequence.finish("cancelled"))
        if taken:
            scheduler.admit(taken)
        return not self._closed

    def _busy(self, scheduler: Scheduler) -> bool:
        """Whether there is something to do without a request that is waiting."""
        return bool(self._closed or scheduler.handles or self._alongside or self._code.due)

    def _gathered(self, wait_s: float) -> bool:
        """Whether there are requests to admit, and no more seem to be coming; those with little to read go first.

        ``wait_s`` is how long to wait for more; without requests, and unless it is 0, it waits for the first.
        """
        if wait_s and not self._waiting:
            self._changed.wait_for(lambda: self._waiting or self._alongside or self._closed or self._code.due)
        if not self._waiting or self._closed:
            self._seen = 0
            return False
        if not self._seen:
            self._gathered_until = time.monotonic() + _GATHER_S
        if (
            (self._seen == len(self._waiting) and not self._coming)
            or len(self._waiting) >= self._max_batch
            or time.monotonic() > self._gathered_until
        ):
            return True
        self._seen = len(self._waiting)
        if wait_s:
            self._changed.wait(wait_s)
        return False

    def _take(self, running: list[Handle]) -> list[Handle]:
        """Take the oldest requests that fit into one batch with those running and, together, into memory."""
        taken: list[Handle] = []
        longest = max((_extent(handle) for handle in running), default=0)
        while self._waiting and len(running) + len(taken) < self._max_batch:
            longest = max(longest, _extent(self._waiting[0]))
            together = len(running) + len(taken) + 1
            if together > 1 and longest * together > self.model.cache_tokens:
                break
            taken.append(self._waiting.popleft())
        self._seen = 0
        return taken


def _extent(handle: Handle) -> int:
    request = handle.sequence.request
    return len(request.prompt) + request.max_new_tokens


@atexit.register
def _close_all() -> None:
    """A thread still inside torch when the interpreter goes would abort the process."""
    for serving in tuple(_running):
        serving.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)
