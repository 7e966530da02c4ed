"""Form and length of a merged answer: as the question asks, else a numbered list."""

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

WORDS: dict[Preference, int] = {
    "fastest": 40,
    "balanced": 60,
    "careful": 90,
}  # per point, if the question names no length
EXPECTED_POINTS = 6  # while the outline is incomplete; the mean in the paper is 6.8
LABEL_MARKUP = 60  # characters of a repeated label besides its title
TOKENS_PER_WORD = 2.0  # allows for other languages and for code


@dataclass(frozen=True)
class Form:
    """How points are assembled: labels, separators, and notes for failed points."""

    name: FormName
    notes: Notes = field(default_factory=Notes)

    def label(self, point: Point) -> str:
        """Text before a point, including the separator from the previous one."""
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
        """Indent of further lines of a point, which keeps them inside its list item."""
        return {"numbered": "   ", "bulleted": "  "}.get(self.name, "")

    @property
    def instruction(self) -> str:
        """The sentence about the form in the prompt of a point."""
        if self.name == "sections":
            return "Paragraphs and lists are allowed, headings are not."
        return "Write one paragraph without a list."

    def ending(self, branch: Branch) -> str:
        """Note after a point that is missing or broke off."""
        return self.notes.ending(branch, branch.title if self.name == "paragraphs" else "")


def form_of(request: Request, parse: Parse) -> Form:
    """The form that the question of a request asks for."""
    return Form(parse.form or "numbered", notes_for(request))


def words_for(request: Request, parse: Parse, points: int | None) -> int:
    """Words per point; ``points`` is ``None`` while the outline is being written."""
    share = points or EXPECTED_POINTS
    usual = int(WORDS[request.preference] * parse.depth)
    words = usual if parse.words is None else parse.words // share
    if request.options.max_tokens:
        words = min(words, int(request.options.max_tokens / TOKENS_PER_WORD) // share)
    return max(15, words)


class PointText:
    """Removes a repeated label from the beginning of a point and indents its further lines.

    Models write "3. **Title**:" before their text even if told not to. Text is held back only while it may still be
    that label, so the result does not depend on how the stream was chunked.
    """

    def __init__(self, point: Point, indent: str) -> None:
        self._title = _plain(point.title)
        self._room = 2 * len(point.title) + LABEL_MARKUP
        self._flow = Flow(indent)
        self._head: str | None = ""

    def feed(self, text: str) -> str:
        """Take new text; return what can be shown already."""
        if self._head is not None:
            head = self._head = (self._head + text).lstrip()
            body = self._without_label(head[: self._room])
            if body is None and len(head) <= self._room:
                return ""
            self._head, text = None, (head[: self._room] if body is None else body) + head[self._room :]
        return self._flow.feed(text)

    def finish(self) -> str:
        """Return what was held back; trailing white space is dropped."""
        if self._head is None:
            return ""
        head, self._head = self._head, None
        return self._flow.feed(head)

    def _without_label(self, body: str) -> str | None:
        """The text after a label, the whole text if there is none, ``None`` while that is undecided."""
        if _ONLY_LEAD.match(body):
            return None
        lead = _LEAD.match(body)
        at = lead.end() if lead else 0
        seen = ""
        while seen != self._title or not self._title:  # letter by letter, because the title may contain markup
            if not self._title.startswith(seen) or not self._title:
                return body
            if at == len(body):
                return None
            seen += _plain(body[at])
            at += 1
        while at < len(body) and unicodedata.category(body[at]).startswith("M"):
            at += 1  # combining marks belong to the previous letter; `_plain` omits them
        behind = _BEHIND.match(body, at)
        if behind is None or behind.end() == len(body):
            return None  # undecided until the next character
        return body[behind.end() :] if _DIVIDER.search(behind[0]) else body


def _plain(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())
