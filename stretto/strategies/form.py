"""The form and the depth of a merged answer: what the question asks for, else a numbered list."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

from stretto.answer import Branch
from stretto.language.forms import FormName
from stretto.request import Preference, Request
from stretto.router.parse import Parse
from stretto.strategies.flow import Flow
from stretto.strategies.notes import Notes, notes_for
from stretto.strategies.outline import Point

_LEAD = re.compile(r"(?:#{1,6}\s+)?[*_\s]*(?:\d{1,2}[.):]\s*)?[*_\s\"“]*")
_ONLY_LEAD = re.compile(r"[#*_\s\d.):\"“]*$")
_BEHIND = re.compile(r"[*_\s\"”:：.–—-]*")
_DIVIDER = re.compile(r"[:：\n]|[.–—-][*_\"”]*\s")

WORDS: dict[Preference, int] = {"fastest": 40, "balanced": 60, "careful": 90}  # a point, where nothing is asked
EXPECTED_POINTS = 6  # before the outline is complete; the paper's mean is 6.8
LABEL_MARKUP = 60  # characters a repeated label may have besides its title
TOKENS_PER_WORD = 2.0  # room for other languages and code words


@dataclass(frozen=True)
class Form:
    """How points are put together: what stands before, between and in a failed one."""

    name: FormName
    notes: Notes = field(default_factory=Notes)

    def label(self, point: Point) -> str:
        """What the reader sees before the text of a point; also what separates it from the one before."""
        gap = "" if point.index == 1 else "\n\n" if self.name in ("sections", "paragraphs") else "\n"
        labels: dict[FormName, str] = {
            "numbered": f"{point.index}. **{point.title}**: ",
            "bulleted": f"- **{point.title}**: ",
            "sections": f"## {point.title}\n\n",
            "paragraphs": "",
        }
        return gap + labels[self.name]

    @property
    def indent(self) -> str:
        """What a new line inside a point starts with, so that it stays inside its list item."""
        return {"numbered": "   ", "bulleted": "  "}.get(self.name, "")

    @property
    def instruction(self) -> str:
        """What the writer of a point is told about the form."""
        if self.name == "sections":
            return "Paragraphs and lists are allowed, headings are not."
        return "Write one paragraph without a list."

    def ending(self, branch: Branch) -> str:
        """What stands behind a point that could not be written, or not to its end."""
        return self.notes.ending(branch, branch.title if self.name == "paragraphs" else "")


def form_of(request: Request, parse: Parse) -> Form:
    """The form that the question of a request asks for."""
    return Form(parse.form or "numbered", notes_for(request))


def words_for(request: Request, parse: Parse, points: int | None) -> int:
    """Words a point should have; ``points`` is ``None`` while the outline is being written."""
    share = points or EXPECTED_POINTS
    usual = int(WORDS[request.preference] * parse.depth)
    words = usual if parse.words is None else parse.words // share
    if request.options.max_tokens:
        words = min(words, int(request.options.max_tokens / TOKENS_PER_WORD) // share)
    return max(15, words)


class PointText:
    """Takes a repeated label off the head of a point and keeps its lines inside the list item.

    Models put "3. **Title**:" before their text however often they are asked not to. Text is held
    only as long as it may still turn out to be that label, so what this returns does not depend on
    how the text was cut.
    """

    def __init__(self, point: Point, indent: str) -> None:
        self._title = _plain(point.title)
        self._room = 2 * len(point.title) + LABEL_MARKUP
        self._flow = Flow(indent)
        self._head: str | None = ""

    def feed(self, text: str) -> str:
        """Take new text, give back what can be shown already."""
        if self._head is not None:
            head = self._head = (self._head + text).lstrip()
            body = self._without_label(head[: self._room])
            if body is None and len(head) <= self._room:
                return ""
            self._head, text = None, (head[: self._room] if body is None else body) + head[self._room :]
        return self._flow.feed(text)

    def finish(self) -> str:
        """Give back what was held; white space at the end is dropped."""
        if self._head is None:
            return ""
        head, self._head = self._head, None
        return self._flow.feed(head)

    def _without_label(self, body: str) -> str | None:
        """The text behind a label, the whole text if it has none, ``None`` while that is open."""
        if _ONLY_LEAD.match(body):
            return None
        lead = _LEAD.match(body)
        at = lead.end() if lead else 0
        seen = ""
        while seen != self._title or not self._title:  # letter by letter: the title may carry markup
            if not self._title.startswith(seen) or not self._title:
                return body
            if at == len(body):
                return None
            seen += _plain(body[at])
            at += 1
        while at < len(body) and unicodedata.category(body[at]).startswith("M"):
            at += 1  # vowel signs and marks belong to the letter before; `_plain` leaves them out
        behind = _BEHIND.match(body, at)
        if behind is None or behind.end() == len(body):
            return None  # what follows the title decides
        return body[behind.end() :] if _DIVIDER.search(behind[0]) else body


def _plain(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())
