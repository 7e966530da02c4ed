"""Tells a failure that follows a request from one of the endpoint: by who else was answered meanwhile.

Some servers answer 500 to what a client did wrong: llama.cpp to an image for a model of text, for instance.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from stretto.backends.allowance import calling
from stretto.backends.base import ModelRequest
from stretto.values.errors import BackendError, ServerFailedError

REPEATED = 2  # failures of one request, from which on it counts no more against the endpoint
MOST_TRIALS = 8  # of other requests at an endpoint that is left alone, if those that failed may be at fault themselves
_MOST = 200
_KEPT_S = 60.0
_INTERNAL = 500  # 502, 503, 504 and 529 are said of the endpoint


def fingerprint(prompt: ModelRequest) -> str:
    """The same for calls that send the same. Linear in the prompt: made only where a call failed, or may be refused."""
    return hashlib.blake2b(repr(prompt).encode(errors="replace"), digest_size=16).hexdigest()


def may_follow_the_request(error: BackendError) -> bool:
    """Whether the endpoint answered, and with a failure that the request may have caused."""
    return isinstance(error, ServerFailedError) and error.status == _INTERNAL


@dataclass(slots=True)
class _Suspect:
    times: int
    answered_before: int  # answers of the endpoint when it failed first
    first_for: int | None  # the answer that sent it first
    last_s: float


class Suspects:
    """The requests of one endpoint that failed with 500, the latest of them, for a minute.

    Attributes:
        answered: whole answers that the endpoint gave.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.answered = 0
        self._clock = clock
        self._known: OrderedDict[str, _Suspect] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, request: str) -> bool:
        return request in self._known

    def note(self, request: str) -> bool:
        """Take in a failure; whether the request had failed before."""
        now_s, caller = self._clock(), calling()
        answer = None if caller is None else caller.answer
        found = self._known.pop(request, None)
        if found is None or now_s - found.last_s > _KEPT_S:
            found = _Suspect(0, self.answered, answer, now_s)
        found.times += 1
        found.last_s = now_s
        self._known[request] = found
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return found.times >= REPEATED

    def why_not_again(self, request: str) -> str | None:
        """Why a request that failed is not worth repeating; ``None``: it is."""
        found, caller = self._known.get(request), calling()
        if found is None or found.times <= REPEATED:
            return None
        if self.answered > found.answered_before:
            return "others were answered meanwhile, so the failure follows this request"
        if caller is not None and caller.answer != found.first_for:
            return f"it failed {found.times - 1} times before, for whoever sent it"
        return None
