"""Cues of a prompt: words, word pairs, concepts and structure, as names that a person can read.

All cues share one bag. ``w`` a word, ``w v`` a pair, ``^w`` a word among the first, ``|w`` a word that begins a
clause, ``$w`` a word of the last clause, ``~stem`` the first letters of a word, ``@c`` a concept of the lexicon,
``@c>@d`` two concepts in succession, ``=name`` a fact about the structure. The lexicon names the same concept in several languages, so that what is
learned on English reaches them.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from stretto.router.reading import excerpt

HEAD_WORDS = 6
STEM = 5
MAX_WORDS = 320

_CLAUSE = re.compile(r"[.!?:;\n]+")
_WORD = re.compile(r"[^\W\d_][\w'’+#-]*|\d+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_BULLET = re.compile(r"^[ \t]*(?:[-*•]|\d{1,2}[.)]|\(?[a-z]\))[ \t]", re.MULTILINE)
_QUOTED = re.compile(r"[\"“„«「][^\"”»」]{40,}[\"”»」]")
_SYMBOLS = re.compile(r"[{}<>$\\=^|]|\(\)|->|\*\*")
_LENGTH_STEPS = (25, 50, 80, 120, 200, 350, 700, 1500, 4000)


@cache
def lexicon() -> tuple[dict[str, tuple[str, ...]], re.Pattern[str], dict[str, str]]:
    """Concepts by word, and a pattern with its concepts for scripts that put no blanks between words."""
    words: dict[str, list[str]] = {}
    unspaced: dict[str, str] = {}
    concept = ""
    for line in files("stretto.router").joinpath("lexicon.txt").read_text("utf-8").splitlines():
        if line.startswith("@"):
            concept = line.strip()
        elif line.startswith("~"):
            unspaced.update(dict.fromkeys(line[1:].split(), concept))
        elif line and not line.startswith("#"):
            for word in line.split():
                if concept not in words.setdefault(word, []):
                    words[word].append(concept)
    pattern = re.compile("|".join(sorted(map(re.escape, unspaced), key=len, reverse=True)))
    return {word: tuple(found) for word, found in words.items()}, pattern, unspaced


def cues(prompt: str) -> list[str]:
    """The cues of a prompt, each once, in no order that matters. Any text is accepted."""
    text = excerpt(prompt)
    bag = _words(text.lower())
    bag.update(dict.fromkeys(_structure(prompt, text)))
    return list(bag)


def _words(text: str) -> dict[str, None]:
    concepts, unspaced, meaning = lexicon()
    bag: dict[str, None] = {}
    seen = 0
    before = "@start"
    clause: list[str] = []
    for piece in _CLAUSE.split(text):
        words = _WORD.findall(piece)
        if not words:
            continue
        clause = words
        last = ""
        for word in words:
            bag[word] = None
            if len(word) >= STEM:
                bag["~" + word[:STEM]] = None
            if last:
                bag[f"{last} {word}"] = None
            else:
                bag["|" + word] = None
            if seen < HEAD_WORDS:
                bag["^" + word] = None
            found = concepts.get(word)
            if found is not None:
                for concept in found:
                    bag[concept] = None
                    bag[f"{before}>{concept}"] = None
                before = found[0]
            last = word
            seen += 1
        if seen >= MAX_WORDS:
            break
    if len(bag) and seen:
        for word in clause:
            bag["$" + word] = None
    if not text.isascii() and _UNSPACED.search(text):
        for match in unspaced.findall(text):
            concept = meaning[match]
            bag[concept] = None
            bag[f"{before}>{concept}"] = None
            before = concept
    return bag


def _structure(prompt: str, text: str) -> list[str]:
    length = len(prompt)
    facts = [f"=length{sum(length > step for step in _LENGTH_STEPS)}"]
    if questions := text.count("?"):
        facts.append(f"=questions{min(questions, 3)}")
        if text.rstrip().endswith("?"):
            facts.append("=asks-last")
    if lines := text.count("\n"):
        facts.append("=lines" + ("1" if lines < 2 else "2" if lines < 5 else "5" if lines < 15 else "15"))
        if "\n\n" in text:
            facts.append("=blank-line")
        if bullets := len(_BULLET.findall(text)):
            facts.append(f"=bullets{min(bullets, 4)}")
    if "```" in text:
        facts.append("=fence")
    if _QUOTED.search(text):
        facts.append("=quoted")
    if symbols := len(_SYMBOLS.findall(text)):
        facts.append(f"=symbols{1 if symbols < 4 else 2 if symbols < 12 else 3}")
    digits = sum(map(text.count, "0123456789"))
    if digits:
        facts.append(f"=digits{1 if digits < 3 else 2 if digits < 10 else 3}")
    if (commas := text.count(",")) > 2:
        facts.append(f"=commas{3 if commas < 6 else 6}")
    if text.rstrip().endswith(":"):
        facts.append("=open-end")
    if not text.isascii():
        facts.append("=unspaced" if _UNSPACED.search(text) else "=beyond-ascii")
    return facts
