"""What the process has seen of each backend, kept for as long as the backend lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import ref

from stretto.backends.base import Backend

Seen = TypeVar("Seen")


class ByBackend(Generic[Seen]):
    """One value for each backend, the same for all clients that use it.

    Args:
        new: makes the value of a backend that was not seen before.
    """

    def __init__(self, new: Callable[[], Seen]) -> None:
        self._new = new
        self._found: dict[int, tuple[ref[Backend], Seen]] = {}

    def of(self, backend: Backend) -> Seen:
        """The value of a backend; a new one each time for a backend that takes no weak references."""
        key = id(backend)  # a backend of a caller may be no key itself
        found = self._found.get(key)
        if found is None or found[0]() is not backend:
            try:
                found = (ref(backend, lambda _: self._found.pop(key, None)), self._new())
            except TypeError:
                return self._new()
            self._found[key] = found
        return found[1]
