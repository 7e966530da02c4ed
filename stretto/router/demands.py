"""What a request demands outright: a short answer, a format, a length, a number of items. Patterns, not a model."""

from __future__ import annotations

import re

from stretto.language.counting import numbers_in
from stretto.language.folding import fold
from stretto.router.reading import excerpt

_BRIEF = re.compile(
    r"\b(?:"
    r"in (?:a |one |a single |1 |just one |just a |only one )(?:short |single |brief )?(?:word|sentence|line|paragraph)"
    r"|(?:one|single|two|2)[- ](?:word|sentence|line)s? (?:answer|reply|summary|explanation|only|please|max)"
    r"|one word|(?:yes|true)[ /]*(?:or|/)[ /]*(?:no|false)\b"
    r"|be (?:very |as )?(?:brief|concise|short|terse)"
    r"|(?:keep|make) (?:it|your answer|the answer|answers?|this) (?:very |super )?(?:short|brief|concise)"
    r"|(?:short|brief|concise|terse|quick) (?:answers?|replies|reply|responses?)"
    r"|(?:respond|reply|answer) (?:very )?(?:briefly|concisely|tersely|shortly)"
    r"|tl;?dr|in (?:brief|short|a nutshell)\b|no explanations?\b"
    r"|(?:just|only) (?:the )?(?:name|number|answer|letter|result)s?\b"
    r"|(?:in|mit) einem (?:satz|wort)|in (?:zwei|2) sätzen|ganz kurz|kurz und knapp|antworte kurz|ja oder nein"
    r"|en une (?:seule )?phrase|en un mot|brièvement|en bref|oui ou non|réponds? (?:très )?court"
    r"|en una (?:sola )?(?:frase|oración|palabra)|brevemente|sí o no|en pocas palabras"
    r"|in una (?:sola )?(?:frase|parola)|in breve|sì o no|em uma (?:só )?(?:frase|palavra)|sim ou não"
    r"|in (?:één|een) (?:zin|woord)|kort antwoord|ja of nee"
    r"|одним (?:словом|предложением)|в двух словах|кратко|да или нет"
    r"|tek (?:cümle|kelime)|bir cümle(?:de|yle)|kısaca|evet mi"
    r")|一句话|一言で|简短|簡潔に|简要|用一个词|한 문장|一句話|簡短|只回答|是或否|手短に|一文で|はいかいいえ"
    r"|بايجاز|باختصار|في جمله واحده|بجمله واحده|بكلمه واحده|نعم او لا"
    r"|एक वाक्य|एक शब्द में|संक्षेप में|हां या नहीं"
)
_BRIEFLY = re.compile(r"briefly(?<!\wbriefly)\b")  # a search for letters is faster than one for \b
_PER_PART = re.compile(
    r"\b(?:each|every|apiece|per|for all|chaque|cada|jede[nrs]?|ogni|elke?|her bir\w*"
    r"|кажд(?:ый|ую|ое|ого|ой))\b|[每各]|それぞれ|لكل|كل |हर "
)
# These begin with a digit, not with \b, so that the search leaps from digit to digit.
_LIMIT = re.compile(
    r"(\d(?<!\w\d)\d{0,4})[- ](words?|wörtern?|worten?|mots|palabras|parole|palavras|woorden|слов(?:ах|а)?"
    r"|kelime\w*|كلمه|sentences?|sätzen?|phrases|frases|lines?|zeilen)\b"
)
_SIGNS = re.compile(r"(\d{1,4})\s?(?:字|文字)(?:以内|以下|左右|程度|で)|(\d{1,4}) शब्द")
_WORDS_OF_LENGTH = re.compile(
    r"(\d(?<!\w\d)\d{1,4})[- ]"
    r"(?:word|wörter|worte|mots|palabras|parole|palavras|woorden|слов|kelime|كلمه|शब्द)"
)
_WORDS = ("wor", "wör", "mot", "pal", "par", "woo", "сло", "kel", "كلم")
_FORMAT = re.compile(
    r"\b(?:only|just|nothing but|valid|strictly|exclusively|single|must be(?: in)?|nur)\b[^.\n]{0,40}"
    r"\b(?:json|xml|yaml|csv|html|code|toml|sql)\b"
    r"|\b(?:json|xml|yaml|csv|toml)\b[^.\n]{0,20}\b(?:only|object|array|format|schema|output|response)\b"
    r"|\b(?:as|in|return|output|(?:respond|reply|answer) (?:with|in)) (?:a |an |valid |raw )?"
    r"(?:json|xml|yaml|csv|toml)\b"
)
_BULLET = re.compile(r"^[ \t]*(?:[-*•]|\(?\d{1,3}[.):]|\(?[a-zA-Z][.)])[ \t]*\S", re.MULTILINE)
_BULLET_BELOW = re.compile(rf"\n{_BULLET.pattern[1:]}")  # the search leaps from line to line
_INLINE_NUMBERS = re.compile(r"(?:^|\s)\(?(\d{1,2}|[a-h])[.)]\s*\S")
LONGEST_LINE = 80  # characters; a longer line without a mark is text, not an item
SHORT_LINE = 4  # words; lines as short as this are items even where nothing sets them apart from the first
FEWEST_LINES = 3
BRIEF_WORDS = 100
BRIEF_SENTENCES = 3
BRIEF_SIGNS = 200  # Chinese or Japanese
_MANY_ITEMS = 100


