"""Read the plan of an answer while it streams: its opening, the headings, a brief for each section, and its closing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stretto.language.echoes import echoes
from stretto.language.folding import fold
from stretto.strategies.quality.words import words_of
from stretto.strategies.skeleton.outline import clean_title
from stretto.strategies.skeleton.skeleton_offer import MOST_SECTIONS

MOST_BEFORE = 120  # characters before the opening that do not belong to the plan: "Here is the plan:"
RUNNING_TEXT = 60  # characters of a line that is neither a heading nor an announcement of the plan
LONGEST_OPENING = 700  # characters, up to the end of a sentence; a longer one is the answer itself
LONGEST_LABEL = 40  # characters of a line that contain its label or number

_LABELS = ("opening", "sections", "shared", "closing")
_LABEL = re.compile(
    r"(?P<before>[\s*_#>-]*)(?P<name>opening|sections?|shared|closing)(?P<after>[\s*_]*)[:：](?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_BEFORE_LABEL = re.compile(r"[\s*_#>-]*")
_LINE = re.compile(r"[\s*_#-]*(?P<number>\d{1,2})[.)：:][\s*_]*(?P<text>\S.*)$")
_BULLET = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+(?P<text>\S.*)$")
_MARK = re.compile(r"\s{0,9}\[[^\[\]\d]{0,60}\d[^\[\]]{0,60}\]")  # a citation, which no heading contains
_NUMBERED = re.compile(r"^\s*\d{1,2}[.)]\s*")
_WORDS = re.compile(r"\b(\d{2,3})\b")
_FORM = re.compile(r"[\s*_]*(?P<form>[^\W\d_][^\d,，、:：(（~*_]{1,60})[\s~*_]*(?=[\d,，、(（])")
_ABOUT = re.compile(r"\s(?:about|around|of|ca|etwa|environ|unos)$")
_NO_CLOSING = frozenset({"", "none", "n/a", "keine", "keiner", "aucune", "ninguno", "ninguna", "nessuna", "無", "なし"})
_NO_PLAN = re.compile(r"\s*(?:[-*+•]\s|\d{1,2}[.)]\s|[{|<\[])")  # how a list, a table or code begins
_SENTENCE = re.compile(r"[.?](?=\s)|[。？]|[.?]$")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？:：])\s|\n")
_FENCE = re.compile(r"\s*```\w*\s*$")
_LINES = re.compile(r"[^\r\n]*(?:\r\n|[\r\n])|[^\r\n]+")


@dataclass(frozen=True)
class Section:
    """One section of a planned answer.

    Attributes:
        index: counts from 1.
        heading: the heading above it.
        brief: the line of the plan: its form, its length, and its content.
        form: as that line names it, such as "table"; empty if it names none.
        words: how long it is to be; ``None`` if the plan does not say.
    """

    index: int
    heading: str
    brief: str = ""
    form: str = ""
    words: int | None = None


class PlanParser:
    """Parses the text of a plan while it streams. The result does not depend on how the stream was chunked.

    It is lenient: it accepts markup, a sentence before the plan, an opening without its label, and headings within the
    lines of the sections. A text that begins as a list, a table or code is not a plan.

    Args:
        most: the maximum number of sections; further ones are ignored.

    Attributes:
        is_plan: whether it has begun as a plan; ``None`` while that is undecided.
        headings: of all sections, once their line is complete.
        sections: those whose lines are complete.
        closing: the last sentence of the answer.
        is_whole: its last line has arrived.
        is_too_long: the opening continues as the answer itself would.
    """

    def __init__(self, most: int = MOST_SECTIONS) -> None:
        self._most = most
        self.is_plan: bool | None = None
        self.headings: tuple[str, ...] = ()
        self.sections: list[Section] = []
        self.closing = ""
        self.is_whole = False
        self._opening: list[str] = []
        self._new_opening = ""
        self._length = 0
        self.is_too_long = False
        self._shared = ""
        self._state = ""
        self._is_labelled = False  # the opening has its label
        self._below = False  # the headings are a list below "Sections:"
        self._own = False  # they are in the lines of the sections
        self._before = 0
        self._line = ""
        self._shown = 0  # characters of the line that are in the opening

    def feed(self, text: str) -> None:
        for piece in _LINES.findall(text):
            self._line += piece.rstrip("\r\n")
            if piece.endswith(("\n", "\r")):
                self._end_line()
            else:
                self._within_line()

    def finish(self, *, cut: bool = False) -> None:
        """Take the end of the text; if it was ``cut``, an incomplete line counts only as far as it was shown."""
        if self._line and (self._shown or not cut):
            self._end_line()
        if self.is_plan is None:
            self.is_plan = False

    def new_opening(self) -> str:
        """Return the text of the opening since the last call."""
        new, self._new_opening = self._new_opening, ""
        return new

    @property
    def opening(self) -> str:
        return "".join(self._opening).strip()

    @property
    def text(self) -> str:
        """The plan so far, as shown to the writers of its sections."""
        lines = [f"Opening: {self.opening}", f"Sections: {' | '.join(self.headings)}"]
        lines += [f"Shared: {self._shared}"] if self._shared else []
        lines += [f"{each.index}. {each.heading}: {each.brief}" for each in self.sections if each.brief]
        lines += [f"Closing: {self.closing}"] if self.closing else []
        return "\n".join(lines)

    def complete(self) -> None:
        """Make sections of the headings that have no line in the plan."""
        for index in range(len(self.sections), len(self.headings)):
            self.sections.append(Section(index + 1, self.headings[index]))

    def _within_line(self) -> None:
        """Show the incomplete line of the opening, unless it could still turn out to be a different line."""
        if self.is_plan is None:
            name, rest = _label(self._line[:LONGEST_LABEL])
            if name == "opening":
                if not rest.strip(" *_"):
                    return  # markup that belongs to the label can follow
                self._begin(labelled=True)
                self._shown = len(self._line[:LONGEST_LABEL]) - len(rest)
            elif not name and _is_running_text(self._line):
                self._begin(labelled=False)
            elif self._before + len(self._line) > MOST_BEFORE:
                self.is_plan = False
        if self._state == "opening" and (self._shown or not _may_be_label(self._line)):
            new = self._line[self._shown :].rstrip("*_")  # markup at its end can be that of the whole line
            self._add(new)
            self._shown += len(new)

    def _begin(self, *, labelled: bool) -> None:
        self.is_plan, self._state, self._is_labelled = True, "opening", labelled

    def _end_line(self) -> None:
        line, self._line = self._line.rstrip(), ""
        shown, self._shown = self._shown, 0
        if _FENCE.match(line):
            return
        name, rest = _label(line)
        if shown:
            self._add(line[shown:] if line.endswith(rest) else line[shown:].rstrip("*_"))
            self._add("\n")
            return
        if self.is_plan is None:
            if name == "opening" or (not name and _is_running_text(f"{line}\n")):
                self._begin(labelled=bool(name))
                self._add(rest + "\n")
            elif line.strip():
                self._before += len(line)
                self.is_plan = False if self._before > MOST_BEFORE or _NO_PLAN.match(line) else None
        elif name:
            self._labelled("sections" if name == "section" else name, rest)
        elif line.strip():
            self._unlabelled(line)
        elif self._state == "opening":
            self._add("\n")

    def _labelled(self, name: str, rest: str) -> None:
        self._state = name
        self.is_whole = self.is_whole or name == "closing"
        if name == "opening":
            self._add(rest + "\n")
        elif name == "sections" and rest:
            parts = re.split(r"[|｜]", rest)
            self.headings = tuple(heading for each in parts if (heading := _heading(each)))[: self._most]
        elif name == "shared" and rest.strip(".").casefold() not in _NO_CLOSING:
            self._shared = rest
        elif name == "closing" and rest.strip(".。").casefold() not in _NO_CLOSING:
            self.closing = rest

    def _unlabelled(self, line: str) -> None:
        if self._state == "sections" and not self.headings_are_complete and (bullet := _BULLET.match(line)):
            self._heading_below(bullet["text"])
        elif self._state != "opening" and (found := _LINE.match(line)):
            self._section(found["text"])
        elif self._state == "opening":
            # The line with the headings is missing, unless this is an answer without any label, with a list in it.
            if (found := _LINE.match(line)) and self.opening and self._is_labelled:
                self._state = "lines"
                self._section(found["text"])
            else:
                self._add(line + "\n")
        elif self._state == "closing" and self.closing:
            self.closing += f" {line.strip()}"

    @property
    def headings_are_complete(self) -> bool:
        """Whether the line with the headings has arrived, or the first section."""
        return bool(self.headings and not self._below) or bool(self.sections)

    def _heading_below(self, text: str) -> None:
        """Take a heading of a list below "Sections:"; one with a colon is the line of a section."""
        if re.search(r"[:：]\s*\S", text):
            self._section(text)
        elif (heading := _heading(text)) and len(self.headings) < self._most:
            self._below = True
            self.headings += (heading,)

    def _section(self, text: str) -> None:
        index = len(self.sections)
        if index >= (len(self.headings) if self.headings and not self._own else self._most):
            return
        if index < len(self.headings):
            heading = self.headings[index]
            brief = _without_heading(text, heading)
        else:  # the headings are in the lines
            self._own = True
            name, _, brief = text.partition(":" if ":" in text else "：")
            heading = _heading(name)
            self.headings += (heading,)
        length = _WORDS.search(brief[:80])
        words = int(length[1]) if length else None
        self.sections.append(Section(index + 1, heading, brief.strip(" *_"), _form(brief[:80]), words))

    def _add(self, text: str) -> None:
        """Add to the opening; if it gets too long, end it after a sentence, after which the answer continues."""
        if self.is_too_long:
            return
        before = self._opening[-1][-1:] if self._opening else ""
        if self._length + len(text) > LONGEST_OPENING:
            found = _SENTENCE_END.search(before + text, max(0, LONGEST_OPENING - self._length))
            end = found.start() - len(before) if found else 2 * LONGEST_OPENING - self._length
            self.is_too_long = end <= len(text)
            text = text[: max(0, end)]
        self._length += len(text)
        if text:
            self._opening.append(text)
            self._new_opening += text


def _is_running_text(line: str) -> bool:
    """Return whether the beginning of an unlabelled line is certain to be text for the reader."""
    found = _SENTENCE.search(line[:RUNNING_TEXT])
    if found is None and len(line) < RUNNING_TEXT:
        return False
    head = line[: found.end() if found else RUNNING_TEXT].lstrip(' *_"“„«¿¡')
    first = words_of(head)[:1]
    announced = fold(head).startswith(echoes().announces) or echoes().intros.issuperset(first)
    return head[:1].isalpha() and not announced and not re.search("[:：]", head)


def _label(line: str) -> tuple[str, str]:
    """Return the label that a line begins with, and what follows it; "" and the line if there is none.

    Markup around the label or the whole line is removed; that of the text stays.
    """
    found = _LABEL.match(line)
    if found is None:
        return "", line
    rest = found["rest"].lstrip()
    if "*" in found["before"] or "_" in found["before"]:
        bare = rest.lstrip("*_")
        if not found["after"].strip():
            rest = bare.lstrip() if bare != rest else rest.rstrip("*_")
    return found["name"].lower(), rest


def _may_be_label(line: str) -> bool:
    """Return whether the beginning of a line could still become a label, or the line of a section."""
    head = line[:LONGEST_LABEL]
    rest = head[_BEFORE_LABEL.match(head).end() :].casefold()  # type: ignore[union-attr]  # it matches any text
    if any(label.startswith(rest) or rest.startswith(label) for label in _LABELS) or not rest:
        return True
    return re.match(r"\d{1,2}(?:[.)]|$)", rest) is not None


def _heading(text: str) -> str:
    return clean_title(_MARK.sub("", _NUMBERED.sub("", text.strip())))


def _form(brief: str) -> str:
    """Return the form: the text before a length and a colon; empty without a length."""
    before, colon, _ = brief.replace("：", ":").partition(":")
    found = _FORM.match(before)
    if not (colon and found and any(character.isdecimal() for character in before)):
        return ""
    return _ABOUT.sub("", found["form"].rstrip(" .")) if len(found["form"]) <= LONGEST_LABEL + 2 else ""


def _without_heading(text: str, heading: str) -> str:
    """Return the line of a section without its heading, which some models repeat before it."""
    bare = text.strip(" *_")
    if bare.casefold().startswith(heading.casefold()):
        rest = bare[len(heading) :].lstrip(" *_")
        if rest[:1] in tuple(":：-–—(,"):
            return rest.lstrip(" :：-–—,*_")
    return bare
