"""What the first answers of a model showed: whether it delivers the points, items or records it is asked for."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from stretto.values.route import Obstacle

LAST = 5
TOO_MANY = 2
FADES_S = 900.0  # after which a failed answer says nothing about the next one

Prompts = tuple[str, str]
"""The prompt family, and the identity of a client's own templates."""


class Kind(StrEnum):
    """What an answer demands of a model, as `TrackRecord.against` names such answers."""

    PLANS = "answers by a plan"
    ITEMS = "lists written item by item"
    LABELS = "lists of labels"
    RECORDS = "readings of documents"


@dataclass
class TrackRecord:
    """How the last answers of one kind of one backend turned out for a tenant.

    A failed answer counts for `FADES_S` seconds; then such answers are tried again.

    Attributes:
        kind: of the answers.
        last: when each ended, and whether the model managed it; the latest at the end.
        clock: returns the seconds since some fixed moment.
    """

    kind: Kind
    last: deque[tuple[float, bool]] = field(default_factory=lambda: deque(maxlen=LAST))
    clock: Callable[[], float] = time.monotonic

    def note(self, *, managed: bool) -> None:
        self.last.append((self.clock(), managed))

    @property
    def against(self) -> str | None:
        """Why no further answer of this kind is offered, as half a sentence."""
        recent = self._recent
        if len(recent) < TOO_MANY:
            return None
        minutes = math.ceil((recent[-TOO_MANY] + FADES_S - self.clock()) / 60)
        return Obstacle(
            f"{len(recent)} of the last {len(self.last)} {self.kind} of this model in this language went wrong; "
            f"`stretto check` measures what it holds, and in {minutes} minutes another one is tried",
            "ability",
        )

    @property
    def _recent(self) -> list[float]:
        now = self.clock()
        return [ended for ended, managed in self.last if not managed and now - ended < FADES_S]
