"""Name what decided the judgement of a question: its words, or its visible form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stretto.router.features import BREAK, lexicon, words_and_breaks

if TYPE_CHECKING:
    from stretto.router.shape import Judgement

MOST_NAMED = 2
_CUES = 6  # the strongest ones; adjacent words are joined
_LONGEST = 40  # characters shown of one
_FORM = {
    "=fence": "a block of code",
    "=quoted": "a quotation",
    "=open-end": "the colon at its end",
    "=bullets3": "a list",
    "=bullets4": "a list",
    "=symbols2": "signs of code or formulas",
    "=symbols3": "signs of code or formulas",
    "=digits2": "its numbers",
    "=digits3": "its numbers",
    "=questions3": "several questions",
    "=lines15": "its many lines",
    "=length7": "its length",
    "=length8": "its length",
    "=length9": "its length",
}


def deciding(judgement: Judgement, text: str, folded: str) -> str:
    """Return what most favoured the likeliest shape over the next one, as in ``"what are" and "ways"``; can be empty.

    ``text``: the part of the question that is read; ``folded``: the same, folded.
    """
    written = [word for word in words_and_breaks(text) if word != BREAK]
    if text.isascii():  # the same words in lower case
        words = [word.lower() for word in written]
    else:
        words = [word for word in words_and_breaks(folded) if word != BREAK]
    strength: dict[int, float] = {}  # by the position of a word
    named: dict[str, float] = {}
    for cue, share in judgement.decisive(_CUES):
        if cue.startswith("="):
            if cue in _FORM:
                named[_FORM[cue]] = max(share, named.get(_FORM[cue], 0.0))
        elif places := _places(cue, words):
            for place in places:
                strength[place] = strength.get(place, 0.0) + share / len(places)
        elif part := _part(cue, folded):
            named[f'"{part}"'] = share
    for phrase, share in _phrases(written if len(written) == len(words) else words, strength):
        named[f'"{phrase}"'] = share
    return " and ".join(sorted(named, key=lambda name: -named[name])[:MOST_NAMED])


def _places(cue: str, words: list[str]) -> list[int]:
    """Return where the words of a cue first occur; empty for a character cue."""
    if cue.startswith("@") and ">" not in cue:
        known = lexicon()
        return next(
            (
                [at]
                for at, word in enumerate(words)
                if cue in (known.words.get(word, ()) if word.isascii() else known.of(word))
            ),
            [],
        )
    if ">@" in cue:
        return []
    if cue.startswith("~"):
        return next(([place] for place, word in enumerate(words) if cue[1:] in word), [])
    if cue.startswith("$") and cue[1:] in words:
        return [len(words) - 1 - words[::-1].index(cue[1:])]
    first, *more = cue.removeprefix("|").split() or [""]
    at = -1
    for _ in range(words.count(first)):
        at = words.index(first, at + 1)
        if words[at + 1 : at + 1 + len(more)] == more:
            return list(range(at, at + 1 + len(more)))
    return []


def _part(cue: str, folded: str) -> str:
    """Return the characters that a cue of a script without spaces represents."""
    if cue.startswith("@"):
        known = lexicon()
        return next((found for found in known.pattern.findall(folded) if cue in known.unspaced[found]), "")
    part = cue.lstrip("^|$")
    return part if part in folded else ""


def _phrases(words: list[str], strength: dict[int, float]) -> list[tuple[str, float]]:
    """Return the deciding words with their strength, adjacent ones joined into a phrase."""
    found: list[tuple[str, float]] = []
    run: list[int] = []
    for place in [*sorted(strength), -1]:
        if run and place != run[-1] + 1:
            phrase = " ".join(words[at] for at in run)
            found.append((phrase if len(phrase) <= _LONGEST else phrase[:_LONGEST] + "…", sum(map(strength.get, run))))  # type: ignore[arg-type]  # each has one
            run = []
        run.append(place)
    return found
