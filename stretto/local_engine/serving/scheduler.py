"""Continuous batching: which requests run in the next forward.

Between two forwards, finished requests leave and waiting ones are admitted. The prompts of admitted requests are read
together (`admission.py`), one part per turn, and the running requests advance by one step after each part. Once read,
they join the batch. A prefix that a prompt shares with a running or an earlier request is copied, not read.

Yu et al., "Orca", OSDI 2022.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stretto.local_engine.drafting.protocol import Autoregressive
from stretto.local_engine.drafting.sources.texts import DraftText, EarlierAnswers
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.failures import explain, out_of_memory
from stretto.local_engine.generation import Finished, Generation
from stretto.local_engine.log import log_event
from stretto.local_engine.model.cache.kv_cache import Source
from stretto.local_engine.model.cache.prefixes import PrefixCache
from stretto.local_engine.model.loading.load import LoadedModel
from stretto.local_engine.research_registry import block_models, joining
from stretto.local_engine.serving.admission import next_wave
from stretto.local_engine.serving.batch import Batch, layers_read_by
from stretto.local_engine.serving.batch_members import BatchMembers, Step
from stretto.local_engine.serving.handle import Handle, StepBatches
from stretto.local_engine.serving.prefill import Prefill
from stretto.local_engine.serving.request_progress import Wait

_log = logging.getLogger(__package__)
_PATIENCE = 4  # number of times that later requests can be admitted before an earlier one


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Load of an engine at one moment.

    Attributes:
        waiting: requests not admitted yet.
        running: requests admitted and not finished.
        slots: slots of keys and values allocated for these, over all sequences.
        prefixes: finished requests whose keys and values are kept.
        prefix_bytes: memory that these take.
    """

    waiting: int
    running: int
    slots: int
    prefixes: int
    prefix_bytes: int


