"""Cues of a prompt: words, word pairs, concepts and structure, under readable names.

All cues share one bag. ``w`` a word, ``w v`` a pair, ``|w`` a word that begins a clause, ``$w`` a word of the last
clause, ``~stem`` the first letters of a word, ``^xy`` two adjacent characters of a script without spaces between words,
``@c`` a concept of the lexicon, ``@c>@d`` two successive concepts, ``=name`` a structural fact. The lexicon lists the
words for a concept in multiple languages, so that training on English carries over to them.
"""

from __future__ import annotations

import re
import string
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise

from stretto.language.folding import UNSPACED, fold
from stretto.router.excerpt import excerpt

STEM = 5  # letters
MAX_WORDS = 400
BREAK = "."
_FEWEST_LETTERS = 3  # of the beginning by which a word is recognised

_KEPT = string.ascii_letters + string.digits + "+#-"
# UTF-8 bytes, which are translated much faster than characters; bytes of other scripts are kept.
_CLEAN = bytes(
    code if code > 127 or chr(code) in _KEPT else ord(BREAK if chr(code) in ".!?:;\n" else " ") for code in range(256)
)
_BEYOND_ASCII = dict.fromkeys("’‘“”„«»「」『』（）、，،…–—¿¡《》·", " ") | dict.fromkeys("。！？：；؛।", BREAK)
_MARKS_BEYOND_ASCII = re.compile(f"[{''.join(_BEYOND_ASCII)}]")
_UNSPACED = re.compile(rf"[{UNSPACED}\uac00-\ud7af]")
_RUN = re.compile(rf"[{UNSPACED}]+")
_ARABIC_CLITICS = re.compile("(?:[وف]?(?:ال|بال|كال|لل)|[وفبل])(?=...)")
_CLITICS_BEGIN = frozenset("وفابكل")
_BULLET = re.compile(r"\n[ \t]*(?:[-*•]|\d{1,2}[.)]|\(?[a-z]\))[ \t]")  # begins with the end of the line before
_QUOTE_ENDS = re.compile(r"[\"”»」]")
_QUOTE_BEGINS = re.compile(r"[“„«「]")  # and the end of another, if it is a straight quote
_SHORTEST_QUOTED = 40
_SYMBOLS = b"{}<>$\\=^|"  # and () and **
_DIGITS = string.digits.encode()
_NO_MARKS = string.ascii_letters.encode() + b" " + bytes(range(128, 256))
_QUOTES = '"“„«「'
_LENGTH_STEPS = (25, 50, 80, 120, 200, 350, 700, 1500, 4000)


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Concepts by word, by the beginning of a word, and by substring in scripts without spaces."""

    words: dict[str, tuple[str, ...]]
    beginnings: dict[str, tuple[str, ...]]
    begun: frozenset[str]  # the first letters of all ``beginnings``
    unspaced: dict[str, tuple[str, ...]]
    pattern: re.Pattern[str]  # finds the keys of ``unspaced``, the longest first

    def of(self, word: str) -> tuple[str, ...]:
        """Return the concepts of a word, inflected or not."""
        if found := self.words.get(word) or (word[:1] in _CLITICS_BEGIN and self.words.get(_bare(word))):
            return found
        if word[:_FEWEST_LETTERS] in self.begun:
            for length in range(min(len(word), 9), _FEWEST_LETTERS - 1, -1):
                if found := self.beginnings.get(word[:length]):
                    return found
        return ()


@cache
def lexicon() -> Lexicon:
    """Return the library's lexicon, read once."""
    words: dict[str, list[str]] = {}
    unspaced: dict[str, list[str]] = {}
    concept = ""
    for line in files("stretto.router").joinpath("lexicon.txt").read_text("utf-8").splitlines():
        if line.startswith("@"):
            concept = line.strip()
        elif line and not line.startswith("#"):
            table = unspaced if line.startswith("~") else words
            for word in fold(line.removeprefix("~")).split():
                if concept not in table.setdefault(word, []):
                    table[word].append(concept)
    pattern = re.compile("|".join(sorted(map(re.escape, unspaced), key=len, reverse=True)))
    return Lexicon(
        {word: tuple(found) for word, found in words.items() if not word.endswith("*")},
        {word[:-1]: tuple(found) for word, found in words.items() if word.endswith("*")},
        frozenset(word[:-1][:_FEWEST_LETTERS] for word in words if word.endswith("*")),
        {word: tuple(found) for word, found in unspaced.items()},
        pattern,
    )


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The cues that a model knows, by parts: a lookup is faster than building the name of a cue.

    Attributes:
        names: the names of all cues.
        following: pairs by their first and second word; after a `BREAK`, the first words of clauses.
        stems: by their letters.
        last: words of the last clause.
    """

    names: Collection[str]
    following: Mapping[str, Mapping[str, str]]
    stems: Mapping[str, str]
    last: Mapping[str, str]

    @classmethod
    def of(cls, names: Collection[str]) -> Vocabulary:
        """Build it from the names of cues."""
        following: dict[str, dict[str, str]] = {}
        for name in names:
            first, blank, second = name.partition(" ")
            if blank or name.startswith("|"):
                following.setdefault(first if blank else BREAK, {})[second if blank else name[1:]] = name
        of_mark = {mark: {name[1:]: name for name in names if name.startswith(mark)} for mark in "~$"}
        return cls(names, following, of_mark["~"], of_mark["$"])


def _bare(word: str) -> str:
    """Strip the prefixed article, conjunction or preposition of an Arabic word; return any other word unchanged."""
    found = _ARABIC_CLITICS.match(word)
    return word[found.end() :] if found else word


def cues(prompt: str, known: Vocabulary | None = None) -> list[str]:
    """Return the names of a prompt's cues, without duplicates, in arbitrary order. Any text is accepted.

    ``known``: the cues that are needed; others may be left out.
    """
    text = excerpt(prompt)
    folded = fold(text)
    found = structure(prompt, text if text.isascii() else folded)
    words = words_and_breaks(folded)
    plain = folded.isascii()
    if not plain and _RUN.search(folded):
        words = _without_runs(words, found)
    before = _of_words(words, found, known, plain=plain)
    if not plain and _UNSPACED.search(folded):
        _of_characters(folded, before, found)
    return list(dict.fromkeys(found))


def _of_words(words: list[str], found: list[str], known: Vocabulary | None, *, plain: bool) -> str:
    """Add the cues of words and breaks; return the last concept."""
    concepts_of = lexicon()
    before = "@start"
    of_words: Iterable[tuple[str, ...] | None] = map(concepts_of.words.get, words)
    if not plain:
        may_begin, begun = _CLITICS_BEGIN, concepts_of.begun
        of_words = [
            found or (concepts_of.of(word) if word[:_FEWEST_LETTERS] in begun or word[0] in may_begin else None)
            for word, found in zip(words, of_words, strict=True)
        ]
    for concepts in filter(None, of_words):
        found += concepts
        found.append(f"{before}>{concepts[0]}")
        before = concepts[0]
    stems = words if plain else [_bare(word) if word[0] in _CLITICS_BEGIN else word for word in words]
    last = words[len(words) - words[::-1].index(BREAK) :] if words else []
    if known is not None:
        found += filter(known.names.__contains__, words)
        following = known.following.get
        found += [
            name for first, second in pairwise(words) if (pairs := following(first)) and (name := pairs.get(second))
        ]
        found += filter(None, [known.stems.get(word[:STEM]) for word in stems])
        found += filter(None, map(known.last.get, last))
        return before
    found += [word for word in words if word != BREAK]
    found += [
        f"{first} {second}" if first != BREAK else "|" + second for first, second in pairwise(words) if second != BREAK
    ]
    found += ["~" + word[:STEM] for word in stems if len(word) >= STEM]
    found += ["$" + word for word in last]
    return before


def words_and_breaks(text: str) -> list[str]:
    """Return the words of a folded text, with a `BREAK` before every clause.

    A text of more than ``MAX_WORDS`` words is cut after the clause that exceeds them.
    """
    if not text.isascii():
        text = _MARKS_BEYOND_ASCII.sub(lambda found: _BEYOND_ASCII[found[0]], text)
    clean = text.encode("utf-8", "surrogatepass").translate(_CLEAN).decode("utf-8", "surrogatepass")
    found = f"{BREAK} {clean.replace(BREAK, f' {BREAK} ')}".split()
    if len(found) > MAX_WORDS:
        found = _cut(found)
    while found and found[-1] == BREAK:
        found.pop()
    return found


def _cut(words: list[str]) -> list[str]:
    count = 0
    for place, word in enumerate(words):
        if word != BREAK:
            count += 1
        elif count >= MAX_WORDS:
            return words[:place]
    return words


def _without_runs(words: list[str], found: list[str]) -> list[str]:
    """Remove runs of a script without spaces from the words, and add the cues of their characters.

    The cues are all pairs of characters, the first two at the start of a clause, and the last three of the text.
    """
    others: list[str] = []
    last = BREAK
    for word in words:
        runs = () if word.isascii() else _RUN.findall(word)
        for run in runs:
            found += ["^" + first + second for first, second in pairwise(run)]
        if not runs:
            others.append(word)
        else:
            if last == BREAK:
                found.append("|" + runs[0][:2])
            others += _RUN.sub(" ", word).split()
        last = word
    if words and (ending := _RUN.search(words[-1][::-1])):
        found.append("$" + ending[0][:3][::-1])
    while others and others[-1] == BREAK:
        others.pop()
    return others


def _of_characters(text: str, before: str, found: list[str]) -> None:
    """Add the concepts of a script without spaces and their successions; ``before`` is the preceding concept."""
    known = lexicon()
    for match in known.pattern.findall(text):
        concepts = known.unspaced[match]
        found += concepts
        found.append(f"{before}>{concepts[0]}")
        before = concepts[0]


def structure(prompt: str, text: str) -> list[str]:
    """Return the names of a prompt's structural facts; ``text`` is the part of it that is read."""
    facts = [f"=length{bisect_left(_LENGTH_STEPS, len(prompt))}"]
    end = text.rstrip()[-1:]
    # Counted in what remains without letters and spaces: a few bytes, none of them part of another character.
    marks = text.encode("utf-8", "surrogatepass").translate(None, _NO_MARKS)
    if questions := marks.count(b"?"):
        facts.append(f"=questions{min(questions, 3)}")
        if end == "?":
            facts.append("=asks-last")
    if b"\n" in marks:
        facts += _layout(text, marks)
    plain = text.isascii()
    if (b'"' in marks or (not plain and any(mark in text for mark in _QUOTES))) and _quotes(text):
        facts.append("=quoted")
    doubled = (text.count("()") if b"()" in marks else 0) + (text.count("**") if b"**" in marks else 0)
    if symbols := doubled + len(marks) - len(marks.translate(None, _SYMBOLS)):
        facts.append(f"=symbols{1 if symbols < 4 else 2 if symbols < 12 else 3}")
    if digits := len(marks) - len(marks.translate(None, _DIGITS)):
        facts.append(f"=digits{1 if digits < 3 else 2 if digits < 10 else 3}")
    if (commas := marks.count(b",")) > 2:
        facts.append(f"=commas{3 if commas < 6 else 6}")
    if end == ":":
        facts.append("=open-end")
    if not plain:
        facts.append("=unspaced" if _UNSPACED.search(text) else "=beyond-ascii")
    return facts


def _quotes(text: str) -> bool:
    """Return whether the text contains a long quotation: from its first mark to the next one that can end it."""
    start, straight = 0, False
    for end in _QUOTE_ENDS.finditer(text):
        found = None if straight else _QUOTE_BEGINS.search(text, start, end.start())
        begun = start if straight else found.end() if found else None
        if begun is not None and end.start() - begun >= _SHORTEST_QUOTED:
            return True
        start, straight = end.end(), end[0] == '"'
    return False


def _layout(text: str, marks: bytes) -> list[str]:
    lines = marks.count(b"\n")
    facts = ["=lines" + ("1" if lines < 2 else "2" if lines < 5 else "5" if lines < 15 else "15")]
    if "\n\n" in text:
        facts.append("=blank-line")
    if bullets := len(_BULLET.findall("\n" + text)):
        facts.append(f"=bullets{min(bullets, 4)}")
    if b"```" in marks and "```" in text:
        facts.append("=fence")
    return facts
