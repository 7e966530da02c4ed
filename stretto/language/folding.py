"""Normalise spelling: case, digits, question marks, optional letters and marks."""

from __future__ import annotations

import re

UNSPACED = "\u3040-\u30ff\u3400-\u9fff"
"""Scripts without spaces between words (kana and Han), as a character range for patterns."""

_ARABIC = dict(zip("أإآٱىؤئةک", "ااااييئهك", strict=True)) | {"ؤ": "و", "ئ": "ي", "ی": "ي"}
_ARABIC_MARKS = dict.fromkeys([chr(code) for code in range(0x64B, 0x653)] + ["\u0640", "\u0670"], "")
# Nukta is often omitted, and chandrabindu written as anusvara; precomposed letters lose their nukta too.
_HINDI = dict(zip("क़ख़ग़ज़ड़ढ़फ़य़".replace("\u093c", ""), "कखगजडढफय", strict=True))
_HINDI_COMPOSED = dict(zip(map(chr, range(0x958, 0x960)), "कखगजडढफय", strict=True))
# Arabic, Persian, Devanagari, full-width.
_DIGITS = {chr(first + value): str(value) for first in (0x660, 0x6F0, 0x966, 0xFF10) for value in range(10)}
_WIDE = {chr(0xFF41 + place): chr(ord("a") + place) for place in range(26)} | {"？": "?", "！": "!", "\u3000": " "}
_FOLDED = (
    _ARABIC
    | _ARABIC_MARKS
    | _HINDI
    | _HINDI_COMPOSED
    | _DIGITS
    | _WIDE
    | {"\u093c": "", "ँ": "ं", "؟": "?", "ё": "е", "\u0307": "", "\u200c": " ", "\u200d": "", "\u00a0": " "}
)
_ANY = re.compile("[" + "".join(_FOLDED) + "]")


def fold(text: str) -> str:
    """Fold to lower case, ASCII digits and question marks; drop optional marks of Arabic, Hindi, Russian and Turkish.

    The result can be shorter than the text. Folding is idempotent.
    """
    text = text.lower()
    return text if text.isascii() else _ANY.sub(lambda found: _FOLDED[found[0]], text)
