"""Admission of waiting requests: those that arrived together, as far as they fit, ordered by their prompts."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Sequence

from stretto.local_engine.serving.handle import Handle

_ANNOUNCED_WAIT_S = 1.0  # maximum wait for an announced request
_FORWARD = 64  # prompt tokens that take about as long as one more forward
_WORTH_WAITING = 8


class Gathering:
    """Waits for requests that arrive together, so that they are read together, the short ones first.

    Args:
        slots: no more waiting once this many are queued.

    Attributes:
        coming: number of announced requests.
        arrived: number of requests so far.
    """

    def __init__(self, slots: int) -> None:
        self.coming = 0
        self.arrived = 0
        self._slots = slots
        self._last_arrived = 0  # value of `arrived` when the queue was last looked at
        self._until: float | None = None

    def whole(self, waiting: int, *, idle: bool) -> bool:
        """Return whether no more requests seem to be coming, given how many wait.

        While a batch runs, new requests wait one step for others, and longer for announced ones.
        """
        waited = self._until is not None and not idle
        quiet = not self.coming and (waited or self._last_arrived == self.arrived)
        self._last_arrived = self.arrived
        now = time.monotonic()
        if quiet or waiting >= self._slots or now > (self._until or now):
            self._until = None
            return True
        self._until = self._until or now + _ANNOUNCED_WAIT_S
        return False


def fitting_together(
    waiting: Iterable[Handle], running: Sequence[Handle], *, slots: int, cache_tokens: float
) -> tuple[list[Handle], str]:
    """Find the oldest requests that fit, together with the running ones, into one batch and into memory.

    Args:
        waiting: the queue, the oldest first.
        running: the batch.
        slots: maximum number of requests in one batch.
        cache_tokens: number of tokens whose keys and values fit into memory.

    Returns:
        these requests, and what the others wait for.
    """
    fitting: list[Handle] = []
    longest = max((_most_tokens(handle) for handle in running), default=0)
    for handle in waiting:
        together = len(running) + len(fitting) + 1
        if together > slots:
            return fitting, "no slot is free"
        longest = max(longest, _most_tokens(handle))
        if together > 1 and longest * together > cache_tokens:
            return fitting, "memory"
        fitting.append(handle)
    return fitting, ""


def _most_tokens(handle: Handle) -> int:
    """Return the maximum number of tokens of a request, with its answer."""
    request = handle.sequence.request
    return len(request.prompt) + request.max_new_tokens


def next_wave(
    prompts: Sequence[tuple[int, ...]],
    known: Sequence[int],
    tokens: int,
    *,
    packed: bool,
    overdue: Sequence[bool] = (),
    known_by: Sequence[Hashable] = (),
) -> list[int]:
    """Choose the requests whose prompts are read together, and return their indices; at least one.

    The one with the least to read goes first. Reading a prompt together with others delays these; reading it later
    delays it and those after it. So it joins them if all requests together get their first token sooner that way.
    A prompt that begins like another one that is being read waits until it can copy that part.

    Args:
        prompts: prompts of the requests, at least one.
        known: number of tokens of each that need not be read.
        tokens: maximum to read in one forward, unless one prompt alone is longer.
        packed: whether the cost of a forward depends on its tokens. If not, it depends on its longest sequence.
        overdue: whether each request has been overtaken often enough; these go first.
        known_by: `Generation.known_by` of each; only requests with the same value can copy from each other.
    """
    left = [len(prompt) - length for prompt, length in zip(prompts, known, strict=True)]
    overdue, known_by = overdue or [False] * len(prompts), known_by or [None] * len(prompts)
    chosen: list[int] = []
    total = 0
    order = sorted(range(len(prompts)), key=lambda number: (not overdue[number], left[number]))
    for index, number in enumerate(order):
        longest = max((left[other] for other in chosen), default=0)
        own = left[number] if packed else max(longest, left[number]) * (len(chosen) + 1) - total
        if chosen and (total + own > tokens or len(chosen) * own > (len(order) - index) * _FORWARD):
            break
        alike = [other for other in chosen if known_by[other] == known_by[number]]
        if any(_begin_alike(prompts[number], prompts[other], known[number]) for other in alike):
            continue
        chosen.append(number)
        total += own
    return chosen


def _begin_alike(prompt: tuple[int, ...], other: tuple[int, ...], known: int) -> bool:
    if prompt[:_WORTH_WAITING] != other[:_WORTH_WAITING]:
        return False
    return common_prefix(prompt, other) - known >= _WORTH_WAITING


def common_prefix(prompt: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Return the length of the common prefix, without the first prompt's last token, which is read in any case."""
    limit = min(len(prompt) - 1, len(other))
    return next((index for index in range(limit) if prompt[index] != other[index]), limit)
