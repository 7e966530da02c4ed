"""Edits as a model writes them, verbatim old text and new text, and how they are applied."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stretto.strategies.rewrite.terms import read_object

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "changes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"old": {"type": "string"}, "new": {"type": "string"}},
                "required": ["old", "new"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["changes"],
    "additionalProperties": False,
}
_INSIDE = re.compile(r"(?<=\w)(?=\w)")  # a place within a word
SHOWN = 60  # characters of an edit in messages to the model


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit; ``start`` is its offset in the new text, once it is applied."""

    old: str
    new: str
    start: int = 0


@dataclass(frozen=True, slots=True)
class Applied:
    """A text with its edits applied; ``failed`` says for each of the others why it could not be applied."""

    text: str
    made: tuple[Edit, ...]
    failed: tuple[str, ...]


def edits_in(text: str) -> list[Edit] | None:
    """Parse the edits in an answer; return ``None`` if it contains no list of them."""
    changes = read_object(text).get("changes")
    if not isinstance(changes, list):
        return None
    found = [(each.get("old"), each.get("new")) for each in changes if isinstance(each, dict)]
    return [Edit(old, new) for old, new in found if isinstance(old, str) and isinstance(new, str) and old != new]


def apply(
    source: str,
    edits: Sequence[Edit],
    *,
    everywhere: bool = False,
    allowed: Callable[[int, int], bool] = lambda _start, _end: True,
) -> Applied:
    """Apply edits to a text and change nothing else.

    Args:
        source: the text that all of them were written for.
        edits: the edits; the old text of each has to occur once in the source.
        everywhere: allow old text to occur several times, and change all occurrences.
        allowed: returns whether the range from start to end can be changed; other occurrences do not count.
    """
    places: list[tuple[int, int, str]] = []
    failed: list[str] = []
    for edit in dict.fromkeys(edits):
        old, new = _with_ends_of(source, edit)
        found = list(_places(source, old, allowed)) if old else []
        quoted = f'"{old if len(old) <= SHOWN else old[:SHOWN] + "..."}"'
        if not found:
            failed.append(f"{quoted} does not stand in the piece")
        elif len(found) > 1 and not everywhere:
            failed.append(f"{quoted} stands in the piece {len(found)} times; take in words around it")
        elif any(start < end_ and start_ < start + len(old) for start in found for start_, end_, _ in places):
            failed.append(f"{quoted} overlaps another change")
        else:
            places.extend((start, start + len(old), new) for start in found)
    parts: list[str] = []
    made: list[Edit] = []
    end = written = 0
    for start, until, new in sorted(places):
        parts += [source[end:start], new]
        written += start - end
        made.append(Edit(source[start:until], new, written))
        written += len(new)
        end = until
    return Applied("".join([*parts, source[end:]]), tuple(made), tuple(failed))


def _with_ends_of(source: str, edit: Edit) -> tuple[str, str]:
    """Return an edit with the line ends of the source, which a model does not distinguish."""
    if "\r\n" not in source or "\r" in edit.old:
        return edit.old, edit.new
    return re.sub(r"\n", "\r\n", edit.old), re.sub(r"\r?\n", "\r\n", edit.new)


def _places(source: str, old: str, allowed: Callable[[int, int], bool]) -> Iterator[int]:
    """Yield the offsets of ``old`` as whole words; if there are none, all of its offsets."""
    found = []
    at = source.find(old)
    while at >= 0:
        if allowed(at, at + len(old)):
            found.append(at)
        at = source.find(old, at + len(old))
    yield from [at for at in found if not any(_INSIDE.match(source, end) for end in (at, at + len(old)))] or found
