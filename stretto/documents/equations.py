"""Equations of Word files (Office MathML) as LaTeX."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stretto.documents.word_package import name_of

_LARGE = {"∑": r"\sum", "∏": r"\prod", "∐": r"\coprod", "∫": r"\int", "∬": r"\iint", "∭": r"\iiint", "∮": r"\oint"}
_LARGE |= {"⋃": r"\bigcup", "⋂": r"\bigcap", "⋁": r"\bigvee", "⋀": r"\bigwedge"}
_ACCENTS = {"\u0302": "hat", "\u0303": "tilde", "\u0304": "bar", "\u0305": "overline", "\u0307": "dot", "\u20d7": "vec"}


def latex(element: Any) -> str:  # noqa: PLR0911, PLR0912 - a case for each element
    """Convert an element of an equation and everything below it."""
    match name_of(element):
        case "t":
            return element.text or ""
        case "f":
            return _fraction(element)
        case "rad":
            degree = _part(element, "deg")
            return rf"\sqrt{f'[{degree}]' if degree else ''}{{{_part(element, 'e')}}}"
        case "sSup" | "sSub" | "sSubSup":
            return _part(element, "e") + _scripts(element)
        case "sPre":
            return "{}" + _scripts(element) + _part(element, "e")
        case "nary":
            sign = _property(element, "chr", "∫")
            return f"{_LARGE.get(sign, sign)}{_scripts(element)} {_part(element, 'e')}"
        case "d":
            inner = _property(element, "sepChr", "|").join(map(latex, _parts(element, "e")))
            return f"{_property(element, 'begChr', '(')}{inner}{_property(element, 'endChr', ')')}"
        case "limLow":
            return f"{_part(element, 'e')}_{{{_part(element, 'lim')}}}"
        case "limUpp":
            return f"{_part(element, 'e')}^{{{_part(element, 'lim')}}}"
        case "func":
            return f"{_part(element, 'fName')} {_part(element, 'e')}"
        case "acc":
            return rf"\{_ACCENTS.get(_property(element, 'chr', '̂'), 'hat')}{{{_part(element, 'e')}}}"
        case "bar":
            return rf"\overline{{{_part(element, 'e')}}}"
        case "m":
            rows = (" & ".join(map(latex, _parts(row, "e"))) for row in _parts(element, "mr"))
            return r"\begin{matrix}" + r" \\ ".join(rows) + r"\end{matrix}"
        case "eqArr":
            return r" \\ ".join(map(latex, _parts(element, "e")))
        case name if name.endswith("Pr") or name in {"del", "delText", "instrText", "moveFrom"}:
            return ""
        case _:
            return "".join(map(latex, element.iterchildren("*")))


def _fraction(element: Any) -> str:
    above, below = _part(element, "num"), _part(element, "den")
    match _property(element, "type", "bar"):
        case "lin":
            return f"{above}/{below}"
        case "noBar":
            return rf"\binom{{{above}}}{{{below}}}"
        case _:
            return rf"\frac{{{above}}}{{{below}}}"


def _scripts(element: Any) -> str:
    below, above = _part(element, "sub"), _part(element, "sup")
    return (f"_{{{below}}}" if below else "") + (f"^{{{above}}}" if above else "")


def _part(element: Any, name: str) -> str:
    return "".join(map(latex, _parts(element, name)))


def _parts(element: Any, name: str) -> Iterator[Any]:
    return (child for child in element.iterchildren("*") if name_of(child) == name)


def _property(element: Any, name: str, otherwise: str) -> str:
    """Return the value of a property, which can be empty; ``otherwise`` if it is missing."""
    for properties in element.iterchildren("*"):
        if name_of(properties) == f"{name_of(element)}Pr":
            for each in _parts(properties, name):
                return str(next(iter(each.attrib.values()), ""))
    return otherwise
