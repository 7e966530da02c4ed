"""The text that a request wants changed: what is to be done to it, and where it begins and ends.

A request counts only if an order to change a text is found, and the text can be separated from it: by a fence, a tag,
quotes, the end of a line or paragraph, a document, or a system message that gives the order for all user messages. If
the boundary is in doubt, the answer is written in one piece, but its forecast still counts the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import PurePath
from typing import Literal, NamedTuple, get_args

from stretto.backends.known_models import typical_tokens
from stretto.language import tables_in
from stretto.language.lists import first_letter_first, in_ascii
from stretto.values.request import Request

Change = Literal[
    "redact",
    "shorten",
    "expand",
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
"""What is done to a text; if a request asks for more than one, the first in this list counts."""
EDITED: frozenset[Change] = frozenset({"rename", "insert", "change", "correct"})
"""Changes that leave most of a text as it is."""

LONGEST_TASK = 800  # characters
LEAST_TEXT = 400  # characters; below, nothing is gained
_LENGTHS: dict[Change, float] = {"shorten": 0.5, "expand": 1.6, "simplify": 0.9, "annotate": 1.3, "translate": 1.1}
_PLAIN = frozenset({"", ".txt", ".text", ".md", ".markdown", ".pdf", ".docx"})
_UNCUT = frozenset({".rst", ".restructuredtext", ".adoc", ".asciidoc", ".org"})
_ANYWHERE: frozenset[Change] = frozenset({"rename", "insert", "change"})  # in code, too
_FENCE = re.compile(r"^(?P<mark>`{3,}+|~{3,}+)(?P<info>[^\n`]*+)$", re.MULTILINE)
_TAG = re.compile(r"^<(?P<tag>[a-zA-Z][\w-]{0,40})>", re.MULTILINE)
_RULE = re.compile(r"^(?P<mark>\"{3}|'{3}|-{3,}+|={3,}+)[ \t]*+$", re.MULTILINE)
_FENCES, _RULES = ("```", "~~~"), ('"""', "'''", "---", "===")
_QUOTES = {'"': '"', "“": "”", "„": "“”", "«": "»", "»": "«", "「": "」"}
_QUOTE = re.compile(r"[\"“”„«»「」]")
_BLANK = re.compile(r"\n[ \t]*+\n\s*+")
_COLON = (":", "：")
_LEADING = 5  # letters between an order and the quotation it refers to
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
        task: the order, in the user's words; empty if it is the system message.
        text: the text.
        lead: what the answer begins with, such as the opening line of a fence.
        tail: what it ends with.
        ending: the extension of its file, ``.md`` for instance, or the language of its fence.
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
        return typical_tokens(round(len(self.text) * (1 if self.text.isascii() else 1.3)))

    @property
    def answer_tokens(self) -> int:
        """The estimated tokens of the whole text after its change."""
        return max(1, round(self.tokens * _LENGTHS.get(self.change, 1.0)))


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why an answer that changes a text is written in one piece.

    Attributes:
        why: half a sentence.
        tokens: estimated tokens of that answer; 0 if it is not the whole text.
    """

    why: str
    tokens: int = 0


def given_in(request: Request) -> Given | Doubt | None:
    """Return the text to be changed, or why that is in doubt; ``None`` if nothing asks for a change."""
    question = request.question.replace("\r\n", "\n").strip() if not request.documents else request.question.strip()
    if request.documents:
        return _in_documents(request, question)
    if len(question) < LEAST_TEXT:
        return None
    for marks in (_in_fence(question), _in_tag(question), _between_rules(question)):
        if marks is not None and (marked := _marked(question, *marks)) is not None:
            return marked
    if (found := _quoted(question) or _split(question)) is not None:
        return found
    change = ordered_change(request.system) if len(request.system) <= 4 * LONGEST_TASK else None
    if change is not None and ordered_change(question[:LONGEST_TASK]) is None:
        return _Words.unless_refused(Given(change, "", request.question, source="system"), request.system)
    return None


def unseen_tokens(question: str) -> int:
    """Estimate the tokens of a text next to an order in unknown words; 0 if the question is about the text."""
    if (marks := _in_fence(question) or _between_rules(question)) is not None:
        first, last, _ = marks
        order, text = f"{question[: first[0]]}\n{question[last[1] :]}", question[first[1] : last[0]]
    else:
        order, text = max(_head(question), _tail(question), key=lambda found: len(found[1]))
    if len(text) < LEAST_TEXT or any(sentence.asks for sentence in _Words.read().sentences(order)):
        return 0
    return Given("reformat", order, text).tokens


def _in_documents(request: Request, question: str) -> Given | Doubt | None:
    if len(question) > LONGEST_TASK or (change := ordered_change(question)) is None:
        return None
    text = "\n\n".join(each.markup or each.text for each in request.documents)
    if len(text) < LEAST_TEXT:
        return None
    endings = {PurePath(each.source or each.title).suffix.lower() for each in request.documents}
    ending = next(iter(endings)) if len(endings) == 1 else ""
    given = Given(change, question, text, ending=ending, source="document")
    if len(request.documents) > 1 and not endings <= _PLAIN:
        why = "several files come with the request, and of their formats one file is rewritten at a time"
        return Doubt(why, given.answer_tokens)
    return _unless_uncut(given) if endings & _UNCUT else _Words.unless_refused(given, question)


def _unless_uncut(given: Given) -> Given | Doubt:
    """Return the text, or a doubt if its format is not split at code blocks but the change applies to them, too."""
    if given.change in _ANYWHERE:
        return _Words.unless_refused(given, given.task)
    return Doubt(f"code blocks are not distinguished from the text of a file in {given.ending}", given.answer_tokens)


Marks = tuple[tuple[int, int], tuple[int, int], str]
"""The spans of the markers before and after a text, and what else the first one says."""


def _in_fence(question: str) -> Marks | None:
    """Find the text within a fence, if it is the only one."""
    found = _fences(question)
    if len(found) != 1 or (end := found[0][1]) is None:
        return None
    return found[0][0].span(), end.span(), found[0][0]["info"].strip()


def _fences(text: str) -> list[tuple[re.Match[str], re.Match[str] | None]]:
    """Return the lines that open and close each fence by CommonMark's rules; others within it are its text."""
    found: list[tuple[re.Match[str], re.Match[str] | None]] = []
    for mark in _FENCE.finditer(text) if any(sign in text for sign in _FENCES) else ():
        opened = found[-1][0] if found and found[-1][1] is None else None
        if opened is None:
            found.append((mark, None))
        elif mark["mark"].startswith(opened["mark"]) and not mark["info"].strip():
            found[-1] = opened, mark
    return found


