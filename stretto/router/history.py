"""What the earlier answers of a model showed, by which the next ones are forecast and offered."""

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
"""Answers that tell more than what is usual of all models."""
LEARNED: frozenset[Shape] = frozenset({"points", "steps", "prose"})
"""The length of others follows from what is given."""
WHOLE = ""
"""The name that stands for a whole record among its fields."""
_LAST, _LAST_CHANGES = 9, 5
_USUAL_CHANGES: Mapping[Change, float] = {
    "correct": 0.04, "rename": 0.03, "change": 0.01, "insert": 0.03, "redact": 0.08,
}  # fmt: skip


class History:
    """What the last answers of one backend showed to one tenant, for as long as the process runs."""

    def __init__(self) -> None:
        self._lengths = defaultdict[Shape, deque[int]](_last)
        self._fields = Latest(lambda: defaultdict[str, deque[int]](_last), most=256)  # by schema
        self._changes = defaultdict[Change, deque[float]](lambda: deque(maxlen=_LAST_CHANGES))
        self._records: dict[tuple[Kind, str, Prompts], TrackRecord] = {}

    def note_length(self, shape: Shape, tokens: int) -> None:
        """Note a straight answer that was left to end by itself."""
        if shape in LEARNED:
            self._lengths[shape].append(tokens)

    def usual_tokens(self, shape: Shape) -> int | None:
        """The mean of the last straight answers of this shape; ``None`` after too few."""
        seen = self._lengths.get(shape, ())
        return round(statistics.mean(seen)) if len(seen) >= ENOUGH else None

    def note_field(self, schema: Mapping[str, Any], name: str, tokens: int) -> None:
        """Note how many tokens a field of a record took, by the name of its path."""
        if tokens > 0:
            self._fields.of(_hash(schema))[name].append(tokens)

    def usual_fields(self, schema: Mapping[str, Any]) -> Mapping[str, int]:
        """Usual tokens of the fields of this schema, by the name of their path, and of the whole."""
        fields = self._fields.of(_hash(schema))
        return {name: round(statistics.median(seen)) for name, seen in fields.items() if len(seen) >= ENOUGH}

    def note_change(self, change: Change, share: float) -> None:
        """Note the share of a given text that a change altered."""
        self._changes[change].append(min(1.0, share))

    def usual_change(self, change: Change) -> float:
        """The share of a text that such a change alters: the mean of the last ones and of what is usual."""
        usual = _USUAL_CHANGES.get(change)
        return 1.0 if usual is None else statistics.fmean((usual, *self._changes.get(change, ())))

    def track_record(self, kind: Kind, language: str, prompts: Prompts) -> TrackRecord:
        """How answers of one kind turned out, in a language and with these prompts.

        A weak model that holds outlines in English may hardly speak German, and one that fails with one family of
        prompts may hold another: one says nothing about the other.
        """
        return self._records.setdefault((kind, language, prompts), TrackRecord(kind))


_HISTORIES = ByBackend(lambda: Latest(History))


def history_of(backend: Backend) -> History:
    """The history of a backend for whoever asks, the same for all clients that use it.

    A route tells of it, so no tenant learns from it what another asked, or how long its answers are.
    """
    return _HISTORIES.of(backend).of(asking())


def track_record_for(case: Case, kind: Kind) -> TrackRecord:
    """How the model's last answers of this kind turned out, in the question's language and with the case's prompts."""
    prompts = (case.family, case.own_prompts)
    return history_of(case.backend).track_record(kind, language_of(case.request.question), prompts)


def _last() -> deque[int]:
    return deque(maxlen=_LAST)


def _hash(schema: Mapping[str, Any]) -> bytes:
    said = json.dumps(schema, sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.blake2b(said.encode(), digest_size=16).digest()
