"""The text of one point on its way into the answer, and whether it belongs there."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stretto.strategies.branch import RunningBranch
from stretto.strategies.harm.openings import adds_nothing
from stretto.strategies.harm.overlap import said_before, stands_in
from stretto.strategies.harm.watch import REPEATS, SpoiledError
from stretto.strategies.merge import TextFilter
from stretto.strategies.outline import Point

_END = re.compile(r"[.!?。！？][\"”»')\]]*(?=\s)|[。！？]|\n")

_NUMBER = re.compile(r"^\s*\d{1,2}[.)]\s+(?=\S)")
_ONLY_NUMBER = re.compile(r"\s*\d{1,2}[.)]\s*$")


class OnePoint:
    """Formats a point by another filter; nothing is shown of one that was left out.

    Args:
        running: that writes the point.
        form: the other filter.
        whole: show whole sentences only, without the number of an entry before them, and leave out the rest of a point
            that was cut at its limit.
    """

    def __init__(self, running: RunningBranch, form: TextFilter, *, whole: bool = False) -> None:
        self._running, self._form, self._whole = running, form, whole
        self._open = ""  # the sentence that is not complete yet
        self._any = False

    def feed(self, text: str) -> str:
        """Take new text; return what can be shown already."""
        if self._running.dropped:
            return ""
        if not self._whole:
            return self._form.feed(text)
        self._open += text
        if not self._any:
            self._open = _NUMBER.sub("", self._open)
            if _ONLY_NUMBER.match(self._open):
                return ""
        end = max((found.end() for found in _END.finditer(self._open)), default=0)
        ready, self._open = self._open[:end], self._open[end:]
        self._any = self._any or bool(ready.strip())
        return self._form.feed(ready) if ready else ""

    def finish(self) -> str:
        """Return what was held back."""
        if self._running.dropped:
            return ""
        rest, self._open = self._open, ""
        cut = self._running.finish_reason == "length" and not rest.rstrip().endswith((".", "!", "?", "。"))
        if self._whole and cut and self._any:
            rest = ""
        if self._whole and self._any and self._running.finish_reason == "length":
            self._running.reported, self._running.finish_reason = True, "stop"
        return (self._form.feed(rest) if rest else "") + self._form.finish()


def of_no_use(
    point: Point,
    running: RunningBranch,
    earlier: Sequence[str],
    question: str,
    *,
    weak: bool = False,
    noted: bool = True,
) -> str:
    """Why a point that has ended is left out, as half a sentence; empty if it is not, or has not ended.

    ``weak``: the model is a weak one. With ``noted``, a point that is all nonsense is left out too: nobody misses it.
    In place of a point of another model stands a note.
    """
    if running.branch is None:
        return ""
    if running.exception is None:
        return nothing_new(point, running.text, earlier, question, weak=weak)
    left_out = weak and noted and isinstance(running.exception, SpoiledError) and not running.text.strip()
    return str(running.exception) if left_out else ""


def nothing_new(point: Point, text: str, earlier: Sequence[str], question: str, *, weak: bool) -> str:
    """Why a whole point is of no use beside earlier ones, as half a sentence; empty if it is."""
    if adds_nothing(text, point.title, question):
        return REPEATS
    same = said_before(text, earlier, question) or (weak and stands_in(text, earlier))
    return "an earlier point says the same" if same else ""
