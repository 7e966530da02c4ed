"""Checks what a rewritten piece has to keep of its source: layout, links, placeholders, numbers, units.

A translation can spell out a unit, or put its sign on the other side. So a unit counts as changed only if another known
one is in its place, and a sign as lost only if nothing nearby can stand for it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from stretto.router.given import Change

EAST = r"\u2e80-\ud7ff\uf900-\ufaff\uff00-\uffef"
"""East Asian scripts, whose characters carry more."""
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
_UNIT_AFTER = re.compile(
    rf"(?:{_BLANK}|[-‑])?(?:"
    + "|".join(f"((?i:{each}))" for each in _SIGNS.values())
    + "".join(rf"|({each})(?![^\W{EAST}]|[/²³$€£])" for each in _ABBREVIATED)
    + ")"
)
_BEFORE = re.compile(
    rf"(?<!\d)(?<!\d{_BLANK})(?:(?P<percent>yüzde|百分之|[%％٪])|(?P<euro>€|EUR)|(?P<dollar>\$|USD)|(?P<pound>£|GBP)){_BLANK}?\Z",
    re.IGNORECASE,
)
_NAMED_UNIT = {"percent": "%", "euro": "€", "dollar": "$", "pound": "£"}
_NEAR = re.compile("|".join([*_SIGNS.values(), r"pour ?cent|por ?cen|percent|prozent|point|ポイント"]), re.IGNORECASE)
_LINE = 200  # characters after a number in which a sign can also apply to it: "5, 10 and 20 %"
_MARKS = " \u00a0\u202f*_~`\"'’”»)]-‑"
_ALIKE = {"m", "min"}  # "2h 20m" is "2 h 20 min"
_FREE: frozenset[Change] = frozenset({"simplify", "tone", "reformat"})
"""Changes that can replace a sign with words such as "50 out of 100" or with a column header."""
_OTHER = re.compile(
    r"\bunits?\b|einheit|unité|unidad|\bunità|eenhe|единиц|单位|單位|単位|단위|metri[ck]|métri|imperial|convert|umrechn"
    r"|umwand|currenc|währung|devise|monnaie|moneda|valuta|moeda|валют|货币|通貨|locali[sz]|[%€$£°]"
    r"|\b(?:km|miles?|meilen|kilom\w+|dollars?|euros?|pounds?|pfund|celsius|fahrenheit|percent|prozent)\b",
    re.IGNORECASE,
)


def _digits_of(number: str) -> str:
    """Return only the digits of a number, because signs and separators differ by language."""
    return "".join(str(int(sign)) for sign in _PARTS.sub("", number))


def _changed_units(source: str, result: str, change: Change, task: str) -> Iterator[str]:
    """Yield numbers whose unit changed: "3 km became 3 m"; nothing if the task may ask for other units."""
    if _OTHER.search(task):
        return
    there = _numbers(result)
    for number, places in _numbers(source).items():
        unit, *others = {_unit(source, *place) for place in places}
        if others or unit is None or len(there[number]) != len(places):
            continue  # their correspondence is uncertain
        for place in there[number]:
            instead = _unit(result, *place)
            if instead is None and change not in _FREE and _is_lost(unit, result, *place):
                yield f"{number} {unit} became {number}"
            elif instead is not None and instead != unit and {unit, instead} != _ALIKE:
                yield f"{number} {unit} became {number} {instead}"


def _numbers(text: str) -> defaultdict[str, list[tuple[int, int]]]:
    """Return the ranges of each number in a text."""
    found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for number in NUMBER.finditer(text):
        found[_digits_of(number[0])].append(number.span())
    return found


def _unit(text: str, start: int, end: int) -> str | None:
    """Return the unit of the number in this range, if it is a known one."""
    if (before := _BEFORE.search(text, max(0, start - 8), start)) and before.lastgroup:
        return _NAMED_UNIT[before.lastgroup]
    after = _UNIT_AFTER.match(text, end)
    return _UNITS[after.lastindex - 1] if after and after.lastindex else None


def _is_lost(unit: str, text: str, start: int, end: int) -> bool:
    """Return whether nothing near a number can stand for the sign in its source."""
    rest = text[end : end + _LINE].partition("\n")[0]
    if unit not in _NAMED_UNIT.values() or _NEAR.search(rest):
        return False
    is_word = rest.lstrip(_MARKS)[:1].isalpha() or text[start - 1 : start].isalpha()
    return unit == "%" or not is_word  # many languages have their own words for currencies


Form = Mapping[str, re.Pattern[str]]

BLANK = re.compile(r"(?<![ \t])(?:[ \t]*+(?:\r\n|\r|\n)){2,}+")
_LAYOUT: Form = {
    "headings": re.compile(r"^ {0,3}#{1,6}(?=[ \t])", re.MULTILINE),
    "list items": re.compile(r"^[ \t]*(?:[-*+•]|\d{1,9}[.)])(?=[ \t])", re.MULTILINE),
    "table rows": re.compile(r"^[ \t]*\|", re.MULTILINE),
    "code fences": re.compile(r"^[ \t]*(?:`{3,}|~{3,})", re.MULTILINE),
}
_WHOLE: Form = {
    "links": re.compile(r"(?<=\]\()[^()\s]{1,2000}|\bhttps?://[^\s<>\"'()\[\]{}|\\^`*]{1,2000}(?<![.,;:!?])"),
    "placeholders": re.compile(
        r"\{\{[^{}\n]{1,80}\}\}|\$\{[^{}\n]{1,80}\}|\{[\w.:!#-]{0,60}\}|%\([\w.]{1,60}\)[a-zA-Z]|%(?:\d{1,3}\$)?[-+#0]{0,3}\d{0,4}(?:\.\d{1,3})?(?:hh?|ll?|z)?[sdifuxXgc@](?!\w)"
        r"|\[\^[\w-]{1,40}\]|</?[a-zA-Z][^<>\n]{0,400}>|(?<!`)`[^`\n]{1,200}`(?!`)"
    ),
    "numbers": NUMBER,
}
_ALL = ("paragraphs", *_LAYOUT, *_WHOLE)
_BRACKETS = re.compile(r"(?<![\]\w!])\[[^\W\d_][^\[\]\n]{0,60}\](?![(\[:])")
_KEPT: Mapping[Change, tuple[str, ...]] = {
    "translate": _ALL,
    "correct": _ALL,
    "tone": ("headings", "table rows", "code fences", "links", "placeholders", "numbers"),
    "simplify": ("headings", "table rows", "code fences", "links", "placeholders", "numbers"),
    "redact": ("paragraphs", *_LAYOUT),
    "shorten": ("headings", "code fences", "placeholders"),
    "expand": ("headings", "code fences", "links", "placeholders", "numbers"),
    "reformat": ("links", "placeholders", "numbers"),
    "annotate": ("links", "placeholders", "numbers"),
    "rename": ("headings", "list items", "table rows", "code fences"),
    "change": ("headings", "list items", "table rows", "code fences", "links", "placeholders"),
    "insert": _ALL[1:],
}
_MENTIONED: Form = {
    "links": re.compile(r"\b(?:hyper)?links?\b|\burls?\b|verweise|liens?\b|enlaces?\b|hipervínculos", re.IGNORECASE),
    "headings": re.compile(r"head(?:ing|line)s?\b|überschrift|titre|títulos?\b|encabezado", re.IGNORECASE),
}
"""Words of a task that may change the number of these elements: "remove all links"."""
_TAG = re.compile(r"</?[a-zA-Z!?][^<>]{0,2000}>")
_RUNS = re.compile(
    r"<(?:script|iframe|frame|object|embed|applet|base|meta|link|style|svg|math|form)\b"
    r"|\bon[a-z]{3,30}[ \t]{0,9}=|javascript:",
    re.IGNORECASE,
)
_NAMED = 3
STUB = "most of its text is missing"
"""The fault of a result that cannot be the whole text: a refusal in prose, or a summary."""
RUNS = "it has markup that a browser runs"
"""The fault of a text within a file with such markup that its source does not have."""
_JUDGED = 120  # characters of a source; shorter ones can become very short
_LEAST_SHARE: Mapping[Change, float] = {"shorten": 0.0, "simplify": 0.2, "tone": 0.2, "redact": 0.1, "reformat": 0.1}
_LEAST = 0.3  # of the length, for all other changes
_WIDE = re.compile(f"[{EAST}]")


def lost(
    source: str, result: str, change: Change, task: str = "", *, tags: bool = False, brackets: bool = False
) -> list[str]:
    """Return what a result lacks of its source, or has in excess, each in a few words; empty if all is kept.

    ``tags``: it is a text within a file, which must have exactly the tags of its source. ``brackets``: it may be a
    template, in which "[Name]" is a placeholder.
    """
    mentioned = {name for name, words in _MENTIONED.items() if change == "change" and words.search(task)}
    found = list(_lost(source, result, [name for name in _KEPT[change] if name not in mentioned]))
    if brackets and "placeholders" in _KEPT[change]:
        found += _missing("placeholders", _BRACKETS, source, result)
    if "numbers" in _KEPT[change]:
        found += _changed_units(source, result, change, task)
    if _length(source) >= _JUDGED and _length(result) < _LEAST_SHARE.get(change, _LEAST) * _length(source):
        found.append(STUB)
    if tags and Counter(_TAG.findall(source)) != Counter(_TAG.findall(result)):
        found.append("its tags are not those of the source")
    if tags and len(_RUNS.findall(result)) > len(_RUNS.findall(source)):
        found.append(RUNS)
    return found


def _length(text: str) -> int:
    """Return the length of a text in characters; those of East Asian scripts count twice."""
    return len(text) + len(_WIDE.findall(text))


def _lost(source: str, result: str, kept: Sequence[str]) -> Iterator[str]:
    if "paragraphs" in kept and (now := len(BLANK.split(result.strip()))) != (was := len(BLANK.split(source.strip()))):
        yield f"{was} paragraphs became {now}"
    for name, pattern in _LAYOUT.items():
        was, now = len(pattern.findall(source)), len(pattern.findall(result))
        if name in kept and was != now:
            yield f"{was} {name} became {now}"
    for name, pattern in _WHOLE.items():
        if name in kept:
            yield from _missing(name, pattern, source, result)


def _missing(name: str, pattern: re.Pattern[str], source: str, result: str) -> Iterator[str]:
    if missing := _of(pattern, name, source) - _of(pattern, name, result):
        shown = ", ".join(list(missing)[:_NAMED]) + (", ..." if len(missing) > _NAMED else "")
        yield f"{name} are missing: {shown}"


def _of(pattern: re.Pattern[str], name: str, text: str) -> Counter[str]:
    """Count the matches in a text; numbers by their digits only."""
    found = (match[0] for match in pattern.finditer(text))
    return Counter(_digits_of(each) if name == "numbers" else each for each in found)


def relaid(source: str, result: str, indent: str = "") -> str:
    """Return a result with the line ends of its source, and with its blank lines if both have equally many.

    ``indent``: the indent of each line of the source after the first.
    """
    gaps, parts, wrote = BLANK.findall(source), BLANK.split(source), BLANK.split(result.strip())
    if len(parts) == len(wrote):
        result = "".join(part + gap for part, gap in zip(wrote, [*gaps, ""], strict=True))
    if indent:
        result = re.sub(rf"\n(?!{indent})[ \t]*(?=\S)", f"\n{indent}", result)
    if "\r\n" in source:
        result = re.sub(r"\r?\n", "\r\n", result)
    return result
