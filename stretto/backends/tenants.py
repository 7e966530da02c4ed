"""For whom a model is asked, so that nobody learns by drafts, caches or usage what somebody else has asked.

Like `allowance`, it belongs to the calling task and to those it starts.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b

from stretto.values.answer import Usage

UNKNOWN = ""
"""All callers that cannot be told apart: they share what a cache holds, and no answers are kept for drafts."""

_SECRET = secrets.token_bytes(32)
_tenant: ContextVar[str | None] = ContextVar("stretto_tenant", default=None)
_among_others: ContextVar[bool] = ContextVar("stretto_tenant_among_others", default=False)


@contextmanager
def asked_for(tenant: str | None, *, among_others: bool = False) -> Iterator[None]:
    """Let the calls begun in this context be for a tenant; ``None``: for the owner of this process.

    ``among_others``: there are further tenants, who ask the same providers with the same key.
    """
    before, others = _tenant.set(tenant), _among_others.set(among_others)
    try:
        yield
    finally:
        _tenant.reset(before)
        _among_others.reset(others)


def asking() -> str | None:
    """For whom the calls of this task are made."""
    return _tenant.get()


def among_others() -> bool:
    """Whether there are further tenants."""
    return _among_others.get()


def cache_salt() -> str | None:
    """What parts a server's prefix cache by tenant, where it takes a salt; ``None`` for one who is the only one.

    Nobody can guess that of another tenant. It is another one in each process.
    """
    if not _among_others.get():
        return None
    return blake2b((asking() or "").encode(), key=_SECRET, digest_size=32).hexdigest()


def own_usage(usage: Usage) -> Usage:
    """A provider's usage without its cache: what it found there may come from another tenant's prompts."""
    return usage.model_copy(update={"cached_tokens": 0, "cache_write_tokens": 0}) if _among_others.get() else usage
