"""Thread of an engine: it keeps the queue of waiting requests, and runs the others as a batch."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import torch

from stretto.foundation.ending_thread import EndingThread
from stretto.foundation.latest import Latest
from stretto.foundation.threads import were_threads_changed
from stretto.local_engine.drafting.catalogue import WEIGHING, DraftEquipment
from stretto.local_engine.drafting.sources.texts import DraftText, Texts
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.failures import explain
from stretto.local_engine.generation import Generation
from stretto.local_engine.kernels.compiling.compiled_parts import Part
from stretto.local_engine.kernels.thread_team import end_threads, limit_threads
from stretto.local_engine.log import log_event
from stretto.local_engine.model.loading.load import LoadedModel
from stretto.local_engine.serving.admission import Gathering, fitting_together
from stretto.local_engine.serving.compiled_code import CompiledCode
from stretto.local_engine.serving.handle import Handle
from stretto.local_engine.serving.request_progress import Wait, report_waits_of
from stretto.local_engine.serving.scheduler import Occupancy, Scheduler
from stretto.local_engine.serving.step_timing import StepTimer
from stretto.values.errors import BackendError, StrettoError

_BATCHING_DELAY_S = 0.0005  # wait for simultaneous requests: read together, they copy common prefixes
_MAX_FAILURES = 3  # consecutive failures after which the engine ends
_CLOSE_S = 10.0  # maximum time that `EngineThread.close` waits for the thread

_log = logging.getLogger(__package__)


class EngineThread:
    """Runs one model in one thread.

    The thread refers to this and not to the `Engine`, so an engine without references ends. Requests wait in one queue
    until they are admitted: for a slot, for memory, for prompts that are being read, and for requests that are
    submitted at the same time.

    Args:
        model: the model.
        equipment: what the drafters of the requests are made with.
        drafters: decoding methods by name.
        scheduler: makes the scheduler that runs the batch, given a function that makes a drafter.
        cost: cost of a step.
        batch_size: number of slots: maximum number of requests in one batch.
        threads: torch's threads for this thread; ``None`` chooses them by the model's size.
        measure: whether to time steps from the start, while there is no request.
    """

    def __init__(
        self,
        model: LoadedModel,
        equipment: DraftEquipment,
        drafters: Mapping[str, Callable[[DraftEquipment], object]],
        scheduler: Callable[[Callable[[Generation, DraftText | None], object]], Scheduler],
        *,
        cost: StepCost,
        batch_size: int,
        threads: int | None,
        measure: bool,
    ) -> None:
        self.model = model
        self._equipment = equipment
        self._learned: Latest[dict[str, Any]] = Latest(dict)  # by the drafters of each tenant's requests
        self._drafters = drafters
        self._cost = cost
        self._batch_size = batch_size
        self._threads = threads or model.threads
        self._most_threads = threads or torch.get_num_threads()
        self._changed = threading.Condition()
        self._waiting: deque[Handle] = deque()  # the queue
        self._alongside: deque[Generator[None, None, None]] = deque()
        self._gathering = Gathering(batch_size)
        self._logged: tuple[int, str] | None = None
        self._closed = False
        self._cause: StrettoError | None = None  # why it ended, if it was not closed
        self._chosen: list[Handle] = []  # waiting requests that can be admitted in this turn
        models = [model] if equipment.draft is None else [model, equipment.draft]
        self._code: CompiledCode | None = CompiledCode(models, self._wake)
        self._scheduler: Scheduler | None = scheduler(self._drafter)
        self._timer = StepTimer(model, self._most_threads, cost, self._wake)
        if measure:
            self._timer.begin()
        self._thread = EndingThread(self._serve, self.end, f"stretto engine {model.name}")
        self._thread.start()
        report_waits_of(model.name, self)

    def forget_learned(self) -> None:
        self._learned.clear()

    def wait_measured(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._timer.under_way)

    @contextmanager
    def announced(self) -> Iterator[None]:
        with self._changed:
            self._gathering.coming += 1
        try:
            yield
        finally:
            with self._changed:
                self._gathering.coming -= 1
                self._changed.notify_all()

    def add(self, handle: Handle) -> None:
        """Queue a request. Raises `BackendError` if the engine is closed."""
        with self._changed:
            self._refuse_when_closed()
            handle.reach("submitted")
            self._waiting.append(handle)
            self._gathering.arrived += 1
            self._changed.notify_all()

    def add_alongside(self, work: Generator[None, None, None]) -> None:
        with self._changed:
            self._refuse_when_closed()
            if self._code is not None:
                self._code.stay()
            self._alongside.append(work)
            self._changed.notify_all()

    def compile_too(self, parts: Sequence[Part], use: Callable[[], None]) -> None:
        """See `CompiledCode.add`; does nothing once the engine has ended."""
        code = self._code
        if code is not None:
            code.add(parts, use)

    def cancel(self, handle: Handle) -> None:
        with self._changed:
            handle.cancelled = True
            if handle not in self._waiting:
                return
            self._waiting.remove(handle)
        handle.tell(handle.sequence.finish("cancelled"))

    @property
    def occupancy(self) -> Occupancy:
        scheduler, waiting = self._scheduler, len(self._waiting)
        return Occupancy(waiting, 0, 0, 0, 0) if scheduler is None else scheduler.occupancy(waiting)

    def waits(self) -> Wait | None:
        """Return what its requests wait for: the reading of prompts, or a slot. Safe from any thread."""
        scheduler = self._scheduler
        if scheduler is None:
            return None
        if (reads := scheduler.reads()) is not None:
            return reads
        with suppress(IndexError):  # it was admitted in the meantime
            first, running = self._waiting[0], len(scheduler.handles)
            others = "1 request is" if running == 1 else f"{running} requests are"
            where = f"in the queue, while {others} running" if running else "in the queue"
            return Wait(first.stages["submitted"], where)
        return None

    def end(self) -> None:
        """Signal the thread to end all requests with the reason ``cancelled``, then itself. Does not wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread, and wait some seconds for it: a drafter can hang, or a forward take long."""
        self.end()
        if threading.current_thread() is self._thread:
            return
        self._thread.join(_CLOSE_S)
        if self._thread.is_alive():
            log_event(_log, logging.WARNING, "engine still in a step", model=self.model.name, waited_s=_CLOSE_S)

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def _refuse_when_closed(self) -> None:
        name, cause = self.model.name, self._cause
        if cause is not None:
            raise BackendError(
                f"The engine of {name} has ended, because it failed {_MAX_FAILURES} times in a row. The last cause: "
                f"{cause} Make a new one.",
                backend=name,
            )
        if self._closed:
            raise BackendError(f"The engine of {name} is closed. Make a new one.", backend=name)

    def _serve(self) -> None:
        """Run turns until the engine is closed. A failure ends the requests of its turn, three in a row the engine.

        Whatever is raised, even if it is not an `Exception`, every request is notified of its end.
        """
        scheduler, code = self._scheduler, self._code
        assert scheduler is not None  # noqa: S101 - for the type checker: both stay until `_let_go`
        assert code is not None  # noqa: S101 - as above
        failures = 0
        try:
            if self._threads is not None:
                torch.set_num_threads(self._threads)
                limit_threads(self._most_threads)
            code.begin()
            with torch.inference_mode():
                self._timer.before_the_first(lambda: self._closed)
            while True:
                try:
                    with torch.inference_mode():
                        while self._turn(scheduler, code):
                            failures = 0
                    break
                except BaseException as error:
                    failures += 1
                    if failures >= _MAX_FAILURES:
                        raise
                    self._recover(scheduler, error)
        except BaseException as error:  # noqa: BLE001 - as above
            # Without a traceback, whose frames refer to the model.
            self._cause = explain(error, self.model.name, self.model.device).with_traceback(None)
            log_event(_log, logging.ERROR, "engine ended", model=self.model.name, raised=error)
        finally:
            self._let_go(scheduler)

    def _turn(self, scheduler: Scheduler, code: CompiledCode) -> bool:
        """Wait for work, and do one turn of it. Returns False when the engine is closed."""
        self._timer.while_idle(lambda: self._is_idle(scheduler))
        self._chosen = []
        waiting = self._wait(scheduler)
        if waiting is None:
            return False
        self._chosen = waiting
        self._admit(scheduler, waiting)
        self._chosen = []
        scheduler.turn()
        self._timer.between_steps()
        self._advance_alongside()
        if self.model.device.type == "cuda" and not scheduler.handles:
            torch.cuda.empty_cache()  # the batch and its cache are gone; others can use the memory
        if not scheduler.handles:
            if code.due:
                self._change_code(scheduler, code)
            else:
                code.answered()
        return True

    def _recover(self, scheduler: Scheduler, error: BaseException) -> None:
        """End the requests of a failed turn, with the cause. Requests that only wait are not affected."""
        log_event(_log, logging.WARNING, "turn failed", model=self.model.name, raised=error)
        chosen, self._chosen = self._chosen, []
        with self._changed:
            for handle in chosen:
                if handle in self._waiting:
                    self._waiting.remove(handle)
        scheduler.fail(chosen, error)

    def _let_go(self, scheduler: Scheduler) -> None:
        """Notify all remaining requests of their end, and drop what refers to the model, so that it can be freed.

        The engine's parts refer to each other. Without this, the model would stay until the next garbage collection.
        """
        with self._changed:
            self._closed = True
            left, self._waiting = [*self._chosen, *self._waiting], deque()
            alongside, self._alongside = self._alongside, deque()
            self._changed.notify_all()
        cause = self._cause
        with suppress(BaseException):
            if cause is not None:
                scheduler.fail(left, cause)
            else:
                for handle in (*left, *scheduler.handles):
                    handle.tell(handle.sequence.finish("cancelled"))
        for work in alongside:
            with suppress(BaseException):  # it notifies its request, and can raise the cause again
                _end_work(work, cause)
        with suppress(BaseException):
            scheduler.clear()
        if not were_threads_changed():  # else they cannot be joined, and stay
            end_threads()
        self._timer.end()
        if self._code is not None:
            self._code.end()
        self._scheduler, self._code, self._chosen = None, None, []

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _change_code(self, scheduler: Scheduler, code: CompiledCode) -> None:
        """Switch to code that has been compiled. Cached keys and values and step times are no longer valid then."""
        if not code.change():
            return
        scheduler.clear()
        if self._cost.measured or self._timer.under_way:
            self._timer.begin()

    def _advance_alongside(self) -> None:
        if not self._alongside:
            return
        try:
            next(self._alongside[0])
        except BaseException as error:
            self._alongside.popleft()  # it has ended, or raised an exception
            if not isinstance(error, Exception):
                raise

    def _drafter(self, request: Generation, writing: DraftText | None) -> object:
        """Make the drafter of one request, or its rule. Runs in the engine's thread.

        ``writing``: its answer, as others see it.
        """
        decoding, equipment = request.decoding, self._equipment
        if decoding in WEIGHING and not (self._cost.measured or self._timer.under_way):
            self._timer.begin()
        texts = equipment.texts
        if request.draft:
            texts = (*texts, Texts.expecting(request.prompt, request.draft))
        if writing is not None:
            texts = (*texts, writing.texts)
        number = 0 if writing is None else writing.number
        learned = self._learned.of(request.tenant)
        return self._drafters[decoding](
            replace(equipment, texts=texts, writing=number, expected=request.draft, learned=learned)
        )

    def _is_idle(self, scheduler: Scheduler) -> bool:
        return not (scheduler.handles or self._waiting or self._alongside or self._gathering.coming or self._closed)

    def _wait(self, scheduler: Scheduler) -> list[Handle] | None:
        """Wait for work, and find the requests that can be admitted.

        Returns:
            waiting requests that can be admitted now, the oldest first; ``None`` if the engine is closed.
        """
        with self._changed:
            idle = not (scheduler.handles or self._alongside)
            code = self._code
            assert code is not None  # noqa: S101 - for the type checker
            if idle:
                self._changed.wait_for(lambda: self._waiting or self._alongside or self._closed or code.due)
            gathered = self._gathering.whole(len(self._waiting), idle=idle)
            while idle and not (gathered or self._alongside or self._closed or code.due):
                self._changed.wait(_BATCHING_DELAY_S)
                gathered = self._gathering.whole(len(self._waiting), idle=idle)
            if self._closed:
                return None
            cause = "others may follow" if not gathered else "" if scheduler.admits else "a prompt is being read"
            fitting: list[Handle] = []
            if not cause:
                fitting, cause = fitting_together(
                    self._waiting, scheduler.handles, slots=self._batch_size, cache_tokens=self.model.cache_tokens
                )
            self._log_waiting(len(self._waiting) - len(fitting), len(scheduler.handles), cause)
            return fitting

    def _admit(self, scheduler: Scheduler, waiting: list[Handle]) -> None:
        """Move some of these requests from the queue to the scheduler, which reads their prompts."""
        if not waiting:
            return
        wave = scheduler.choose(waiting)
        with self._changed:
            taken = [(handle, source) for handle, source in wave if handle in self._waiting]  # not cancelled meanwhile
            removed = {id(handle) for handle, _ in taken}
            self._waiting = deque(
                handle for handle in self._waiting if not handle.finished and id(handle) not in removed
            )
        if taken:
            scheduler.admit(taken)

    def _log_waiting(self, waiting: int, running: int, cause: str) -> None:
        """Log why requests wait in the queue, whenever that changes."""
        state = (waiting, cause) if waiting and cause else None
        if state is not None and state != self._logged:
            log_event(_log, logging.DEBUG, "requests wait", waiting=waiting, running=running, reason=cause)
        self._logged = state


def _end_work(work: Generator[None, None, None], cause: StrettoError | None) -> None:
    """End a generator that ran alongside, with the cause if there is one."""
    if cause is None:
        work.close()
    else:
        work.throw(cause)
