"""Derives from the question what to do with the documents."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from stretto.language.sentences import sentence_spans
from stretto.language.words import words
from stretto.prompts import SMALL

Kind = Literal["answer", "summarise", "extract", "compare"]

# A task is an imperative: its verb begins a sentence. Elsewhere ("why should we simplify it?") it is in a question.
_GAP = re.compile(r"\W++")
_CLAUSE_ENDS = frozenset(":;\n。！？")
_ORDER = (
    r"(?<!\w)(?:(?:please|kindly|now|bitte|por favor|s'il vous plaît|then)\W{1,20}"
    r"|(?:can|could|would|will) you\W{1,20}|i (?:want|need|would like|'d like) you to\W{1,20}|kannst du\W{1,20}){0,4}"
)
_SUMMARISE = re.compile(
    _ORDER + r"(?:summari[sz]e|tl;?dr|sum up|condense|(?:(?:an?|the)\s+)?(?:\w+\s)?(?:summary|abstract|overview) of"
    r"|(?:give|write|make|provide|create|prepare)\b.{0,40}\b(?:summary|abstract|overview)|key points of"
    r"|fasse?\b.{0,60}\bzusammen|zusammenfassung|résume[zr]?|résumé|resum[ea]|resumen|riassum\w+|riassunto|samenvatting"
    r"|vat\b.{0,60}\bsamen)\b",
    re.IGNORECASE,
)
_KEY_POINTS = re.compile(r"\bwhat are the key points of\b", re.IGNORECASE)
_COMPARE = re.compile(
    _ORDER + r"(?:compare|contrast|vergleiche?|compare[rz]|compara|confronta)\b",
    re.IGNORECASE,
)
_COMPARED = re.compile(
    r"\b(?:differences? between|(?:how|where) do\b.{1,60}\bdiffer|in common|unterschiede? zwischen|différences? entre"
    r"|diferencias? entre|verschillen? tussen)\b",
    re.IGNORECASE,
)
_EXTRACT = re.compile(
    _ORDER + r"(?:(?:list|extract|find|name|give(?: me)?|collect|enumerate|show)\s+(?:me\s+)?(?:all|every|each|any)\b"
    r"|(?:list|extract|enumerate|collect)\s+the\b|count\s+(?:all|every|the)\b|(?:liste|nenne|finde)\b.{0,20}\balle\b"
    r"|(?:liste[zr]?|trouve[zr]?|cite[zr]?)\s+(?:tou[ts]\w*|chaque)\b|(?:lista|enumera)\s+tod[oa]s\b)",
    re.IGNORECASE,
)
_EXTRACTED = re.compile(
    r"\bwhich\s+\w+\s+are\s+(?:named|mentioned|listed)"
    r"|\bhow many\b.{1,60}\b(?:there|mention\w*|named|listed|occur|appear|contain\w*)\b"
    r"|\bwie viele\b.{1,60}\b(?:gibt es|genannt|erwähnt|vor)\b|\bcombien\b.{1,60}\b(?:y a-t-il|cité\w*|mentionné\w*)\b"
    r"|\bcuánt[oa]s\b.{1,60}\b(?:hay|menciona\w*)\b",
    re.IGNORECASE,
)
_COUNT = re.compile(r"\b(?:how many|count|number of|wie viele|combien|cuánt[oa]s|quanti|hoeveel)\b", re.IGNORECASE)
_JSON = re.compile(r"\bJSON\b")
REPORT_WORDS = 700  # of a report without a stated length
WORDS_A_PAGE = 500
_MOST_PAGES = 9
# A text to be written. "The report" and "each report" are existing documents.
_A = (
    r"(?:\W{1,3}+(?!(?:the|this|that|these|each|every|all|of|from|about|in|on|with|der|die|das|den|dem|diese\w?|von|aus|über"
    r"|du|de|des|la|le|el|del|della|di|het|van|do|da)\b)\w++){0,8}?\W{1,3}+"
)
_WRITE = (
    r"(?:write|draft|prepare|compile|produce|create|make|give|put together|schreibe?|erstelle?|verfasse?|entwirf|mache?"
    r"|rédige[zr]?|écri(?:s|vez)|prépare[zr]?|fai(?:s|tes)|établi(?:s|ssez)|redacta|escrib[ea]|prepar[ae]|elabor[ae]|haz"
    r"|haga|scrivi|redigi|fai|schrijf|maak|escrev[ae]|redija|faça|напиши(?:те)?|подготовьте?|составьте?|اكتب|أعد)\b"
)
_REPORT = re.compile(
    rf"{_ORDER}{_WRITE}{_A}"
    r"(?:report|briefing|dossier|memo(?:randum)?|white ?paper|\w{0,20}bericht|rapport|note de synthèse|informe"
    r"|relazione|rapporto|verslag|relatório|отч[её]т|доклад|справк[ауи]|تقريرا?)\b",
    re.IGNORECASE,
)
_REPORT_BEFORE_ITS_VERB = re.compile(
    r"(?:写|撰写|编写|起草|准备|寫|撰寫).{0,20}(?:报告|简报|綜述|综述|報告)|(?:レポート|報告書).{0,12}(?:書|作成|まとめ)"
    r"|보고서.{0,12}(?:작성|써|만들)|\brapor.{0,20}(?:yaz|hazırla)|रिपोर्ट.{0,12}(?:लिख|तैयार|बना)",
    re.IGNORECASE,
)
_IN_SECTIONS = re.compile(
    rf"(?:{_SUMMARISE.pattern}|{_COMPARE.pattern}|{_ORDER}{_WRITE}).{{0,400}}"
    r"\b(?:with|under|using|in|into|by|mit|unter|avec|sous|en|par|con|bajo|per|sotto|met|onder|com|sob|с|по)\b"
    r"(?:\W{1,3}+\w++){0,4}?\W{1,3}+(?:sections|headings|subheadings|headers|chapters|überschriften|abschnitten?|kapiteln"
    r"|titres|rubriques|chapitres|secciones|apartados|títulos|epígrafes|sezioni|titoli|capitoli|kopjes|hoofdstukken"
    r"|secties|seções|разделами?|заголовками)\b",
    re.IGNORECASE | re.DOTALL,
)
_ASPECTS = re.compile(
    rf"{_SUMMARISE.pattern}.{{0,200}}?,\s[^,.;:!?\n]{{2,60}},?\s(?:and|und|et|y|e|en|и)\s[^,.;:!?\n]{{2,60}}",
    re.IGNORECASE | re.DOTALL,
)
_PAGES = re.compile(
    r"(?<!the )(?<!these )(?<!those )(?<!all )(?<!\w)(?P<number>[1-9]|[^\W\d_]{2,8}?)[- ]?"
    r"(?:pages?|pager|seit(?:e|en|ig\w{0,2})|páginas?|pagin[ae]s?|pagina['’]s|страниц\w{0,3}|sayfa\w{0,4})\b"
    r"|(?P<han>[1-9一二两兩三四五六])\s?(?:页|頁|ページ|페이지|쪽|장)",
    re.IGNORECASE,
)
_FEW = dict.fromkeys(("one", "ein", "eine", "einer", "une", "una", "een", "één", "uma", "一"), 1)
_FEW |= dict(zip("二两兩三四五六", (2, 2, 2, 3, 4, 5, 6), strict=True))
_HOPS = re.compile(
    # something of a thing that only a relative clause describes: the capital of the country where he was born
    r"\b(?:of|by|in|at|on|for|from|to|with|through)\s+(?:the|a|an)\s+"
    r"(?!(?:\w+\s+)?(?:document|report|text|paper|book|contract|agreement|file|page|section|chapter|passage)\b)"
    r"(?:[\w-]+\s+){1,3}?(?:who|whose|whom|where|in\s+which|that|which)\s+\w+"
    # who did something to a person or thing that only a clause describes
    r"|^\s*(?:who|whom|what|where|when|which|how\s+\w+)\b.{3,120}?\b(?:the\s+(?:one|same)?\s*(?:person|man|woman|company|city"
    r"|country|place|one|ship|author|team)\s+(?:who|whose|that|which|where))\b"
    # two genitives: the birthplace of the wife of the founder
    r"|\bthe\s+[\w-]+\s+of\s+the\s+[\w-]+\s+of\s+the\s+[\w-]+.{0,80}\?"
    r"|(?<![\w-])[\w-]++'s\s+[\w-]++'s\s+[\w-]+"
    r"|\b(?:first|then|after\s+that)\b.{0,80}\b(?:find|look\s+up|trace|follow)\b"
    r"|\bde[rsmn]\s+\w+,\s+(?:der|die|das|den|dem|dessen|deren|wo|in\s+de[rm])\s.{0,80}\?"
    r"|\b(?:du|de\s+la|del|de\s+l['’])\s*[\w-]+\s+(?:qui|dont|où|que|cuy[oa]|donde)\s.{0,80}\?",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Task:
    """What to do with the documents.

    Attributes:
        kind: the kind of task.
        hops: one passage is needed to find the next.
        counts: the number of things found is asked for.
        json: the result is wanted as JSON.
        report: a long text in sections is asked for.
        words: its length, if a number of pages is given.
    """

    kind: Kind = "answer"
    hops: bool = False
    counts: bool = False
    json: bool = False
    report: bool = False
    words: int | None = None

    def is_quoted(self, family: str) -> bool:
        """Return whether a model of this family is asked to copy sentences, which then make up the answer."""
        return family == SMALL and self.kind in ("answer", "compare")

    @property
    def instruction(self) -> str:
        """The instruction for the reader of one passage."""
        return _INSTRUCTIONS[self.kind]


_INSTRUCTIONS = {
    "answer": "Find everything in the passage that helps to answer the question.",
    "compare": (
        "Find everything in the passage that the comparison needs: what this document says to each thing compared."
    ),
    "summarise": (
        'Summarise the passage as "answer", in three to five sentences with its names, numbers and conclusions. Quote '
        'the one to three sentences that carry it as "evidence". The "confidence" says how important the passage is '
        "to the whole. Only a passage without any content of its own, such as a table of contents, has no information."
    ),
    "extract": (
        'Find every single thing in the passage that the question asks for. Each is one entry of "evidence", copied '
        "letter by letter and as short as it can be: the thing itself, not the sentence around it. Leave out nothing "
        "and give nothing twice."
    ),
}


def task_of(question: str, documents: int) -> Task:
    """Derive the task from the question and the number of documents."""
    report = _wants_report(question)
    words = _words_of_pages(question) if report else None
    if _is_ordered(_SUMMARISE, question) or _KEY_POINTS.search(question):
        return Task("summarise", report=report, words=words)
    if documents > 1 and (_is_ordered(_COMPARE, question) or _COMPARED.search(question)):
        return Task("compare", report=report, words=words)
    if report:
        return Task(report=True, words=words)
    if _is_ordered(_EXTRACT, question) or _EXTRACTED.search(question):
        return Task("extract", counts=bool(_COUNT.search(question)), json=bool(_JSON.search(question)))
    return Task(hops=bool(_HOPS.search(question)))


def _wants_report(question: str) -> bool:
    """Return whether a report, a text with headings, or a summary of several aspects is requested."""
    ordered = any(_is_ordered(each, question) for each in (_REPORT, _IN_SECTIONS, _ASPECTS))
    return ordered or _REPORT_BEFORE_ITS_VERB.search(question) is not None


def _words_of_pages(question: str) -> int | None:
    """Return the length of a text whose number of pages the question gives: "a two-page report"."""
    for found in _PAGES.finditer(question):
        written = (found["number"] or found["han"]).casefold()
        number = int(written) if written.isdecimal() else _FEW.get(written, 0)
        number = number or max(words().numbers.get(written, {"": 0}).values())
        if 1 <= number <= _MOST_PAGES:
            return number * WORDS_A_PAGE
    return None


def _is_ordered(order: re.Pattern[str], question: str) -> bool:
    """Return whether a sentence of the question begins with this imperative."""
    if order.match(question):
        return True
    starts = [start for start, _ in sentence_spans(question)]
    return any(
        order.match(question, gap.end())
        for gap in _GAP.finditer(question)
        if not _CLAUSE_ENDS.isdisjoint(gap[0]) or any(gap.start() <= start <= gap.end() for start in starts)
    )
