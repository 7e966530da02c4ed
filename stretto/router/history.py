"""What a model's earlier answers showed, used to forecast and offer the next ones."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stretto.backends.base import Backend
from stretto.backends.load import ByBackend
from stretto.backends.tenants import asking
from stretto.foundation.latest import Latest
from stretto.language.telling import language_of
from stretto.router.given import Change
from stretto.router.track_record import Kind, Prompts, TrackRecord
from stretto.values.route import Shape

if TYPE_CHECKING:
    from stretto.router.case import Case

ENOUGH = 3
"""How many answers it takes to count for more than the average over models."""
LEARNED: frozenset[Shape] = frozenset({"points", "steps", "prose"})
"""Shapes whose length is learned; that of the others follows from the input."""
WHOLE = ""
"""The key of a whole record among its fields."""
_LAST, _LAST_CHANGES = 9, 5
_USUAL_CHANGES: Mapping[Change, float] = {
    "correct": 0.04, "rename": 0.03, "change": 0.01, "insert": 0.03, "redact": 0.08,
}  # fmt: skip


class History:
    """What the last answers of one backend showed to one tenant, while the process runs."""

    def __init__(self) -> None:
        self._lengths = defaultdict[Shape, deque[int]](_last)
        self._fields = Latest(lambda: defaultdict[str, deque[int]](_last), most=256)  # by schema
        self._changes = defaultdict[Change, deque[float]](lambda: deque(maxlen=_LAST_CHANGES))
        self._records: dict[tuple[Kind, str, Prompts], TrackRecord] = {}

    def note_length(self, shape: Shape, tokens: int) -> None:
        """Note a direct answer whose length was not limited."""
        if shape in LEARNED:
            self._lengths[shape].append(tokens)

    def usual_tokens(self, shape: Shape) -> int | None:
        """Return the mean tokens of the last direct answers of this shape; ``None`` after too few."""
        lengths = self._lengths.get(shape, ())
        return round(statistics.mean(lengths)) if len(lengths) >= ENOUGH else None

    def note_field(self, schema: Mapping[str, Any], name: str, tokens: int) -> None:
        """Note how many tokens a field of a record took; ``name`` is its path."""
        if tokens > 0:
            self._fields.of(_hash(schema))[name].append(tokens)

    def usual_fields(self, schema: Mapping[str, Any]) -> Mapping[str, int]:
        """Return the usual tokens of the fields of this schema by path, and of the whole."""
        fields = self._fields.of(_hash(schema))
        return {name: round(statistics.median(lengths)) for name, lengths in fields.items() if len(lengths) >= ENOUGH}

    def note_change(self, change: Change, share: float) -> None:
        """Note the share of a given text that a change altered."""
        self._changes[change].append(min(1.0, share))

    def usual_change(self, change: Change) -> float:
        """Return the share of a text that such a change alters: the mean of the last ones and the default."""
        usual = _USUAL_CHANGES.get(change)
        return 1.0 if usual is None else statistics.fmean((usual, *self._changes.get(change, ())))

    def track_record(self, kind: Kind, language: str, prompts: Prompts) -> TrackRecord:
        """Return how answers of one kind turned out, in a language and with these prompts.

        A weak model that follows outlines in English may hardly speak German, and one that fails with one prompt family
        may follow another: one says nothing about the other.
        """
        return self._records.setdefault((kind, language, prompts), TrackRecord(kind))


_HISTORIES = ByBackend(lambda: Latest(History))


def history_of(backend: Backend) -> History:
    """Return the history of a backend for the current tenant, shared by all clients that use it.

    Routes reveal it, so tenants have separate ones: none learns what another asked, or how long its answers are.
    """
    return _HISTORIES.of(backend).of(asking())


def track_record_for(case: Case, kind: Kind) -> TrackRecord:
    """Return the model's track record for this kind, in the question's language and with the case's prompts."""
    prompts = (case.family, case.own_prompts)
    return history_of(case.backend).track_record(kind, language_of(case.request.question), prompts)


def _last() -> deque[int]:
    return deque(maxlen=_LAST)


def _hash(schema: Mapping[str, Any]) -> bytes:
    text = json.dumps(schema, sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