def _between_rules(question: str) -> Marks | None:
    """Find the text between two lines of quotes or dashes, if there are no others."""
    if not any(sign in question for sign in _RULES):
        return None
    found = list(islice(_RULE.finditer(question), 3))
    if len(found) != 2 or found[0]["mark"] != found[1]["mark"]:
        return None
    return found[0].span(), found[1].span(), ""


def _in_tag(question: str) -> Marks | None:
    """Find the text between a tag that begins a line and the last one that closes it."""
    found = _TAG.search(question) if "</" in question else None
    end = f"</{found['tag']}>" if found is not None else ""
    at = question.rfind(end) if found is not None else -1
    return None if found is None or at < found.end() else (found.span(), (at, at + len(end)), "")


def _marked(question: str, first: tuple[int, int], last: tuple[int, int], info: str) -> Given | Doubt | None:
    """Return a text between two markers, with the order before or after them."""
    around = f"{question[: first[0]].strip()}\n\n{question[last[1] :].strip()}".strip()
    text = question[first[1] : last[0]].strip("\n")
    if not around or len(around) > LONGEST_TASK or len(text) < LEAST_TEXT or (change := ordered_change(around)) is None:
        return None
    fence = question[first[0] : first[1]]
    if not fence.startswith(("`", "~")):
        return _Words.unless_refused(Given(change, around, text), around)
    language = info.split(" ", maxsplit=1)[0].lower()
    shown = language not in ("", "text", "txt", "markdown", "md")
    lead, tail = (f"{fence}\n", f"\n{question[slice(*last)]}") if shown else ("", "")
    given = Given(change, around, text, lead, tail, f".{language}" if language else "", "fence")
    return _unless_uncut(given) if given.ending in _UNCUT else _Words.unless_refused(given, around)


