"""Measures, while threads work, whether sharing the work is faster than one thread."""

from __future__ import annotations

from collections import deque
from statistics import median

_SOON, _LATE = 16, 1024  # calls between two trials of the slower way
_TRIAL, _RECENT = 3, 8  # calls of a trial, and recent calls of each way that are compared
_SPIKE = 2.5  # outliers are capped at this many times the median: another program had the processor
_TOO_SLOW = 1.5  # a trial ends if a call takes this many times as long as in the other way
_SMALL, _LARGE = 28, 31  # log2(work): from 2**28 on, sizes share one statistic; above 2**31 one thread is not tried


class Sharing:
    """Chooses between one and multiple threads, for work of each size.

    The threads of a forward wait for each other dozens of times. If other programs also use the processor, or its time
    is limited as in a container, one of them waits milliseconds for its turn, and all others wait for it. So both ways
    are timed. The slower one is retried now and then, more rarely the longer it stays slower. A trial is a few calls,
    of which the first does not count: a helper that has been idle wakes up late.
    """

    def __init__(self) -> None:
        self._kinds: dict[int, _Kind] = {}

    def parts(self, amount: int, most: int) -> int:
        """Return the number of threads for this much work: ``most`` or 1."""
        return most if self._kind(amount).chosen(trials=amount.bit_length() <= _LARGE) else 1

    def note(self, amount: int, parts: int, seconds: float) -> None:
        """Record how long a call took."""
        self._kind(amount).note(seconds / amount, shared=parts > 1)

    def _kind(self, amount: int) -> _Kind:
        return self._kinds.setdefault(min(amount.bit_length(), _SMALL), _Kind())


class _Kind:
    """Statistics for work of about one size."""

    def __init__(self) -> None:
        self._paces = {shared: deque[float](maxlen=_RECENT) for shared in (True, False)}  # seconds per unit of work
        self._shared = True
        self._left, self._patience = 0, _SOON  # calls until the next trial, and between two
        self._trial = 0  # calls left of the trial
        self._elsewhere = float("inf")  # pace of the other way, when it was last tried

    def chosen(self, *, trials: bool) -> bool:
        """Return whether multiple threads do the next work."""
        if not trials or not self._paces[self._shared]:
            return self._shared
        if not self._trial and self._left <= 0:
            self._trial = _TRIAL
            self._paces[not self._shared].clear()
        return self._shared if not self._trial else not self._shared

    def note(self, pace: float, *, shared: bool) -> None:
        """Record the pace of one call."""
        own, other = self._paces[shared], self._paces[not shared]
        own.append(pace)
        if shared == self._shared:
            self._left -= 1
            if (
                pace > self._elsewhere and not self._trial and _usual(own) > self._elsewhere
            ):  # usually only the first condition is checked
                self._end(change=True)
        elif self._trial:
            self._trial -= 1
            if pace > _TOO_SLOW * _usual(other):
                self._end(change=False)
            elif not self._trial:
                own.popleft()
                self._end(change=_usual(own) < _usual(other))

    def _end(self, *, change: bool) -> None:
        """End a trial; switch to the other way, or stay."""
        self._shared ^= change
        self._patience = _SOON if change else min(2 * self._patience, _LATE)
        self._left, self._trial = self._patience, 0
        self._elsewhere = _usual(self._paces[not self._shared])


def _usual(paces: deque[float]) -> float:
    """Return the mean, with outliers capped at `_SPIKE` times the median."""
    most = _SPIKE * median(paces)
    return sum(min(pace, most) for pace in paces) / len(paces)
