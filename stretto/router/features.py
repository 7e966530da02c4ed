"""Cues of a prompt: words, word pairs, concepts and structure, as names that a person can read.

All cues share one bag. ``w`` a word, ``w v`` a pair, ``|w`` a word that begins a clause, ``$w`` a word of the last
clause, ``~stem`` the first letters of a word, ``@c`` a concept of the lexicon, ``@c>@d`` two concepts in succession,
``=name`` a fact about the structure. The lexicon names the same concept in several languages, so that what is learned
on English reaches them.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from functools import cache
from importlib.resources import files

from stretto.router.reading import excerpt

STEM = 5
MAX_WORDS = 400

_KEPT = set(string.ascii_letters + string.digits + "+#-")
_BREAKS = {ord(mark): "\n" for mark in ".!?:;\n。！？：；"}
_CLEAN = {code: " " for code in range(128) if chr(code) not in _KEPT} | _BREAKS
_CLEAN |= {ord(mark): " " for mark in "’‘“”„«»「」『』（）、，…–—¿¡"}
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_BULLET = re.compile(r"^[ \t]*(?:[-*•]|\d{1,2}[.)]|\(?[a-z]\))[ \t]", re.MULTILINE)
_QUOTED = re.compile(r"[\"“„«「][^\"”»」]{40,}[\"”»」]")
_SYMBOLS = ("{", "}", "<", ">", "$", "\\", "=", "^", "|", "()", "**")
_QUOTES = '"“„«「'
_KEPT_WORDS = 50_000
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


Entry = tuple[tuple[int, ...], str]


class CueReader:
    """Turns prompts into sets of numbered cues; ``number`` gives the number of a cue, or None to leave it out.

    What is known of a word is looked up once and kept, so that reading costs about a microsecond a word.
    """

    def __init__(self, number: Callable[[str], int | None]) -> None:
        self._numbered = number
        self._concepts, self._unspaced, self._meaning = lexicon()
        self._entries: dict[str, Entry] = {}
        self._successions: dict[tuple[str, str], int | None] = {}

    def read(self, prompt: str) -> set[int]:
        """Return the numbers of the cues of a prompt. Any text is accepted."""
        text = excerpt(prompt)
        if len(self._entries) >= _KEPT_WORDS:
            self._entries.clear()
        fired = self._words(text.lower())
        fired += map(self._numbered, _structure(prompt, text))
        found = set(fired)
        found.discard(None)
        return found  # type: ignore[return-value]  # None is gone

    def _words(self, text: str) -> list[int | None]:
        numbered, entries, successions = self._numbered, self._entries, self._successions
        fired: list[int | None] = []
        seen = 0
        before = "@start"
        clause: list[str] = []
        for piece in text.translate(_CLEAN).split("\n"):
            words = piece.split()
            if not words:
                continue
            clause = words
            last = ""
            for word in words:
                plain, concept = entries.get(word) or self._enter(word)
                fired += plain
                fired.append(numbered(f"{last} {word}" if last else "|" + word))
                if concept:
                    try:
                        fired.append(successions[before, concept])
                    except KeyError:
                        fired.append(self._succeed(before, concept))
                    before = concept
                last = word
            seen += len(words)
            if seen >= MAX_WORDS:
                break
        fired += [numbered("$" + word) for word in clause]
        if not text.isascii() and _UNSPACED.search(text):
            for match in self._unspaced.findall(text):
                concepts = self._meaning[match]
                fired += map(numbered, concepts)
                fired.append(self._succeed(before, concepts[0]))
                before = concepts[0]
        return fired

    def _succeed(self, before: str, concept: str) -> int | None:
        """Look up that one concept comes after another."""
        found = self._successions[before, concept] = self._numbered(f"{before}>{concept}")
        return found

    def _enter(self, word: str) -> Entry:
        """Look up all that a word stands for wherever it stands, and its first concept."""
        concepts = self._concepts.get(word, ())
        plain = [word, *concepts]
        if len(word) >= STEM:
            plain.append("~" + word[:STEM])
        numbers = tuple(found for found in map(self._numbered, plain) if found is not None)
        entry = self._entries[word] = (numbers, concepts[0] if concepts else "")
        return entry


def cues(prompt: str) -> list[str]:
    """Return the cues of a prompt by name, each once, in no order that matters. Any text is accepted."""
    names: dict[str, int] = {}
    numbers = CueReader(lambda cue: names.setdefault(cue, len(names))).read(prompt)
    return [cue for cue, number in names.items() if number in numbers]


def _structure(prompt: str, text: str) -> list[str]:
    length = len(prompt)
    facts = [f"=length{sum(length > step for step in _LENGTH_STEPS)}"]
    if questions := text.count("?"):
        facts.append(f"=questions{min(questions, 3)}")
        if text.rstrip().endswith("?"):
            facts.append("=asks-last")
    if "\n" in text:
        facts += _layout(text)
    if any(mark in text for mark in _QUOTES) and _QUOTED.search(text):
        facts.append("=quoted")
    if symbols := sum(map(text.count, _SYMBOLS)):
        facts.append(f"=symbols{1 if symbols < 4 else 2 if symbols < 12 else 3}")
    if digits := sum(map(text.count, "0123456789")):
        facts.append(f"=digits{1 if digits < 3 else 2 if digits < 10 else 3}")
    if (commas := text.count(",")) > 2:
        facts.append(f"=commas{3 if commas < 6 else 6}")
    if text.rstrip().endswith(":"):
        facts.append("=open-end")
    if not text.isascii():
        facts.append("=unspaced" if _UNSPACED.search(text) else "=beyond-ascii")
    return facts


def _layout(text: str) -> list[str]:
    lines = text.count("\n")
    facts = ["=lines" + ("1" if lines < 2 else "2" if lines < 5 else "5" if lines < 15 else "15")]
    if "\n\n" in text:
        facts.append("=blank-line")
    if bullets := len(_BULLET.findall(text)):
        facts.append(f"=bullets{min(bullets, 4)}")
    if "```" in text:
        facts.append("=fence")
    return facts
