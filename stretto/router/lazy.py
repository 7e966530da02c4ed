"""A property that is computed once, when it is first needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801 - read like `property`
    """Like `functools.cached_property`, which in Python 3.11 computes under a lock that all objects share.

    A long request is read in a thread. With that lock, the event loop would wait for it at its next short one.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, owner: None, kind: type) -> lazy[Value]: ...
    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...
    def __get__(self, owner: object | None, kind: type) -> lazy[Value] | Value:
        """The value; from then on it stands in the object's own dictionary, where this is not asked any more."""
        if owner is None:
            return self
        value = self._compute(owner)
        owner.__dict__[self._name] = value
        return value
