"""What the first answers of a model showed: whether it holds the points, items or records that it is asked for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from weakref import ref

from stretto.backends.base import Backend

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
    def against(self) -> str | None:
        """Why no further answer of this kind is offered, as half a sentence."""
        if self.wrong < TOO_MANY:
            return None
        wrong = f"{self.wrong} of the last {len(self.last)} {self.kind} of this model in this language went wrong"
        return f"{wrong}; `stretto check` measures what it holds"


_standings: dict[int, tuple[ref[Backend], dict[tuple[Kind, str], Standing]]] = {}


def standing_of(backend: Backend, kind: Kind, language: str) -> Standing:
    """The standing of a backend for one kind of answers in a language, one for all clients that use it.

    A weak model that holds outlines in English may hardly speak German: one says nothing about the other.
    """
    key = id(backend)  # a backend of a caller may be no key itself
    found = _standings.get(key)
    if found is None or found[0]() is not backend:
        try:
            found = (ref(backend, lambda _: _standings.pop(key, None)), {})
        except TypeError:  # it takes no weak references
            return Standing(kind)
        _standings[key] = found
    return found[1].setdefault((kind, language), Standing(kind))
