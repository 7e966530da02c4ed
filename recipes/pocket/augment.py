"""Changes of wording: how one question becomes many.

The training changes (:func:`vary`) reach from light ones (case, punctuation, politeness, a typo) to hard ones (a few
of the words in any order, words of two wordings mixed, words the model cannot know put between), because a small
model otherwise learns wordings instead of meanings.  The changes used for measuring (:func:`measured_changes`) are
six fixed kinds.

Word deletion, swapping and insertion as augmentation: Wei and Zou, "EDA", arXiv:1901.11196.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Mapping, Sequence

__all__ = ["MEASURED_CHANGES", "finish", "light", "measured_change", "scramble", "thin", "typo", "words_of"]

_BEFORE = (
    "Please tell me: ", "Could you tell me ", "can you explain ", "I'd like to know ", "Hello, ", "Hi! ",
    "Excuse me, ", "Quick question: ",
    "Tell me, ", "I was wondering ", "Could you please help me: ", "hey ", "Please explain: ", "help: ",
    "My question is: ", "So, ",
    "Would you mind telling me ", "I need advice. ", "For my school work: ", "Just curious, ",
    "be so kind and tell me ", "ok ",
)  # fmt: skip
_AFTER = (
    " please", ", please", " Thanks!", " thank you", " Thank you very much.", " thx", " Any ideas?", " Explain.",
    " Tell me more.",
    " I'd be grateful.", " What do you think?", " Help!", " Please help me.", " pls", " Cheers.",
    " What should I know?", " Many thanks.",
)  # fmt: skip
_FILLERS = (
    "really", "actually", "just", "today", "maybe", "very", "also", "often", "always", "now", "best", "good",
    "at home", "for me", "in short",
    "exactly", "at all", "these days", "usually", "a bit", "quite", "as a beginner", "my neighbour", "my sister",
    "we", "you", "one", "some",
    "about", "with", "this", "that", "the", "of", "and", "to", "for", "things", "way", "things to know",
    "everything", "first", "new", "old",
)  # fmt: skip
_KEYBOARD = {
    "a": "sq", "b": "vn", "c": "xv", "d": "sf", "e": "wr", "f": "dg", "g": "fh", "h": "gj", "i": "uo", "j": "hk",
    "k": "jl", "l": "k", "m": "n",
    "n": "bm", "o": "ip", "p": "o", "q": "w", "r": "et", "s": "ad", "t": "ry", "u": "yi", "v": "cb", "w": "qe",
    "x": "zc", "y": "tu", "z": "x",
}  # fmt: skip

MEASURED_CHANGES = ("case", "politeness", "punctuation", "order", "typo", "dropped")
"""The kinds of change by which known wordings are altered for measuring."""


def typo(text: str, chance: random.Random) -> str:
    """Change one letter inside one word of four letters or more: swapped, doubled, dropped or mistyped."""
    words = [match.span() for match in re.finditer(r"[A-Za-z]{4,}", text)]
    if not words:
        return text
    start, end = chance.choice(words)
    at = chance.randrange(start + 1, end - 1)
    kind = chance.randrange(4)
    if kind == 0:
        return text[:at] + text[at + 1] + text[at] + text[at + 2 :]
    if kind == 1:
        return text[:at] + text[at] + text[at:]
    if kind == 2:
        return text[:at] + text[at + 1 :]
    return text[:at] + chance.choice(_KEYBOARD[text[at].lower()]) + text[at + 1 :]


def _politely(text: str, chance: random.Random) -> str:
    if chance.random() < 0.6:
        before = chance.choice(_BEFORE)
        if chance.random() < 0.7:
            text = text[:1].lower() + text[1:]
        text = before + text
    else:
        text = text.rstrip() + chance.choice(_AFTER)
    return text


def _repunctuate(text: str, chance: random.Random) -> str:
    kind = chance.randrange(3)
    if kind == 0:
        return "".join(mark for mark in text if mark not in ",.?!:;")
    if kind == 1:
        return text.rstrip(" .?!") + chance.choice(("", "?", ".", "!", "??", "...", " ?"))
    return text.replace(",", "").rstrip(" .?!")


def _recase(text: str, chance: random.Random) -> str:
    kind = chance.randrange(8)
    if kind < 5:
        return text.lower()
    if kind == 5:
        return text.upper()
    if kind == 6:
        return text.title()
    return text[:1].swapcase() + text[1:]


def _reorder(text: str, chance: random.Random) -> str:
    """Turn the words round one place, or swap two neighbours."""
    words = text.split()
    if len(words) < 3:
        return " ".join(reversed(words))
    if chance.random() < 0.5:
        at = chance.randrange(1, len(words))
        return " ".join(words[at:] + words[:at])
    at = chance.randrange(len(words) - 1)
    words[at], words[at + 1] = words[at + 1], words[at]
    return " ".join(words)


def _drop(text: str, chance: random.Random) -> str:
    words = text.split()
    if len(words) < 3:
        return text
    del words[chance.randrange(len(words))]
    return " ".join(words)


_CHANGES = {
    "case": _recase,
    "politeness": _politely,
    "punctuation": _repunctuate,
    "order": _reorder,
    "typo": typo,
    "dropped": _drop,
}


def measured_change(kind: str, text: str, chance: random.Random) -> str:
    """``text`` changed in one of the :data:`MEASURED_CHANGES`."""
    return _CHANGES[kind](text, chance)


def light(text: str, chance: random.Random) -> str:
    """One or two light changes, after which the question still reads as a question."""
    for _ in range(chance.choice((1, 1, 2))):
        text = _CHANGES[chance.choice(MEASURED_CHANGES)](text, chance)
    return text


def words_of(text: str) -> list[str]:
    """The words of ``text`` without the punctuation around them."""
    return [word for word in (piece.strip(string.punctuation) for piece in text.split()) if word]


def scramble(words: Sequence[str], telling: Mapping[str, int], chance: random.Random, strange: Sequence[str]) -> str:
    """Some of ``words``, at least one of them telling, perhaps in another order and with other words put between.

    ``telling`` gives how many topics use a word (in lower case); a word that few topics use tells which topic is meant.
    ``strange`` are words of no topic, put in so that unknown words are not taken for a sign of anything.
    """
    size = min(len(words), chance.choice((1, 2, 2, 3, 3, 4, 5, 6, 8)))
    known = [at for at, word in enumerate(words) if telling.get(word.lower(), 99) <= 8]
    kept = set(chance.sample(range(len(words)), size))
    if known and not kept.intersection(known):
        kept.add(chance.choice(known))
    chosen = [words[at] for at in sorted(kept)]
    if chance.random() < 0.5:
        chance.shuffle(chosen)
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        chosen.insert(chance.randrange(len(chosen) + 1), chance.choice(_FILLERS))
    if chance.random() < 0.2:
        chosen.insert(chance.randrange(len(chosen) + 1), chance.choice(strange))
    return finish(chosen, chance)


def thin(words: Sequence[str], telling: Mapping[str, int], chance: random.Random) -> list[str]:
    """``words`` in their order, each kept with a share drawn for all of them; at least one telling word stays."""
    share = chance.uniform(0.4, 1.0)
    kept = {at for at in range(len(words)) if chance.random() < share}
    known = [at for at, word in enumerate(words) if telling.get(word.lower(), 99) <= 8]
    if known and not kept.intersection(known):
        kept.add(chance.choice(known))
    return [words[at] for at in sorted(kept)]


def finish(words: Sequence[str], chance: random.Random) -> str:
    """``words`` as one question, its case, end, manners and spelling left to chance."""
    text = " ".join(words)
    if chance.random() < 0.5:
        text = text.lower()
    if chance.random() < 0.3:
        text += "?"
    if chance.random() < 0.15:
        text = _politely(text, chance)
    if chance.random() < 0.15:
        text = typo(text, chance)
    return text
