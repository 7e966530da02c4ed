"""Cues of a prompt: words, word pairs, concepts and structure, as names that a person can read.

All cues share one bag. ``w`` a word, ``w v`` a pair, ``|w`` a word that begins a clause, ``$w`` a word of the last
clause, ``~stem`` the first letters of a word, ``@c`` a concept of the lexicon, ``@c>@d`` two concepts in succession,
``=name`` a fact about the structure. The lexicon names the same concept in several languages, so that what is learned
on English reaches them.
"""

from __future__ import annotations

import re
import string
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from stretto.router.reading import excerpt

STEM = 5  # letters
MAX_WORDS = 400
BREAK = "."

_KEPT = string.ascii_letters + string.digits + "+#-"
# Bytes of UTF-8, as bytes are translated many times as fast as characters; those of other scripts stay.
_CLEAN = bytes(
    code if code > 127 or chr(code) in _KEPT else ord(BREAK if chr(code) in ".!?:;\n" else " ") for code in range(256)
)
_BEYOND_ASCII = dict.fromkeys("’‘“”„«»「」『』（）、，…–—¿¡", " ") | dict.fromkeys("。！？：；", BREAK)
_MARKS_BEYOND_ASCII = re.compile(f"[{''.join(_BEYOND_ASCII)}]")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_BULLET = re.compile(r"\n[ \t]*(?:[-*•]|\d{1,2}[.)]|\(?[a-z]\))[ \t]")  # begins with the end of the line before
_QUOTED = re.compile(r"[\"“„«「][^\"”»」]{40,}[\"”»」]")
_SYMBOLS = b"{}<>$\\=^|"  # and () and **
_DIGITS = string.digits.encode()
_NO_MARKS = string.ascii_letters.encode() + b" " + bytes(range(128, 256))
_QUOTES = '"“„«「'
_LENGTH_STEPS = (25, 50, 80, 120, 200, 350, 700, 1500, 4000)


@cache
def lexicon() -> tuple[dict[str, tuple[str, ...]], re.Pattern[str], dict[str, tuple[str, ...]]]:
    """Concepts by word, and a pattern with its concepts for scripts that put no blanks between words."""
    words: dict[str, list[str]] = {}
    unspaced: dict[str, list[str]] = {}
    concept = ""
    for line in files("stretto.router").joinpath("lexicon.txt").read_text("utf-8").splitlines():
        if line.startswith("@"):
            concept = line.strip()
        elif line.startswith("~"):
            _add(unspaced, line[1:].split(), concept)
        elif line and not line.startswith("#"):
            _add(words, line.split(), concept)
    pattern = re.compile("|".join(sorted(map(re.escape, unspaced), key=len, reverse=True)))
    frozen, frozen_unspaced = ({word: tuple(found) for word, found in each.items()} for each in (words, unspaced))
    return frozen, pattern, frozen_unspaced


def _add(words: dict[str, list[str]], named: list[str], concept: str) -> None:
    for word in named:
        if concept not in words.setdefault(word, []):
            words[word].append(concept)


def cues(prompt: str) -> list[str]:
    """Return the cues of a prompt by name, each once, in no order that matters. Any text is accepted."""
    text = excerpt(prompt)
    return list(dict.fromkeys([*_in_words(text.lower()), *structure(prompt, text)]))


def _in_words(text: str) -> Iterator[str]:
    concepts_of, _, _ = lexicon()
    before = "@start"
    last = ""
    clause: list[str] = []
    for word in words_and_breaks(text):
        if word == BREAK:
            last, clause = "", []
            continue
        concepts = concepts_of.get(word, ())
        yield word
        yield from concepts
        if len(word) >= STEM:
            yield "~" + word[:STEM]
        yield f"{last} {word}" if last else "|" + word
        if concepts:
            yield f"{before}>{concepts[0]}"
            before = concepts[0]
        clause.append(word)
        last = word
    yield from ("$" + word for word in clause)
    yield from unspaced_concepts(text, before)


def words_and_breaks(text: str) -> list[str]:
    """The words of a text in lower case, with a `BREAK` before every clause; ends with a word.

    A text of more than ``MAX_WORDS`` ends with the clause that passes them.
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
    seen = 0
    for place, word in enumerate(words):
        if word != BREAK:
            seen += 1
        elif seen >= MAX_WORDS:
            return words[:place]
    return words


def unspaced_concepts(text: str, before: str) -> Iterator[str]:
    """Concepts and their successions in a script without blanks between words; ``before`` is the concept before."""
    if text.isascii() or not _UNSPACED.search(text):
        return
    _, pattern, meaning = lexicon()
    for match in pattern.findall(text):
        concepts = meaning[match]
        yield from concepts
        yield f"{before}>{concepts[0]}"
        before = concepts[0]


def structure(prompt: str, text: str) -> list[str]:
    """The facts about the structure of a prompt, of which ``text`` is what is read, by name."""
    facts = [f"=length{bisect_left(_LENGTH_STEPS, len(prompt))}"]
    end = text.rstrip()[-1:]
    # Counted in what is left without letters and blanks: a few bytes, none of which is part of another character.
    marks = text.encode("utf-8", "surrogatepass").translate(None, _NO_MARKS)
    if questions := marks.count(b"?"):
        facts.append(f"=questions{min(questions, 3)}")
        if end == "?":
            facts.append("=asks-last")
    if b"\n" in marks:
        facts += _layout(text, marks)
    plain = text.isascii()
    if (b'"' in marks or (not plain and any(mark in text for mark in _QUOTES))) and _QUOTED.search(text):
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
