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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
    return list(dict.fromkeys([*_in_words(text.lower()), *_structure(prompt, text)]))


def _in_words(text: str) -> Iterator[str]:
    concepts_of, unspaced, meaning = lexicon()
    before = "@start"
    words: list[str] = []
    for words in _clauses(text):
        last = ""
        for word in words:
            concepts = concepts_of.get(word, ())
            yield word
            yield from concepts
            if len(word) >= STEM:
                yield "~" + word[:STEM]
            yield f"{last} {word}" if last else "|" + word
            if concepts:
                yield f"{before}>{concepts[0]}"
                before = concepts[0]
            last = word
    yield from ("$" + word for word in words)
    for match in _without_blanks(text, unspaced):
        concepts = meaning[match]
        yield from concepts
        yield f"{before}>{concepts[0]}"
        before = concepts[0]


def _clauses(text: str) -> Iterator[list[str]]:
    """The words of a text in lower case, clause by clause, up to about ``MAX_WORDS``."""
    seen = 0
    for piece in text.translate(_CLEAN).split("\n"):
        if words := piece.split():
            yield words
            seen += len(words)
            if seen >= MAX_WORDS:
                return


def _without_blanks(text: str, pattern: re.Pattern[str]) -> list[str]:
    return pattern.findall(text) if not text.isascii() and _UNSPACED.search(text) else []


@dataclass(slots=True)
class Entry:
    """The numbers of all cues that a word may stand for.

    Attributes:
        concept: the first concept of the word, else empty.
        succeeds: of the succession of concepts, by the concept before.
        begins: of the word at the beginning of a clause.
        ends: of the word in the last clause.
        after: of the pair with the word before it, by that word.
        plain: of the word itself, its concepts and its stem.
    """

    concept: str = ""
    succeeds: dict[str, int] | None = None
    begins: int | None = None
    ends: int | None = None
    after: dict[str, int] | None = None
    plain: tuple[int, ...] = ()


class CueReader:
    """Turns prompts into sets of numbered cues: those of `cues` that ``known`` has a number for, fast.

    All that a word may stand for is put together once, so that a text is read with one look-up a word. (A look-up in a
    large table that is not in the processor's cache costs several times as much as one that is, and a text that is
    seen for the first time needs many.)
    """

    def __init__(self, known: Mapping[str, int]) -> None:
        self._known = known
        concepts_of, self._unspaced, self._meaning = lexicon()
        pairs: dict[str, dict[str, int]] = {}
        successions: dict[str, dict[str, int]] = {}
        words = set(concepts_of)
        self._stems: dict[str, Entry] = {}
        for cue, number in known.items():
            mark = cue[0]
            if mark == "@":
                before, met, concept = cue.partition(">")
                if met:
                    successions.setdefault(concept, {})[before] = number
            elif mark == "~":
                self._stems[cue[1:]] = Entry(plain=(number,))
            elif mark in "|$":
                words.add(cue[1:])
            elif mark != "=":
                first, blank, second = cue.partition(" ")
                if blank:
                    pairs.setdefault(second, {})[first] = number
                words.add(second if blank else cue)
        self._entries = {word: self._enter(word, concepts_of.get(word, ()), pairs, successions) for word in words}

    def read(self, prompt: str) -> set[int]:
        """Return the numbers of the cues of a prompt. Any text is accepted."""
        text = excerpt(prompt)
        fired = self._words(text.lower())
        fired += map(self._known.get, _structure(prompt, text))
        found = set(fired)
        found.discard(None)
        return found  # type: ignore[return-value]  # None is gone

    def _words(self, text: str) -> list[int | None]:
        known, entries, stems = self._known.get, self._entries, self._stems
        fired: list[int | None] = []
        before = "@start"
        clause: list[Entry] = []
        for words in _clauses(text):
            clause = []
            last = ""
            for word in words:
                entry = entries.get(word) or stems.get(word[:STEM])
                if entry is None:
                    last = word
                    continue
                clause.append(entry)
                fired += entry.plain
                if not last:
                    fired.append(entry.begins)
                elif entry.after is not None:
                    fired.append(entry.after.get(last))
                if entry.concept:
                    if entry.succeeds is not None:
                        fired.append(entry.succeeds.get(before))
                    before = entry.concept
                last = word
        fired += [entry.ends for entry in clause]
        for match in _without_blanks(text, self._unspaced):
            concepts = self._meaning[match]
            fired += map(known, concepts)
            fired.append(known(f"{before}>{concepts[0]}"))
            before = concepts[0]
        return fired

    def _enter(
        self,
        word: str,
        concepts: tuple[str, ...],
        pairs: Mapping[str, dict[str, int]],
        successions: Mapping[str, dict[str, int]],
    ) -> Entry:
        """Put together all that a word may stand for."""
        known = self._known.get
        plain = [word, *concepts, *(["~" + word[:STEM]] if len(word) >= STEM else [])]
        concept = concepts[0] if concepts else ""
        return Entry(
            concept=concept,
            succeeds=successions.get(concept),
            begins=known("|" + word),
            ends=known("$" + word),
            after=pairs.get(word),
            plain=tuple(number for number in map(known, plain) if number is not None),
        )


def _structure(prompt: str, text: str) -> list[str]:
    length = len(prompt)
    facts = [f"=length{bisect_left(_LENGTH_STEPS, length)}"]
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