def _quoted(question: str) -> Given | Doubt | None:
    """Return the only long text between quotes, on the line of its order."""
    spans, are_pairs = _quotations(question)
    long = [span for span in spans if span[1] - span[0] > LEAST_TEXT]
    if len(long) != 1:
        return None
    start, end = long[0]
    before, text, after = question[:start], question[start + 1 : end], question[end + 1 :]
    order = f"{before}{question[start]}…{question[end]}{after}".strip()
    if len(order) > LONGEST_TASK or before.rstrip().endswith(_COLON) or _BLANK.search(f"{before}{after}"):
        return None
    begins = max((each.end() for each in _SENTENCE.finditer(before)), default=0)
    own = before[begins:] if before.strip() else _SENTENCE.split(after.lstrip(" .,;–—-"), maxsplit=1)[0]
    if ordered_change(own) is None or (change := ordered_change(order)) is None:
        return None
    given = Given(change, order, text)
    if not are_pairs:
        return Doubt("its quotation marks do not show where the text ends", given.answer_tokens)
    found = _Words.unless_refused(given, order)
    refers_to_it = not before.strip() or _leads_to_quotation(own, change)
    if isinstance(found, Doubt) or (refers_to_it and not _goes_on_besides(after)):
        return found
    return Doubt("the change may be meant for something else than the quotation", given.answer_tokens)


def _leads_to_quotation(own: str, change: Change) -> bool:
    """Return whether an order refers to the quotation after it: "in" may come between them, "my reply to" may not."""
    words = _Words.read()
    orders = list(words.changes[change].finditer(own))
    if change in ("rename", "change"):  # both the old and the new words, or the quotation is one of them
        return len(_quotations(own)[0]) == 2
    rest = words.aspect.sub(" ", words.text.sub(" ", own[orders[-1].end() :] if orders else own)).split()
    to_language = change == "translate" and len(rest) == 2 and rest[1][:1].isupper()
    return to_language or len("".join(rest)) <= _LEADING


def _goes_on_besides(after: str) -> bool:
    """Return whether more than the rest of an order follows a quotation."""
    if any(sign in after for sign in _COLON):
        return True
    others = [each.strip() for each in _SENTENCE.split(f"{after} ")[1:]]
    return any(each and not _GOES_ON.match(each) and ordered_change(each) is None for each in others)


def _quotations(text: str) -> tuple[list[tuple[int, int]], bool]:
    """Return the spans of the outermost quotations, if the first begins where an order can be.

    Also returns whether its quotation marks are paired; if not, the span is from the first to the last of them.
    """
    first = _QUOTE.search(text, 0, LONGEST_TASK)
    if first is None or first[0] not in _QUOTES:
        return [], True
    kind = first[0] + _QUOTES[first[0]]
    marks = [each.start() for each in _QUOTE.finditer(text) if each[0] in kind]
    found: list[tuple[int, int]] = []
    opened: list[int] = []
    for at in marks:
        is_opening = _opens(text, at) if kind[0] == kind[1] else text[at] == kind[0]
        if is_opening:
            opened.append(at)
        elif is_opening is None or not opened:
            return [(marks[0], marks[-1])], False
        else:
            start = opened.pop()
            found += [] if opened else [(start, at)]
    return (found, True) if not opened else ([(marks[0], marks[-1])], False)


