"""Lets the wrappers that repeat or refuse calls know whether a call can be repeated, and what it is made for.

Like the deadline, which is a cancel scope, the allowance belongs to the calling task and to
the tasks it starts; the protocol of a backend need not mention it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol


class Allowance(Protocol):
    """Permission for further calls."""

    def refusal(self) -> str | None:
        """Return why there can be no further call, or ``None``."""
        ...

    def take(self) -> None:
        """Count one more call, right before it is sent."""
        ...


@dataclass(frozen=True, slots=True)
class Caller:
    """What a call is made for: a number for the answer, the name and kind of its part, and other details.

    ``replaceable``: another model takes over if it fails.
    """

    answer: int
    part: str
    kind: str = field(default="", compare=False)
    about: Mapping[str, Any] = field(default_factory=dict, compare=False)
    replaceable: bool = field(default=False, compare=False)


_current: ContextVar[Allowance | None] = ContextVar("stretto_allowance", default=None)
_caller: ContextVar[Caller | None] = ContextVar("stretto_caller", default=None)


@contextmanager
def allowed(allowance: Allowance, caller: Caller | None = None) -> Iterator[None]:
    """Repeat the calls that begin in this context only as the allowance grants."""
    before, caller_before = _current.set(allowance), _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(caller_before)
        _current.reset(before)


def calling() -> Caller | None:
    """Return what the calls of this task are made for, if known."""
    return _caller.get()


def why_not_again() -> str | None:
    """Return why a call of this task must not be repeated, or ``None``."""
    allowance = _current.get()
    return allowance.refusal() if allowance else None


def count_repetition() -> None:
    """Count a repetition, right before it is sent; ask `why_not_again` first."""
    if allowance := _current.get():
        allowance.take()
