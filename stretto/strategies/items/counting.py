"""Finds how many independent samples a request asks for: "Write 10 slogans for a bakery".

Only known kinds of things count, those of which several can be written independently. Ordered, ranked, calculated and
connected things do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from stretto.language.counting import number_value
from stretto.language.folding import fold
from stretto.language.words import words

Size = Literal["short", "medium", "long"]

MOST_SAMPLES = 100
HEAD, TAIL = 2000, 1000  # characters read at the beginning and at the end of a long text
LONGEST_LEAD = 10  # words before the number in its sentence
_FLAGS = re.IGNORECASE
_LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "pt", "ru")  # in which the kinds below are named
_WORDS = {
    word: values[language]
    for word, values in words().numbers.items()
    for language in _LANGUAGES
    if language in values and " " not in word
}
_SHORT = (
    r"(?:slogans?|tag ?lines?|taglines?|mottos?|(?:nick|user|brand|company|product|shop|band|domain|first|team"
    r"|pet)?names?|titles?|headlines?|hash ?tags?|captions?"
    r"|subject lines?|puns|usernames|search queries|keywords|catch ?phrases|straplines|aliases|passwords|file ?names"
    r"|Slogans|\w*namen?|\w*titel[ns]?|überschriften|schlagzeilen|betreffzeilen|noms|titres|accroches|nombres|títulos"
    r"|lemas|eslóganes|titulares|nomi|titoli|nomes|titels|koppen"
    r"|слоган\w*|назван\w*|заголов\w*|имён|имен|nazw|haseł)"
)
_MEDIUM = (
    r"(?:questions?|sentences?|examples?|jokes?|riddles?|quotes?|tweets?|one[- ]liners?|opening lines?"
    r"|opening sentences?|pick-?up lines?|hooks?|tongue twisters?|fun facts"
    r"|facts|prompts?|ice ?breakers?|conversation starters?|compliments?|proverbs|aphorisms?|phrases|statements?"
    r"|greetings?|wishes|toasts?|affirmations?|ideas|variations|variants|paraphrases"
    r"|rephrasings|alternatives|versions|bullet lines|messages?|auto[- ]?replies|replies|notifications?|flash ?cards?"
    r"|haikus?|test cases|use cases|user stories|captions?|fortunes?|text messages|exercises"
    r"|\w*fragen|\w*sätze[n]?|beispiele|witze|rätsel|ideen|sprüche|zitate|karteikarten|aufgaben|phrases|exemples"
    r"|blagues|devinettes|idées|citations"
    r"|preguntas|frases|oraciones|ejemplos|chistes|adivinanzas|ideas|ejercicios|domande|frasi|esempi|battute"
    r"|indovinelli|idee|perguntas|exemplos|piadas|ideias|vragen|\w*zinnen|voorbeelden|grappen|raadsels"
    r"|вопрос\w*|предложени\w*|пример\w*|шут\w+|загад\w+|идей|pytań|zdań|przykład\w*|pomysł\w*|frågor|meningar"
    r"|exempel)"
)
_LONG = (
    r"(?:(?:product |job |short )?descriptions?|reviews?|testimonials?|limericks?|personas?|profiles?|biographies"
    r"|bios|characters?|villagers?|residents?|npcs|anecdotes?|short stories|micro[- ]?stories"
    r"|flash fiction(?: pieces| stories)?|poems|cover letters?|(?:cold |sample )?e-?mails?|posts|ads|advertisements?"
    r"|advertisement texts|scenarios?|case studies|vignettes?|recipes"
    r"|multiple[- ]choice questions?|word problems?|dialogue snippets|monologues?|out[- ]of[- ]office messages"
    r"|gedichte|bewertungen|rezensionen|produktbeschreibungen|poèmes|avis|reseñas|poemas|recensioni|recensies)"
)
_GENERAL = rf"(?P<long>{_LONG})|(?P<short>{_SHORT})|(?P<medium>{_MEDIUM})"
_NUMBER = (
    rf"(?P<number>\d{{1,3}}|(?:an? )?(?:half a )?(?:couple of )?(?:{'|'.join(sorted(_WORDS, key=len, reverse=True))}))"
)
_BETWEEN = (
    r"(?:(?!(?:of|for|in|about|with|and|or|to|from|on|per|the|that|which|und|für|zu|mit|avec|pour|sur|con|para|per|di"
    r"|over|voor|met)\b)[\w'’“”\"-]+,? ){0,4}?"
)
_COUNT = re.compile(
    rf"(?<![\w.,-]){_NUMBER} (?:of (?:my|your|the) )?(?P<between>{_BETWEEN})(?:{_GENERAL})(?![\w-])", _FLAGS
)
_UNSPACED = re.compile(
    r"(?P<number>\d{1,3}|[二三四五六七八九十两兩]{1,3})\s*(?:个|個|条|條|句|则|則|道|首|つ|問|本|개의?|가지)\s*(?:[^\s，。,.、]{0,10}?)"
    r"(?:(?P<short>口号|口號|标语|標語|名字|标题|標題|キャッチコピー|スローガン|名前|タイトル)|(?P<medium>例句|问题|問題|句子|笑话|谜语|例子|例文|質問|문장|질문))"
    r"|(?:(?:スローガン|キャッチコピー|名前|タイトル)|(?:例文|質問|クイズ))を(?P<behind>\d{1,3})(?:個|つ|問|本|文)?"
)
_ASKS = re.compile(
    r"\b(?:write|give|generate|creat(?:e|ing)|mak(?:e|ing)|need|want|come up with|suggest|propose|list|provide"
    r"|produce|invent|compos(?:e|ing)|draft|think (?:of|up)|show|brainstorm|craft"
    r"|prepare|design|formulate|could (?:you|i)|can (?:you|i)|would like|looking for|please|let me have|schreib\w*"
    r"|gib|gebt|geben|nenne\w*|erstell\w*|erfind\w*|formulier\w*|brauche|mach\w*"
    r"|écri\w*|donne\w*|propose\w*|génère\w*|crée\w*|invente\w*|rédige\w*|trouve\w*|escrib\w*|da(?:me)?|dame"
    r"|genera\w*|crea\w*|inventa\w*|propón|redacta\w*|necesito|haz|dime"
    r"|scriv\w*|dammi|proponi|escrev\w*|dê|dá|gere|crie|sugira|schrijf|geef|maak|bedenk|verzin|напиши\w*|придумай\w*"
    r"|дай\w*|составь\w*|napisz|wymyśl|podaj|skriv|ge mig)\b",
    _FLAGS,
)
_ORDERED = re.compile(
    r"\b(?:top|first|last|next|best|worst|most|least|main|key|biggest|largest|smallest|longest|shortest|highest"
    r"|lowest|oldest|newest|fastest|richest|greatest|famous|popular|common"
    r"|important|consecutive|successive|sequential|prime|real|actual|existing|famosos?|célèbres|berühmte\w*"
    r"|wichtigste\w*|größte\w*|beste[nr]?|meilleur\w*|mejores|migliori)\b",
    _FLAGS,
)
_BEFORE = re.compile(
    r"(?:\b(?:in|within|of|under|about|around|than|from|to|and|or|at|least|most|page|chapter|level|age[ds]?|grade"
    r"|class|year|step|version|number|no|the|these|those|my|our|all|top|first|last|next|following"
    r"|other|only|per|every|into|between|par|en|aus|auf|den|die|diese|les|ces|mes|las|los|estas|estos|le|i|as|os|de)"
    r"|[$€£#/+*=×-])\s*$",
    _FLAGS,
)
_LIMIT = re.compile(
    r"\b(?:in|within|of|under|about|around|than|to|from|least|most)\s*$", _FLAGS
)  # "under 45 characters"
_SET_OF = re.compile(
    r"\b(?:set|list|batch|collection|bunch|pack|selection|liste|lista|lijst)\s+(?:of|von|mit|de|di|met|van)\s*$"
    r"|\bat least\s*$",
    _FLAGS,
)
_CONNECTED = re.compile(
    r"\b(?:increasing|decreasing|progress\w*|escalat\w+|in (?:\w+ )?order|order(?:ed)?|rank(?:ed|ing)?|sort(?:ed)?"
    r"|sequence|sequential\w*|series of|alphabet\w*|a to z|a-z|first letter|acrostic"
    r"|starting with the last|tell(?:s|ing)? (?:a|one|the) story|(?:form|make) (?:a|one) (?:\w+ )?(?:story"
    r"|conversation|dialogue|text|poem|paragraph)|connected|linked|chain(?:ed)?|cumulative|follow[- ]?up"
    r"|previous|preceding|each building|builds? on|one after (?:the other|another)|(?:one|each) for (?:each|every)"
    r"|(?:for|per|from|on|about) (?:each|every)\b|a mix of|mixture of|half of|some of (?:them|which)"
    r"|(?:\w+|\d+) (?:should|must) be (?:\w+ )?(?:\w+,|and)|at least (?:one|two|three|\d) of|from easy|easiest to"
    r"|easy to hard|total(?:ling|s)?|sum|average|compare|versus|vs|in one paragraph|which (?:one|of (?:them|these)"
    r"|is)|conclusion|introduction|pick|choose|step[- ]by[- ]step"
    r"|steigend\w*|reihenfolge|geordnet|sortiert|croissant\w*|ordre|creciente|orden|crescente|ordine|oplopend\w*"
    r"|volgorde|csv|xml|yaml)(?!\w)"
    r"|递增|遞增|按顺序|按順序|順番|排序",
    _FLAGS,
)
_OTHER_TASK = re.compile(
    r"(?:^|[.!?\n]\s*|\b(?:and|then|also) )(?:explain|describe|summari[sz]e|compare|analy[sz]e|define|translate"
    r"|discuss|rate|score|grade|vote|tell me (?:why|how|what)|what|why|how|who|which|when|where)\b(?! about\b)",
    _FLAGS,
)
_LONGER = re.compile(
    r"\b(?:with (?:\w+ )?(?:answers?|explanations?|options|solutions?|examples|translations?)|paragraphs?"
    r"|multiple[- ]choice|each with|in detail|\d{2,3}[- ]words?|mit (?:antwort|lösung|erklärung|übersetzung)\w*"
    r"|avec (?:réponse|explication|traduction)\w*|con (?:respuesta|explicación|risposta|traducción)\w*"
    r"|met antwoord\w*)\b",
    _FLAGS,
)


@dataclass(frozen=True)
class Count:
    """A number of samples and their size: a few words, a sentence or two, or more."""

    number: int
    size: Size


def counted(text: str) -> Count | str | None:
    """The samples asked for; a string: why they cannot be written separately; ``None``: the text counts nothing."""
    if len(text) > HEAD + TAIL:  # the task is at either end of a long text
        text = f"{text[:HEAD]}\n{text[-TAIL:]}"
    found = [match for match in _COUNT.finditer(text) if not _length_of_text(text, match)]
    if not found:
        return _unspaced(text)
    found = found[:1] + [match for match in found[1:] if not _LIMIT.search(text[: match.start()])]
    first = found[0]
    lead = text[: first.start()]
    sentence = re.split(r"[.!?\n:]\s", lead)[-1]
    if objection := next(_objections(found, lead), None):
        return objection
    if sentence.strip(" \"'*#-") and (not _ASKS.search(sentence) or len(sentence.split()) > LONGEST_LEAD):
        return None
    if other := _OTHER_TASK.search(text):
        return f'it asks for something else besides ("{other[0].strip()}")'
    return _checked(text, _number(first["number"]), next(name for name in ("long", "short", "medium") if first[name]))


def _objections(found: Sequence[re.Match[str]], lead: str) -> Iterator[str]:
    """Reasons why the first number does not count samples."""
    first = found[0]
    if len({_kind(match) for match in found}) > 1 or len({_number(match["number"]) for match in found}) > 1:
        yield "several things are counted"
    if (before := _BEFORE.search(lead)) and not _SET_OF.search(lead):
        yield f'the number is not one of samples ("{before[0].strip()} {first[0]}")'
    if ordered := _ORDERED.search(first["between"] or "") or _ORDERED.search(lead[-20:]):
        yield f'they have an order or are facts to look up ("{ordered[0]}")'


def _checked(text: str, number: int, size: str) -> Count | str | None:
    if connected := _CONNECTED.search(text):
        return f'they hang together ("{connected[0]}")'
    if number > MOST_SAMPLES:
        return f"{number} samples are more than {MOST_SAMPLES}"
    if _LONGER.search(text):
        size = "long"
    return Count(number, size)  # type: ignore[arg-type]  # the names of the groups are the sizes


def _unspaced(text: str) -> Count | str | None:
    found = _UNSPACED.search(text)
    if not found:
        return None
    if re.search(r"[前首最][^，。]{0,4}$", text[: found.start()]):
        return "they have an order or are facts to look up"
    number = number_value(found["number"] or found["behind"])
    return _checked(text, number, "short" if found["short"] else "medium")


def _length_of_text(text: str, match: re.Match[str]) -> bool:
    """'In 3 sentences', 'two or three sentences long': the length of one answer, not a number of samples."""
    if not re.fullmatch(
        r"(?:sentences?|phrases?|\w*sätze[n]?|frases|frasi|zinnen|oraciones|предложени\w*|lines?)",
        match[0].split()[-1],
        _FLAGS,
    ):
        return False
    lead, rest = text[: match.start()], text[match.end() :]
    return bool(
        re.search(
            r"(?:\b(?:in|within|of|under|about|around|than|to|or|least|most|using|into|en|mit|maximal|höchstens|con"
            r"|no more than)|[-–])\s*$",
            lead,
            _FLAGS,
        )
        or re.match(
            r"\s*(?:long|or (?:less|fewer|more)|max(?:imum)?|each|apiece|only|at most|per\b|describing|summari"
            r"|explaining)\b",
            rest,
            _FLAGS,
        )
        or re.search(r"\b(?:summar|explain|describe|paragraph|text|essay|story|answer)\w*", lead, _FLAGS)
    )


def _kind(match: re.Match[str]) -> str:
    return match[0].split()[-1].casefold().rstrip("s")


def _number(word: str) -> int:
    if word.isdigit():
        return int(word)
    word = fold(word)
    if word.startswith("half a"):
        return 6
    last = word.split()[-1]
    return _WORDS.get(last, 0)
