"""What the first answers of a model showed: whether it holds the points, items or records that it is asked for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from stretto.backends.base import Backend
from stretto.backends.by_backend import ByBackend

LAST = 5
TOO_MANY = 2
ENOUGH = 2


class Kind(StrEnum):
    """What an answer asks of a model, as `Standing.against` names such answers."""

    POINTS = "answers in points"
    ITEMS = "lists written item by item"
    LABELS = "lists of labels"
    RECORDS = "readings of documents"


@dataclass
class Standing:
    """How the last answers of one kind of one backend turned out, for as long as the process runs.

    Attributes:
        kind: of the answers.
        last: whether the model held them, the latest at the end.
    """

    kind: Kind
    last: deque[bool] = field(default_factory=lambda: deque(maxlen=LAST))

    def note(self, *, held: bool) -> None:
        """Note one: whether the model held it."""
        self.last.append(held)

    @property
    def wrong(self) -> int:
        """How many of the last ones went wrong."""
        return sum(not held for held in self.last)

    @property
    def shown(self) -> bool:
        """Whether it went well so often that nobody needs a check to know it."""
        return sum(self.last) >= ENOUGH

    @property
    def proven(self) -> bool:
        """Whether it went well so often, and not wrong since, that a good outline is reason enough to go on."""
        return self.shown and not self.wrong

    @property
    def against(self) -> str | None:
        """Why no further answer of this kind is offered, as half a sentence."""
        if self.wrong < TOO_MANY:
            return None
        wrong = f"{self.wrong} of the last {len(self.last)} {self.kind} of this model in this language went wrong"
        return f"{wrong}; `stretto check` measures what it holds"


_STANDINGS: ByBackend[dict[tuple[Kind, str], Standing]] = ByBackend(dict)


def standing_of(backend: Backend, kind: Kind, language: str) -> Standing:
    """The standing of a backend for one kind of answers in a language, one for all clients that use it.

    A weak model that holds outlines in English may hardly speak German: one says nothing about the other.
    """
    return _STANDINGS.of(backend).setdefault((kind, language), Standing(kind))
