"""What stands in an answer where a part of it is missing: short, in the language of the question."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from stretto.answer import Branch
from stretto.request import Request

READ = 2_000  # characters of a question that tell its language

MISSING_BROKEN = {
    "en": ("could not be written", "broken off"),
    "de": ("konnte nicht geschrieben werden", "abgebrochen"),
    "fr": ("n'a pas pu être rédigé", "interrompu"),
    "es": ("no se pudo escribir", "interrumpido"),
    "it": ("non è stato possibile scriverlo", "interrotto"),
    "nl": ("kon niet worden geschreven", "afgebroken"),
    "pt": ("não foi possível escrever", "interrompido"),
    "zh": ("未能写出", "中断"),
    "ja": ("書けませんでした", "中断"),
    "ar": ("تعذّرت كتابته", "انقطع"),
    "hi": ("लिखा नहीं जा सका", "अधूरा रह गया"),
    "ru": ("не удалось написать", "оборвано"),
    "tr": ("yazılamadı", "yarıda kaldı"),
}
"""By language: for a part of which nothing was written, and for one that was not written to its end."""

_SCRIPTS = {
    "kana": re.compile("[\u3040-\u30ff]"),
    "zh": re.compile("[\u3400-\u9fff]"),
    "ar": re.compile("[\u0600-\u06ff]"),
    "hi": re.compile("[\u0900-\u097f]"),
    "ru": re.compile("[\u0400-\u04ff]"),
}
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")
_LATIN = {
    language: frozenset(words.split())
    for language, words in {
        "en": "the of and is are how what why to for from in does do i my me you with give list write about should can",
        "de": "der die das den und ist sind wie was warum ich mir mein meine meinen ein eine einen für mit nicht zu "
        "von gib nenne nenn schreibe auf über kann soll",
        "fr": "le la les des du et est sont comment que quoi pourquoi je mon ma mes un une pour avec dans qui donne "
        "quels quelles sur au",
        "es": "el la los las del y es son cómo qué por para con una un mi mis que dame cuáles en sobre debo",
        "it": "il lo la gli le e è sono come che cosa perché per con una un mio mia di quali dei della dammi su devo",
        "nl": "de het een en is zijn hoe wat waarom ik mijn voor met van niet geef welke op over kan moet",
        "pt": "o a os as e é são como que por para com uma um meu minha do da dos das não quais dê sobre devo",
        "tr": "ve bir nasıl ne neden için ile mi bu nedir hangi bana ben nelerdir hakkında",
    }.items()
}


@dataclass(frozen=True)
class Notes:
    """What the reader sees in place of a missing part, and behind a broken one; empty: nothing."""

    missing: str = MISSING_BROKEN["en"][0]
    broken: str = MISSING_BROKEN["en"][1]

    def ending(self, branch: Branch, title: str = "") -> str:
        """What stands behind a part, once it is known how it ended; ``title`` where the reader has not seen it yet."""
        if branch.status == "finished":
            return ""
        if branch.text.strip():
            return f" […{self.broken}]" if self.broken else ""
        named = f"{title}: " if title else ""
        return f"[{named}{self.missing}]" if self.missing else ""


def notes_for(request: Request) -> Notes:
    """The notes for a request: in the language of its question, or none where it asks for none."""
    if request.on_missing == "omit":
        return Notes("", "")
    return Notes(*MISSING_BROKEN[language_of(request.question)])


def language_of(text: str) -> str:
    """The language of a text among those of `MISSING_BROKEN`: by its script, else by its small words; else English."""
    text = text[:READ]
    scripts = {name: len(pattern.findall(text)) for name, pattern in _SCRIPTS.items()}
    most = max(scripts, key=lambda name: scripts[name])
    if scripts[most] * 3 > len(_LETTER.findall(text)):  # words of other scripts have fewer letters than Latin ones
        return "ja" if most == "kana" or (most == "zh" and scripts["kana"]) else most
    words = Counter(_WORD.findall(text.casefold()))
    found = {language: sum(words[word] for word in small) for language, small in _LATIN.items()}
    return max(found, key=lambda language: found[language])  # of equals the first: English