class Scheduler:
    """Runs admitted requests, turn by turn. A failure ends the affected requests, each with one error.

    Args:
        model: the model.
        drafter: makes the drafter of one request, given its answer as others can draft from it; or its rule, if the
            model writes blocks at once.
        prefill_tokens: maximum number of prompt tokens, over all requests, to read in one forward.
        draft_nodes: maximum number of drafted tokens, over all requests, to evaluate in one forward.
        prefixes: cache of the keys and values of finished requests.
        answers: earlier answers, for the drafters of later requests.
        cost: cost of a step.
    """

    def __init__(
        self,
        model: LoadedModel,
        drafter: Callable[[Generation, DraftText | None], object],
        *,
        prefill_tokens: int,
        draft_nodes: int,
        prefixes: PrefixCache,
        answers: EarlierAnswers,
        cost: StepCost | None = None,
    ) -> None:
        self._cost = cost
        self._model = model
        self._drafter = drafter
        self._prefixes = prefixes
        self._answers = answers
        self._prefill_tokens = prefill_tokens
        self._draft_nodes = draft_nodes
        self._prefill: Prefill | None = None
        self._reading: list[Handle] = []
        self._drafters: list[Any] = []  # or rules, of the requests whose prompts are being read
        self._batch = self._new_batch()
        self._running: list[Handle] = []
        self._step_batches = StepBatches()
        self._ended: deque[tuple[Handle, Finished]] = deque()  # their listeners have not been called yet

    @property
    def handles(self) -> list[Handle]:
        """All admitted requests that have not finished."""
        return [handle for handle in self._running + self._reading if not handle.finished]

    @property
    def admits(self) -> bool:
        """Whether requests can be admitted now: no prompt is being read."""
        return not self._reading

    def reads(self) -> Wait | None:
        """Return the progress of the prompts that are being read, if any. Safe from any thread."""
        prefill, reading = self._prefill, self._reading
        if prefill is None or not reading:
            return None
        (read, tokens), many = prefill.progress, len(reading)
        prompts = "the prompt" if many == 1 else f"{many} prompts"
        return Wait(reading[0].stages["admitted"], f"reading {prompts}, {read:,} of {tokens:,} tokens")

    def occupancy(self, waiting: int) -> Occupancy:
        """Return the current load of the engine, with ``waiting`` requests in the queue."""
        reading = self._prefill.cache.slots if self._prefill is not None else 0
        kept = self._prefixes
        return Occupancy(waiting, len(self.handles), self._batch.slots + reading, len(kept), kept.bytes)

    def choose(self, waiting: Sequence[Handle]) -> list[tuple[Handle, Source | None]]:
        """Choose which of these requests are read next, at least one, and find the known prefixes of their prompts.

        ``waiting``: requests for which there are slots and memory, the oldest first. If choosing fails, they end.
        """
        try:
            known = [self._known(handle.sequence.request) for handle in waiting]
            joins = list(map(_to_join, waiting, known))
            if any(joins):  # the paths of a request are read together, without any other request
                readable = [0] if joins[0] else [number for number, own in enumerate(joins) if not own]
                waiting, known = [waiting[number] for number in readable], [known[number] for number in readable]
            requests = [handle.sequence.request for handle in waiting]
            wave = next_wave(
                [request.prompt for request in requests],
                [source.length if source else 0 for source in known],
                self._prefill_tokens,
                packed=self._model.forward.packs,
                overdue=[handle.passed_over >= _PATIENCE for handle in waiting],
                known_by=[request.known_by for request in requests],
            )
        except Exception as error:  # noqa: BLE001 - for instance, memory ran out; the engine continues
            self._fail(waiting, error)
            return []
        last = max(wave)
        for number, handle in enumerate(waiting):
            handle.passed_over += number < last and number not in wave
        return [(waiting[number], known[number]) for number in wave]

    def admit(self, wave: Sequence[tuple[Handle, Source | None]]) -> None:
        """Admit the requests that `choose` returned, at least one. Their prompts are read in the following turns."""
        self._reading, self._drafters = [handle for handle, _ in wave], []
        for handle, source in wave:
            handle.reach("admitted")
            handle.sequence.cached = source.length if source else 0
        self._drafters = [self._drafter_of(handle) for handle in self._reading]
        try:
            joins = _to_join(*wave[0])
            self._prefill = self._joining(wave[0][0]) if joins else self._reading_of([source for _, source in wave])
        except Exception as error:  # noqa: BLE001 - ends these requests, not the engine
            self._fail(self._reading, error)

    def _reading_of(self, known: Sequence[Source | None]) -> Prefill:
        return Prefill(
            self._model.forward,
            [handle.sequence for handle in self._reading],
            self._model.device,
            tokens=self._prefill_tokens,
            known=known,
            block=1 if self._model.diffusion is None else self._model.diffusion.reads,
            layers=[layers_read_by(drafter) for drafter in self._drafters],
        )

    def _joining(self, handle: Handle) -> Prefill:
        """Prepare the reading of a prompt whose last paths are joined; their keys and values are known."""
        request = handle.sequence.request
        fork, before = request.joined[-1], request.joined[:-1]
        known = [self._known(replace(request, prompt=path, joined=before)) for path in fork.each(request.prompt)]
        lengths = [source.length if source else 0 for source in known]
        own = sum(max(0, length - fork.shared) for length in lengths)
        handle.sequence.cached = min(fork.shared, max(lengths)) + own
        paths = joining()
        assert paths is not None  # noqa: S101 - `Engine.submit` has checked; for the type checker
        prefill: Prefill = paths.JoinedPrefill(
            self._model.forward,
            handle.sequence,
            self._model.device,
            tokens=self._prefill_tokens,
            known=known,
            layers=layers_read_by(self._drafters[0]),
        )
        return prefill

    def turn(self) -> None:
        """Read a part of the pending prompts, and run one step of the running requests.

        A request's listener is notified of its end after the request has left: then its memory is free, or kept for
        the next request. A failure outside of one request ends all admitted ones; the engine continues.
        """
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - for instance, memory ran out while a request left
            self._fail(self.handles, error)
            self._drop()
        self._notify_ended()

    def fail(self, chosen: Sequence[Handle], error: BaseException) -> None:
        """End these requests and all admitted ones with an error."""
        self._fail([*chosen, *self.handles], error)
        self._drop()
        self._notify_ended()

    def _notify_ended(self) -> None:
        while self._ended:
            handle, finished = self._ended.popleft()
            handle.tell(finished)

    def clear(self) -> None:
        """Drop all requests, and everything kept from earlier ones."""
        self._drop()
        self._prefixes.clear()

    def _drop(self) -> None:
        self._batch, self._prefill = self._new_batch(), None
        self._running, self._reading, self._drafters = [], [], []
        self._step_batches.change([])

    def _work(self) -> None:
        self._leave()
        if self._prefill is not None and self._reading:
            try:
                self._read(self._prefill)
            except Exception as error:  # noqa: BLE001 - any error ends these requests, not the engine
                self._fail(self._reading, error)
                self._prefill = None
        if self._running and not all(handle.finished for handle in self._running):
            self._leave()
            try:
                steps = self._batch.advance()
            except Exception as error:  # noqa: BLE001 - as above
                self._fail(self._running, error)
                self._batch = self._new_batch()
            else:
                self._hand_out(self._running, steps)
        self._leave()

    def _read(self, prefill: Prefill) -> None:
        """Read a part of the prompts. Once all are read, their requests join the batch."""
        if not prefill.done:  # it can be, because those with longer prompts have left
            prefill.advance()
        if not prefill.done:
            return
        for handle in self._reading:
            handle.reach("prompt_read")
        joining, drafters = self._reading, self._drafters
        self._reading, self._drafters, self._prefill = [], [], None
        self._running += joining
        try:
            steps = self._batch.join(prefill, drafters)
        except Exception as error:  # noqa: BLE001 - the batch may have taken only some of them
            self._fail(self._running, error)
            self._batch = self._new_batch()
        else:
            self._step_batches.change(self._running)
            self._hand_out(joining, steps)

    def _drafter_of(self, handle: Handle) -> Any:
        """Make a request's drafter, or its rule. An answer can go on without a drafter, not without a rule."""
        request, diffusion = handle.sequence.request, self._model.diffusion is not None
        try:
            texts = None if diffusion else self._answers.of(request)
            writing = None if texts is None else texts.begin(request.prompt)
            drafter = self._drafter(request, writing)
        except Exception as error:  # noqa: BLE001 - as above
            if diffusion:
                self._fail([handle], error)
                return None
            if out_of_memory(error):
                self._prefixes.clear()
            handle.sequence.warn(
                f"{request.decoding} could not begin and drafts nothing ({type(error).__name__}: {error})"
            )
            return Autoregressive()
        handle.sequence.writing = writing
        return drafter

    def _known(self, request: Generation) -> Source | None:
        """Find the running or kept request with the longest common prefix with this one's prompt."""
        ids = np.array(request.prompt, dtype=np.int64)
        sources = (self._batch.known(ids, request.known_by), self._prefixes.find(ids, request.known_by))
        best = max((source for source in sources if source), key=lambda source: source.length, default=None)
        if request.joined and best is not None and best.length < request.joined[-1].end:
            return None  # up to there, keys are rotated to positions that only a joined text has
        return best if self._model.diffusion is None else _whole_blocks(best, self._model.diffusion.reads)

    def _remember(self, row: int) -> None:
        """Keep what later requests can copy from one that leaves."""
        try:
            self._batch.remember(row, self._prefixes)
        except Exception:  # noqa: BLE001 - it only saves time; for instance, memory ran out
            self._prefixes.clear()

    def _new_batch(self) -> BatchMembers[Any]:
        if self._model.diffusion is not None and (blocks := block_models()) is not None:
            return blocks.batch(self._model, lambda row: self._running[row].cancelled)
        return Batch(self._model.forward, self._model.device, draft_nodes=self._draft_nodes, cost=self._cost)

    def _leave(self) -> None:
        """Remove finished and cancelled requests."""
        if not any(handle.finished or handle.cancelled for handle in self._running + self._reading):
            return
        for handle in self.handles:
            if handle.cancelled:
                self._end(handle, handle.sequence.finish("cancelled"))
        staying = [row for row, handle in enumerate(self._running) if not handle.finished]
        if len(self._batch) == len(self._running):  # it is not after a failure
            for row, handle in enumerate(self._running):
                if handle.finished:
                    self._remember(row)
        if not staying and self._running:
            self._batch = self._new_batch()
        elif staying:
            self._batch.keep(staying)
        self._running = [self._running[row] for row in staying]
        self._step_batches.change(self._running)
        staying = [row for row, handle in enumerate(self._reading) if not handle.finished]
        if not staying:
            self._prefill = None
        elif self._prefill is not None:
            self._prefill.keep(staying)
        self._reading = [self._reading[row] for row in staying]
        self._drafters = [self._drafters[row] for row in staying]

    def _hand_out(self, handles: Sequence[Handle], steps: Sequence[Step]) -> None:
        for handle, step in zip(handles, steps, strict=True):
            try:
                piece, finished = handle.sequence.accept(step)
            except Exception as error:  # noqa: BLE001 - one request's tokens that cannot become text end that request only
                self._fail([handle], error)
                continue
            if step.tokens and "first_token" not in handle.stages:
                handle.reach("first_token")
            if piece:
                handle.tell(piece)
            if finished:
                self._end(handle, finished)
            _let_others_draft(handle)

    def _fail(self, handles: Sequence[Handle], error: BaseException) -> None:
        fits = ""
        if out_of_memory(error):
            self._prefixes.clear()
            fits = self._model.fitting_requests()
        shared = len({handle.sequence.request.tenant for handle in handles}) > 1
        if shared:
            log_event(_log, logging.WARNING, "requests failed together", model=self._model.name, raised=error)
        for handle in handles:
            if not handle.finished:
                length, model = len(handle.sequence.request.prompt), self._model
                reason = explain(error, model.name, model.device, fits, shared=shared)
                self._end(handle, Finished("error", length, error=reason))

    def _end(self, handle: Handle, finished: Finished) -> None:
        handle.finished = True
        self._ended.append((handle, finished))


def _to_join(handle: Handle, source: Source | None) -> bool:
    """Return whether a prompt has paths that must be joined before the text after them is read."""
    return bool(handle.sequence.request.joined) and source is None


def _whole_blocks(source: Source | None, block: int | None) -> Source | None:
    """Return the usable part of a source if the tokens of a block see each other: its whole blocks."""
    length = 0 if source is None or block is None else source.length // block * block
    return None if source is None or not length else replace(source, length=length)


def _let_others_draft(handle: Handle) -> None:
    """Make a request's new text available to those that can draft from it."""
    sequence = handle.sequence
    if sequence.writing is None:
        return
    try:
        sequence.writing.write(sequence.generated, whole=handle.finished)
    except Exception:  # noqa: BLE001 - it only saves time; for instance, memory ran out
        sequence.writing = None
