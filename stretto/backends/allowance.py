"""Whether a call may be sent once more: the budget of the answer, carried to where calls are repeated.

Like the deadline, which travels as a cancel scope, the allowance belongs to the calling task and to
those it starts; the protocol of a backend needs no word for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Allowance(Protocol):
    """What grants further calls."""

    def refusal(self) -> str | None:
        """Say why there may be no further call; ``None``: there may."""
        ...

    def take(self) -> None:
        """Count one more call that is about to be sent."""
        ...


_current: ContextVar[Allowance | None] = ContextVar("stretto_allowance", default=None)


@contextmanager
def allowed(allowance: Allowance) -> Iterator[None]:
    """Let the calls begun in this context be repeated only as the allowance grants."""
    before = _current.set(allowance)
    try:
        yield
    finally:
        _current.reset(before)


def why_not_again() -> str | None:
    """Say why a call of this task may not be repeated; ``None``: it may."""
    allowance = _current.get()
    return allowance.refusal() if allowance else None


def count_repetition() -> None:
    """Count a repetition that is about to be sent; ask `why_not_again` first."""
    if allowance := _current.get():
        allowance.take()
