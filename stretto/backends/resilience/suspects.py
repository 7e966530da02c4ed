"""Distinguishes failures caused by a request from those of the endpoint: by who else was answered meanwhile.

Some servers respond with 500 to a client's mistake: llama.cpp to an image for a text model, for instance.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from stretto.backends.allowance import calling
from stretto.backends.base import ModelRequest
from stretto.values.errors import BackendError, ServerFailedError

REPEATED = 2  # failures of one request from which on it no longer counts against the endpoint
MOST_TRIALS = 8  # of other requests at an endpoint that is left alone, if the failed ones might be the cause
_MOST = 200
_KEPT_S = 60.0
_INTERNAL = 500  # 502, 503, 504 and 529 are about the endpoint


def fingerprint(prompt: ModelRequest) -> str:
    """Return a hash of the request. Linear in the prompt: only computed if a call failed, or might be refused."""
    return hashlib.blake2b(repr(prompt).encode(errors="replace"), digest_size=16).hexdigest()


def may_follow_the_request(error: BackendError) -> bool:
    """Return whether the endpoint responded with a failure that the request might have caused."""
    return isinstance(error, ServerFailedError) and error.status == _INTERNAL


@dataclass(slots=True)
class _Suspect:
    times: int
    answered_before: int  # complete answers of the endpoint before this request first failed
    first_for: int | None  # the first answer that sent it
    last_s: float


class Suspects:
    """The requests of one endpoint that failed with 500 in the last minute, most recent ones only.

    Attributes:
        answered: complete answers that the endpoint gave.
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
        """Record a failure; returns whether the request had failed before."""
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
        """Return why a failed request is not worth repeating, or ``None``."""
        found, caller = self._known.get(request), calling()
        if found is None or found.times <= REPEATED:
            return None
        if self.answered > found.answered_before:
            return "others were answered meanwhile, so the failure follows this request"
        if caller is not None and caller.answer != found.first_for:
            return f"it failed {found.times - 1} times before, for whoever sent it"
        return None
