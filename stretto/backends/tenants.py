"""For whom a model in this process is asked, so that nobody's drafts come from what was written for somebody else.

Like `allowance`, it belongs to the calling task and to those it starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["UNKNOWN", "asked_for", "asking"]

UNKNOWN = ""
"""A tenant of whom nothing is kept, because it cannot be told from others."""

_tenant: ContextVar[str | None] = ContextVar("stretto_tenant", default=None)


@contextmanager
def asked_for(tenant: str | None) -> Iterator[None]:
    """Let the calls begun in this context be for a tenant; ``None``: for the owner of this process."""
    before = _tenant.set(tenant)
    try:
        yield
    finally:
        _tenant.reset(before)


def asking() -> str | None:
    """For whom the calls of this task are made."""
    return _tenant.get()
