"""The text of an answer's points: labels, length, and removal of what models put before the text."""

from __future__ import annotations

import re
import unicodedata

from stretto.language.echoes import echoes
from stretto.language.forms import FormName
from stretto.router.parse import USUAL_POINTS, Parse
from stretto.strategies.quality.words import letters_of, words_of
from stretto.strategies.runtime.parts import TOKENS_PER_WORD, Flow
from stretto.values.request import Preference, Request

_LEAD = re.compile(r"(?:#{1,6}\s+)?[*_\s]*(?:\d{1,2}[.):]\s*)?[*_\s\"“]*")
_ONLY_LEAD = re.compile(r"[#*_\s\d.):\"“]*$")
_AFTER_TITLE = re.compile(r"[*_\s\"”:：.–—-]*")
_LEAD_END = re.compile(r"[:：\n]")
_OPEN_WORD = re.compile(r"(?<![^\W_])[^\W_]+$")
_DIVIDER = re.compile(r"[:：\n]|[.–—-][*_\"”]*\s")

# Per point, if the question names no length.
WORDS: dict[Preference, int] = {"fastest": 40, "balanced": 60, "careful": 90}
EXPECTED_POINTS = USUAL_POINTS  # while the outline is incomplete
LABEL_MARKUP = 60  # characters of a repeated label besides its title
LONGEST_LEAD = 12  # words before a colon that can merely name what follows
MOST_LABELS = 4  # labels before one point

INDENTS = {"numbered": "   ", "bulleted": "  "}
"""Indents of a point's further lines, which keep them inside its list item."""


def label(form: FormName, title: str, number: int) -> str:
    """Return the text before a point, including the separator from the previous one."""
    apart = form in ("sections", "paragraphs")
    gap = "" if number == 1 else "\n\n" if apart else "\n"
    labels: dict[FormName, str] = {
        "numbered": f"{number}. **{title}**: ",
        "bulleted": f"- **{title}**: ",
        "sections": f"## {title}\n\n",
        "paragraphs": "",
    }
    return gap + labels[form]


def words_for(request: Request, parse: Parse, points: int | None) -> int:
    """Return how many words a point has; ``points`` is ``None`` while the outline is being written."""
    share = points or EXPECTED_POINTS
    words = int(WORDS[request.preference] * parse.depth) if parse.words is None else parse.words // share
    if request.options.max_tokens:
        words = min(words, int(request.options.max_tokens / TOKENS_PER_WORD) // share)
    if request.part_tokens:
        words = min(words, int(request.part_tokens / TOKENS_PER_WORD))
    return max(15, words)


class PointText:
    """Removes what models put before a point even if instructed not to, and indents its further lines.

    That is "3. **Title**:", "Point 3:", "Text of point 3:" and "Here is the text:". Text is held back only while it
    could still be that, so the result does not depend on how the stream was chunked.
    """

    def __init__(self, title: str, indent: str) -> None:
        self._titles = frozenset(words_of(title))
        self._room = 2 * len(title) + LABEL_MARKUP
        self._title = letters_of(title)
        self._flow = Flow(indent)
        self._head: str | None = ""

    def feed(self, text: str) -> str:
        if self._head is not None:
            head = self._head = (self._head + text).lstrip()
            body = self._without_echo(head[: self._room])
            if body is None and len(head) <= self._room:
                return ""
            self._head, text = None, (head[: self._room] if body is None else body) + head[self._room :]
        return self._flow.feed(text)

    def finish(self) -> str:
        """Return what was held back; trailing white space is dropped."""
        if self._head is None:
            return ""
        head, self._head = self._head, None
        return self._flow.feed(self._without_echo(head, whole=True) or "")

    def _without_echo(self, body: str, *, whole: bool = False) -> str | None:
        """Return the text without labels and leads, ``None`` while that is undecided; never if it is ``whole``."""
        for _ in range(MOST_LABELS):
            before = body
            for taken_off in (self._without_lead, self._without_label):
                rest = taken_off(body)
                if rest is None and not whole:
                    return None
                body = body if rest is None else rest
            if body == before:
                break
            body = body.lstrip()
        return body

    def _without_lead(self, body: str) -> str | None:
        """Return the text after words that merely announce it, up to a colon or a line break."""
        found, open_word = _LEAD_END.search(body), _OPEN_WORD.search(body)
        end = found.start() if found else open_word.start() if open_word else len(body)
        words, known = words_of(body[:end]), echoes()
        kinds = (known.leads, known.ordinals, known.intros, self._titles)
        only_names = all(word.isdigit() or any(word in kind for kind in kinds) for word in words)
        if len(words) > LONGEST_LEAD or not only_names:
            return body
        if found is None:
            fragment = body[end:].casefold()
            goes_on = fragment.isdigit() or any(word.startswith(fragment) for kind in kinds for word in kind)
            return None if goes_on else body
        if not any(word in known.leads for word in words):
            return body
        return body[found.end() :].lstrip() or None

    def _without_label(self, body: str) -> str | None:
        """Return the text after the title, the whole text if there is no title, ``None`` while that is undecided."""
        if not self._title:
            return body
        if _ONLY_LEAD.match(body):
            return None
        lead = _LEAD.match(body)
        at = lead.end() if lead else 0
        matched = ""
        while matched != self._title:  # letter by letter, because the title can contain markup
            if not self._title.startswith(matched):
                return body
            if at == len(body):
                return None
            matched += letters_of(body[at])
            at += 1
        while at < len(body) and unicodedata.category(body[at]).startswith("M"):
            at += 1  # combining marks belong to the previous letter; `letters_of` omits them
        gap = _AFTER_TITLE.match(body, at)
        if gap is None or gap.end() == len(body):
            return None  # undecided until the next character
        return body[gap.end() :] if _DIVIDER.search(gap[0]) else body
