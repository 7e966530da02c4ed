"""Whether several threads are faster than one, as it turns out while they work."""

from __future__ import annotations

from collections import deque
from statistics import median

__all__ = ["Sharing"]

_SOON, _LATE = 16, 1024  # calls between two trials of the slower way
_TRIAL, _RECENT = 3, 8  # calls of a trial, and the last of each way by which they are compared
_SPIKE = 2.5  # times as long as usual is taken for no more than that: the processor was elsewhere
_HOPELESS = 1.5  # times as long as the other way ends a trial
_SMALL, _LARGE = 28, 31  # binary digits: work of more is one kind, and is not done by one thread for a trial


class Sharing:
    """Chooses between one thread and several, for work of each size.

    Threads that compute one forward meet dozens of times. Where other programs use the processor too, or its time is
    limited as a container's is, one of them waits milliseconds for its turn, and all others for it. So both ways are
    timed. The slower one is tried again now and then, and the more seldom the longer it stays so. A trial is a few
    calls, of which the first does not count: a helper that was not called for long wakes up late.
    """

    def __init__(self) -> None:
        self._kinds: dict[int, _Kind] = {}

    def parts(self, amount: int, most: int) -> int:
        """By how many threads to share so much work: ``most`` or 1."""
        return most if self._kind(amount).chosen(trials=amount.bit_length() <= _LARGE) else 1

    def note(self, amount: int, parts: int, seconds: float) -> None:
        """Take note of what it took."""
        self._kind(amount).note(seconds / amount, shared=parts > 1)

    def _kind(self, amount: int) -> _Kind:
        return self._kinds.setdefault(min(amount.bit_length(), _SMALL), _Kind())


class _Kind:
    """Work of about one size."""

    def __init__(self) -> None:
        self._paces = {shared: deque[float](maxlen=_RECENT) for shared in (True, False)}  # seconds for a unit of work
        self._shared = True
        self._left, self._patience = 0, _SOON  # calls until the next trial, and between two
        self._trial = 0  # calls that are left of one
        self._elsewhere = float("inf")  # pace of the other way, when it was last tried

    def chosen(self, *, trials: bool) -> bool:
        """Whether to share the next."""
        if not trials or not self._paces[self._shared]:
            return self._shared
        if not self._trial and self._left <= 0:
            self._trial = _TRIAL
            self._paces[not self._shared].clear()
        return self._shared if not self._trial else not self._shared

    def note(self, pace: float, *, shared: bool) -> None:
        """Take note of one."""
        own, other = self._paces[shared], self._paces[not shared]
        own.append(pace)
        if shared == self._shared:
            self._left -= 1
            if (
                pace > self._elsewhere and not self._trial and _usual(own) > self._elsewhere
            ):  # seldom more than one look
                self._end(change=True)
        elif self._trial:
            self._trial -= 1
            if pace > _HOPELESS * _usual(other):
                self._end(change=False)
            elif not self._trial:
                own.popleft()
                self._end(change=_usual(own) < _usual(other))

    def _end(self, *, change: bool) -> None:
        """Go on in the other way, or in the same one."""
        self._shared ^= change
        self._patience = _SOON if change else min(2 * self._patience, _LATE)
        self._left, self._trial = self._patience, 0
        self._elsewhere = _usual(self._paces[not self._shared])


def _usual(paces: deque[float]) -> float:
    """The mean, of which none is much longer than the one in the middle."""
    most = _SPIKE * median(paces)
    return sum(min(pace, most) for pace in paces) / len(paces)
