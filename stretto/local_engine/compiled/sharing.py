"""Whether several threads are faster than one, as it turns out while they work."""

from __future__ import annotations

__all__ = ["Sharing"]

_SOON, _LATE = 16, 1024  # calls between two trials of the slower way
_FORGET = 1 / 4
_SMALL, _LARGE = 28, 31  # binary digits: work of more is one kind, and is not done by one thread for a trial


class Sharing:
    """Chooses between one thread and several, for work of each size.

    Threads that compute one forward meet dozens of times. Where other programs use the processor too, or its time is
    limited as a container's is, one of them waits milliseconds for its turn, and all others for it. So both ways are
    timed. The slower one is tried again now and then, and the more seldom the longer it stays so.
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
        self._paces: dict[bool, float] = {}  # seconds for a unit of work, shared or not
        self._left, self._patience = 0, _SOON  # calls until the next trial, and between two

    @property
    def _shared(self) -> bool:
        return len(self._paces) < 2 or self._paces[True] <= self._paces[False]

    def chosen(self, *, trials: bool) -> bool:
        """Whether to share the next."""
        if not trials or not self._paces:
            return self._shared
        if len(self._paces) < 2:
            return True not in self._paces
        self._left -= 1
        return self._shared if self._left > 0 else not self._shared

    def note(self, pace: float, *, shared: bool) -> None:
        """Take note of one; a trial counts as much as all before it, for they are long ago."""
        before, known = self._shared, self._paces.get(shared, pace)
        tried = shared != before
        self._paces[shared] = pace if tried else known + _FORGET * (pace - known)
        if tried:
            self._patience = _SOON if self._shared != before else min(2 * self._patience, _LATE)
            self._left = self._patience
