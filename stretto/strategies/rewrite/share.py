"""How much of a text a change is expected to alter, which decides between edits and writing it anew."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from stretto.backends.base import Backend
from stretto.router.given import Change
from stretto.router.history import history_of

Way = Literal["auto", "pieces", "edits"]

_ANEW = 0.5  # the share of a text that edits are expected to write, from which on it is written anew
_QUOTED = 4  # characters written for one that changes: the words around it, old and new, and the marks of JSON


def written_by_edits(backend: Backend, change: Change) -> float:
    """What edits are expected to write, as a share of the text."""
    return _QUOTED * history_of(backend).usual_change(change)


def is_by_edits(way: Way, backend: Backend, change: Change) -> bool:
    """Whether a text is changed by edits: as was chosen, else where they are expected to write less."""
    return way == "edits" or (way == "auto" and written_by_edits(backend, change) < _ANEW)


def share_of_change(source: str, result: str) -> float:
    """The share of a source's words that its result does not have."""
    was, now = Counter(source.split()), Counter(result.split())
    return (was - now).total() / max(1, was.total())