def _opens(text: str, at: int) -> bool | None:
    """Return whether a straight quote opens a quotation; ``None``: the adjacent characters do not show it."""
    before = text[max(0, at - 1) : at].strip(" \n\t([{—–-")
    after = text[at + 1 : at + 2].strip(" \n\t.,;:!?)]}—–-")
    return None if bool(before) == bool(after) else not before


def _split(question: str) -> Given | Doubt | None:
    """Find the text below or above the order."""
    first, rest = _head(question)
    last, before = _tail(question)
    words = _Words.read()
    begins = ordered_change(first) if first and len(rest) >= LEAST_TEXT else None
    ends = ordered_change(last) if last and len(before) >= LEAST_TEXT else None
    ends = ends if ends and words.text.search(last) else None
    change, task, text = (ends, last, before) if begins is None else (begins, first, rest)
    if change is None:
        return None
    given = Given(change, task, text)
    if begins is not None and ends is not None:
        why = "its first and its last paragraph both read like the task, so where the text ends is in doubt"
    elif begins is not None and _ends_before(text):
        why = "it is unclear whether what follows its quotation belongs to the text"
    elif begins is None and words.asks_of_a_text(first):
        why = "its first paragraph asks for something else than its last one"
    elif begins is not None and (doubt := _end_of_task(first, rest, last)):
        why = doubt
    elif _in_fences(text):
        why = "most of the text is in several fences, which are copied as code"
    else:
        return words.unless_refused(given, task)
    return Doubt(why, given.answer_tokens)


def _ends_before(text: str) -> bool:
    """Return whether a long quotation begins a text and ends before the text does."""
    spans, are_pairs = _quotations(text)
    if not spans or not are_pairs or text[: spans[0][0]].strip() or spans[0][1] - spans[0][0] <= LEAST_TEXT:
        return False
    after = text[spans[0][1] + 1 :]
    return len(after) <= LONGEST_TASK and any(sign.isalpha() for sign in after)


def _end_of_task(first: str, rest: str, last: str) -> str | None:
    """Return why it is doubtful that everything after an order is the text."""
    if first.endswith(_COLON):
        return None
    if not _quotations(first)[1]:
        return "a quotation in its first paragraph may be the beginning of the text"
    if _Words.read().asks_of_a_text(last):
        return "its last paragraph may be a question about the text, or a part of it"
    following = _BLANK.split(rest, maxsplit=1)[0]
    if len(following) <= LONGEST_TASK and _GOES_ON.match(following):
        return "its second paragraph may belong to the task or to the text"
    return None


def _in_fences(text: str) -> bool:
    """Return whether most of a text is between fences."""
    inside = sum((end.start() if end else len(text)) - begin.end() for begin, end in _fences(text))
    return inside > len(text) // 2


def _head(question: str) -> tuple[str, str]:
    """Return the order at the beginning and the text below it; empty if the boundary is unclear."""
    paragraphs = list(_BLANK.finditer(question, 0, 2 * LONGEST_TASK))
    ends = [match for match in paragraphs if match.start() <= LONGEST_TASK]
    for match in ends[:3]:  # "Here is the text:" ends the order, whatever precedes it
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
    """Return the order at the end and the text above it; empty if the boundary is unclear."""
    borders = list(_BLANK.finditer(question, max(0, len(question) - LONGEST_TASK)))
    if not borders:
        return "", ""
    return question[borders[-1].end() :].strip(), question[: borders[-1].start()]


def ordered_change(task: str) -> Change | None:
    """Return the change that a task orders; ``None`` if it is not such an order, or longer than one."""
    words, task = _Words.read(), task.strip()[: LONGEST_TASK + 1]
    if len(task) > LONGEST_TASK or not words.may_order(task):
        return None
    pointed = words.text.search(task) is not None
    found: set[Change] = set()
    for sentence in words.sentences(task):
        for change, pattern in words.changes.items():
            may_come_later = not sentence.asks and (sentence.is_polite or pointed)
            match = pattern.match(sentence.body) or (pattern.search(sentence.body) if may_come_later else None)
            if match and not words.forbids(sentence.body, match):
                found.add(change)
        if sentence.orders_other and not found:
            return None  # an order after it may refer to its answer
    return next((change for change in get_args(Change) if change in found), None)


