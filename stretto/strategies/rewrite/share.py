"""How much of a text a change is expected to alter, which decides between edits and writing it anew."""

from __future__ import annotations

import statistics
from collections import Counter, deque
from collections.abc import Mapping

from stretto.backends.base import Backend
from stretto.backends.by_backend import ByBackend
from stretto.backends.tenants import asking
from stretto.foundation.latest import Latest
from stretto.router.given import Change

__all__ = ["ANEW", "expected_share", "note_share", "share_of_change", "written_by_edits"]

_USUAL: Mapping[Change, float] = {"correct": 0.04, "rename": 0.03, "change": 0.01, "insert": 0.03, "redact": 0.08}
ANEW = 0.5
"""The share of a text that edits are expected to write, from which on it is written anew."""
_LAST = 5
_QUOTED = 4  # characters written for one that changes: the words around it, old and new, and the marks of JSON
_SHARES = ByBackend(lambda: Latest[dict[Change, deque[float]]](dict))


def expected_share(backend: Backend, change: Change) -> float:
    """Share of a text that this change alters: the mean of the last ones on this model, else what is usual."""
    usual = _USUAL.get(change, 1.0)
    seen = _SHARES.of(backend).of(asking()).get(change, ())
    return statistics.mean((usual, *seen)) if usual < 1 else 1.0


def written_by_edits(backend: Backend, change: Change) -> float:
    """What edits are expected to write, as a share of the text."""
    return _QUOTED * expected_share(backend, change)


def note_share(backend: Backend, change: Change, share: float) -> None:
    """Note the share of a text that a change altered."""
    _SHARES.of(backend).of(asking()).setdefault(change, deque(maxlen=_LAST)).append(min(1.0, share))


def share_of_change(source: str, result: str) -> float:
    """The share of a source's words that its result does not have."""
    was, now = Counter(source.split()), Counter(result.split())
    return (was - now).total() / max(1, was.total())
