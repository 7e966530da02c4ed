"""The text that a request gives to be changed: what is to be done to it, and where it begins and ends.

A request counts only if an order to change a text is found, and the text can be told apart from it: by a fence, a tag,
quotes, the end of a line or paragraph, a document, or a system message that gives the order for all that the user
writes. Where the border is in doubt, the answer is written in one piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import PurePath
from typing import Literal, get_args

from stretto.backends.known_models import typical_tokens
from stretto.language import tables_in
from stretto.language.lists import first_letter_first, in_ascii
from stretto.values.request import Request

__all__ = ["EDITED", "Change", "Given", "given_in", "ordered_change"]

Change = Literal[
    "redact",
    "shorten",
    "simplify",
    "tone",
    "translate",
    "reformat",
    "annotate",
    "rename",
    "insert",
    "change",
    "correct",
]
"""What is done to a text; of several that one request asks for, the one that comes first here counts."""
EDITED: frozenset[Change] = frozenset({"rename", "insert", "change", "correct"})
"""What leaves most of a text as it is."""

LONGEST_TASK = 800  # characters
LEAST_TEXT = 400  # characters; below it nothing is gained
_LENGTHS: dict[Change, float] = {"shorten": 0.5, "simplify": 0.9, "annotate": 1.3, "translate": 1.1}
_PLAIN = frozenset({"", ".txt", ".text", ".md", ".markdown", ".rst", ".pdf", ".docx"})
_FENCE = re.compile(r"^(?P<mark>`{3,}+|~{3,}+)(?P<info>[^\n`]*+)$", re.MULTILINE)
_TAG = re.compile(r"^<(?P<tag>[a-zA-Z][\w-]{0,40})>", re.MULTILINE)
_RULE = re.compile(r"^(?P<mark>\"{3}|'{3}|-{3,}+|={3,}+)[ \t]*+$", re.MULTILINE)
_FENCES, _RULES = ("```", "~~~"), ('"""', "'''", "---", "===")
_BLANK = re.compile(r"\n[ \t]*+\n\s*+")
_COLON = (":", "：")
_NEAR = 40  # characters between an order and a word that forbids it
_QUESTION_MARKS = ("?", "？", "؟")
_SENTENCE = re.compile(r"[.!?。！？؟;:：\n]\s*+")
_GOES_ON = re.compile(
    r"(?:use|keep|do not|don't|make sure|never|always|preserve|leave|write|only|please|also|note that|behalte?"
    r"|verwende?|nutze?|achte|lass|gardez?|utilisez?|ne |conservez?|usa|mantén|conserva|mantieni|gebruik|behoud|сохрани"
    r"|используй)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Given:
    """A text to be changed.

    Attributes:
        change: what is to be done to it.
        task: the order, in the user's words; empty where it is the system message.
        text: the text.
        lead: what the answer begins with, such as the line of a fence.
        tail: what it ends with.
        ending: of the file that it comes from, ``.md`` for instance; of a fence, its language.
        source: where it was found: "fence", "prompt", "document" or "system".
    """

    change: Change
    task: str
    text: str
    lead: str = ""
    tail: str = ""
    ending: str = ""
    source: Literal["fence", "prompt", "document", "system"] = "prompt"

    @property
    def tokens(self) -> int:
        """Estimated tokens of the text."""
        return typical_tokens(round(len(self.text) * (1 if self.text.isascii() else 1.3)))

    @property
    def answer_tokens(self) -> int:
        """Estimated tokens of the whole text after its change."""
        return max(1, round(self.tokens * _LENGTHS.get(self.change, 1.0)))


def given_in(request: Request) -> Given | str | None:
    """The text to be changed; why that is in doubt, as half a sentence; ``None`` where nothing asks for a change."""
    question = request.question.replace("\r\n", "\n").strip() if not request.documents else request.question.strip()
    if request.documents:
        return _in_documents(request, question)
    if len(question) < LEAST_TEXT:
        return None
    for marks in (_between(question, _FENCE, _FENCES), _in_tag(question), _between(question, _RULE, _RULES)):
        if marks is not None and (marked := _marked(question, *marks)) is not None:
            return marked
    if (split := _split(question)) is not None:
        return split
    change = ordered_change(request.system) if len(request.system) <= 4 * LONGEST_TASK else None
    if change is not None and ordered_change(question[:LONGEST_TASK]) is None:
        return _Words.refusal(request.system, change) or Given(change, "", request.question, source="system")
    return None


def _in_documents(request: Request, question: str) -> Given | str | None:
    if len(question) > LONGEST_TASK or (change := ordered_change(question)) is None:
        return None
    endings = {PurePath(each.source or each.title).suffix.lower() for each in request.documents}
    if len(request.documents) > 1 and not endings <= _PLAIN:
        return "several files come with the request, and of their formats one file is rewritten at a time"
    text = "\n\n".join(each.markup or each.text for each in request.documents)
    if len(text) < LEAST_TEXT:
        return None
    ending = endings.pop() if len(endings) == 1 else ""
    return _Words.refusal(question, change) or Given(change, question, text, ending=ending, source="document")


Marks = tuple[tuple[int, int], tuple[int, int], str]
"""Where the mark before a text stands and the one behind it, and what the first one says besides."""


def _between(question: str, mark: re.Pattern[str], signs: Sequence[str]) -> Marks | None:
    """Between two lines of the same marks, where there are no others."""
    if not any(sign in question for sign in signs):
        return None
    found = list(islice(mark.finditer(question), 3))
    if len(found) != 2 or found[0]["mark"] != found[1]["mark"]:
        return None
    return found[0].span(), found[1].span(), found[0].groupdict().get("info", "").strip()


def _in_tag(question: str) -> Marks | None:
    """Between a tag that begins a line and the last one that closes it."""
    found = _TAG.search(question) if "</" in question else None
    end = f"</{found['tag']}>" if found is not None else ""
    at = question.rfind(end) if found is not None else -1
    return None if found is None or at < found.end() else (found.span(), (at, at + len(end)), "")


def _marked(question: str, first: tuple[int, int], last: tuple[int, int], info: str) -> Given | str | None:
    """A text between two marks, with the order before or behind them."""
    around = f"{question[: first[0]].strip()}\n\n{question[last[1] :].strip()}".strip()
    text = question[first[1] : last[0]].strip("\n")
    if not around or len(around) > LONGEST_TASK or len(text) < LEAST_TEXT or (change := ordered_change(around)) is None:
        return None
    if (why := _Words.refusal(around, change)) is not None:
        return why
    fence = question[first[0] : first[1]]
    if not fence.startswith(("`", "~")):
        return Given(change, around, text)
    language = info.split(" ", maxsplit=1)[0].lower()
    shown = language not in ("", "text", "txt", "markdown", "md")
    lead, tail = (f"{fence}\n", f"\n{question[slice(*last)]}") if shown else ("", "")
    return Given(change, around, text, lead, tail, f".{language}" if language else "", "fence")


def _split(question: str) -> Given | str | None:
    """A text below or above the order."""
    first, rest = _head(question)
    last, before = _tail(question)
    words = _Words.read()
    begins = ordered_change(first) if first and len(rest) >= LEAST_TEXT else None
    ends = ordered_change(last) if last and len(before) >= LEAST_TEXT else None
    ends = ends if ends and words.text.search(last) else None
    change, task, text = (ends, last, before) if begins is None else (begins, first, rest)
    if change is None:
        return None
    if begins is not None and ends is not None:
        return "its first and its last paragraph both read like the task, so where the text ends is in doubt"
    if begins is None and words.asks_of_a_text(first):
        return "its first paragraph asks for something else than its last one"
    if begins is not None and (doubt := _end_of_task(first, rest, last)):
        return doubt
    if _in_fences(text):
        return "most of the text stands in several fences, which are copied as code"
    return words.refusal(task, change) or Given(change, task, text)


def _end_of_task(first: str, rest: str, last: str) -> str | None:
    """Why it is in doubt that all behind an order is the text."""
    if first.endswith(_COLON):
        return None
    if _Words.read().asks_of_a_text(last):
        return "its last paragraph may be a question about the text, or a part of it"
    following = _BLANK.split(rest, maxsplit=1)[0]
    if len(following) <= LONGEST_TASK and _GOES_ON.match(following):
        return "its second paragraph may belong to the task or to the text"
    return None


def _in_fences(text: str) -> bool:
    """Whether most of a text stands between fences."""
    marks = list(_FENCE.finditer(text)) if any(sign in text for sign in _FENCES) else []
    inside = sum(end.start() - begin.end() for begin, end in zip(marks[::2], marks[1::2], strict=False))
    return inside > len(text) // 2


def _head(question: str) -> tuple[str, str]:
    """The order at the beginning and the text below it; empty where no border is clear."""
    paragraphs = list(_BLANK.finditer(question, 0, 2 * LONGEST_TASK))
    ends = [match for match in paragraphs if match.start() <= LONGEST_TASK]
    for match in ends[:3]:  # "Here is the text:" ends the order, whatever stands before it
        if question[: match.start()].rstrip().endswith(_COLON):
            return question[: match.start()].strip(), question[match.end() :]
    line_end = question.find("\n", 0, LONGEST_TASK)
    line = question[:line_end] if line_end >= 0 else ""
    if line.rstrip().endswith(_COLON):
        return line.strip(), question[line_end + 1 :].lstrip("\n")
    colon = min((at for mark in _COLON if (at := question.find(mark, 0, 200)) >= 0), default=-1)
    if colon >= 0 and (line_end < 0 or colon < line_end) and question[colon + 1 : colon + 2] in (" ", "\t"):
        return question[: colon + 1].strip(), question[colon + 1 :].lstrip()
    if ends:
        first = question[: ends[0].start()]
        if "\n" not in first or len(first) <= LONGEST_TASK // 2:
            return first.strip(), question[ends[0].end() :]
    if line and question.count("\n") >= 1 and len(line) <= LONGEST_TASK // 2:
        return line.strip(), question[line_end + 1 :].lstrip("\n")
    return "", ""


def _tail(question: str) -> tuple[str, str]:
    """The order at the end and the text above it; empty where no border is clear."""
    begin = max(0, len(question) - LONGEST_TASK)
    borders = list(_BLANK.finditer(question, begin))
    if not borders:
        return "", ""
    return question[borders[-1].end() :].strip(), question[: borders[-1].start()]


def ordered_change(task: str) -> Change | None:
    """What a task orders to be done to a text; ``None`` where it is no such order, or longer than one."""
    words, task = _Words.read(), task.strip()[: LONGEST_TASK + 1]
    if len(task) > LONGEST_TASK or not words.may_order(task):
        return None
    pointed = words.text.search(task) is not None
    found: set[Change] = set()
    begins = [0, *(each.end() for each in _SENTENCE.finditer(task))]
    for start, end in zip(begins, [*begins[1:], len(task)], strict=True):
        sentence = task[start:end].lstrip("¿¡ ")
        body = sentence[lead.end() :] if (lead := words.polite.match(sentence)) else sentence
        body = body.lstrip(" ,")
        other = words.question.match(body) is not None
        asks = other or (lead is None and sentence.rstrip().endswith(_QUESTION_MARKS))
        for change, pattern in words.changes.items():
            match = pattern.match(body) or (pattern.search(body) if not asks and (lead or pointed) else None)
            if match and not words.forbids(body, match):
                found.add(change)
        if other and not found:
            return None  # what is ordered behind it may be meant for its answer
    return next((change for change in get_args(Change) if change in found), None)


@dataclass(frozen=True, slots=True)
class _Words:
    """The patterns of ``given.toml``."""

    changes: dict[Change, re.Pattern[str]]
    begins: re.Pattern[str]  # finds whatever ``changes`` find in a part of an ASCII text in small letters, and more
    text: re.Pattern[str]
    polite: re.Pattern[str]
    question: re.Pattern[str]
    beside: re.Pattern[str]
    part: re.Pattern[str]
    never: re.Pattern[str]
    never_behind: re.Pattern[str]

    @staticmethod
    @cache
    def read() -> _Words:
        """The patterns, read and compiled once."""
        tables = tables_in("given.toml").values()

        def listed(*keys: str, whole: bool) -> Iterable[str]:
            of_these = [table for table in tables if table.get("whole-words", True) is whole]
            return dict.fromkeys(each for key in keys for table in of_these for each in table.get(key, ()))

        def either(key: str, *, whole: bool) -> str:
            return first_letter_first(listed(key, whole=whole), any_case=True) or "(?!)"

        def pattern(key: str) -> re.Pattern[str]:
            return re.compile(rf"\b(?:{either(key, whole=True)})(?!\w)|{either(key, whole=False)}", re.IGNORECASE)

        changes = get_args(Change)
        words = in_ascii(listed(*changes, whole=True))
        return _Words(
            {change: pattern(change) for change in changes},
            re.compile(rf"\b(?=\w)(?:{words})"),
            *(pattern(key) for key in ("text", "polite", "question", "beside", "part", "never", "never-behind")),
        )

    def may_order(self, task: str) -> bool:
        """Whether any of the changes can be found in a task or in a part of it; much faster than to look for each."""
        return not task.isascii() or self.begins.search(task.lower()) is not None

    def forbids(self, sentence: str, order: re.Match[str]) -> bool:
        """Whether a sentence says that what it names is not to be done."""
        before = sentence[max(0, order.start() - _NEAR) : order.start()].rpartition(",")[2]
        behind = sentence[order.end() : order.end() + 2 * _NEAR].partition(",")[0]
        return self.never.search(before) is not None or self.never_behind.search(behind) is not None

    def asks_of_a_text(self, paragraph: str) -> bool:
        """Whether a paragraph asks for something else of a text than its change."""
        said = paragraph.lstrip("¿¡ ")
        said = said[lead.end() :].lstrip(" ,") if (lead := self.polite.match(said)) else said
        asks = said.rstrip().endswith((*_QUESTION_MARKS, *_COLON)) or self.question.match(said) is not None
        return asks and len(said) <= _NEAR * 10 and self.text.search(said) is not None

    @staticmethod
    def refusal(task: str, change: Change) -> str | None:
        """Why the whole changed text, and that alone, is not what is asked for."""
        words = _Words.read()
        if found := words.beside.search(task):
            return f'more than the changed text is asked for ("{found[0].strip()[:40]}")'
        if change != "insert" and (found := words.part.search(task)):  # an addition says its place like this
            return f'a part of the text is asked for ("{found[0].strip()[:40]}")'
        last = task[max((each.end() for each in _SENTENCE.finditer(task.rstrip()[:-1])), default=0) :].strip()
        if last.endswith(_QUESTION_MARKS) and words.question.match(last):
            return f'a question is asked besides ("{last[:40]}")'
        return None
