"""How long the fields of records were, for the forecast of the next record with the same schema."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any

from stretto.backends.base import Backend
from stretto.backends.by_backend import ByBackend
from stretto.backends.tenants import asking
from stretto.foundation.latest import Latest

__all__ = ["WHOLE", "learned_of", "note_field"]

WHOLE = ""
"""The name that stands for the whole record."""
_LAST, _ENOUGH = 9, 3


class _Lengths:
    """Tokens of the last values of each field, by the name of its path."""

    def __init__(self) -> None:
        self.last: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=_LAST))


_SEEN = ByBackend(lambda: Latest(_Lengths, most=256))


def learned_of(backend: Backend, schema: Mapping[str, Any]) -> Mapping[str, int]:
    """Usual tokens of the fields of this schema with this model, by the name of their path, and of the whole."""
    last = _SEEN.of(backend).of(_key(schema)).last
    return {name: round(statistics.median(seen)) for name, seen in last.items() if len(seen) >= _ENOUGH}


def note_field(backend: Backend, schema: Mapping[str, Any], name: str, tokens: int) -> None:
    """Note how many tokens a field took."""
    if tokens > 0:
        _SEEN.of(backend).of(_key(schema)).last[name].append(tokens)


def _key(schema: Mapping[str, Any]) -> tuple[object, bytes]:
    """Of a schema for whoever asks: nobody learns by a forecast how long the records of others are."""
    said = json.dumps(schema, sort_keys=True, default=str, ensure_ascii=True)
    return asking(), hashlib.blake2b(said.encode(), digest_size=16).digest()
