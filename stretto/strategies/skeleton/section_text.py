"""The text of a section on its way into the answer, with its headings set by the library."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stretto.strategies.quality.words import letters_of
from stretto.strategies.runtime.parts import Flow

_HEADING = re.compile(r"\s*(?P<marks>#{1,6})\s+(?P<text>\S.*)$")
_BOLD_LINE = re.compile(r"\s*+(?:\*\*|__)(?P<text>.{1,300}?)(?:\*\*|__)\s{0,3}[:：]?\s{0,3}$")
_FENCE = re.compile(r"\s*(```|~~~)")
_LINES = re.compile(r".*\n|.+")  # `splitlines` would end lines at U+2028 and others, too
_UNNUMBERED = re.compile(r"^[\s#*_]*(?:\d{1,2}[.):]\s*)?")
LEVEL = 3  # of headings within a section
LONGEST_HEADING = 300  # characters of its line


class SectionText:
    """Removes the section's heading from its beginning, and lowers other headings below it.

    Only the beginning of a line that could be a heading is held back.
    """

    def __init__(self, heading: str) -> None:
        self._heading = letters_of(heading)
        self._line = ""  # a line that could be a heading
        self._buffered = True  # the line is held back
        self._in_code = False
        self._begun = False
        self._flow = Flow()
        self._any = False  # something was shown

    def feed(self, text: str) -> str:
        return self._spaced("".join(self._piece(piece) for piece in _LINES.findall(text)))

    def finish(self) -> str:
        """Return what was held back; trailing white space is dropped."""
        line, self._line = self._line, ""
        return self._spaced(self._shown(line) if line and self._buffered else "")

    def _piece(self, piece: str) -> str:
        ends = piece.endswith("\n")
        self._line += piece
        if ends:
            line, self._line = self._line, ""
            shown = self._shown(line) if self._buffered else piece
            self._buffered = True
            return shown
        if not self._buffered:
            return piece
        if self._may_be_heading(self._line):
            return ""
        self._buffered = False
        return self._shown(self._line)

    def _may_be_heading(self, line: str) -> bool:
        if len(line) > LONGEST_HEADING:
            return False
        start = line.lstrip()
        if not start or start.startswith(("#", "`", "~")):
            return True
        if self._begun:
            return False
        return self._heading.startswith(letters_of(start))

    def _shown(self, line: str) -> str:
        """Return a line as it is shown, without the section's heading before its text."""
        if _FENCE.match(line):
            self._in_code = not self._in_code
        if self._in_code:
            self._begun = True
            return line
        end = line[len(line.rstrip()) :]
        found = _HEADING.match(line.rstrip())
        named = found or _BOLD_LINE.match(line.rstrip())
        if not self._begun and letters_of(line if named is None else named["text"]) == self._heading:
            return ""
        self._begun = self._begun or bool(line.strip())
        if found:
            return f"{'#' * max(LEVEL, len(found['marks']))} {found['text']}{end}"
        return line

    def _spaced(self, text: str) -> str:
        """Return the text without white space before the section and at its end."""
        shown = self._flow.feed(text if self._any else text.lstrip("\n"))
        self._any = self._any or bool(shown)
        return shown


class Seams:
    """Assigns each chunk of one call's text to one of multiple sections.

    A section begins at a line that is its heading, with whatever markup and number a model puts around it. These lines
    are left out.

    Args:
        headings: of the sections, in order.

    Attributes:
        place: index of the section that is being written, from 0.
    """

    def __init__(self, headings: Sequence[str]) -> None:
        self._headings = [letters_of(heading) for heading in headings]
        self._line, self._buffered = "", True
        self._in_code = self._begun = False
        self.place = 0

    def feed(self, text: str) -> list[tuple[int, str]]:
        """Take new text; return the chunks whose section is known, with its index."""
        found = []
        for piece in _LINES.findall(text):
            self._line += piece
            ends = piece.endswith("\n")
            if not self._buffered:
                found.append((self.place, piece))
            elif ends or not self._may_be_heading():
                found += self._known()
            if ends:
                self._line, self._buffered = "", True
        return found

    def finish(self) -> list[tuple[int, str]]:
        return self._known() if self._line and self._buffered else []

    def _may_be_heading(self) -> bool:
        if len(self._line) > LONGEST_HEADING:
            return False
        start = letters_of(_UNNUMBERED.sub("", self._line))
        return self._line.lstrip().startswith("#") or any(
            heading.startswith(start) for heading in self._headings[self.place :]
        )

    def _known(self) -> list[tuple[int, str]]:
        """Return the line that was held back, unless a section begins with it."""
        line, self._buffered = self._line, False
        if _FENCE.match(line):
            self._in_code = not self._in_code
        elif not self._in_code and len(line) <= LONGEST_HEADING:
            bare, marked = letters_of(_UNNUMBERED.sub("", line)), line.lstrip().startswith("#")
            for place in range(self.place + self._begun, len(self._headings)):
                if bare == self._headings[place] or (marked and bare.startswith(self._headings[place])):
                    self.place, self._begun = place, True
                    return []
        self._begun = self._begun or bool(line.strip())
        return [(self.place, line)]
