"""The thread behind an engine: it keeps the queue of waiting requests, and runs the others as a batch."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager

import torch

from stretto.ending_thread import EndingThread
from stretto.errors import BackendError
from stretto.local_engine.drafting.catalogue import WEIGHING, Equipment
from stretto.local_engine.drafting.protocol import Drafter
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.kernels.thread_team import end_threads, limit_threads
from stretto.local_engine.log import log_event
from stretto.local_engine.model.load import LoadedModel
from stretto.local_engine.serving.compiled_code import CompiledCode
from stretto.local_engine.serving.handle import Handle
from stretto.local_engine.serving.scheduler import Occupancy, Scheduler
from stretto.local_engine.serving.step_timing import measuring

__all__ = ["Serving"]

_QUIET_S = 0.0005  # what comes later is read soon, and copies what it shares
_GATHER_S = 1.0  # that an announced request is waited for at most

_log = logging.getLogger(__package__)


class Serving:
    """Runs one model in one thread.

    The thread refers to this and not to the `Engine`, so an engine without references ends. Requests wait in one queue
    until their prompts are read. They wait for a slot, for memory, for prompts that are being read, and for requests
    that are submitted at the same time.

    Args:
        model: what to run.
        equipment: what the drafters of the requests are made with.
        drafters: the decoding methods by name.
        scheduler: makes the scheduler that runs the batch, given what makes a drafter.
        cost: of a step.
        max_batch: the slots: requests in one batch at most.
        threads: of torch in this thread; ``None``: as many as the model's size is worth.
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
        self._waiting: deque[Handle] = deque()  # the queue
        self._alongside: deque[Generator[None, None, None]] = deque()
        self._coming = 0  # requests that are announced
        self._arrived = self._seen = 0  # requests so far, and when the queue was looked at last
        self._gather_until: float | None = None
        self._logged: tuple[int, str] | None = None
        self._closed = False
        models = [model] if equipment.draft is None else [model, equipment.draft]
        self._code = CompiledCode(models, self._wake)
        self._scheduler = scheduler(self._drafter)
        self._thread = EndingThread(self._serve, self.end, f"stretto engine {model.name}")
        self._thread.start()

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
        """Queue a request. Raises `BackendError` when the engine is closed."""
        with self._changed:
            self._refuse_when_closed()
            handle.reach("submitted")
            self._waiting.append(handle)
            self._arrived += 1
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
        """Do what `end` does, and wait for the thread."""
        self.end()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise BackendError(f"The engine of {self.model.name} is closed. Make a new one.", backend=self.model.name)

    def _serve(self) -> None:
        if self._threads is not None:
            torch.set_num_threads(self._threads)
            limit_threads(self._most_threads)
        self._code.begin()
        scheduler = self._scheduler
        with torch.inference_mode():
            self._measure_while_idle(scheduler)
            while (waiting := self._wait(scheduler)) is not None:
                self._admit(scheduler, waiting)
                scheduler.turn()
                self._advance_alongside()
                if self.model.device.type == "cuda" and not scheduler.handles:
                    torch.cuda.empty_cache()  # the batch and its cache are gone; others may need the memory
                if self._code.due and not scheduler.handles:
                    self._change_code(scheduler)
                self._measure_while_idle(scheduler)
            self._cancel_all(scheduler)
            for work in self._alongside:
                work.close()
        end_threads()
        # The engine's parts refer to each other and stay until a garbage collection. Keys and values need not.
        scheduler.clear()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _change_code(self, scheduler: Scheduler) -> None:
        """Change to code that was compiled meanwhile. Cached keys and values and step times are no longer valid."""
        self._code.change()
        scheduler.clear()
        if self._cost.measured or self._measuring is not None:
            self._measuring = measuring(self.model)

    def _advance_alongside(self) -> None:
        if not self._alongside:
            return
        try:
            next(self._alongside[0])
        except Exception:  # noqa: BLE001 - it has ended, or raised what it did not handle
            self._alongside.popleft()

    def _drafter(self, decoding: str) -> Drafter:
        """Make the drafter of one request, in the engine's thread."""
        if decoding in WEIGHING and not self._cost.measured:
            self._measuring = self._measuring or measuring(self.model)
        return self._drafters[decoding](self._equipment)

    def _measure_while_idle(self, scheduler: Scheduler) -> None:
        """Time one forward after the other, until all are timed or a request comes."""
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

    def _wait(self, scheduler: Scheduler) -> list[Handle] | None:
        """Wait while there is nothing to do.

        Returns:
            waiting requests that can be admitted now, the oldest first; ``None`` when the engine is closed.
        """
        with self._changed:
            idle = not (scheduler.handles or self._alongside)
            if idle:
                self._changed.wait_for(lambda: self._waiting or self._alongside or self._closed or self._code.due)
            gathered = self._gathered(idle=idle)
            while idle and not (gathered or self._alongside or self._closed or self._code.due):
                self._changed.wait(_QUIET_S)
                gathered = self._gathered(idle=idle)
            if self._closed:
                return None
            cause = "others may follow" if not gathered else "" if scheduler.admits else "a prompt is being read"
            fitting: list[Handle] = []
            if not cause:
                fitting, cause = self._fitting(scheduler.handles)
            self._log_waiting(len(self._waiting) - len(fitting), len(scheduler.handles), cause)
            return fitting

    def _gathered(self, *, idle: bool) -> bool:
        """Whether no more requests seem to be coming: what comes together is read together, the short ones first.

        While a batch runs, those who have come wait one step for others; announced ones are waited for longer.
        """
        waited = self._gather_until is not None and not idle
        quiet = not self._coming and (waited or self._seen == self._arrived)
        self._seen = self._arrived
        now = time.monotonic()
        if quiet or len(self._waiting) >= self._max_batch or now > (self._gather_until or now):
            self._gather_until = None
            return True
        self._gather_until = self._gather_until or now + _GATHER_S
        return False

    def _fitting(self, running: list[Handle]) -> tuple[list[Handle], str]:
        """Find the oldest requests that fit into one batch with those running and, together, into memory.

        Returns:
            these, and what the others wait for.
        """
        fitting: list[Handle] = []
        longest = max((_most_tokens(handle) for handle in running), default=0)
        for handle in self._waiting:
            together = len(running) + len(fitting) + 1
            if together > self._max_batch:
                return fitting, "no slot is free"
            longest = max(longest, _most_tokens(handle))
            if together > 1 and longest * together > self.model.cache_tokens:
                return fitting, "memory"
            fitting.append(handle)
        return fitting, ""

    def _admit(self, scheduler: Scheduler, waiting: list[Handle]) -> None:
        """Take some of these requests out of the queue, and let the scheduler read their prompts."""
        if not waiting:
            return
        wave = scheduler.choose(waiting)
        with self._changed:
            taken = [(handle, source) for handle, source in wave if handle in self._waiting]  # not cancelled meanwhile
            gone = {id(handle) for handle, _ in taken}
            self._waiting = deque(handle for handle in self._waiting if not handle.finished and id(handle) not in gone)
        if taken:
            scheduler.admit(taken)

    def _cancel_all(self, scheduler: Scheduler) -> None:
        with self._changed:
            waiting, self._waiting = self._waiting, deque()
        for handle in (*waiting, *scheduler.handles):
            handle.tell(handle.sequence.finish("cancelled"))

    def _log_waiting(self, waiting: int, running: int, cause: str) -> None:
        """Log why requests stay in the queue, whenever that changes."""
        state = (waiting, cause) if waiting and cause else None
        if state is not None and state != self._logged:
            log_event(_log, logging.DEBUG, "requests wait", waiting=waiting, running=running, cause=cause)
        self._logged = state


def _most_tokens(handle: Handle) -> int:
    """Tokens that a request may fill with its answer."""
    request = handle.sequence.request
    return len(request.prompt) + request.max_new_tokens
