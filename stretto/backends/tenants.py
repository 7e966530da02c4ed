"""The tenant of a call, so that no tenant learns through drafts, caches or usage what another has asked.

Like `allowance`, it belongs to the calling task and to the tasks it starts.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b

from stretto.values.answer import Usage

UNKNOWN = ""
"""All callers that cannot be distinguished: they share the caches, and no answers are kept for drafts."""

_SECRET = secrets.token_bytes(32)
_tenant: ContextVar[str | None] = ContextVar("stretto_tenant", default=None)
_among_others: ContextVar[bool] = ContextVar("stretto_tenant_among_others", default=False)


@contextmanager
def asked_for(tenant: str | None, *, among_others: bool = False) -> Iterator[None]:
    """Assign the calls that begin in this context to a tenant; ``None``: the owner of this process.

    ``among_others``: there are further tenants, who ask the same providers with the same key.
    """
    before, others = _tenant.set(tenant), _among_others.set(among_others)
    try:
        yield
    finally:
        _tenant.reset(before)
        _among_others.reset(others)


def asking() -> str | None:
    """Return the tenant of this task's calls."""
    return _tenant.get()


def among_others() -> bool:
    """Return whether there are further tenants."""
    return _among_others.get()


def cache_salt() -> str | None:
    """Return the salt that separates a server's prefix cache by tenant; ``None`` for the only tenant.

    Nobody can guess another tenant's salt. It differs in each process.
    """
    if not _among_others.get():
        return None
    return blake2b((asking() or "").encode(), key=_SECRET, digest_size=32).hexdigest()


def own_usage(usage: Usage) -> Usage:
    """Return a provider's usage without its cache, which can reveal another tenant's prompts."""
    return usage.model_copy(update={"cached_tokens": 0, "cache_write_tokens": 0}) if _among_others.get() else usage
