"""The numbers of a Word file's lists and headings, which are not part of its text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stretto.documents.layout import numeral
from stretto.documents.word_package import attribute_of, integer, name_of, value_of

_PLACES = re.compile(r"%([1-9])")
_LEVELS = 9


@dataclass(slots=True)
class _Level:
    """How a level counts, and its label: ``%1`` is the number of the first level."""

    start: int = 1
    form: str = "decimal"
    text: str = ""
    in_figures: bool = False
    style: str = ""
    restarts: int | None = None  # after which level; 0 for never, ``None`` for any above


@dataclass(slots=True)
class _Definition:
    levels: dict[int, _Level]
    style: str  # that refers to another definition
    counted: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Instance:
    definition: str
    starts: dict[int, int] = field(default_factory=dict)
    levels: dict[int, _Level] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)


class ListNumbers:
    """Counts the paragraphs of lists in the order of the calls.

    Args:
        numbering: the part of the file that defines lists.
        of_style: returns the number of the list that a style refers to.
    """

    def __init__(self, numbering: Any, of_style: Callable[[str], str]) -> None:
        self._of_style = of_style
        self._definitions: dict[str, _Definition] = {}
        self._instances: dict[str, _Instance] = {}
        for element in () if numbering is None else numbering.iterchildren("*"):
            match name_of(element):
                case "abstractNum":
                    definition = _Definition(dict(self._levels(element)), value_of(element, "numStyleLink") or "")
                    self._definitions[attribute_of(element, "abstractNumId")] = definition
                case "num":
                    self._instances[attribute_of(element, "numId")] = self._instance(element)

    def level_of_style(self, number: str, style: str) -> int:
        """Return the list level of paragraphs with a style."""
        found = self._found(number)
        return next((at for at, level in found[1].levels.items() if level.style == style), 0) if found else 0

    def label(self, number: str, level: int) -> str:
        """Return the label of the next paragraph of this list: ``1.2`` or ``-``; empty if the list has none."""
        found = self._found(number)
        if found is None or not 0 <= level < _LEVELS:
            return ""
        instance, definition = found
        counted, levels = definition.counted, definition.levels | instance.levels
        here = levels.get(level)
        if here is None:
            return ""
        for above in range(level):
            counted.setdefault(above, levels.get(above, _Level()).start)  # a skipped level counts as begun
        if level in instance.starts and level not in instance.begun:
            counted[level] = instance.starts[level]
        else:
            counted[level] = counted[level] + 1 if level in counted else here.start
        instance.begun.add(level)
        for below in [each for each in counted if each > level]:
            restarts = levels[below].restarts if below in levels else None
            if restarts is None or (restarts and level < restarts):
                del counted[below]
        if here.form == "bullet":
            return "-"

        def number_of(place: re.Match[str]) -> str:
            at = int(place[1]) - 1
            of = levels.get(at, _Level())
            return _written(counted.get(at, of.start), "decimal" if here.in_figures else of.form)

        return _PLACES.sub(number_of, here.text).strip()

    def _found(self, number: str) -> tuple[_Instance, _Definition] | None:
        instance = self._instances.get(number)
        definition = self._definitions.get(instance.definition) if instance else None
        if definition is not None and definition.style and not definition.levels:
            linked = self._instances.get(self._of_style(definition.style))
            definition = self._definitions.get(linked.definition) if linked else None
        return (instance, definition) if instance and definition else None

    def _instance(self, element: Any) -> _Instance:
        found = _Instance(value_of(element, "abstractNumId") or "")
        for override in element.iterchildren("*"):
            at = integer(attribute_of(override, "ilvl"), 0)
            if (start := value_of(override, "startOverride")) is not None and start.isdigit():
                found.starts[at] = int(start)
            found.levels.update(self._levels(override))
        return found

    def _levels(self, element: Any) -> list[tuple[int, _Level]]:
        return [
            (
                integer(attribute_of(each, "ilvl"), 0),
                _Level(
                    start=integer(value_of(each, "start"), 1),
                    form=value_of(each, "numFmt") or "decimal",
                    text=value_of(each, "lvlText") or "",
                    in_figures=value_of(each, "isLgl") is not None,
                    style=value_of(each, "pStyle") or "",
                    restarts=None if (restart := value_of(each, "lvlRestart")) is None else integer(restart, 0),
                ),
            )
            for each in element.iterchildren("*")
            if name_of(each) == "lvl"
        ]


def _written(number: int, form: str) -> str:
    match form:
        case "none":
            return ""
        case "decimalZero":
            return f"{number:02}"
        case "ordinal":
            last = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
            return f"{number}{last}"
        case _:
            return numeral(number, form)