def _ends(text: str) -> str:
    return fold(excerpt(text))


def wants_brevity(text: str) -> str | None:
    """Return the words by which a text asks for a short answer as a whole; "50 words each" asks for no such thing."""
    text = _ends(text)
    found = _BRIEF.search(text)
    may_be_per_part = found and (found[0].startswith("in ") or not found[0].isascii())
    if found and not (may_be_per_part and _per_part(text, found)):  # "describe each in one sentence"
        return found[0].strip()
    for found in _BRIEFLY.finditer(text):
        if not _per_part(text, found):
            return found[0]
    for found in _LIMIT.finditer(text):
        most = BRIEF_WORDS if found[2].startswith(_WORDS) else BRIEF_SENTENCES
        if int(found[1]) <= most and not _per_part(text, found):
            return found[0]
    for found in _SIGNS.finditer(text):
        most = BRIEF_SIGNS if found[1] else BRIEF_WORDS
        if int(found[1] or found[2]) <= most and not _per_part(text, found):
            return found[0]
    return None


def _per_part(text: str, found: re.Match[str]) -> bool:
    """Whether what was found speaks of every part of the answer, not of the whole."""
    return _PER_PART.search(text[max(0, found.start() - 60) : found.end() + 40]) is not None


def wants_format(text: str) -> str | None:
    """Return the words by which a text demands a machine-readable answer, or None."""
    text = _ends(text)
    found = _FORMAT.search(text)
    return found[0].strip() if found else None


def words_wanted(text: str) -> int | None:
    """Return the length in words that a text asks for, if it names one."""
    text = _ends(text)
    found = _WORDS_OF_LENGTH.search(text)
    return int(found[1]) if found else None


def items_wanted(text: str) -> int:
    """Count the items that a prompt supplies (a list by lines, numbers or behind a colon) or asks for; 0 if none."""
    text = _ends(text)
    listed = len(_BULLET.findall(text))
    if listed < 2:
        listed = len(_INLINE_NUMBERS.findall(text))
    if listed < 2 and ":" in text:
        tail = text.split(":", 1)[1].strip().split("\n\n")[0]
        pieces = max((tail.split(mark) for mark in (";", " / ", ",", "、", "\n")), key=len)
        listed = len([piece for piece in pieces if piece.strip()])
    if listed < 2:
        listed = _lines_below(text)
    if listed >= 2:
        return min(listed, _MANY_ITEMS)
    return next((count for count in numbers_in(text) if 2 <= count <= _MANY_ITEMS), 0)


def _lines_below(text: str) -> int:
    """Short lines below the first one; 0 where there are fewer than three, or a long one among them."""
    lines = [line for line in text.split("\n")[1:] if line.strip()]
    return len(lines) if len(lines) >= FEWEST_LINES and max(map(len, lines)) <= LONGEST_LINE else 0


def may_be_list(text: str) -> bool:
    """Whether the lines of a text are marked as items, or stand like items under a task: worth a closer look."""
    if text.count("\n") < FEWEST_LINES:
        return False
    text = text.lstrip()
    first, *lines = filter(str.strip, text.split("\n"))
    marked = len(_BULLET_BELOW.findall(text))
    if marked >= FEWEST_LINES:
        return 2 * marked > len(lines)
    if len(lines) < FEWEST_LINES or max(map(len, lines)) > LONGEST_LINE:
        return False
    apart = text[len(first) :].startswith("\n\n") or first.rstrip().endswith((":", "："))
    return apart or max(len(line.split()) for line in lines) <= SHORT_LINE
