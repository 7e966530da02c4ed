"""Tells from the question what is to be done with the documents."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["Task", "task_of"]

Kind = Literal["answer", "summarise", "extract", "compare", "rewrite"]

# A task is an order: its verb begins a sentence. Within one ("why should we simplify it?") it is part of a question.
_GAP = re.compile(r"\W++")
_SENTENCE_ENDS = frozenset(".!?:;\n")
_ORDER = (
    r"(?<!\w)(?:(?:please|kindly|now|bitte|por favor|s'il vous plaît|then)\W{1,20}"
    r"|(?:can|could|would|will) you\W{1,20}|i (?:want|need|would like|'d like) you to\W{1,20}|kannst du\W{1,20}){0,4}"
)
_REWRITE = re.compile(
    _ORDER + r"(?:translate|rewrite|rephrase|proofread|paraphrase|simplify|übersetze?|schreibe?\b.{0,40}\bum|traduis"
    r"|traduisez|traduce|traduci|vertaal|réécris|reescribe)\b",
    re.IGNORECASE,
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
_HOPS = re.compile(
    # a thing of another thing, which only a relative clause describes: the capital of the country where he was born
    r"\b(?:of|by|in|at|on|for|from|to|with|through)\s+(?:the|a|an)\s+"
    r"(?!(?:\w+\s+)?(?:document|report|text|paper|book|contract|agreement|file|page|section|chapter|passage)\b)"
    r"(?:[\w-]+\s+){1,3}?(?:who|whose|whom|where|in\s+which|that|which)\s+\w+"
    # who did something to the one that only a clause describes
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
    """What is to be done.

    Attributes:
        kind: of the task.
        hops: one passage is needed to find the next.
        counts: the number of things found is asked for.
        json: the result is wanted as JSON.
    """

    kind: Kind = "answer"
    hops: bool = False
    counts: bool = False
    json: bool = False

    @property
    def instruction(self) -> str:
        """What a reader of one passage is told to do."""
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
    "rewrite": "Do the task.",
}


def task_of(question: str, documents: int) -> Task:
    """Tell the task from the question and the number of documents."""
    if _is_ordered(_REWRITE, question):
        return Task("rewrite")
    if _is_ordered(_SUMMARISE, question) or _KEY_POINTS.search(question):
        return Task("summarise")
    if documents > 1 and (_is_ordered(_COMPARE, question) or _COMPARED.search(question)):
        return Task("compare")
    if _is_ordered(_EXTRACT, question) or _EXTRACTED.search(question):
        return Task("extract", counts=bool(_COUNT.search(question)), json=bool(_JSON.search(question)))
    return Task(hops=bool(_HOPS.search(question)))


def _is_ordered(order: re.Pattern[str], question: str) -> bool:
    """Whether a sentence of the question begins with this order."""
    if order.match(question):
        return True
    return any(
        order.match(question, gap.end())
        for gap in _GAP.finditer(question)
        if gap.start() == 0 or not _SENTENCE_ENDS.isdisjoint(gap[0])
    )
