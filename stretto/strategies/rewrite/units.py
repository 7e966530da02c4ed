"""Numbers of a text, and the units that stand with them: signs, common abbreviations, euros and dollars.

A translation may write a unit as a word, or its sign on the other side. So a unit counts as changed only where another
known one stands in its place, and a sign as lost only where nothing that may be meant by it is near.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from stretto.router.given import Change

__all__ = ["EAST", "NUMBER", "changed_units", "digits_of"]

EAST = r"\u2e80-\ud7ff\uf900-\ufaff\uff00-\uffef"
"""Scripts without blanks, whose characters hold more."""
NUMBER = re.compile(rf"(?<![^\W_{EAST}])\d{{1,400}}(?:[.,'’:٫٬][\d]{{1,400}}|[ \u00a0\u202f]\d{{3}}(?!\d))*")
_PARTS = re.compile(r"[.,'’:٫٬ \u00a0\u202f]")
_BLANK = r"[ \u00a0\u202f\u2009]"

_SIGNS: Mapping[str, str] = {
    "%": r"[%％٪]|per ?cent(?!age|ual)|pro[czs]ent(?!punkt|u)|pct\b|proc\.|pour cent|por ?cien(?:to)?|por cento|процент"
    r"|відсот|بالم|في الم|درصد|प्रतिशत|फ़?ीसदी|パーセント|퍼센트|phần trăm|persen|százalék"
    r"|τοις εκατό|אחוז|la sută|เปอร์เซ็นต์",
    "€": r"€|EUR\b|euros?\b|ユーロ|欧元|유로|евро",
    "$": r"(?:US[-‑ ]?)?(?:\$(?:US)?|dollars?\b|dollar[io]\b|dólar(?:es)?\b)|USD\b|доллар|ドル|美元|달러",
    "£": r"£|GBP\b",
    "°C": rf"°{_BLANK}?C\b|℃",
    "°F": rf"°{_BLANK}?F\b|℉",
}
_ABBREVIATED = ("km", "cm", "mm", "m", "kg", "mg", "g", "h", "min")
_UNITS = (*_SIGNS, *_ABBREVIATED)
_BEHIND = re.compile(
    rf"(?:{_BLANK}|[-‑])?(?:"
    + "|".join(f"((?i:{each}))" for each in _SIGNS.values())
    + "".join(rf"|({each})(?![^\W{EAST}]|[/²³$€£])" for each in _ABBREVIATED)
    + ")"
)
_BEFORE = re.compile(
    rf"(?<!\d)(?<!\d{_BLANK})(?:(?P<percent>yüzde|百分之|[%％٪])|(?P<euro>€|EUR)|(?P<dollar>\$|USD)|(?P<pound>£|GBP)){_BLANK}?\Z",
    re.IGNORECASE,
)
_NAMED = {"percent": "%", "euro": "€", "dollar": "$", "pound": "£"}
_NEAR = re.compile("|".join([*_SIGNS.values(), r"pour ?cent|por ?cen|percent|prozent|point|ポイント"]), re.IGNORECASE)
_LINE = 200  # characters behind a number in which a sign may stand that is meant for it, too: "5, 10 and 20 %"
_MARKS = " \u00a0\u202f*_~`\"'’”»)]-‑"
_ALIKE = {"m", "min"}  # "2h 20m" is "2 h 20 min"
_FREE: frozenset[Change] = frozenset({"simplify", "tone", "reformat"})
"""Changes that may put "50 out of 100" or a column's head in place of a sign."""
_OTHER = re.compile(
    r"\bunits?\b|einheit|unité|unidad|\bunità|eenhe|единиц|单位|單位|単位|단위|metri[ck]|métri|imperial|convert|umrechn"
    r"|umwand|currenc|währung|devise|monnaie|moneda|valuta|moeda|валют|货币|通貨|locali[sz]|[%€$£°]"
    r"|\b(?:km|miles?|meilen|kilom\w+|dollars?|euros?|pounds?|pfund|celsius|fahrenheit|percent|prozent)\b",
    re.IGNORECASE,
)


def digits_of(number: str) -> str:
    """Its digits alone: signs and separators differ by language."""
    return "".join(str(int(sign)) for sign in _PARTS.sub("", number))


def changed_units(source: str, result: str, change: Change, task: str) -> Iterator[str]:
    """Numbers that are there, but not in their unit: "3 km became 3 m"; none where the task may ask for other units."""
    if _OTHER.search(task):
        return
    there = _numbers(result)
    for number, places in _numbers(source).items():
        unit, *others = {_unit(source, *place) for place in places}
        if others or unit is None or len(there[number]) != len(places):
            continue  # which of them stands where is not sure
        for place in there[number]:
            instead = _unit(result, *place)
            if instead is None and change not in _FREE and _is_lost(unit, result, *place):
                yield f"{number} {unit} became {number}"
            elif instead is not None and instead != unit and {unit, instead} != _ALIKE:
                yield f"{number} {unit} became {number} {instead}"


def _numbers(text: str) -> defaultdict[str, list[tuple[int, int]]]:
    """Where each number of a text stands."""
    found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for number in NUMBER.finditer(text):
        found[digits_of(number[0])].append(number.span())
    return found


def _unit(text: str, start: int, end: int) -> str | None:
    """The unit of a number at this place, if it is a known one."""
    if (before := _BEFORE.search(text, max(0, start - 8), start)) and before.lastgroup:
        return _NAMED[before.lastgroup]
    behind = _BEHIND.match(text, end)
    return _UNITS[behind.lastindex - 1] if behind and behind.lastindex else None


def _is_lost(unit: str, text: str, start: int, end: int) -> bool:
    """Whether nothing near a number may stand for the sign of its source."""
    rest = text[end : end + _LINE].partition("\n")[0]
    if unit not in _NAMED.values() or _NEAR.search(rest):
        return False
    is_word = rest.lstrip(_MARKS)[:1].isalpha() or text[start - 1 : start].isalpha()
    return unit == "%" or not is_word  # money has a name of its own in many languages
