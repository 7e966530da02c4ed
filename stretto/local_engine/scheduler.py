"""Which requests run in the next forward: continuous batching.

Between two forwards, finished requests leave and waiting ones are admitted. Those admitted together are read
together, a part of their prompts at a time, while the others go on by one step after each part; once read, they join
the batch. What their prompts have in common with a running request's is copied, not read. Yu et al., "Orca", OSDI 2022.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from stretto.errors import BackendError, StrettoError
from stretto.local_engine.drafting.protocol import Drafter
from stretto.local_engine.generation import Finished
from stretto.local_engine.handle import Handle
from stretto.local_engine.load import LoadedModel
from stretto.local_engine.loop import Batch
from stretto.local_engine.prefill import Prefill

__all__ = ["Scheduler"]


class Scheduler:
    """Runs admitted requests, one turn after the other. A failure ends the requests concerned, each with one error.

    Args:
        model: what to run.
        drafter: makes the drafter of one request by the name of its method.
        prefill_rows: prompt tokens of each request to read in one forward at most.
        draft_rows: drafted tokens of all requests together to evaluate in one forward at most.
    """

    def __init__(
        self, model: LoadedModel, drafter: Callable[[str], Drafter], *, prefill_rows: int, draft_rows: int
    ) -> None:
        self._model = model
        self._drafter = drafter
        self._prefill_rows = prefill_rows
        self._draft_rows = draft_rows
        self._prefill: Prefill | None = None
        self._reading: list[Handle] = []
        self._batch = self._new_batch()
        self._running: list[Handle] = []

    @property
    def handles(self) -> list[Handle]:
        """All requests that were admitted and have not finished."""
        return [handle for handle in self._running + self._reading if not handle.finished]

    @property
    def admits(self) -> bool:
        """Whether requests can be admitted now: those admitted before are read."""
        return not self._reading

    def admit(self, handles: Sequence[Handle]) -> None:
        """Begin to read these requests' prompts."""
        self._reading = list(handles)
        try:
            sequences = [handle.sequence for handle in handles]
            known = self._batch.lend([sequence.request.prompt for sequence in sequences])
            self._prefill = Prefill(
                self._model.forward, sequences, self._model.device, rows=self._prefill_rows, known=known
            )
        except Exception as error:  # noqa: BLE001 - ends these requests, not the engine
            self._fail(self._reading, error)

    def turn(self) -> None:
        """Read a part of the prompts that are being read, and run one step of the others."""
        self._leave()
        if self._prefill is not None and self._reading:
            try:
                self._read(self._prefill)
            except Exception as error:  # noqa: BLE001 - whatever it raises ends these requests, not the engine
                self._fail(self._reading, error)
                self._prefill = None
        if self._running and not all(handle.finished for handle in self._running):
            self._leave()
            try:
                committed = self._batch.advance()
            except Exception as error:  # noqa: BLE001 - as above
                self._fail(self._running, error)
                self._batch = self._new_batch()
            else:
                self._hand_out(self._running, committed)
        self._leave()

    def _read(self, prefill: Prefill) -> None:
        if not prefill.done:  # it may be, because those whose prompts were longer have left
            prefill.advance()
        if not prefill.done:
            return
        drafters = [self._drafter(handle.sequence.request.decoding) for handle in self._reading]
        joining, self._reading, self._prefill = self._reading, [], None
        self._running += joining
        try:
            committed = self._batch.join(prefill, drafters)
        except Exception as error:  # noqa: BLE001 - the batch may have taken them in half
            self._fail(self._running, error)
            self._batch = self._new_batch()
        else:
            self._hand_out(joining, committed)

    def _new_batch(self) -> Batch:
        return Batch(self._model.forward, self._model.device, draft_rows=self._draft_rows)

    def _leave(self) -> None:
        """Let finished and cancelled requests go."""
        for handle in self._running + self._reading:
            if handle.cancelled and not handle.finished:
                handle.tell(handle.sequence.finish("cancelled"))
        staying = [row for row, handle in enumerate(self._running) if not handle.finished]
        if not staying and self._running:
            self._batch = self._new_batch()
        elif staying:
            self._batch.keep(staying)
        self._running = [self._running[row] for row in staying]
        staying = [row for row, handle in enumerate(self._reading) if not handle.finished]
        if not staying:
            self._prefill = None
        elif self._prefill is not None:
            self._prefill.keep(staying)
        self._reading = [self._reading[row] for row in staying]

    def _hand_out(self, handles: Sequence[Handle], committed: Sequence[list[int]]) -> None:
        for handle, tokens in zip(handles, committed, strict=True):
            try:
                piece, finished = handle.sequence.accept(tokens)
            except Exception as error:  # noqa: BLE001 - text that cannot be made of one request's tokens ends that request only
                self._fail([handle], error)
                continue
            if piece:
                handle.tell(piece)
            if finished:
                handle.tell(finished)

    def _fail(self, handles: Sequence[Handle], error: Exception) -> None:
        for handle in handles:
            if not handle.finished:
                length = len(handle.sequence.request.prompt)
                handle.tell(Finished("error", length, error=self._explain(error)))

    def _explain(self, error: Exception) -> StrettoError:
        name = self._model.name
        if isinstance(error, torch.OutOfMemoryError | MemoryError):
            return BackendError(
                f"{name} ran out of memory on {self._model.device}. Ask for fewer tokens, shorten the prompt "
                "or send fewer requests at once.",
                backend=name,
                transient=True,
            )
        return BackendError(f"{name} failed while generating: {type(error).__name__}: {error}", backend=name)
