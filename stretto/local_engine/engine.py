"""The engine: a thread that gathers waiting requests, runs them as a batch and hands out their text."""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager

import torch

from stretto.errors import BackendError, ContextOverflowError, InvalidRequestError, RequestRejectedError
from stretto.local_engine.compiled.crew import allow, dismiss
from stretto.local_engine.constraint import Constraint, Grammars, ResponseFormat
from stretto.local_engine.drafting.calibration import Experience
from stretto.local_engine.drafting.catalogue import DRAFTERS, WEIGHING, Equipment
from stretto.local_engine.drafting.lexical_options import LexicalOptions
from stretto.local_engine.drafting.protocol import Drafter
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.drafting.suffix import AnswerMemory
from stretto.local_engine.generation import Generation
from stretto.local_engine.handle import Handle, Listener
from stretto.local_engine.load import LoadedModel
from stretto.local_engine.measure import measuring
from stretto.local_engine.prefixes import PrefixCache
from stretto.local_engine.scheduler import Occupancy, Scheduler
from stretto.local_engine.sequence import Sequence

__all__ = ["Engine", "Handle", "Listener", "Occupancy"]

_QUIET_S = 0.0005  # what comes later is read soon, and copies what it shares
_GATHER_S = 1.0


class Engine:
    """Runs one model in one thread.

    Requests join the running batch between two forwards and leave it when they end. A failure ends the requests
    concerned, each with one error, and the engine goes on.

    Args:
        model: what to run; see `stretto.local_engine.load.load_model`.
        max_batch: requests in one batch at most.
        prefill_rows: prompt tokens, of all requests together, read in one forward at most; a request can be cancelled
            between two forwards.
        draft_rows: drafted tokens of all requests together evaluated in one forward at most.
        prefix_cache_bytes: of keys and values of finished requests, kept for later prompts that begin with the same
            tokens, such as the next turn of a chat; also no more than a quarter of `LoadedModel.cache_tokens`. The
            prompts of all callers are compared, and `cached_tokens` tells how much was alike: 0, for none, where
            callers must not learn of each other.
        remember_answers: tokens of earlier answers in which `suffix` and `auto` look for what comes next; 0 for
            none, the default: what one request says then leaves no trace in how fast another is answered.
        threads: of torch and at most of one step, inside the engine's thread; by default what the model's size and the
            number of rows are worth.
        draft: a smaller model with the same tokenizer, for the decoding method that takes one.
        lexical: options of the decoding methods `lexical` and `lexical_lossy`.
        measure: time steps by their number of rows, which ``auto`` and ``lexical`` go by, from the start on; without
            it, from the first such request on. Only while no request is there: until it is done, they take rows to be
            dear.
        drafters: the decoding methods by name.
    """

    def __init__(
        self,
        model: LoadedModel,
        *,
        max_batch: int = 16,
        prefill_rows: int = 512,
        draft_rows: int = 64,
        prefix_cache_bytes: int = 2**28,
        remember_answers: int = 0,
        threads: int | None = None,
        draft: LoadedModel | None = None,
        lexical: LexicalOptions | None = None,
        measure: bool = False,
        drafters: Mapping[str, Callable[[Equipment], Drafter]] = DRAFTERS,
    ) -> None:
        self.model = model
        self._drafters = drafters
        memory = AnswerMemory(remember_answers) if remember_answers else None
        self._cost = StepCost()
        self._equipment = Equipment(
            cost=self._cost,
            model=model,
            draft=draft,
            memory=memory,
            experience=(Experience(), Experience()),
            lexical=lexical or LexicalOptions(),
        )
        self._grammars = Grammars(model.tokenizer)
        self._equipped: set[str] = set()  # decoding methods that have been found to have what they need
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
        self._scheduler = Scheduler(
            model,
            self._drafter,
            prefill_rows=prefill_rows,
            draft_rows=draft_rows,
            prefixes=PrefixCache(
                prefix_cache_bytes, model.cache_tokens // 4, switch=getattr(model.forward, "switch", None)
            ),
            memory=memory,
            cost=self._cost,
        )
        self._thread = threading.Thread(target=self._serve, name=f"stretto engine {model.name}", daemon=True)
        self._thread.start()
        atexit.register(self.close)  # a thread still inside torch when the interpreter goes would abort the process

    @property
    def step_ms(self) -> dict[int, float]:
        """Milliseconds of a step by its rows, for one request alone; empty before they are measured."""
        cost = self._cost
        return {rows: cost(rows) for rows in (1, 2, 4, 8, 16, 32, 64)} if cost.measured else {}

    def wait_measured(self) -> None:
        """Wait until the timing of steps, if it has begun, is done: for who compares methods."""
        with self._changed:
            self._changed.wait_for(lambda: self._measuring is None or self._closed)

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

    def submit(
        self, request: Generation, listener: Listener | None = None, *, constraint: Constraint | None = None
    ) -> Handle:
        """Queue a request. Safe from any thread; never waits for the model.

        ``listener`` is called from the engine's thread with each piece and, last, with the `Finished`; it must
        return at once. ``constraint`` is what `constraint` has made of the request's ``response_format``; without it,
        it is made here. That, and what `equip` does, may take seconds: a thread that must not wait has both done by
        another one before. Raises `ContextOverflowError`, `RequestRejectedError`, `InvalidRequestError`,
        `SettingsError` where the decoding method needs what the engine has not, or `BackendError` when the engine is
        closed.
        """
        self._check(request)
        if constraint is None:
            constraint = self.constraint(request.response_format, request.end_ids)
        handle = Handle(Sequence(request, self.model.decode, constraint, self.model.token_bytes), self.cancel, listener)
        with self._changed:
            if self._closed:
                raise self._is_closed()
            self._waiting.append(handle)
            self._changed.notify_all()
        return handle

    def run_alongside(self, work: Generator[None, None, None]) -> None:
        """Run something else in the engine's thread: up to its next ``yield`` between two steps of the requests.

        Safe from any thread. Works follow each other. One that is not done when the engine is closed is closed; it
        deals with its own exceptions. Raises `BackendError` when the engine is closed.
        """
        with self._changed:
            if self._closed:
                raise self._is_closed()
            self._alongside.append(work)
            self._changed.notify_all()

    def constraint(self, response_format: ResponseFormat | None, end_ids: frozenset[int]) -> Constraint | None:
        """Compile what one answer is to be held to, if anything.

        Safe from any thread. Raises `InvalidRequestError` for what is no JSON schema or regular expression.
        """
        return None if response_format is None else self._grammars.constraint(response_format, end_ids)

    def equipped(self, decoding: str) -> bool:
        """Whether a decoding method is known to have what it needs, so that `submit` need not look."""
        return decoding in self._equipped

    def equip(self, decoding: str) -> None:
        """Make ready what a decoding method needs beside the model: for ``lexical``, the weights are read and hashed.

        Safe from any thread; `submit` does it too, and a second time it is quick. Raises `InvalidRequestError` for a
        method that does not exist, `SettingsError` where something is missing for it.
        """
        if decoding not in self._drafters:
            raise InvalidRequestError(
                f"There is no decoding method {decoding!r}. Use one of: {', '.join(self._drafters)}."
            )
        if decoding not in self._equipped:
            self._drafters[decoding](self._equipment)  # raises where something is missing for it
            self._equipped.add(decoding)

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
        """What is held now; from another thread than the engine's a glance, exact while nothing runs."""
        return self._scheduler.occupancy(len(self._waiting))

    def close(self) -> None:
        """End every request with the reason ``cancelled`` and the thread with it. Idempotent; waits for the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        atexit.unregister(self.close)

    def _is_closed(self) -> BackendError:
        return BackendError(f"The engine of {self.model.name} is closed. Make a new one.", backend=self.model.name)

    def check_tokens(self, request: Generation) -> None:
        """Refuse a prompt without tokens, tokens that the model does not have, and methods that cannot be used.

        Raises `InvalidRequestError` and `SettingsError`.
        """
        name = self.model.name
        if not request.prompt:
            raise InvalidRequestError("The prompt has no tokens. Give at least one.")
        self.equip(request.decoding)
        for what, ids in (
            ("The prompt", request.prompt),
            ("logit_bias", request.logit_bias),
            ("suppress_tokens", request.suppress_tokens),
            ("begin_suppress_tokens", request.begin_suppress_tokens),
        ):
            if ids and not 0 <= min(ids) <= max(ids) < self.model.vocabulary:  # in a forward, it would end all requests
                strange = next(token for token in ids if not 0 <= token < self.model.vocabulary)
                raise InvalidRequestError(
                    f"{what} has the token id {strange}, and those of {name} are 0 to {self.model.vocabulary - 1}. "
                    "Use this model's own tokenizer."
                )

    def _check(self, request: Generation) -> None:
        self.check_tokens(request)
        name, window = self.model.name, self.model.context_window
        length, wanted = len(request.prompt), request.max_new_tokens
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
            allow(self._most_threads)
        scheduler = self._scheduler
        with torch.inference_mode():
            self._measure_while_idle(scheduler)
            while self._admit(scheduler):
                scheduler.turn()
                self._advance_alongside()
                if self.model.device.type == "cuda" and not scheduler.handles:
                    torch.cuda.empty_cache()  # the batch and its cache are gone; others may need the memory
                self._measure_while_idle(scheduler)
            for work in self._alongside:
                work.close()
        dismiss()
        scheduler.clear()  # the engine's parts refer to each other and stay until a garbage collection; this need not

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
            while not (self._closed or scheduler.handles or self._alongside or self._gathered(_QUIET_S)):
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

    def _gathered(self, wait_s: float) -> bool:
        """Whether there are requests to admit, and no more seem to be coming; those with little to read go first.

        ``wait_s`` is how long to wait for more; without requests, and unless it is 0, it waits for the first.
        """
        if wait_s and not self._waiting:
            self._changed.wait_for(lambda: self._waiting or self._alongside or self._closed)
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
