"""Tells the wrappers that repeat or refuse calls whether a call may be repeated, and what it is made for.

Like the deadline, which travels as a cancel scope, the allowance belongs to the calling task and to
those it starts; the protocol of a backend needs no word for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol


class Allowance(Protocol):
    """What grants further calls."""

    def refusal(self) -> str | None:
        """Say why there may be no further call; ``None``: there may."""
        ...

    def take(self) -> None:
        """Count one more call that is about to be sent."""
        ...


@dataclass(frozen=True, slots=True)
class Caller:
    """For what a call is made: a number for the answer, the name of its part; its kind, and what else is told of it.

    ``replaceable``: another model goes on where it fails.
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
    """Let the calls begun in this context be repeated only as the allowance grants."""
    before, caller_before = _current.set(allowance), _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(caller_before)
        _current.reset(before)


def calling() -> Caller | None:
    """Say for what the calls of this task are made, where that is known."""
    return _caller.get()


def why_not_again() -> str | None:
    """Say why a call of this task may not be repeated; ``None``: it may."""
    allowance = _current.get()
    return allowance.refusal() if allowance else None


def count_repetition() -> None:
    """Count a repetition that is about to be sent; ask `why_not_again` first."""
    if allowance := _current.get():
        allowance.take()
