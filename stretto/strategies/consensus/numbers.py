"""Numbers in texts, read the same however they are written: 1,000 and 1000, 3.50 and 3.5, 1/2 and 0.5."""

from __future__ import annotations

import re
from fractions import Fraction

__all__ = ["decimal_of", "numbers_in"]

_COMMA_BEFORE_DECIMALS = frozenset({"de", "es", "fr", "id", "it", "nl", "pl", "pt", "ru", "tr", "uk", "vi"})
_MOST = 200  # numbers of a text that are read; the last ones count
_LONGEST = 60  # characters of a number; a longer one is read to there
_GROUP = "[ ,.'’\u00a0\u202f]"
_GROUPING = re.compile(_GROUP)
_NUMBER = re.compile(
    rf"(?<![\w.,])(?P<sign>[-−–+]?)(?P<whole>\d{{1,3}}(?:(?P<mark>{_GROUP})\d{{3}}(?:(?P=mark)\d{{3}})*)?(?!\d)|\d+)"
    r"(?P<decimals>[.,]\d+)?(?:e(?P<power>[-+]?\d{1,2})(?!\d))?(?:\s?/\s?(?P<under>\d+)(?![\d/.,]*\d))?"
)


def numbers_in(text: str, language: str = "en") -> list[Fraction]:
    """The numbers of a text, in its order; ``language`` says whether ``1.500`` is fifteen hundred."""
    comma = language in _COMMA_BEFORE_DECIMALS
    return [_value(found, comma=comma) for found in list(_NUMBER.finditer(text.lower()))[-_MOST:]]


def decimal_of(number: Fraction) -> str:
    """A number as decimal digits where they end, else as a fraction."""
    if number.denominator == 1:
        return str(number.numerator)
    rest, digits = number.denominator, 0
    for prime in (2, 5):
        power = 0
        while rest % prime == 0:
            rest, power = rest // prime, power + 1
        digits = max(digits, power)
    if rest != 1:
        return str(number)
    whole = str(abs(number.numerator) * 10**digits // number.denominator).rjust(digits + 1, "0")
    return f"{'-' if number < 0 else ''}{whole[:-digits]}.{whole[-digits:]}"


def _value(found: re.Match[str], *, comma: bool) -> Fraction:
    whole, mark, decimals = found["whole"][:_LONGEST], found["mark"], (found["decimals"] or "")[:_LONGEST]
    if mark == ("," if comma else ".") and whole.count(mark) == 1 and not decimals:
        whole, decimals = whole.split(mark)[0], f".{whole.split(mark)[1]}"  # three decimals, not a thousand
    digits = _GROUPING.sub("", whole)
    number = Fraction(f"{digits}.{decimals[1:]}" if decimals else digits)
    if found["power"]:
        number *= Fraction(10) ** int(found["power"])
    if found["under"] and int(found["under"][:_LONGEST]):
        number /= int(found["under"][:_LONGEST])
    return -number if found["sign"] in ("-", "−", "–") else number