class _Sentence(NamedTuple):
    """A sentence of a task: its text after polite phrases, and what it asks for."""

    body: str
    is_polite: bool
    orders_other: bool  # a question, or an order other than to change a text
    asks: bool


@dataclass(frozen=True, slots=True)
class _Words:
    """The patterns of ``given.toml``."""

    changes: dict[Change, re.Pattern[str]]
    begins: re.Pattern[str]  # finds whatever ``changes`` find in a part of a lower-case ASCII text, and more
    text: re.Pattern[str]
    aspect: re.Pattern[str]  # of a text, such as its spelling, that is corrected
    polite: re.Pattern[str]
    question: re.Pattern[str]
    beside: re.Pattern[str]
    part: re.Pattern[str]
    never: re.Pattern[str]
    never_behind: re.Pattern[str]

    @staticmethod
    @cache
    def read() -> _Words:
        """Return the patterns, read and compiled once."""
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
            *(
                pattern(key)
                for key in ("text", "aspect", "polite", "question", "beside", "part", "never", "never-behind")
            ),
        )

    def may_order(self, task: str) -> bool:
        """Return whether a task or a part of it could contain a change; much faster than searching for each."""
        return not task.isascii() or self.begins.search(task.lower()) is not None

    def forbids(self, sentence: str, order: re.Match[str]) -> bool:
        """Return whether a sentence says not to do what it names."""
        before = sentence[max(0, order.start() - _NEAR) : order.start()].rpartition(",")[2]
        after = sentence[order.end() : order.end() + 2 * _NEAR].partition(",")[0]
        return self.never.search(before) is not None or self.never_behind.search(after) is not None

    def asks_of_a_text(self, paragraph: str) -> bool:
        """Return whether a paragraph asks for something about a text other than its change."""
        text = paragraph.lstrip("¿¡ ")
        text = text[lead.end() :].lstrip(" ,") if (lead := self.polite.match(text)) else text
        asks = text.rstrip().endswith((*_QUESTION_MARKS, *_COLON)) or self.question.match(text) is not None
        return asks and len(text) <= _NEAR * 10 and self.text.search(text) is not None

    def sentences(self, task: str) -> Iterator[_Sentence]:
        begins = [0, *(each.end() for each in _SENTENCE.finditer(task))]
        for start, end in zip(begins, [*begins[1:], len(task)], strict=True):
            sentence = task[start:end].lstrip("¿¡ ")
            lead = self.polite.match(sentence)
            body = sentence[lead.end() if lead else 0 :].lstrip(" ,")
            other = self.question.match(body) is not None
            asks = other or (lead is None and sentence.rstrip().endswith(_QUESTION_MARKS))
            yield _Sentence(body, lead is not None, other, asks)

    @staticmethod
    def unless_refused(given: Given, order: str) -> Given | Doubt:
        """Return the text, or a doubt if the order asks for anything but the whole changed text alone."""
        words = _Words.read()
        if found := words.beside.search(order):
            return Doubt(f'more than the changed text is asked for ("{found[0].strip()[:40]}")', given.answer_tokens)
        if given.change != "insert" and (found := words.part.search(order)):  # an insertion names its place so
            return Doubt(f'a part of the text is asked for ("{found[0].strip()[:40]}")')
        last = order[max((each.end() for each in _SENTENCE.finditer(order.rstrip()[:-1])), default=0) :].strip()
        if last.endswith(_QUESTION_MARKS) and words.question.match(last):
            return Doubt(f'a question is also asked ("{last[:40]}")', given.answer_tokens)
        return given
